package runtime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/tools/builtin"
)

// SG-61, SG-64: the worker that took the notes and asked a person is gone; another
// one gets the answer, and finds the notes in the run's history.
func TestNotesAndAQuestionOutliveTheirWorker(t *testing.T) {
	asked := make(chan builtin.Escalation, 10)
	escalate := builtin.Escalate(builtin.EscalateConfig{
		OnEscalate: func(_ context.Context, e builtin.Escalation) error { asked <- e; return nil },
		Within:     time.Hour,
	})
	w := newWorld(t, scripted.Script(
		calls(scripted.Call{Name: "notes", Arguments: `{"post":"order 7 is Ada's"}`}, scripted.Call{Name: "notes", Arguments: `{}`}),
		calls(scripted.Call{Name: "notes", Arguments: `{"post":"  "}`}, scripted.Call{Name: "notes", Arguments: `{"post":"she paid twice"}`}),
		calls(scripted.Call{Name: "escalate", Arguments: `{"question":"may I pay her back?"}`}),
		calls(scripted.Call{Name: "notes", Arguments: `{}`}),
		finish,
	), builtin.Notes(), escalate)
	first := w.start()
	id := w.submit("go").ID
	w.parkedFor(id, events.ParkAsyncTool)
	first.stop(t)
	e := <-asked
	if e.Question != "may I pay her back?" || e.Run != id || e.Tenant == "" || e.Within != time.Hour || len(asked) != 0 {
		t.Errorf("asked %+v, and %d times more", e, len(asked))
	}
	w.complete(ledger.Completion{Token: e.Token, Kind: ledger.Applied, Result: events.ToolResult{Output: "yes, 12 euros"}})
	w.start()
	if r := w.wait(id, false); r.State != ledger.Finished {
		t.Fatalf("run = %s %s\n%s", r.State, r.Error, w.story(id))
	}
	var outputs []string
	for _, ev := range w.history(id) {
		if p, ok := ev.Data.(events.ToolExecutionFinished); ok && p.Tool != "finish" {
			outputs = append(outputs, p.Result.Output)
		}
	}
	want := []string{"posted", "there are no notes", "posted", "yes, 12 euros", "1. order 7 is Ada's\n2. she paid twice"}
	// Calls of one turn run side by side, so their outcomes may come in either order.
	if len(outputs) > 1 && outputs[0] != "posted" {
		outputs[0], outputs[1] = outputs[1], outputs[0]
	}
	if strings.Join(outputs, "|") != strings.Join(want, "|") {
		t.Errorf("outputs %q, want %q\n%s", outputs, want, w.story(id))
	}
	w.whole()
}
