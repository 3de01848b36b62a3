package runtime_test

import (
	"fmt"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// distinct is how many purchases the provider has made: a repeated key is the same one.
func (p *provider) distinct() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.done)
}

// boughtWorld has a team whose lead calls two clerks side by side, each of which buys
// something, with budgets on both levels.
func boughtWorld(t *testing.T, p *provider, told *atomic.Pointer[model.Request]) *world {
	w := newWorld(t, roles{
		"tester": first(told, call("clerk", `{"input":"a"}`), call("clerk", `{"input":"b"}`)),
		"clerk": func(r model.Request) model.Response {
			in := r.Messages[0].Text
			out := answer("pay", fmt.Sprintf(`{"text":%q}`, in))
			if len(r.Messages) > 1 {
				out = answer("finish", fmt.Sprintf(`{"answer":%q}`, "bought "+in))
			}
			out.Usage = events.Usage{Input: 30}
			return out
		},
	}, payInto(p, tools.Definition{Trust: tools.Own, Recovery: tools.Keyed(1 << 40)}))
	w.priced()
	w.team(
		&agents.Agent{
			Name: "tester", Limits: events.Limits{MaxTokens: 100}, Budget: usd(1_000_000 * token),
			Agents: []agents.Callee{{Agent: "clerk", Budget: usd(400_000 * token)}},
		},
		&agents.Agent{Name: "clerk", Description: "Buys.", Limits: events.Limits{MaxTokens: 100}})
	return w
}

// The worker is killed at every event that it records of a lead and its children,
// before it and after it: between Spawn and the child's first event, inside a
// child's purchase, between a child's end and its parent's waking. Another goes on:
// each child is one run, each purchase is made once, nothing is held for anybody
// who has ended, and the budget says what the rows of the lineage add up to.
func TestTeamIsKilledAtEveryEvent(t *testing.T) {
	var p provider
	var told atomic.Pointer[model.Request]
	w := boughtWorld(t, &p, &told)
	inner := w.cfg
	var n atomic.Int64
	w.cfg = func(cfg *runtime.Config) {
		inner(cfg)
		cfg.Journal = killJournal{cutJournal{cfg.Journal, make(chan struct{})}, func() {}, &n, -1, false}
	}
	k := w.start()
	w.wait(w.submit("go").ID, false)
	k.stop(t)
	events := n.Load()
	if events < 20 {
		t.Fatalf("%d events", events)
	}
	step, equal := int64(1), 0
	if testing.Short() {
		step = 4
	}
	for at := int64(1); at <= events; at += step {
		for _, after := range []bool{false, true} {
			w.cfg = inner
			equal += w.killTeamAt(t, inner, at, after, &p, &told)
			if t.Failed() {
				return
			}
		}
	}
	if equal == 0 {
		t.Error("no account was known to the last: the sums say nothing")
	}
	w.whole()
}

