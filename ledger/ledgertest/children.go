package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

var childTests = []conformance{
	{"a child has its parent's lineage and is made once", testChildSpawn},
	{"the end of a child wakes its parent with the outcome", testChildEnds},
	{"a child that cannot be made leaves nothing behind", testChildRefused},
	{"cancelling a parent cancels every descendant", testChildCancel},
	{"a parent that ends cancels its children", testChildParentEnds},
	{"a lineage has bounds", testChildBounds},
	{"a child does not wait for what its ancestor waits to do", testChildAncestor},
	{"who tries a child again answers in its place", testChildRetry},
	{"a parent is told how a child ended, and how far to trust it", testChildWords},
	{"what a parent asks of a child is asked of who tries it again, and of its forks", testChildGuard},
}

// spawn starts a child for the index-th call of turn 1.
func (a *actor) spawn(index int) (ledger.Run, error) {
	in := ledger.Submission{
		Agent: "clerk", Queue: fmt.Sprintf("children-%d", testCount.Add(1)), ClientKey: fmt.Sprintf("child/%s/%d", a.run.ID, index),
		Input: mustSeal(a.t, map[string]int{"part": index}), InputMAC: []byte("mac"),
	}
	child, fs, err := a.h.Store.Spawn(a.t.Context(), a.lease, a.prefix, in, a.handoff(at(index), func(h *ledger.Handoff) { h.Tool, h.For = "delegate", 0 }))
	if err == nil {
		a.prefix = nil
		a.absorb(fs...)
	}
	return child, err
}

func mustSeal(t tb, v any) redact.JSON {
	t.Helper()
	j, err := testSeal.JSON(v)
	if err != nil {
		t.Fatalf("seal: %v", err)
	}
	return j
}

func (a *actor) mustSpawn(index int) ledger.Run {
	a.t.Helper()
	child, err := a.spawn(index)
	if err != nil {
		a.t.Fatalf("spawn: %v", err)
	}
	return child
}

// finish ends the actor's run.
func (a *actor) endAs(end ledger.Ending) {
	a.t.Helper()
	switch end.State {
	case ledger.Finished:
		a.note(events.RunFinished{StoppedBy: end.StoppedBy})
	case ledger.Failed:
		a.note(events.RunFailed{StoppedBy: end.StoppedBy})
	default:
		a.note(events.RunCancelled{})
	}
	a.flush()
	if err := a.h.Store.Finish(a.t.Context(), a.lease, a.prefix, end); err != nil {
		a.t.Fatalf("finish: %v", err)
	}
}

func testChildSpawn(t *testing.T, h Harness) {
	a := start(t, h, inSession("s"), ownedBy("o"))
	deadline := events.Timestamp(time.Now().Add(time.Hour))
	h.sql(t, `UPDATE runs SET deadline_at = $2, priority = 7 WHERE id = $1`, a.run.ID, deadline)
	a.note(events.TurnStarted{Turn: 1})
	child := a.mustSpawn(0)
	if n := h.archived(t, a.run.ID); n != 1 {
		t.Errorf("the barrier carried %d events", n)
	}
	if child.Parent != a.run.ID || child.Root != a.run.Root || child.Owner != "o" || child.SessionID != "s" ||
		child.Priority != 7 || !child.Deadline.Equal(deadline) || child.State != ledger.Queued {
		t.Errorf("child %+v", child)
	}
	again := a.mustSpawn(0)
	a.flush()
	if again.ID != child.ID || h.count(t, `SELECT count(*) FROM runs WHERE parent_id = $1`, a.run.ID) != 1 {
		t.Errorf("spawned again: %s, want %s", again.ID, child.ID)
	}
	if n := h.count(t, `SELECT count(*) FROM events WHERE run_id = $1 AND type = 'child_started'`, a.run.ID); n != 1 {
		t.Errorf("%d child_started", n)
	}
}

