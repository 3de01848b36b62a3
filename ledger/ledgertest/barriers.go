package ledgertest

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var barrierTests = []conformance{
	{"a fenced barrier commits nothing", testFencedBarriers},
	{"a refused barrier commits prefix and facts", testRefusedBarriers},
	{"asked again after a lost commit it is done once", testBarriersAgain},
	{"a prefix that was carried before is no error", testPrefixAgain},
	{"a prefix must be the holder's own and without gaps", testPrefixChecks},
	{"another event at a place of the prefix is a fork", testFork},
	{"a run does not park on what is decided", testParkDecided},
	{"a run does not park over pending facts", testParkFacts},
	{"a wait must have a name", testParkNames},
	{"a run ends with what its history says", testFinish},
	{"a later holder redoes the end that the row lacks", testFinishRedone},
	{"an end stands", testEndStands},
	{"only an ended run is released", testReleaseLive},
	{"a run parked or ended is resumed cleanly", testCleanAfterBarriers},
}

// barriersOf are all barriers of this package's own, on a run that is not ended.
func barriersOf(a *actor) map[string]func(l ledger.Lease, p ledger.Prefix) error {
	ctx := a.t.Context()
	return map[string]func(l ledger.Lease, p ledger.Prefix) error{
		"flush": func(l ledger.Lease, p ledger.Prefix) error {
			_, err := a.h.Store.Flush(ctx, l, p)
			return err
		},
		"park": func(l ledger.Lease, p ledger.Prefix) error {
			return a.h.Store.Park(ctx, l, p, ledger.Parking{Reason: events.ParkSignal})
		},
		"hand over": func(l ledger.Lease, p ledger.Prefix) error {
			return a.h.Store.Park(ctx, l, p, ledger.Parking{Reason: events.ParkHandover})
		},
		"finish": func(l ledger.Lease, p ledger.Prefix) error {
			return a.h.Store.Finish(ctx, l, p, ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish})
		},
		"release": func(l ledger.Lease, p ledger.Prefix) error { return a.h.Store.Release(ctx, l, p) },
	}
}

func testFencedBarriers(t *testing.T, h Harness) {
	a := start(t, h)
	h.signal(t, a.run.ID, "x")
	a.absorb(a.pending()...)
	a.note(events.RunFinished{StoppedBy: events.StoppedByFinish})
	a.crash()
	before := h.state(t, a.run.ID)
	for i := range 2 {
		for name, barrier := range barriersOf(a) {
			if err := barrier(a.lease, a.prefix); !errors.Is(err, ledger.ErrFenced) {
				t.Errorf("%s: error %v, want %v", name, err, ledger.ErrFenced)
			}
		}
		if d := cmp.Diff(before, h.state(t, a.run.ID)); d != "" || h.archived(t, a.run.ID) != 0 || len(a.pending()) != 1 {
			t.Fatalf("%d events, facts %v, run %s", h.archived(t, a.run.ID), types(a.pending()), d)
		}
		if i == 0 { // lapsed at first, then taken
			claimOnly(t, h, a.run, "b")
			before = h.state(t, a.run.ID)
		}
	}
}

func testRefusedBarriers(t *testing.T, h Harness) {
	for _, name := range []string{"park", "finish", "release"} {
		a := start(t, h)
		h.signal(t, a.run.ID, "recorded")
		h.signal(t, a.run.ID, "pending")
		a.absorb(a.pending()[0])
		if err := barriersOf(a)[name](a.lease, a.prefix); err == nil || errors.Is(err, ledger.ErrFenced) {
			t.Errorf("%s: %v", name, err)
		}
		if n, fs := h.archived(t, a.run.ID), a.pending(); n != 1 || len(fs) != 1 {
			t.Errorf("%s: %d events, facts %v", name, n, types(fs))
		}
		if r := h.state(t, a.run.ID); r.State != ledger.Running || r.LeaseUntil.IsZero() {
			t.Errorf("%s: run %+v", name, r)
		}
	}
}

