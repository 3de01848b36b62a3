package ledgertest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var inSessionScope = scope(ledger.ScopeSession, 0)

// waiting parks a new run on an effect that another run holds.
func waiting(t *testing.T, h Harness) *actor {
	t.Helper()
	b := start(t, h, inSession("s"))
	v := b.want(ledger.Busy, refund(inSessionScope))
	if err := b.park(events.ParkEffectBusy, v.Ref.OpKey); err != nil {
		t.Fatal(err)
	}
	return b
}

func testWaiters(t *testing.T, h Harness) {
	for name, decide := range map[string]func(a *actor, v ledger.Verdict){
		"applied":     func(a *actor, v ledger.Verdict) { a.end(v.Ref.Token, ledger.Applied) },
		"not applied": func(a *actor, v ledger.Verdict) { a.end(v.Ref.Token, ledger.NotApplied) },
		"late": func(a *actor, v ledger.Verdict) {
			a.end(v.Ref.Token, ledger.Unclear)
			a.end(v.Ref.Token, ledger.Applied)
		},
		"resolved": func(a *actor, v ledger.Verdict) {
			a.end(v.Ref.Token, ledger.Unclear)
			mustResolve(t, h, v.Ref.OpKey, events.EffectAbandoned, force)
		},
	} {
		a := start(t, h, inSession(name))
		mine := func(in *ledger.Intent) { inSessionScope(in) }
		v := a.want(ledger.Execute, refund(mine))
		var bs []*actor
		for range 2 {
			b := start(t, h, inSession(name))
			w := b.want(ledger.Busy, refund(mine))
			if err := b.park(events.ParkEffectBusy, w.Ref.OpKey); err != nil {
				t.Fatal(err)
			}
			if tryTake(t, h, b.run) != nil {
				t.Fatalf("%s: a waiting run was claimed", name)
			}
			bs = append(bs, b)
		}
		decide(a, v)
		for _, b := range bs {
			fs := b.pending()
			if len(fs) != 1 {
				t.Fatalf("%s: facts %v", name, types(fs))
			}
			if p := payload[events.RunUnparked](t, &fs[0]); p.OpKey != v.Ref.OpKey || p.Reason != events.ParkEffectBusy {
				t.Errorf("%s: %+v", name, p)
			}
			if tryTake(t, h, b.run) == nil {
				t.Errorf("%s: the woken run cannot be claimed", name)
			}
		}
		if bs[0].pending()[0].ID == bs[1].pending()[0].ID {
			t.Errorf("%s: two runs share a wake-up", name)
		}
		for _, f := range a.pending() {
			if f.Type == "run_unparked" {
				t.Errorf("%s: the run that is told was woken as well", name)
			}
		}
	}
	// The run that owns the effect gets the outcome itself.
	own, w := doubtful(t, h)
	if err := own.park(events.ParkInDoubt, w.Ref.OpKey); err != nil {
		t.Fatal(err)
	}
	own.end(w.Ref.Token, ledger.Applied)
	if got := types(own.pending()); !cmp.Equal(got, []events.Type{"effect_resolved"}) {
		t.Errorf("the owner is told: %v", got)
	}
	// Unclear decides nothing, so nobody is woken.
	a := start(t, h, inSession("s"))
	v := a.want(ledger.Execute, refund(inSessionScope))
	b := waiting(t, h)
	a.end(v.Ref.Token, ledger.Unclear)
	if fs := b.pending(); len(fs) != 0 {
		t.Errorf("woken by nothing: %v", types(fs))
	}
}