func testChildEnds(t *testing.T, h Harness) {
	a := start(t, h)
	ok, declined, broken, large := a.mustSpawn(0), a.mustSpawn(1), a.mustSpawn(2), a.mustSpawn(3)
	if err := a.parkHere(events.ParkChild); err != nil {
		t.Fatal(err)
	}
	take(t, h, ok).endAs(ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish, Result: json.RawMessage(`"42"`)})
	take(t, h, declined).endAs(ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByDeclined, Result: json.RawMessage(`{"declined_because":"unsafe"}`)})
	take(t, h, broken).endAs(ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError, Error: "no model"})
	take(t, h, large).endAs(ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish, Result: json.RawMessage(`"` + strings.Repeat("é", 120<<10) + `"`)})
	b := tryTake(t, h, a.run)
	if b == nil {
		t.Fatal("the parent is not woken")
	}
	told := map[int]string{}
	ended := 0
	for i := range b.facts {
		switch b.facts[i].Type {
		case events.TypeOf(events.ChildFinished{}):
			ended++
		case events.TypeOf(events.ToolExecutionError{}):
			p := payload[events.ToolExecutionError](t, &b.facts[i])
			told[p.Call.Index] = p.Error.Kind + ": " + p.Error.Message
		default:
			p := payload[events.ToolExecutionFinished](t, &b.facts[i])
			told[p.Call.Index] = p.Result.Output
			if p.Completion == nil || !strings.HasPrefix(p.Completion.By, "run ") {
				t.Errorf("completed by %+v", p.Completion)
			}
		}
	}
	if ended != 4 || told[0] != "42" || !strings.Contains(told[1], "unsafe") || !strings.HasPrefix(told[2], "child_failed: ") ||
		!strings.Contains(told[2], "no model") || len(told[3]) < 200<<10 || len(told[3]) > events.MaxOutput {
		t.Errorf("%d ends, told %.300v", ended, told)
	}
}

func testChildRefused(t *testing.T, h Harness) {
	a := start(t, h)
	child := a.mustSpawn(0)
	other := start(t, h)
	// The key of another run's child, with the same input: not this run's child.
	in := ledger.Submission{Agent: "clerk", ClientKey: child.ClientKey, Input: mustSeal(t, map[string]int{"part": 0}), InputMAC: []byte("mac")}
	if _, _, err := h.Store.Spawn(t.Context(), other.lease, nil, in, other.handoff()); !errors.Is(err, ledger.ErrClientKeyConflict) {
		t.Errorf("another run's child: %v", err)
	}
	if _, err := h.Store.Cancel(t.Context(), other.run.ID, "ann", "enough"); err != nil {
		t.Fatal(err)
	}
	in.ClientKey = "fresh"
	if _, _, err := h.Store.Spawn(t.Context(), other.lease, nil, in, other.handoff()); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("a cancelling parent: %v", err)
	}
	a.crash()
	if _, err := a.spawn(1); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("a lapsed lease: %v", err)
	}
	if n := h.count(t, `SELECT count(*) FROM runs WHERE parent_id IS NOT NULL`) + h.count(t, `SELECT count(*) FROM handoffs`); n != 2 {
		t.Errorf("%d children and hand-offs, want one each", n)
	}
}

func testChildCancel(t *testing.T, h Harness) {
	a := start(t, h)
	queued, mid, gone := a.mustSpawn(0), a.mustSpawn(1), a.mustSpawn(2)
	m := take(t, h, mid)
	deep := m.mustSpawn(0)
	d := take(t, h, deep)
	if err := d.parkHere(events.ParkSignal); err != nil {
		t.Fatal(err)
	}
	take(t, h, gone).endAs(ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish})
	if err := m.parkHere(events.ParkChild); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Store.Cancel(t.Context(), a.run.ID, "ann", "enough"); err != nil {
		t.Fatal(err)
	}
	for _, r := range []ledger.Run{a.run, queued, mid, deep} {
		got := h.state(t, r.ID)
		if got.State != ledger.Cancelling || got.CancelBy != "ann" || got.CancelReason != "enough" {
			t.Errorf("run %s is %s, by %q: %q", r.ID, got.State, got.CancelBy, got.CancelReason)
		}
		fs := pendingOf(t, h, r.ID)
		if last := fs[len(fs)-1]; last.Type != events.TypeOf(events.OperatorActed{}) {
			t.Errorf("run %s: facts %v", r.ID, types(fs))
		}
	}
	if got := h.state(t, gone.ID); got.State != ledger.Finished {
		t.Errorf("a child that had ended is %s", got.State)
	}
	// The children end after their parent: nobody waits for them any more.
	a.absorb(a.pending()...)
	a.endAs(ledger.Ending{State: ledger.Cancelled, StoppedBy: events.StoppedByCancelled})
	before := len(a.pending())
	c := take(t, h, queued)
	c.endAs(ledger.Ending{State: ledger.Cancelled, StoppedBy: events.StoppedByCancelled})
	if fs := a.pending(); len(fs) != before {
		t.Errorf("the ended parent was told: %v", types(fs))
	}
}

