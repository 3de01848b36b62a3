package providers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/providers"
)

func read(t *testing.T, s *providers.Set, text string) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "models.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.Read(file, nil)
}

const two = `models:
  - {name: a, api: openai/chat, base_url: http://127.0.0.1:1/v1}
  - {name: b, api: anthropic/messages, base_url: http://127.0.0.1:1}
`

func TestRoles(t *testing.T) {
	s := providers.Set{Models: map[string]model.Model{"scripted/x": nil}}
	if err := read(t, &s, two+"roles: {default: [a, b], cheap: [scripted/x, a]}\n"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string][]string{"default": {"a", "b"}, "cheap": {"scripted/x", "a"}}, s.Roles); d != "" {
		t.Errorf("roles (-want +got):\n%s", d)
	}
}

func TestFaultsOfRoles(t *testing.T) {
	s := providers.Set{Models: map[string]model.Model{"scripted/x": nil}}
	err := read(t, &s, two+`roles:
  a: [b]
  none: []
  twice: [a, a]
  gone: [scripted/y, nothing-like-it]
  word: a
`)
	want := `models.yaml:5: roles.a: there is a model of this name, which would be asked alone; call the role otherwise
models.yaml:6: roles.none: want models in the order in which they are asked, such as [gpt-5-mini, claude-sonnet-4-5]
models.yaml:7: roles.twice: "a" is written twice; keep one
models.yaml:8: roles.gone: there is no model "scripted/y"; did you mean scripted/x?
models.yaml:8: roles.gone: there is no model "nothing-like-it"; there are a, b, scripted/x
models.yaml:9: roles.word: want a list such as [a, b], got the text "a"`
	if err == nil {
		t.Fatal("no error")
	}
	if d := cmp.Diff(strings.Split(want, "\n"), strings.Split(err.Error(), "\n")); d != "" {
		t.Errorf("faults (-want +got):\n%s", d)
	}
	if len(s.Models) != 1 || len(s.Roles) != 0 {
		t.Errorf("a file with faults has added %v, %v", s.Models, s.Roles)
	}
}