// killTeamAt returns how many accounts were known to the last and equal.
func (w *world) killTeamAt(t *testing.T, inner func(*runtime.Config), at int64, after bool, p *provider, told *atomic.Pointer[model.Request]) (equal int) {
	t.Helper()
	w.cfg = func(cfg *runtime.Config) {
		inner(cfg)
		cfg.ShutdownGrace, cfg.Dispatch.EndTimeout = 50*time.Millisecond, 50*time.Millisecond
	}
	before := p.distinct()
	id := w.dies(int(at), after, func() events.RunID { return w.submit("go").ID }, func(id events.RunID, _ func()) bool {
		r, err := w.store.Run(t.Context(), id) // two events may have come at once
		return err == nil && r.State.Ended()
	})
	w.cfg = inner
	heir := w.start()
	defer heir.stop(t)
	r := w.wait(id, false)
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("killed at event %d (after it: %t): %s\n%s", at, after, fmt.Sprintf(format, args...), w.story(id))
	}
	if r.State != ledger.Finished {
		fail("run is %s: %s", r.State, r.Error)
		return 0
	}
	w.caughtUp()
	cs := w.children(id)
	if len(cs) != 2 || p.distinct()-before != 2 {
		fail("%d children, %d purchases, want 2 and 2", len(cs), p.distinct()-before)
	}
	got := results(t, told)
	if !strings.Contains(got[0].Text, "bought a") || !strings.Contains(got[1].Text, "bought b") {
		fail("told %+v", got)
	}
	runs := append(cs, r)
	sum, unknown := w.modelCost(runs...)
	for _, b := range w.budgets() {
		if b.Name != id.String() {
			continue
		}
		// Of an attempt that was cut off the budget may know what the dead worker was
		// told last, or holds what it may have cost; the rows say nothing of it.
		rows := events.PicoUSD(sum.Int64())
		if b.Spent != rows && (unknown == 0 || b.Spent < rows) || b.Reserved != 0 || b.Committed() > *b.Limit {
			fail("the budget says spent %s, reserved %s, unsettled %s of %s, the rows add up to %s and %d are unknown", b.Spent, b.Reserved, b.Unsettled, b.Limit, rows, unknown)
		}
		if unknown == 0 && b.Unsettled == 0 {
			equal++
		}
	}
	rows, err := w.store.Costs(t.Context(), ledger.CostFilter{Run: id, Lineage: true})
	if err != nil || len(rows) != 1 || rows[0].ModelCost == nil || rows[0].ModelCost.Cmp(sum) != 0 {
		fail("costs of the lineage %+v, %v; want %s", rows, err, events.FormatPico(sum))
	}
	if sum.Cmp(big.NewInt(int64(150*token))) < 0 { // 10 and 20 of the lead, twice 30 of each clerk
		fail("the rows add up to %s", events.FormatPico(sum))
	}
	return equal
}

// A call that the lead's budget has no room for is told to its model, and so is a
// child that comes to the end of its own.
func TestBudgetsOfATeam(t *testing.T) {
	var told atomic.Pointer[model.Request]
	w := newWorld(t, roles{
		"tester": first(&told, call("clerk", `{"input":"a"}`), call("spender", `{"input":"b"}`), call("clerk", `{"input":"c"}`)),
		"clerk":  says,
		"spender": func(model.Request) model.Response {
			out := answer("look", `{"text":"x"}`)
			out.Usage = events.Usage{Input: 1_000}
			return out
		},
	}, look(0, nil))
	w.priced()
	w.team(
		&agents.Agent{
			Name: "tester", Limits: events.Limits{MaxTokens: 100}, Budget: usd(1_000_000 * token),
			Agents: []agents.Callee{{Agent: "clerk", Budget: usd(600_000 * token)}, {Agent: "spender", Budget: usd(6_000 * token)}},
		},
		&agents.Agent{Name: "clerk", Description: "Works.", Limits: events.Limits{MaxTokens: 100}},
		&agents.Agent{Name: "spender", Description: "Spends.", Limits: events.Limits{MaxTokens: 100}})
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if r.State != ledger.Finished {
		t.Fatalf("run = %s %s\n%s", r.State, r.Error, w.story(r.ID))
	}
	kinds := map[string]int{}
	for _, e := range w.history(r.ID) {
		if p, ok := e.Data.(events.ToolExecutionError); ok {
			kinds[p.Error.Kind]++
		}
	}
	if kinds[tools.KindBudget] != 1 || kinds["child_budget"] != 1 || len(w.children(r.ID)) != 2 {
		t.Errorf("errors %v, %d children\n%s", kinds, len(w.children(r.ID)), w.story(r.ID))
	}
	refused, spent := false, false
	for _, res := range results(t, &told) {
		refused = refused || strings.Contains(res.Text, "budget of run") && res.Failed && strings.Contains(res.Text, "child run not started")
		spent = spent || strings.Contains(res.Text, "its budget does not allow more")
	}
	if !refused || !spent {
		t.Errorf("told %+v", results(t, &told))
	}
	w.caughtUp()
	sum, _ := w.modelCost(append(w.children(r.ID), r)...)
	for _, b := range w.budgets() {
		if b.Name == r.ID.String() && (b.Spent != events.PicoUSD(sum.Int64()) || b.Reserved+b.Unsettled != 0) {
			t.Errorf("the lead's budget says %+v, the rows %s", b, events.FormatPico(sum))
		}
		if b.Committed() > *b.Limit {
			t.Errorf("exceeded: %+v", b)
		}
	}
	w.whole()
}