func testBarriersAgain(t *testing.T, h Harness) {
	for _, name := range []string{"flush", "park", "hand over", "finish"} {
		a := start(t, h)
		a.note(events.RunFinished{StoppedBy: events.StoppedByFinish})
		barrier := barriersOf(a)[name]
		if err := barrier(a.lease, a.prefix); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before := h.state(t, a.run.ID)
		if err := barrier(a.lease, a.prefix); err != nil {
			t.Errorf("%s again: %v", name, err)
		}
		if d := cmp.Diff(before, h.state(t, a.run.ID)); d != "" || h.archived(t, a.run.ID) != 1 {
			t.Errorf("%s again: %d events, run %s", name, h.archived(t, a.run.ID), d)
		}
		for other, b := range barriersOf(a) {
			if other == name || name == "flush" || name == "finish" && other == "release" {
				continue
			}
			if err := b(a.lease, nil); !errors.Is(err, ledger.ErrFenced) {
				t.Errorf("%s after %s: %v", other, name, err)
			}
		}
	}
}

func testPrefixAgain(t *testing.T, h Harness) {
	a := start(t, h)
	es := a.events(3)
	h.arrive(t, es[1]) // the journal was faster with one of them
	for _, p := range []ledger.Prefix{es[:2], es, es[1:]} {
		if _, err := h.Store.Flush(t.Context(), a.lease, p); err != nil {
			t.Error(err)
		}
	}
	if n := h.archived(t, a.run.ID); n != 3 {
		t.Errorf("%d events", n)
	}
}

// langchain-ai/langgraph#8234
func testPrefixChecks(t *testing.T, h Harness) {
	a, stranger := start(t, h), start(t, h)
	es := a.events(5)
	for name, p := range map[string]ledger.Prefix{
		"of another run":     stranger.events(1),
		"with a gap":         {es[0], es[2]},
		"out of order":       {es[1], es[0]},
		"after a gap":        es[1:],
		"twice the same":     {es[0], es[0]},
		"of a foreign epoch": {},
	} {
		l := a.lease
		if len(p) == 0 {
			b := *a
			b.lease.Epoch++
			b.prefix = nil
			p = b.events(1)
		}
		if _, err := h.Store.Flush(t.Context(), l, p); err == nil || errors.Is(err, ledger.ErrFenced) {
			t.Errorf("%s: %v", name, err)
		}
		if n := h.archived(t, a.run.ID); n != 0 {
			t.Errorf("%s: %d events", name, n)
		}
	}
	h.arrive(t, es[0], es[2])
	if _, err := h.Store.Flush(t.Context(), a.lease, es[3:]); err == nil {
		t.Error("after a gap in the archive: no error")
	}
}

func testFork(t *testing.T, h Harness) {
	a := start(t, h)
	b := *a
	a.note(events.TurnStarted{Turn: 1})
	a.flush()
	b.prefix = nil
	b.note(events.TurnStarted{Turn: 2})
	b.note(events.TurnStarted{Turn: 3})
	if _, err := h.Store.Flush(t.Context(), b.lease, b.prefix); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("error %v, want %v", err, ledger.ErrFenced)
	}
	if n := h.archived(t, a.run.ID); n != 1 {
		t.Errorf("%d events", n)
	}
}

func testParkDecided(t *testing.T, h Harness) {
	for _, reason := range []events.ParkReason{events.ParkInDoubt, events.ParkEffectBusy} {
		a, b := start(t, h), start(t, h)
		in := refund(order(int(testCount.Add(1))))
		key := b.want(ledger.Execute, in).Ref.OpKey
		park := ledger.Parking{Reason: reason, OpKey: key}
		if reason == events.ParkEffectBusy {
			a.parkOn(park)
			if r := h.state(t, a.run.ID); r.State != ledger.Parked || r.ParkKey != key {
				t.Errorf("run %+v", r)
			}
		}
		b.end(in.Token, ledger.Applied)
		c := start(t, h)
		if err := h.Store.Park(t.Context(), c.lease, nil, park); !errors.Is(err, ledger.ErrFactsPending) {
			t.Errorf("%s on what is applied: %v", reason, err)
		}
		park.OpKey = events.Hash{9}
		if err := h.Store.Park(t.Context(), c.lease, nil, park); !errors.Is(err, ledger.ErrFactsPending) {
			t.Errorf("%s on what is not there: %v", reason, err)
		}
	}
}

