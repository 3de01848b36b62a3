package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/internal/testenv/modelserver"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime/system"
)

// PR-22: a loop of one's own has calls performed and redacted as those that ship
// have, offline. The secret is in nothing that is printed and in no file.
func TestOwnLoop(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second time it is the same run
		redacted(t, dir, modelflag.Flags{})
	}
	rehearsed(t, dir)
}

func TestOnAModelOverTheWire(t *testing.T) {
	for _, format := range []string{modelserver.Chat, modelserver.Messages} {
		script, err := scripted.Parse("policy.yaml", policy)
		if err != nil {
			t.Fatal(err)
		}
		srv := modelserver.Start(t, script)
		file, secret := srv.Config(t, format)
		redacted(t, t.TempDir(), modelflag.Flags{Model: modelserver.Name, Config: file, Secrets: []string{secret}})
		if srv.Answers() != 3 {
			t.Errorf("%s: %d answers, want 3: the loop asks no more after a refusal", format, srv.Answers())
		}
	}
}

// redacted runs the example and searches everything that it leaves behind.
func redacted(t *testing.T, dir string, flags modelflag.Flags) {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), dir, flags, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`{"id":"account-7","key":"secret://bank"}`,
		`\"balance\":\"12.50\",\"signature\":\"of [REDACTED:bank:`,
		`note finished`, `{"text":"the key is [REDACTED:bank:`, `"output":"noted: the key is [REDACTED:bank:`,
		"send_mail blocked invalid_arguments redacted_argument\n",
		`finished: declined {"declined_because":"send_mail not run (invalid_arguments, redacted_argument)`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant %s", out.String(), want)
		}
	}
	marked := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(bankKey)) {
			t.Errorf("the secret is in %s", path)
		}
		marked += bytes.Count(b, []byte("[REDACTED:bank:"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if marked == 0 || strings.Contains(out.String(), bankKey) {
		t.Errorf("%d markers in the files; printed was %s", marked, out.String())
	}
}

// rehearsed asks the loop again over what the ledger has of the run.
func rehearsed(t *testing.T, dir string) {
	t.Helper()
	st, _, err := system.OpenLedger(t.Context(), system.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	rs, err := st.Summaries(t.Context(), ledger.RunFilter{Limit: 10})
	if err != nil || len(rs) != 1 {
		t.Fatalf("%d runs, %v", len(rs), err)
	}
	var es []events.Event
	if err := st.Events(t.Context(), rs[0].ID, 1, func(s events.Sealed) error {
		e, err := s.Decode()
		es = append(es, e)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if p, ok := es[1].Data.(events.RunStarted); !ok || p.Loop != "strict" {
		t.Errorf("the run is bound to %+v", es[1].Data)
	}
	if ds, err := loops.Rehearse(loops.NewHistory(rs[0].ID), es, strict{}); err != nil || len(ds) != 0 {
		t.Errorf("today's loop decides otherwise: %v %v", ds, err)
	}
}

// The loop goes on from each event of a run, and a failed call is the last.
func TestStrict(t *testing.T) {
	for _, fails := range []bool{false, true} {
		w := loopstest.World{
			Model: func(ms []model.Message) events.ModelCallFinished {
				if len(ms) > 1 {
					return events.ModelCallFinished{Text: "done"}
				}
				return events.ModelCallFinished{ToolCalls: []events.ToolCall{{Name: "note"}, {Name: "send_mail"}}}
			},
		}
		w.Tool = func(c loops.PendingCall) events.Payload {
			if fails && c.Name == "note" {
				return events.ToolExecutionError{Error: events.ErrorInfo{Message: "no paper"}}
			}
			return events.ToolExecutionFinished{Result: events.ToolResult{Status: "completed", Output: "ok"}}
		}
		ps := loopstest.Play(t, strict{}, w)
		loopstest.Cuts(t, strict{}, ps)
		end, ok := ps[len(ps)-1].(events.RunFinished)
		want := events.RunFinished{StoppedBy: events.StoppedByFinish}
		if fails {
			want = events.RunFinished{StoppedBy: events.StoppedByDeclined, DeclinedBecause: "note failed: no paper"}
		}
		if !ok || end.StoppedBy != want.StoppedBy || end.DeclinedBecause != want.DeclinedBecause {
			t.Errorf("fails %v: %+v", fails, ps[len(ps)-1])
		}
	}
}
