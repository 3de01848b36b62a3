package ledgertest

import (
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// pricedDoubt is a priced effect in doubt: its attempt never came back, or came
// back without an answer.
func pricedDoubt(t *testing.T, h Harness, crashed bool, opts ...func(*ledger.Intent)) (*actor, ledger.Intent, events.Hash) {
	t.Helper()
	a := start(t, h, withBudget(20))
	in := refund(append(opts, reserving(6))...)
	v := a.want(ledger.Execute, in)
	if crashed {
		a = a.successor()
	} else {
		a.end(in.Token, ledger.Unclear)
	}
	h.amounts(t, runBudget(a.run), 0, 0, 6)
	return a, in, v.Ref.OpKey
}

func testResolutionSettles(t *testing.T, h Harness) {
	for _, crashed := range []bool{true, false} {
		for _, c := range []struct {
			name             string
			state            events.EffectState
			opts             []func(*ledger.Resolution)
			loud             bool // resolved while an attempt may still act
			spent, unsettled events.PicoUSD
		}{
			{"applied, at its price", events.EffectApplied, nil, false, 6, 0},
			{"applied needs no quiet", events.EffectApplied, nil, true, 6, 0},
			{"not applied costs nothing", events.EffectNotApplied, nil, false, 0, 0},
			{"not applied, forced while it may act: nobody knows", events.EffectNotApplied, []func(*ledger.Resolution){force}, true, 0, 6},
			{"given up: nobody knows", events.EffectAbandoned, nil, false, 0, 6},
		} {
			t.Run(c.name, func(t *testing.T) {
				a, _, key := pricedDoubt(t, h, crashed)
				if !c.loud {
					quiet(t, h, key)
				}
				mustResolve(t, h, key, c.state, c.opts...)
				h.amounts(t, runBudget(a.run), c.spent, 0, c.unsettled)
			})
		}
	}
	// Without a budget there is nothing to settle.
	a := start(t, h)
	in := refund(reserving(6))
	v := a.want(ledger.Execute, in)
	a.end(in.Token, ledger.Unclear)
	mustResolve(t, h, v.Ref.OpKey, events.EffectApplied)
}

func testResolutionAndEvidence(t *testing.T, h Harness) {
	// Late evidence corrects what was concluded from a resolution.
	a, in, key := pricedDoubt(t, h, true)
	mustResolve(t, h, key, events.EffectApplied)
	cost := events.PicoUSD(4)
	out := outcome(in.Token, ledger.Applied)
	out.Result.Cost = &cost
	if _, err := h.Store.End(t.Context(), a.lease, nil, out); err != nil {
		t.Fatal(err)
	}
	h.amounts(t, runBudget(a.run), 4, 0, 0)
	// What a person read from an invoice stands against a resolution without a cost.
	b, _, key := pricedDoubt(t, h, true)
	if _, err := h.Store.SettleBy(t.Context(), h.open(t, b.run), 3, "ada"); err != nil {
		t.Fatal(err)
	}
	quiet(t, h, key)
	mustResolve(t, h, key, events.EffectNotApplied)
	h.amounts(t, runBudget(b.run), 3, 0, 0)
	// What is given up is settled by hand, like anything that nobody knows.
	c, _, key := pricedDoubt(t, h, false)
	quiet(t, h, key)
	mustResolve(t, h, key, events.EffectAbandoned)
	if _, err := h.Store.SettleBy(t.Context(), h.open(t, c.run), 5, "ada"); err != nil {
		t.Fatal(err)
	}
	h.amounts(t, runBudget(c.run), 5, 0, 0)
}

// open is the only attempt of a run that is not settled.
func (h Harness) open(t tb, r ledger.Run) events.ID {
	t.Helper()
	os, err := h.Store.OpenReservations(t.Context(), ledger.BudgetFilter{Kind: ledger.BudgetRun, Name: r.ID.String()})
	if err != nil || len(os) != 1 {
		t.Fatalf("open reservations %+v, %v", os, err)
	}
	return os[0].Attempt
}

func testProbeCost(t *testing.T, h Harness) {
	a, _, key := pricedDoubt(t, h, true, recovery(ledger.RecoveryProbe))
	cost := events.PicoUSD(2)
	mustResolve(t, h, key, events.EffectApplied, byProbe(a.lease), func(r *ledger.Resolution) {
		r.Result = events.ToolResult{Status: "completed", Cost: &cost}
	})
	h.amounts(t, runBudget(a.run), 2, 0, 0)
	b, _, key := pricedDoubt(t, h, true, recovery(ledger.RecoveryProbe))
	h.Advance(effect(t, h, key).QuiescentIn)
	b = take(t, h, b.run)
	mustResolve(t, h, key, events.EffectNotApplied, byProbe(b.lease))
	h.amounts(t, runBudget(b.run), 0, 0, 0)
}

func testResolutionOfAttempts(t *testing.T, h Harness) {
	for state, want := range map[events.EffectState][2]events.PicoUSD{
		events.EffectApplied:    {6, 6}, // the later one at its price; nobody knows whether the earlier one was billed
		events.EffectNotApplied: {0, 0},
		events.EffectAbandoned:  {0, 12},
	} {
		a, _, key := pricedDoubt(t, h, false, recovery(ledger.RecoveryFenced))
		again := refund(recovery(ledger.RecoveryFenced), reserving(6))
		a.want(ledger.Execute, again)
		a.end(again.Token, ledger.Unclear)
		quiet(t, h, key)
		mustResolve(t, h, key, state)
		h.amounts(t, runBudget(a.run), want[0], 0, want[1])
	}
}

func unpriced(refuse bool) func(*ledger.Intent) {
	return func(in *ledger.Intent) { in.Unpriced, in.RefuseUnpriced = true, refuse }
}

func testUnpricedEffect(t *testing.T, h Harness) {
	a := start(t, h, withBudget(10))
	if v := a.want(ledger.Refused, refund(ask, unpriced(true))); v.Detail != ledger.DetailUnpriced || v.Text == "" {
		t.Errorf("verdict %+v", v)
	}
	if n := h.count(t, `SELECT count(*) FROM approvals`); n != 0 || effectsOf(t, h, a.run.ID) != 0 {
		t.Errorf("%d people were asked about what is refused, %d effects", n, effectsOf(t, h, a.run.ID))
	}
	told, untold, doubt := refund(unpriced(false)), refund(unpriced(false), order(8), call(2, 0)), refund(unpriced(false), order(9), call(3, 0))
	for i, in := range []ledger.Intent{told, untold, doubt} {
		a.want(ledger.Execute, in)
		if b := h.budget(t, runBudget(a.run)); b.Unpriced != int64(i+1) || b.Committed() != 0 {
			t.Errorf("budget %+v", b)
		}
	}
	cost := events.PicoUSD(4)
	out := outcome(told.Token, ledger.Applied)
	out.Result.Cost = &cost
	if _, err := h.Store.End(t.Context(), a.lease, nil, out); err != nil {
		t.Fatal(err)
	}
	if b := h.budget(t, runBudget(a.run)); b.Unpriced != 2 || b.Spent != 4 {
		t.Errorf("budget %+v", b)
	}
	a.end(untold.Token, ledger.Applied)
	a.end(doubt.Token, ledger.Unclear)
	if b := h.budget(t, runBudget(a.run)); b.Unpriced != 2 || b.Committed() != 4 {
		t.Errorf("budget %+v", b)
	}
	// A resolution that knows no cost leaves it unpriced; what was made once is
	// handed back whatever the policy says now.
	es, err := h.Store.Effects(t.Context(), ledger.EffectFilter{Run: a.run.ID, States: []events.EffectState{events.EffectInDoubt}})
	if err != nil || len(es) != 1 {
		t.Fatalf("in doubt: %+v, %v", es, err)
	}
	mustResolve(t, h, es[0].OpKey, events.EffectApplied)
	if b := h.budget(t, runBudget(a.run)); b.Unpriced != 2 || b.Committed() != 4 {
		t.Errorf("budget %+v", b)
	}
	a.want(ledger.Replay, refund(unpriced(true), call(4, 0)))
}
