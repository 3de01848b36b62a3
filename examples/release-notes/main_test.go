//go:build unix

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/internal/testenv/modelserver"
	"github.com/daybookhq/daybook/model/scripted"
)

// The test program is also the program that judges.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "check" {
		os.Exit(judge(os.Args[2]))
	}
	os.Exit(m.Run())
}

func TestReleaseNotes(t *testing.T) { notes(t, modelflag.Flags{}) }

func TestOnAModelOverTheWire(t *testing.T) {
	for _, format := range []string{modelserver.Chat, modelserver.Messages} {
		script, err := scripted.Parse("policy.yaml", policy)
		if err != nil {
			t.Fatal(err)
		}
		srv := modelserver.Start(t, script)
		file, secret := srv.Config(t, format)
		notes(t, modelflag.Flags{Model: modelserver.Name, Config: file, Secrets: []string{secret}})
		if srv.Answers() != 3 {
			t.Errorf("%s: %d answers, want 3", format, srv.Answers())
		}
	}
}

// notes has the notes written, by the script or another model.
func notes(t *testing.T, flags modelflag.Flags) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for range 2 { // the second time it is the same run
		var out bytes.Buffer
		if err := run(t.Context(), dir, self, flags, &out); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		for _, want := range []string{
			`finished: artifact_finished {"artifact":"release-notes","bytes":`,
			`revision 0 refused schema [{"message":"missing property 'title'"},{"path":"/version","message":"'1.4' does not match pattern`,
			`revision 1 refused complete [{"message":"the change #15 is left out: delete: ask before anything goes"}]`,
			"revision 2 accepted  []\n{\n  \"changes\": [\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s\nwant %s", got, want)
			}
		}
	}
}
