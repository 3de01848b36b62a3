package ledgertest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var signalTests = []conformance{
	{"a signal wakes a run and is a fact of it", testSignal},
	{"the same key is the same signal", testSignalKey},
	{"a signal goes to the call that has waited longest", testSignalWaiting},
	{"signals that came before are taken oldest first", testSignalBefore},
	{"an ended run takes none", testSignalEnded},
	{"what no caller may mean is refused", testSignalRefused},
}

func approve(data string) ledger.Signal {
	return ledger.Signal{Name: "approved", Data: json.RawMessage(data), From: "ann"}
}

func (h Harness) send(t tb, run events.RunID, s ledger.Signal) {
	t.Helper()
	if err := h.Store.Signal(t.Context(), run, s); err != nil {
		t.Fatalf("signal: %v", err)
	}
}

func awaits(name string, index int) func(*ledger.Handoff) {
	return func(h *ledger.Handoff) {
		h.Reason, h.Signal, h.Tool, h.Call.Index = events.ParkSignal, name, "wait_for_signal", index
	}
}

func testSignal(t *testing.T, h Harness) {
	a := start(t, h)
	if err := a.parkHere(events.ParkSignal); err != nil {
		t.Fatal(err)
	}
	h.send(t, a.run.ID, approve(`{"by":"ann"}`))
	b := tryTake(t, h, a.run)
	if b == nil || len(b.facts) != 1 {
		t.Fatalf("not claimed with its fact: %+v", b)
	}
	p := payload[events.SignalReceived](t, &b.facts[0])
	if p.Name != "approved" || string(p.Data) != `{"by":"ann"}` || p.From != "ann" || p.Call != nil {
		t.Errorf("signal %+v", p)
	}
}

func testSignalKey(t *testing.T, h Harness) {
	a := start(t, h)
	s := approve(`1`)
	s.Key = "k"
	h.send(t, a.run.ID, s)
	h.send(t, a.run.ID, s)
	a.flush()
	h.send(t, a.run.ID, s) // the fact is in the history
	if n := h.archived(t, a.run.ID); n != 1 || len(a.pending()) != 0 {
		t.Errorf("%d events, facts %v", n, types(a.pending()))
	}
	s.Data = json.RawMessage(`2`)
	if err := h.Store.Signal(t.Context(), a.run.ID, s); !errors.Is(err, ledger.ErrSignalConflict) {
		t.Errorf("other data: %v", err)
	}
	other := start(t, h)
	h.send(t, other.run.ID, s) // a key is a run's own
	s.Key = ""
	h.send(t, other.run.ID, s)
	if n := len(other.pending()); n != 2 {
		t.Errorf("%d facts", n)
	}
}

func testSignalWaiting(t *testing.T, h Harness) {
	a := start(t, h)
	for i, name := range []string{"denied", "approved", "approved"} {
		a.handOff(a.handoff(awaits(name, i)))
		h.Advance(time.Millisecond)
	}
	h.send(t, a.run.ID, approve(`"go"`))
	fs := a.pending()
	if len(fs) != 2 {
		t.Fatalf("facts %v", types(fs))
	}
	if p := payload[events.SignalReceived](t, &fs[0]); p.Call == nil || p.Call.Index != 1 {
		t.Errorf("signal %+v", p)
	}
	if p := payload[events.ToolExecutionFinished](t, &fs[1]); p.Call.Index != 1 || p.Result.Output != "go" || p.Result.Trust != "external" {
		t.Errorf("finished %+v", p)
	}
	h.send(t, a.run.ID, approve(``))
	fs = a.pending()
	if p := payload[events.ToolExecutionFinished](t, &fs[3]); p.Call.Index != 2 || p.Result.Output == "" {
		t.Errorf("finished %+v", p)
	}
}

func testSignalBefore(t *testing.T, h Harness) {
	a := start(t, h)
	for _, data := range []string{`"first"`, `"second"`} {
		h.send(t, a.run.ID, approve(data))
		h.Advance(time.Millisecond)
	}
	a.flush()
	for i, want := range []string{"first", "second"} {
		fs := a.handOff(a.handoff(awaits("approved", i)))
		if len(fs) != 1 || payload[events.ToolExecutionFinished](t, &fs[0]).Result.Output != want {
			t.Fatalf("facts %v, want %s", types(fs), want)
		}
		a.absorb(fs...)
		a.flush()
	}
	if fs := a.handOff(a.handoff(awaits("approved", 2))); len(fs) != 0 {
		t.Errorf("a signal was taken twice: %v", types(fs))
	}
}

func testSignalEnded(t *testing.T, h Harness) {
	a := start(t, h)
	kept := approve(`1`)
	kept.Key = "before"
	h.send(t, a.run.ID, kept)
	a.note(events.RunFinished{StoppedBy: events.StoppedByFinish})
	a.flush()
	if err := h.Store.Finish(t.Context(), a.lease, nil, ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish}); err != nil {
		t.Fatal(err)
	}
	if err := h.Store.Signal(t.Context(), a.run.ID, approve(`1`)); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("signal: %v", err)
	}
	h.send(t, a.run.ID, kept) // it was received, and says so again
	if err := h.Store.Signal(t.Context(), testIDs.Run(), approve(`1`)); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("unknown run: %v", err)
	}
}

func testSignalRefused(t *testing.T, h Harness) {
	a := start(t, h)
	for name, s := range map[string]ledger.Signal{
		"no name":      {From: "ann"},
		"a bad name":   {Name: "a b", From: "ann"},
		"nobody":       {Name: "x"},
		"no JSON":      {Name: "x", From: "ann", Data: json.RawMessage(`{`)},
		"a long key":   {Name: "x", From: "ann", Key: strings.Repeat("k", 513)},
		"a large body": approve(`"` + strings.Repeat("x", 300<<10) + `"`),
	} {
		if err := h.Store.Signal(t.Context(), a.run.ID, s); err == nil || errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if fs := a.pending(); len(fs) != 0 {
		t.Errorf("facts %v", types(fs))
	}
}
