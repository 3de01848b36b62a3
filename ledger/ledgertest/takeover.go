package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var takeoverTests = []conformance{
	{"a base is the contiguous top and is never changed", testBaseStands},
	{"without the first event the base is zero", testBaseWithoutFirst},
	{"events beyond the base are set aside", testSetAside},
	{"what was billed or tells an outcome becomes a fact under its own id", testBilledFacts},
	{"the base is refused to a former holder", testBaseFenced},
	{"a late prefix of a former holder is refused", testZombiePrefix},
	{"facts that the archive has are deleted", testBaseDropsFacts},
	{"the last writer is the last holder with a base", testLastWriter},
	{"nothing is recorded before the base", testNoBaseNoPrefix},
	{"which attempts a takeover puts in doubt", testDoubtAtTakeover},
	{"an attempt that a live worker names stays started", testOwnTokens},
}

// claimOnly takes a run without step (c).
func claimOnly(t tb, h Harness, run ledger.Run, worker string, own ...events.ID) ledger.Claim {
	t.Helper()
	cs, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{Worker: worker, Queues: []string{run.Queue}, TTL: leaseTTL, OwnTokens: own})
	if err != nil || len(cs) != 1 {
		t.Fatalf("claim: %d claims, %v", len(cs), err)
	}
	return cs[0]
}

func (h Harness) base(t tb, l ledger.Lease) ledger.Base {
	t.Helper()
	b, err := h.Store.Base(t.Context(), l)
	if err != nil {
		t.Fatalf("base: %v", err)
	}
	return b
}

// events numbers n further events that no barrier has carried.
func (a *actor) events(n int) []events.Sealed {
	a.t.Helper()
	for i := range n {
		a.note(events.TurnStarted{Turn: i + 1})
	}
	return a.prefix[len(a.prefix)-n:]
}

func testBaseStands(t *testing.T, h Harness) {
	a := start(t, h)
	es := a.events(5)
	h.arrive(t, es[0], es[1], es[3]) // the third is lost
	a.crash()
	c := claimOnly(t, h, a.run, "b")
	first := h.base(t, c.Lease)
	if first.Seq != 2 || first.Hash != es[1].Hash() || first.SetAside != 1 {
		t.Fatalf("base %+v", first)
	}
	h.arrive(t, es[2]) // as no projector would
	if d := cmp.Diff(first, h.base(t, c.Lease)); d != "" {
		t.Errorf("asked again: %s", d)
	}
	if n := h.count(t, `SELECT count(*) FROM run_epochs WHERE run_id = $1`, a.run.ID); n != 2 {
		t.Errorf("%d epochs", n)
	}
}

func testBaseWithoutFirst(t *testing.T, h Harness) {
	a := start(t, h)
	es := a.events(3)
	h.arrive(t, es[1], es[2])
	a.crash()
	if b := h.base(t, claimOnly(t, h, a.run, "b").Lease); b.Seq != 0 || b.Hash != events.Genesis(a.run.ID) || b.SetAside != 2 {
		t.Errorf("base %+v", b)
	}
}

func testSetAside(t *testing.T, h Harness) {
	a := start(t, h)
	es := a.events(4)
	h.arrive(t, es[0], es[2], es[3])
	a.crash()
	b := *a
	c := claimOnly(t, h, a.run, "b")
	base := h.base(t, c.Lease)
	if h.archived(t, a.run.ID) != 1 || base.SetAside != 2 {
		t.Fatalf("%d events left, base %+v", h.archived(t, a.run.ID), base)
	}
	n := h.count(t, `SELECT count(*) FROM set_aside WHERE run_id = $1 AND seq IN (3, 4) AND epoch = 1 AND reason = 'beyond the base of epoch 2'`, a.run.ID)
	if n != 2 {
		t.Errorf("%d rows set aside", n)
	}
	if top := h.count(t, `SELECT top_seq FROM run_folds WHERE run_id = $1`, a.run.ID); top != 1 {
		t.Errorf("top is %d", top)
	}
	// Their places are free for the new holder.
	b.lease, b.seq, b.prev, b.prefix = c.Lease, base.Seq, base.Hash, nil
	b.events(3)
	b.flush()
	if h.archived(t, a.run.ID) != 4 {
		t.Errorf("%d events", h.archived(t, a.run.ID))
	}
}

