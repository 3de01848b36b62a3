package runtime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
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

// SG-66: each reason to decline is why its run stopped: in the event, on the row
// that who waits for the run gets, and so that runs can be counted by it.
func TestDeclineIsWhyARunStopped(t *testing.T) {
	const refused = "I will not help with that."
	left := map[string]int{refused: 2}
	script := []scripted.Answer{{Text: refused, StopReason: "refusal"}, {Text: refused, StopReason: "refusal"}}
	for _, because := range builtin.Decline().Definition().Args[0].Options {
		call := calls(scripted.Call{Name: "decline", Arguments: `{"because":"` + because + `"}`})
		script = append(script, call, call)
		left[because] = 2
	}
	w := newWorld(t, scripted.Script(script...))
	w.start()
	for range script {
		id := w.submit("go").ID
		r := w.wait(id, false)
		because := r.DeclinedBecause()
		left[because]--
		if r.State != ledger.Finished || r.StoppedBy != events.StoppedByDeclined || because == "" {
			t.Errorf("run = %s, stopped by %q because %q\n%s", r.State, r.StoppedBy, because, w.story(id))
		}
		if e := last[events.RunFinished](w, id); e.StoppedBy != events.StoppedByDeclined || e.DeclinedBecause != because {
			t.Errorf("event %+v, row %q", e, because)
		}
	}
	if len(left) != 5 {
		t.Errorf("reasons %v, want four of the tool and a refusal", left)
	}
	for because, n := range left {
		if n != 0 {
			t.Errorf("%d runs too few declined because %q", n, because)
		}
	}
	w.whole()
}

// SG-80: long work, such as writing a document, belongs to an agent and not to a
// tool that holds a process: the run parks on it, holds nothing meanwhile, and goes
// on by itself, on another worker.
func TestLongWorkBelongsToAnAgent(t *testing.T) {
	document := strings.Repeat("High water is at nine. ", 400)
	w := newWorld(t, listener(func(r model.Request) model.Response {
		switch {
		case r.Messages[0].Text == "write" && len(r.Messages) == 1:
			return answer("delegate", `{"agent":"tester","input":"the document"}`)
		case r.Messages[0].Text == "write":
			return answer("finish", `{"answer":"`+r.Messages[len(r.Messages)-1].Results[0].Text+`"}`)
		case len(r.Messages) == 1:
			return answer("wait_for_signal", `{"name":"reviewed"}`) // hours of work
		}
		return answer("finish", `{"answer":"`+document+`"}`)
	}), builtin.Delegate("tester"), builtin.WaitForSignal(0))
	first := w.start()
	id := w.submit("write").ID
	w.parkedFor(id, events.ParkChild)
	child := w.children(id)[0].ID
	w.parkedFor(child, events.ParkSignal)
	if r := w.wait(id, true); !r.LeaseUntil.IsZero() || r.State != ledger.Parked {
		t.Errorf("the run is %s and holds a lease until %v", r.State, r.LeaseUntil)
	}
	first.stop(t)
	if err := w.store.Signal(t.Context(), child, ledger.Signal{Name: "reviewed", From: "ada"}); err != nil {
		t.Fatal(err)
	}
	w.start()
	if r := w.wait(id, false); r.State != ledger.Finished || !strings.Contains(string(r.Result), document[:200]) {
		t.Errorf("run = %s %s %.100s\n%s", r.State, r.Error, r.Result, w.story(id))
	}
	w.whole()
}
