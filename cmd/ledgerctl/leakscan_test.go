package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/system"
)

// TestLeakscanOfStreams plants a canary in the journal, past the redactor, and finds it
// in the stream alone.
func TestLeakscanOfStreams(t *testing.T) {
	canary := "c4nary/" + rand.Text()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(canary), 0o600); err != nil {
		t.Fatal(err)
	}
	dsn, url := testenv.Postgres(t), testenv.NATS(t).URL()
	where := system.Options{Postgres: dsn, NATS: url, Sync: "always"}
	if _, err := system.Migrate(t.Context(), where); err != nil {
		t.Fatal(err)
	}
	sys, err := system.Open(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	scan := func() (code int, out string) {
		var stdout, stderr bytes.Buffer
		code = newApp(strings.NewReader(""), &stdout, &stderr, time.Now).run(t.Context(), []string{
			"leakscan", "--postgres", dsn, "--nats", url, "--secret", "canary=" + file, "-o", "jsonl",
		})
		if strings.Contains(stdout.String()+stderr.String(), canary) {
			t.Error("it says the secret")
		}
		return code, stdout.String() + stderr.String()
	}
	if code, out := scan(); code != exitOK {
		t.Fatalf("an empty system: exit code %d: %s", code, out)
	}
	j, err := redact.New(redact.Config{}).JSON(events.TurnStarted{Turn: 1})
	if err != nil {
		t.Fatal(err)
	}
	journal, err := sys.Bus.Journal("w1")
	if err != nil {
		t.Fatal(err)
	}
	ids := events.NewIDs(nil, nil)
	for i, session := range []string{"fine", canary, "fine"} {
		run := ids.Run()
		e, err := events.Seal(events.Envelope{
			ID: ids.Event(), RunID: run, Seq: 1, Epoch: 1, Type: events.TypeOf(events.TurnStarted{}), Version: 1, Time: time.Now(), Tenant: "acme",
			SessionID: session, Prev: events.Genesis(run),
		}, j)
		if err != nil {
			t.Fatal(err)
		}
		if err := journal.Record(t.Context(), e); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	if err := journal.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	code, out := scan()
	var f struct{ Store, Name, Column, Row, How, Secret string }
	if err := json.Unmarshal([]byte(strings.SplitN(out, "\n", 2)[0]), &f); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f.Secret = strings.TrimSpace(f.Secret)
	if want := (struct{ Store, Name, Column, Row, How, Secret string }{"stream", "DAYBOOK_JOURNAL", "data", "2", "secret", "canary"}); code != exitTampered || f != want {
		t.Errorf("exit code %d, found %+v: %s", code, f, out)
	}
}