func testChildParentEnds(t *testing.T, h Harness) {
	a := start(t, h)
	child := a.mustSpawn(0)
	c := take(t, h, child)
	a.endAs(ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByDeadline})
	got := h.state(t, child.ID)
	if got.State != ledger.Cancelling || !strings.Contains(got.CancelBy, a.run.ID.String()) {
		t.Errorf("child is %s, by %q", got.State, got.CancelBy)
	}
	c.absorb(c.pending()...)
	c.endAs(ledger.Ending{State: ledger.Cancelled, StoppedBy: events.StoppedByCancelled})
}

func testChildBounds(t *testing.T, h Harness) {
	a := start(t, h)
	for depth := 1; ; depth++ {
		child, err := a.spawn(0)
		if errors.Is(err, ledger.ErrTooDeep) {
			if depth != ledger.MaxDepth+1 {
				t.Errorf("refused at depth %d, want %d", depth, ledger.MaxDepth+1)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		a = take(t, h, child)
	}
	b := start(t, h)
	b.mustSpawn(0)
	rows := make([][]any, ledger.MaxChildren-1)
	for i := range rows {
		at := time.Unix(1, 0)
		rows[i] = []any{testIDs.Run(), b.run.Tenant, "q", "clerk", b.run.Root, b.run.ID, fmt.Sprint("many-", i), []byte{}, json.RawMessage(`{}`), []string{}, at, at, ledger.Queued}
	}
	err := h.DB.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.InsertMany(ctx, "runs", []string{
			"id", "tenant", "queue", "agent", "root_id", "parent_id", "client_key", "input_mac", "input", "requires", "created_at", "due_at", "state",
		}, rows, "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.spawn(1); !errors.Is(err, ledger.ErrTooManyChildren) {
		t.Errorf("one child too many: %v", err)
	}
	b.mustSpawn(0) // it is there already
}

// testChildAncestor: a parent waits for its child, the child for an effect that
// the parent has begun. Nobody would ever move. restatedev/restate#5196.
func testChildAncestor(t *testing.T, h Harness) {
	a := start(t, h)
	a.want(ledger.Execute, refund())
	child := a.mustSpawn(1)
	c := take(t, h, child)
	if _, err := c.begin(refund()); !errors.Is(err, ledger.ErrWouldWaitOnAncestor) {
		t.Errorf("begin: %v", err)
	}
	deep := c.mustSpawn(0)
	d := take(t, h, deep)
	if _, err := d.begin(refund()); !errors.Is(err, ledger.ErrWouldWaitOnAncestor) {
		t.Errorf("begin of a grandchild: %v", err)
	}
	// Once the parent has done it, the lineage shares the outcome.
	b := start(t, h)
	v := b.want(ledger.Execute, refund())
	b.end(v.Ref.Token, ledger.Applied)
	take(t, h, b.mustSpawn(1)).want(ledger.Replay, refund())
}

func testChildRetry(t *testing.T, h Harness) {
	a := start(t, h)
	child := a.mustSpawn(0)
	a.flush()
	again := submit(t, h, childOf(a.run))
	h.sql(t, `UPDATE runs SET successor = $2 WHERE id = $1`, child.ID, again.ID)
	take(t, h, child).endAs(ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError, Error: "first try"})
	if fs := a.pending(); len(fs) != 0 {
		t.Errorf("the parent was told of the first try: %v", types(fs))
	}
	take(t, h, again).endAs(ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish, Result: json.RawMessage(`"second try"`)})
	if fs := a.pending(); len(fs) != 2 || payload[events.ToolExecutionFinished](t, &fs[1]).Result.Output != "second try" {
		t.Errorf("facts %v", types(fs))
	}
}