// langchain-ai/langgraph#8039
func testNoLostWakeUp(t *testing.T, h Harness) {
	// Decided first: then Park refuses to wait.
	a := start(t, h, inSession("s"))
	v := a.want(ledger.Execute, refund(inSessionScope))
	b := start(t, h, inSession("s"))
	b.want(ledger.Busy, refund(inSessionScope))
	a.end(v.Ref.Token, ledger.Applied)
	wantError(t, b.park(events.ParkEffectBusy, v.Ref.OpKey), ledger.ErrFactsPending)
	b.want(ledger.Replay, refund(inSessionScope))

	// Both at once: whoever is first, the run does not sleep on.
	for i := range 20 {
		mine := []func(*ledger.Intent){inSessionScope, order(100 + i)}
		a := start(t, h, inSession("s"))
		in := refund(mine...)
		v := a.want(ledger.Execute, in)
		b := start(t, h, inSession("s"))
		b.want(ledger.Busy, refund(mine...))
		b.flush()
		var group sync.WaitGroup
		var parked error
		group.Go(func() {
			parked = h.Store.Park(t.Context(), b.lease, b.prefix, ledger.Parking{Reason: events.ParkEffectBusy, OpKey: v.Ref.OpKey})
		})
		group.Go(func() {
			if _, err := h.Store.End(t.Context(), a.lease, nil, outcome(in.Token, ledger.Applied)); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		switch {
		case parked == nil:
			if fs := b.pending(); len(fs) != 1 || fs[0].Type != "run_unparked" {
				t.Fatalf("parked and never woken: %v", types(fs))
			}
		case !errors.Is(parked, ledger.ErrFactsPending):
			t.Fatal(parked)
		}
	}
}

// atOnce begins the same effect from many runs and counts the verdicts.
func atOnce(t *testing.T, h Harness, n int, intent func() ledger.Intent) (counts map[ledger.VerdictKind]int, winner ledger.Verdict) {
	t.Helper()
	as := make([]*actor, n)
	for i := range as {
		as[i] = start(t, h)
	}
	verdicts := make([]ledger.Verdict, n)
	var group sync.WaitGroup
	for i, a := range as {
		group.Go(func() {
			v, err := h.Store.Begin(t.Context(), a.lease, nil, intent())
			if err != nil {
				t.Error(err)
			}
			verdicts[i] = v
		})
	}
	group.Wait()
	counts = map[ledger.VerdictKind]int{}
	for _, v := range verdicts {
		counts[v.Kind]++
		if v.Kind == ledger.Execute {
			winner = v
		}
	}
	return counts, winner
}

func testOneOfMany(t *testing.T, h Harness) {
	intent := func() ledger.Intent { return refund(scope(ledger.ScopeTenant, time.Hour)) }
	counts, _ := atOnce(t, h, 32, intent)
	if want := (map[ledger.VerdictKind]int{ledger.Execute: 1, ledger.Busy: 31}); !cmp.Equal(counts, want) {
		t.Errorf("verdicts: %v", counts)
	}
}

func testOneOfManyGenerations(t *testing.T, h Harness) {
	intent := func() ledger.Intent { return refund(scope(ledger.ScopeTenant, time.Hour)) }
	a := start(t, h)
	in := intent()
	a.want(ledger.Execute, in)
	a.end(in.Token, ledger.Applied)
	h.Advance(2 * time.Hour)
	counts, winner := atOnce(t, h, 16, intent)
	if want := (map[ledger.VerdictKind]int{ledger.Execute: 1, ledger.Busy: 15}); !cmp.Equal(counts, want) || winner.Ref.Generation != 2 {
		t.Errorf("verdicts: %v, winner %+v", counts, winner.Ref)
	}
}

func testListEffects(t *testing.T, h Harness) {
	_, err := h.Store.Attempts(t.Context(), events.Hash{1})
	wantError(t, err, ledger.ErrNotFound)
	a := start(t, h, ofTenant("globex"))
	var keys []events.Hash
	for i := range 5 {
		in := refund(order(i), call(i+1, 0))
		keys = append(keys, a.want(ledger.Execute, in).Ref.OpKey)
		if i%2 == 0 {
			a.end(in.Token, ledger.Unclear)
		}
		h.Advance(time.Second)
	}
	start(t, h).want(ledger.Execute, refund())
	list := func(f ledger.EffectFilter) (got []events.Hash) {
		t.Helper()
		es, err := h.Store.Effects(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			got = append(got, e.OpKey)
		}
		return got
	}
	inDoubt := []events.EffectState{events.EffectInDoubt}
	for name, c := range map[string]struct {
		filter ledger.EffectFilter
		want   []events.Hash
	}{
		"by tenant":   {ledger.EffectFilter{Tenant: "globex"}, keys},
		"by run":      {ledger.EffectFilter{Run: a.run.ID}, keys},
		"by state":    {ledger.EffectFilter{Tenant: "globex", States: inDoubt}, []events.Hash{keys[0], keys[2], keys[4]}},
		"first page":  {ledger.EffectFilter{Tenant: "globex", Limit: 2}, keys[:2]},
		"second page": {ledger.EffectFilter{Tenant: "globex", Limit: 2, After: keys[1]}, keys[2:4]},
		"last page":   {ledger.EffectFilter{Tenant: "globex", States: inDoubt, After: keys[2]}, keys[4:]},
		"nobody's":    {ledger.EffectFilter{Tenant: "nobody"}, nil},
	} {
		if got := list(c.filter); !cmp.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	e := effect(t, h, keys[0])
	as, err := h.Store.Attempts(t.Context(), keys[0])
	if err != nil || len(as) != 1 {
		t.Fatalf("attempts: %+v %v", as, err)
	}
	if as[0].Token != e.Token || as[0].Outcome != ledger.Unclear || as[0].Error == "" || as[0].Run != a.run.ID || as[0].Epoch != a.lease.Epoch {
		t.Errorf("attempt: %+v", as[0])
	}
	if e.Tool != "refund" || e.Attempts != 1 || !e.Deadline.Equal(as[0].Deadline) || e.QuiescentIn <= 0 || e.ScopeKey != a.run.Root.String() {
		t.Errorf("effect: %+v", e)
	}
}