// A run is bound to what its calls could spend when it started; a file that gives
// more does not give it to what is under way, one that gives less takes it.
func TestCallBudgetIsFrozen(t *testing.T) {
	for _, now := range []int64{900_000, 100_000} {
		t.Run(fmt.Sprint(now), func(t *testing.T) {
			w := newWorld(t, roles{
				"tester": lines(one("pay", `{"text":"x"}`), one("clerk", `{"input":"a"}`)), "clerk": says,
			}, payInto(new(provider), tools.Definition{Approval: true}))
			inner := w.cfg
			team := func(budget int64) {
				w.cfg = inner
				w.team(&agents.Agent{Name: "tester", Agents: []agents.Callee{{Agent: "clerk", Budget: usd(events.PicoUSD(budget) * token)}}},
					&agents.Agent{Name: "clerk", Description: "Works."})
			}
			team(500_000)
			first := w.start()
			r := w.submit("go")
			a := w.asked(r.ID)
			first.stop(t)
			team(now)
			w.start()
			w.decide(a.ID, true)
			w.wait(r.ID, false)
			want := events.PicoUSD(min(now, 500_000)) * token
			if p := last[events.ChildStarted](w, r.ID); p.Budget == nil || *p.Budget != want {
				t.Errorf("with %d in the file now the child has %v, want %s", now, p.Budget, want)
			}
		})
	}
}

// Cancelling a tree returns everything that was held in it.
func TestCancelledTeamReturnsWhatWasHeld(t *testing.T) {
	w := newWorld(t, roles{
		"tester": first(nil, call("middle", `{"input":"a"}`), call("middle", `{"input":"b"}`)),
		"middle": lines(one("below", `{"input":"a"}`)), "below": lines(one("pay", `{"text":"x"}`)),
	}, payInto(new(provider), tools.Definition{Approval: true}))
	w.priced()
	w.team(
		&agents.Agent{Name: "tester", Limits: events.Limits{MaxTokens: 100}, Budget: usd(1_000_000 * token), Agents: []agents.Callee{{Agent: "middle", Budget: usd(400_000 * token)}}},
		&agents.Agent{Name: "middle", Description: "Passes on.", Limits: events.Limits{MaxTokens: 100}, Agents: []agents.Callee{{Agent: "below", Budget: usd(200_000 * token)}}},
		&agents.Agent{Name: "below", Description: "Pays.", Limits: events.Limits{MaxTokens: 100}})
	k := w.start()
	id := w.submit("go").ID
	w.parkedFor(id, events.ParkChild)
	all := w.children(id)
	for _, c := range w.children(id) {
		w.parkedFor(c.ID, events.ParkChild)
		for _, d := range w.children(c.ID) {
			w.parkedFor(d.ID, events.ParkApproval)
			all = append(all, d)
		}
	}
	k.stop(t) // whoever cancels it is another
	if _, err := w.client().Cancel(t.Context(), id, "ann", "enough"); err != nil {
		t.Fatal(err)
	}
	w.start()
	for _, r := range append(all, ledger.Run{ID: id}) {
		if r := w.wait(r.ID, false); r.State != ledger.Cancelled {
			t.Errorf("run %s = %s\n%s", r.ID, r.State, w.story(r.ID))
		}
	}
	if len(all) != 4 {
		t.Errorf("%d runs below the lead, want 4", len(all))
	}
	for _, b := range w.budgets() {
		if b.Reserved+b.Unsettled != 0 {
			t.Errorf("held after all: %+v", b)
		}
	}
	w.whole()
}
