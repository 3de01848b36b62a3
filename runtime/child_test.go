package runtime_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools/builtin"
)

// family is a model whose first run delegates parts and whose children do them.
func family(child func(input string) model.Response, told *atomic.Pointer[model.Request], parts ...string) listener {
	return func(r model.Request) model.Response {
		input := r.Messages[0].Text
		switch {
		case input != "family":
			return child(input)
		case len(r.Messages) == 1:
			out := model.Response{StopReason: "tool_use"}
			for _, p := range parts {
				out.Calls = append(out.Calls, answer("delegate", fmt.Sprintf(`{"agent":"tester","input":%q}`, p)).Calls[0])
			}
			return out
		}
		told.Store(&r)
		return answer("finish", `{"answer":"joined"}`)
	}
}

func (w *world) children(parent events.RunID) (rs []ledger.Run) {
	w.t.Helper()
	for _, e := range w.history(parent) {
		if p, ok := e.Data.(events.ChildStarted); ok {
			r, err := w.store.Run(w.t.Context(), p.Child)
			if err != nil {
				w.t.Fatal(err)
			}
			rs = append(rs, r)
		}
	}
	return rs
}

func TestChildrenFanOutAndJoin(t *testing.T) {
	var told atomic.Pointer[model.Request]
	w := newWorld(t, family(func(input string) model.Response {
		if input == "broken" {
			return answer("decline", `{"because":"unsafe"}`)
		}
		return answer("finish", fmt.Sprintf(`{"answer":"did %s"}`, input))
	}, &told, "a", "b", "broken", "c"), builtin.Delegate("tester"))
	w.start()
	r := w.wait(w.submit("family").ID, false)
	if r.State != ledger.Finished || string(r.Result) != `"joined"` {
		t.Fatalf("run = %s %s %s\n%s", r.State, r.Result, r.Error, w.story(r.ID))
	}
	results := told.Load().Messages[len(told.Load().Messages)-1].Results
	if len(results) != 4 {
		t.Fatalf("told %+v", results)
	}
	for i, want := range []string{"did a", "did b", "unsafe", "did c"} {
		if !strings.Contains(results[i].Text, want) {
			t.Errorf("result %d is %+v, want %q", i, results[i], want)
		}
	}
	cs := w.children(r.ID)
	if len(cs) != 4 || count[events.ChildFinished](w, r.ID) != 4 {
		t.Fatalf("%d children\n%s", len(cs), w.story(r.ID))
	}
	for _, c := range cs { // in the same trace, each below the span of its call
		if c.Parent != r.ID || c.Root != r.ID || c.Trace == r.Trace || c.Trace[:35] != r.Trace[:35] || c.State != ledger.Finished {
			t.Errorf("child %+v", c)
		}
	}
	w.whole()
	// What the children cost is part of what their parent did.
	for lineage, want := range map[bool]int64{false: 2, true: 6} {
		rows, err := w.store.Costs(t.Context(), ledger.CostFilter{Run: r.ID, Lineage: lineage})
		if err != nil || len(rows) != 1 || rows[0].ModelCalls != want {
			t.Errorf("costs with lineage %v: %+v, %v; want %d model calls", lineage, rows, err, want)
		}
	}
}

func TestCancelGoesDownToChildren(t *testing.T) {
	var told atomic.Pointer[model.Request]
	w := newWorld(t, family(func(string) model.Response {
		return answer("wait", `{"seconds":3600}`)
	}, &told, "a", "b"), builtin.Delegate("tester"), builtin.Wait(0))
	w.start()
	id := w.submit("family").ID
	w.parkedFor(id, events.ParkChild)
	cs := w.children(id)
	if len(cs) != 2 {
		t.Fatalf("%d children\n%s", len(cs), w.story(id))
	}
	for _, c := range cs {
		w.parkedFor(c.ID, events.ParkTimer)
	}
	if _, err := w.client().Cancel(t.Context(), id, "ann", "enough"); err != nil {
		t.Fatal(err)
	}
	for _, c := range append(cs, ledger.Run{ID: id}) {
		if r := w.wait(c.ID, false); r.State != ledger.Cancelled || r.CancelBy != "ann" {
			t.Errorf("run %s = %s, by %q\n%s", c.ID, r.State, r.CancelBy, w.story(c.ID))
		}
	}
	if told.Load() != nil {
		t.Error("the parent went on")
	}
	w.whole()
}

func TestParentsDeadlineEndsItsChildren(t *testing.T) {
	var told atomic.Pointer[model.Request]
	w := newWorld(t, family(func(string) model.Response {
		return answer("wait", `{"seconds":3600}`)
	}, &told, "a"), builtin.Delegate("tester"), builtin.Wait(0))
	w.start()
	sub, _, err := w.client().Submit(t.Context(), runtime.Submit{
		Agent: "tester", Input: "family", ClientKey: "k", Deadline: time.Now().Add(1500 * time.Millisecond),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := w.wait(sub.ID, false)
	if r.State != ledger.Failed || r.StoppedBy != events.StoppedByDeadline {
		t.Fatalf("run = %s %s\n%s", r.State, r.StoppedBy, w.story(r.ID))
	}
	for _, c := range w.children(r.ID) {
		if c := w.wait(c.ID, false); c.State == ledger.Finished || !c.Deadline.Equal(sub.Deadline) {
			t.Errorf("child = %s by %v", c.State, c.Deadline)
		}
	}
	w.whole()
}