func testParkFacts(t *testing.T, h Harness) {
	a := start(t, h)
	h.signal(t, a.run.ID, "x")
	park := ledger.Parking{Reason: events.ParkSignal, Detail: "for x"}
	if err := h.Store.Park(t.Context(), a.lease, nil, park); !errors.Is(err, ledger.ErrFactsPending) {
		t.Errorf("error %v, want %v", err, ledger.ErrFactsPending)
	}
	a.absorb(a.pending()...)
	if err := h.Store.Park(t.Context(), a.lease, a.prefix, park); err != nil {
		t.Error(err)
	}
	r := h.state(t, a.run.ID)
	if r.State != ledger.Parked || r.ParkReason != park.Reason || r.ParkDetail != park.Detail || !r.WakeAt.IsZero() || r.ParkedAt.IsZero() {
		t.Errorf("run %+v", r)
	}
}

func testParkNames(t *testing.T, h Harness) {
	a := start(t, h)
	for _, p := range []ledger.Parking{{}, {Reason: events.ParkInDoubt}, {Reason: events.ParkEffectBusy}} {
		if err := h.Store.Park(t.Context(), a.lease, nil, p); err == nil {
			t.Errorf("parked on %+v", p)
		}
	}
}

func testFinish(t *testing.T, h Harness) {
	a := start(t, h)
	end := ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError, Result: json.RawMessage(`{"b":1,"a":2}`), Error: "broken"}
	a.note(events.RunFinished{StoppedBy: events.StoppedByFinish})
	if err := h.Store.Finish(t.Context(), a.lease, a.prefix, end); err == nil {
		t.Fatal("failed, though the history says finished")
	}
	if err := h.Store.Finish(t.Context(), a.lease, nil, ledger.Ending{State: ledger.Parked}); err == nil {
		t.Fatal("parked is no end")
	}
	b := start(t, h)
	b.note(events.RunFailed{StoppedBy: events.StoppedByError})
	if err := h.Store.Finish(t.Context(), b.lease, b.prefix, end); err != nil {
		t.Fatal(err)
	}
	r := h.state(t, b.run.ID)
	if r.State != end.State || r.StoppedBy != end.StoppedBy || r.Error != end.Error || string(r.Result) != `{"a":2,"b":1}` || r.EndedAt.IsZero() || !r.LeaseUntil.IsZero() {
		t.Errorf("run %+v", r)
	}
}

func testFinishRedone(t *testing.T, h Harness) {
	a := start(t, h)
	a.note(events.RunFinished{StoppedBy: events.StoppedByFinish})
	h.arrive(t, a.prefix...) // recorded, and then the worker died
	b := a.successor()
	if b.seq != 1 {
		t.Fatalf("base is %d", b.seq)
	}
	if err := barriersOf(b)["finish"](b.lease, nil); err != nil {
		t.Fatal(err)
	}
	if r := h.state(t, a.run.ID); r.State != ledger.Finished {
		t.Errorf("run is %s", r.State)
	}
}

func testEndStands(t *testing.T, h Harness) {
	a := start(t, h)
	a.finish(ledger.Finished)
	h.signal(t, a.run.ID, "late")
	b := take(t, h, a.run)
	b.absorb(b.facts...)
	if err := h.Store.Finish(t.Context(), b.lease, b.prefix, ledger.Ending{State: ledger.Failed}); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("another end: %v", err)
	}
	if err := h.Store.Park(t.Context(), b.lease, nil, ledger.Parking{Reason: events.ParkSignal}); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("park: %v", err)
	}
	if r := h.state(t, a.run.ID); r.State != ledger.Finished {
		t.Errorf("run is %s", r.State)
	}
}

func testReleaseLive(t *testing.T, h Harness) {
	a := start(t, h)
	if err := h.Store.Release(t.Context(), a.lease, nil); err == nil || errors.Is(err, ledger.ErrFenced) {
		t.Errorf("release of a live run: %v", err)
	}
}

func testCleanAfterBarriers(t *testing.T, h Harness) {
	a := start(t, h)
	a.parkOn(ledger.Parking{Reason: events.ParkTimer, After: time.Second})
	h.Advance(2 * time.Second)
	c := claimOnly(t, h, a.run, "b")
	if c.Kind != ledger.ClaimResume || c.Base.Seq != a.seq || c.Base.Hash != a.prev || len(c.Facts) != 1 {
		t.Fatalf("claim %+v", c)
	}
	// Whoever dies with it leaves it unclean, whatever it had recorded.
	h.Advance(leaseTTL + time.Second)
	if d := claimOnly(t, h, a.run, "c"); d.Kind != ledger.ClaimTakeover {
		t.Errorf("claim %+v", d)
	}
}