func testChildWords(t *testing.T, h Harness) {
	finished := func(by events.StoppedBy, result string) ledger.Ending {
		return ledger.Ending{State: ledger.Finished, StoppedBy: by, Result: json.RawMessage(result)}
	}
	failed := func(by events.StoppedBy, why string) ledger.Ending {
		return ledger.Ending{State: ledger.Failed, StoppedBy: by, Error: why}
	}
	own := func(end ledger.Ending) ledger.Ending { end.Own = true; return end }
	artifact := finished(events.StoppedByArtifactFinished, `{"artifact":"notes","bytes":7}`)
	artifact.Answer = "# Notes"
	tests := []struct {
		name   string
		trust  string // at best
		end    ledger.Ending
		kind   string // of the error; empty = none
		told   string
		trusts string
	}{
		{"nothing came in", "own", own(finished(events.StoppedByFinish, `"42"`)), "", "42", "own"},
		{"something came in, or nobody knows", "own", finished(events.StoppedByFinish, `"42"`), "", "42", "external"},
		{"whoever asked trusts nothing", "external", own(finished(events.StoppedByFinish, `{"n":42}`)), "", `{"n":42}`, "external"},
		{"declined", "own", own(finished(events.StoppedByDeclined, `{"declined_because":"unsafe"}`)), "", "the agent declined: unsafe", "own"},
		{"silent", "own", own(finished(events.StoppedBySilent, `null`)), "", "the agent ended without an answer", "own"},
		{"an artifact that nobody took", "own", own(finished(events.StoppedByArtifactFailed, ``)), "", "what it made was refused to the end", "own"},
		{"no turns left", "own", own(finished(events.StoppedByMaxTurns, ``)), "", "it had no turns left", "own"},
		{"an artifact", "own", own(artifact), "", "# Notes", "own"},
		{"an error", "own", own(failed(events.StoppedByError, "no model")), "child_failed", "(error): no model", "own"},
		{"a budget", "own", failed(events.StoppedByBudget, "0.2 USD are committed"), "child_budget", "(its budget does not allow more): 0.2 USD are committed", "external"},
		{"the deadline", "own", failed(events.StoppedByDeadline, "at noon"), "child_deadline", "(its time was up): at noon", "external"},
		{"no turns left, which the run failed for", "own", failed(events.StoppedByMaxTurns, "8 turns"), "child_max_turns", "(it had no turns left): 8 turns", "external"},
		{"a refused artifact", "own", failed(events.StoppedByArtifactFailed, "3 revisions"), "child_artifact_failed", "(what it made was refused to the end): 3 revisions", "external"},
		{"cancelled", "own", ledger.Ending{State: ledger.Cancelled, StoppedBy: events.StoppedByCancelled}, "child_cancelled", "(cancelled): it was cancelled by ann: enough", "external"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := h
			a := start(t, h)
			child, err := a.call(i, 1, tt.trust)
			if err != nil {
				t.Fatal(err)
			}
			c := take(t, h, child)
			if tt.end.State == ledger.Cancelled {
				if _, err := h.Store.Cancel(t.Context(), child.ID, "ann", "enough"); err != nil {
					t.Fatal(err)
				}
			}
			c.absorb(c.pending()...)
			c.endAs(tt.end)
			var kind, told, trust string
			for _, f := range a.pending() {
				switch f.Type {
				case events.TypeOf(events.ToolExecutionError{}):
					p := payload[events.ToolExecutionError](t, &f)
					kind, told, trust = p.Error.Kind, p.Error.Message, p.Result.Trust
				case events.TypeOf(events.ToolExecutionFinished{}):
					p := payload[events.ToolExecutionFinished](t, &f)
					told, trust = p.Result.Output, p.Result.Trust
				}
			}
			if kind != tt.kind || !strings.HasSuffix(told, tt.told) || trust != tt.trusts {
				t.Errorf("told %q, %q, trust %q; want %q, %q, trust %q", kind, told, trust, tt.kind, tt.told, tt.trusts)
			}
		})
	}
}

func testChildGuard(t *testing.T, h Harness) {
	a := start(t, h)
	in := ledger.Submission{
		Agent: "clerk", Queue: fmt.Sprintf("children-%d", testCount.Add(1)), ClientKey: "child/guarded", Input: mustSeal(t, 1), InputMAC: []byte("mac"),
		Guard: mustSeal(t, events.Guard{Taint: "t1.c0 fetch, trust external", Policy: &events.Policy{Approve: []string{"refund"}, Taint: "deny"}}),
	}
	child, _, err := h.Store.Spawn(t.Context(), a.lease, a.prefix, in, a.handoff(func(h *ledger.Handoff) { h.For = 0 }))
	if err != nil {
		t.Fatal(err)
	}
	c := take(t, h, child)
	c.note(events.TurnStarted{Turn: 1})
	c.flush()
	fork, _, err := h.Store.Fork(t.Context(), ledger.ForkRequest{Run: child.ID, Seq: 1, Effects: ledger.ForkReplay, By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	c.absorb(c.pending()...)
	c.endAs(ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError, Error: "x", Retry: ledger.Retry{MaxAttempts: 2}})
	again := h.state(t, child.ID).Successor
	for name, id := range map[string]events.RunID{"the child": child.ID, "its fork": fork.ID, "who tries it again": again} {
		if got := h.state(t, id); string(got.Guard) != string(in.Guard.Bytes()) {
			t.Errorf("%s is asked %s", name, got.Guard)
		}
	}
}