// n8n-io/n8n PR#33845
func testBilledFacts(t *testing.T, h Harness) {
	a := start(t, h)
	cost := events.PicoUSD(5)
	ref := &events.EffectRef{OpKey: events.Hash{1}, Generation: 1, Attempt: 1, Token: testIDs.Event(), Recovery: "none"}
	a.events(2)
	lost := len(a.prefix) - 1
	for _, p := range []events.Payload{
		events.ModelCallFinished{Turn: 1, Attempt: 1, Model: "m", Text: "hi", Cost: &cost}, // a fact
		events.ModelCallError{Turn: 1, Attempt: 1, Model: "m"},
		events.ModelCallError{Turn: 1, Attempt: 2, Model: "m", Usage: &events.Usage{Input: 1}}, // a fact
		events.ToolExecutionFinished{Tool: "read", Result: events.ToolResult{Status: "completed"}},
		events.ToolExecutionFinished{Tool: "search", Result: events.ToolResult{Status: "completed", Cost: &cost}}, // a fact
		events.ToolExecutionFinished{Tool: "refund", Ref: ref},                                                    // a fact
		events.ToolExecutionFinished{Tool: "refund", Ref: ref, Repeated: true},
		events.ToolExecutionError{Tool: "refund", Ref: ref}, // a fact
		events.TurnStarted{Turn: 2},
	} {
		a.note(p)
	}
	for i, e := range a.prefix {
		if i != lost {
			h.arrive(t, e)
		}
	}
	a.crash()
	base := h.base(t, claimOnly(t, h, a.run, "b").Lease)
	var want []events.ID
	for _, i := range []int{2, 4, 6, 7, 9} {
		want = append(want, a.prefix[i].Envelope().ID)
	}
	var got []events.ID
	for _, f := range base.Facts {
		got = append(got, f.ID)
		for _, e := range a.prefix {
			data, err := e.Data()
			if err != nil {
				t.Fatal(err)
			}
			if e.Envelope().ID == f.ID && (string(data) != string(f.Data) || e.Envelope().Type != f.Type || e.Envelope().Version != f.Version) {
				t.Errorf("fact %s is %s, the event was %s", f.Type, f.Data, data)
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if base.SetAside != len(a.prefix)-2 {
		t.Errorf("%d set aside", base.SetAside)
	}
}

func testBaseFenced(t *testing.T, h Harness) {
	a := start(t, h)
	a.crash()
	b := claimOnly(t, h, a.run, "b")
	h.Advance(leaseTTL + time.Second)
	c := claimOnly(t, h, a.run, "c")
	if _, err := h.Store.Base(t.Context(), b.Lease); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("error %v, want %v", err, ledger.ErrFenced)
	}
	h.base(t, c.Lease)
}

func testZombiePrefix(t *testing.T, h Harness) {
	a := start(t, h)
	a.events(2)
	a.crash()
	h.base(t, claimOnly(t, h, a.run, "b").Lease)
	if _, err := h.Store.Flush(t.Context(), a.lease, a.prefix); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("error %v, want %v", err, ledger.ErrFenced)
	}
	if n := h.archived(t, a.run.ID); n != 0 {
		t.Errorf("%d events of a former holder", n)
	}
}

func testBaseDropsFacts(t *testing.T, h Harness) {
	a := start(t, h)
	h.signal(t, a.run.ID, "one")
	h.signal(t, a.run.ID, "two")
	a.absorb(a.pending()[0])
	h.arrive(t, a.prefix...)
	a.crash()
	b := h.base(t, claimOnly(t, h, a.run, "b").Lease)
	if len(b.Facts) != 1 || payload[events.SignalReceived](t, &b.Facts[0]).Name != "two" {
		t.Errorf("facts %+v", b.Facts)
	}
}

func testLastWriter(t *testing.T, h Harness) {
	a := start(t, h)
	a.crash()
	b := claimOnly(t, h, a.run, "b") // dies before its base: it has written nothing
	h.Advance(leaseTTL + time.Second)
	c := claimOnly(t, h, a.run, "c")
	if b.LastWorker != a.worker || c.LastWorker != a.worker || c.Kind != ledger.ClaimTakeover {
		t.Errorf("last writers %q and %q, want %q both times", b.LastWorker, c.LastWorker, a.worker)
	}
	h.base(t, c.Lease)
	h.Advance(leaseTTL + time.Second)
	if d := claimOnly(t, h, a.run, "d"); d.LastWorker != "c" {
		t.Errorf("last writer %q, want c", d.LastWorker)
	}
}

func testNoBaseNoPrefix(t *testing.T, h Harness) {
	a := start(t, h)
	a.crash()
	b := *a
	b.lease = claimOnly(t, h, a.run, "b").Lease
	b.events(1)
	if _, err := h.Store.Flush(t.Context(), b.lease, b.prefix); err == nil || errors.Is(err, ledger.ErrFenced) {
		t.Errorf("flush before the base: %v", err)
	}
	h.base(t, b.lease)
	b.flush()
}

func testDoubtAtTakeover(t *testing.T, h Harness) {
	kinds := []string{ledger.RecoveryNone, ledger.RecoveryProbe, ledger.RecoveryKeyed, ledger.RecoveryFenced}
	for _, cancelled := range []bool{false, true} {
		a := start(t, h)
		var keys []events.Hash
		for i, k := range kinds {
			keys = append(keys, a.want(ledger.Execute, refund(order(i), call(1, i), recovery(k))).Ref.OpKey)
		}
		a.flush()
		if cancelled {
			if _, err := h.Store.Cancel(t.Context(), a.run.ID, "ann", ""); err != nil {
				t.Fatal(err)
			}
		}
		b := a.successor()
		var want []int
		for i, k := range kinds {
			wanted := events.EffectInDoubt
			if !cancelled && (k == ledger.RecoveryKeyed || k == ledger.RecoveryFenced) {
				wanted = events.EffectStarted
			} else {
				want = append(want, i)
			}
			if e := effect(t, h, keys[i]); e.State != wanted {
				t.Errorf("cancelled %v: %s is %s, want %s", cancelled, k, e.State, wanted)
			}
		}
		var got []int
		for _, f := range b.facts {
			if f.Type != "tool_execution_in_doubt" {
				continue
			}
			p := payload[events.ToolExecutionInDoubt](t, &f)
			got = append(got, p.Call.Index)
			if p.Cause != "takeover" || f.ID != events.DerivedID(p.Ref.Token, f.Type) {
				t.Errorf("fact %s: %+v", f.ID, p)
			}
		}
		less := func(a, b int) bool { return a < b }
		if d := cmp.Diff(want, sorted(got, less)); d != "" {
			t.Errorf("cancelled %v: facts of calls %s", cancelled, d)
		}
		if c := b.successor(); len(c.facts) != len(b.facts) {
			t.Errorf("another takeover: %d facts, before %d", len(c.facts), len(b.facts))
		}
	}
}

func sorted[T any](s []T, less func(a, b T) bool) []T {
	for i := range s {
		for j := i; j > 0 && less(s[j], s[j-1]); j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
	return s
}

func testOwnTokens(t *testing.T, h Harness) {
	a := start(t, h)
	mine, other := refund(order(1)), refund(order(2), call(1, 1))
	m, o := a.want(ledger.Execute, mine).Ref.OpKey, a.want(ledger.Execute, other).Ref.OpKey
	a.flush()
	a.crash()
	claimOnly(t, h, a.run, a.worker, mine.Token)
	if s := effect(t, h, m).State; s != events.EffectStarted {
		t.Errorf("the worker's own is %s", s)
	}
	if s := effect(t, h, o).State; s != events.EffectInDoubt {
		t.Errorf("the other is %s", s)
	}
	h.Advance(leaseTTL + time.Second)
	claimOnly(t, h, a.run, "stranger")
	if s := effect(t, h, m).State; s != events.EffectInDoubt {
		t.Errorf("for a stranger it is %s", s)
	}
}
