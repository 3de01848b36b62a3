package providers_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

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

// TestEndpoints: each way to a model is asked with what it says, and with the model's where it says nothing; a
// limit that its answer's headers tell of is heeded.
func TestEndpoints(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	answer := func(name string, header ...string) *httptest.Server {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			seen = append(seen, name+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Team"))
			mu.Unlock()
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, `data: {"model":"m-1","choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
		}))
		t.Cleanup(s.Close)
		return s
	}
	spent, free := answer("spent", "x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "1h"), answer("free")
	file := filepath.Join(t.TempDir(), "models.yaml")
	text := fmt.Sprintf(`models:
  - name: m
    api: openai/chat
    base_url: %s/v1
    key: secret://one
    headers: {X-Team: blue}
    max_concurrent: 3
    endpoints:
      - {name: spent, weight: 1000000}
      - {name: free, base_url: %s/v1, key: secret://two, headers: {X-Team: red}}
`, spent.URL, free.URL)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := providers.Set{Models: map[string]model.Model{}}
	if err := s.Read(file, map[string]string{"one": "key-one-0001", "two": "key-two-0002"}); err != nil {
		t.Fatal(err)
	}
	if s.Limits["m"] != 3 {
		t.Errorf("limits %v", s.Limits)
	}
	for range 3 {
		if _, err := s.Models["m"].Call(t.Context(), model.Request{AttemptID: "RUN.e1.t1.a1", Messages: []model.Message{{Role: model.User, Text: "hi"}}}); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"spent Bearer key-one-0001 blue", "free Bearer key-two-0002 red", "free Bearer key-two-0002 red"}
	if d := cmp.Diff(want, seen); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
	err := read(t, &providers.Set{Models: map[string]model.Model{}}, "models: [{name: m, api: openai/chat, max_concurrent: 0, endpoints: [{name: a}, {name: a, key: plain, base_url: \"http://x@y\"}]}]\n")
	for _, want := range []string{"max_concurrent: want a whole number of at least 1", `two endpoints "a"`, "endpoints[1].key: want secret://NAME", "endpoints[1].base_url: want an address without a password"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nhas no %q", err, want)
		}
	}
}

// TestPriceOfAName: one name has one price, also that which an endpoint calls the model.
func TestPriceOfAName(t *testing.T) {
	entry := func(name, price string) string {
		return fmt.Sprintf("  - name: %s\n    api: openai/chat\n    base_url: http://127.0.0.1:1/v1\n    model: served\n    endpoints: [{name: x}, {name: y, model: %s-eu}]\n    price: {input: %q, output: \"2\"}\n", name, name, price)
	}
	s := providers.Set{Models: map[string]model.Model{}}
	if err := read(t, &s, "models:\n"+entry("a", "1")+entry("b", "1")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "served", "a-eu", "b-eu"} {
		if e, ok := s.Prices.Entry(name, time.Now()); !ok || e.Model != name {
			t.Errorf("%s has the price %+v", name, e)
		}
	}
	if err := read(t, &s, "models:\n"+entry("c", "1")); err != nil {
		t.Errorf("the same price in another file: %v", err)
	}
	if err := read(t, &s, "models:\n"+entry("d", "3")); err == nil || !strings.Contains(err.Error(), `models[0].price: "served" has another price in the entry of c;`) {
		t.Errorf("another price in another file: %v", err)
	}
	s = providers.Set{Models: map[string]model.Model{}}
	err := read(t, &s, "models:\n"+entry("a", "1")+entry("b", "3"))
	want := `models.yaml:13: models[1].price: "served" has another price in the entry of a; a price holds for a name wherever it is served: write the same, or have the servers answer with names of their own`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if len(s.Models) > 0 || s.Prices != nil {
		t.Error("a file with faults has added something")
	}
}
