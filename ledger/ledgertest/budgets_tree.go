package ledgertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func testBudgetOfChild(t *testing.T, h Harness) {
	root := start(t, h)
	child := start(t, h, childOf(root.run), withBudget(10))
	grandchild := start(t, h, childOf(child.run))
	sibling := start(t, h, childOf(root.run))
	below := start(t, h, childOf(grandchild.run))
	grandchild.mustReserve(1, 4)
	below.mustReserve(1, 5)
	h.amounts(t, runBudget(child.run), 0, 9, 0)
	for name, a := range map[string]*actor{"the child": child, "its child": grandchild, "the child of that": below} {
		if _, _, err := a.reserve(2, 2); !errors.Is(err, ledger.ErrBudget) {
			t.Errorf("%s spends beside the child's budget: %v", name, err)
		}
	}
	for name, a := range map[string]*actor{"its parent": root, "its sibling": sibling} {
		if _, held, err := a.reserve(2, 200); held || err != nil {
			t.Errorf("%s counts against a child's budget: held %v, %v", name, held, err)
		}
	}
	// One that is set later on a run in the middle holds from then on.
	setBudget(t, h, runBudget(grandchild.run), 3)
	if _, _, err := below.reserve(3, 4); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("beside the budget of its parent: %v", err)
	}
	below.mustReserve(3, 1)
	h.amounts(t, runBudget(grandchild.run), 0, 1, 0)
	h.amounts(t, runBudget(child.run), 0, 10, 0)
	// A priced effect reserves in all of them too.
	if v := below.want(ledger.Refused, refund(reserving(1))); v.Detail != ledger.DetailBudget {
		t.Errorf("verdict %+v", v)
	}
	// Who tries the child again, or is forked from it, goes on under its budget.
	for name, column := range map[string]string{"a further attempt": "retry_of", "a fork": "fork_of"} {
		again := start(t, h, func(s *ledger.Submission) { s.Root = root.run.ID })
		h.sql(t, `UPDATE runs SET `+column+` = $2 WHERE id = $1`, again.run.ID, child.run.ID)
		if _, _, err := again.reserve(1, 1); !errors.Is(err, ledger.ErrBudget) {
			t.Errorf("%s spends beside the budget: %v", name, err)
		}
	}
}

// testBudgetTree lets the runs of a tree spend at the same time, with budgets on
// some of them, on their owner and for the day, while workers die and what they
// held is settled by others. Whatever they do, no budget is ever exceeded, and at
// the end each one holds what the runs below it have spent.
func testBudgetTree(t *testing.T, h Harness) {
	random := rand.New(rand.NewPCG(3, 9))
	setBudget(t, h, ownerBudget("ann", ledger.PerDay), 2500)
	limits := map[events.RunID]events.PicoUSD{}
	parents := map[events.RunID]events.RunID{}
	var actors []*actor
	for i := range 9 {
		opts := []submitOption{ownedBy("ann")}
		var parent events.RunID
		if i > 0 {
			of := actors[random.IntN(min(i, 5))].run
			opts = append(opts, childOf(of))
			parent = of.ID
		}
		var limit events.PicoUSD
		if i%3 != 2 { // some have none
			limit = events.PicoUSD(300 + random.IntN(500))
			opts = append(opts, withBudget(limit))
		}
		a := start(t, h, opts...)
		actors = append(actors, a)
		if limit > 0 {
			limits[a.run.ID] = limit
		}
		parents[a.run.ID] = parent
	}
	var keys []ledger.BudgetKey
	for _, a := range actors {
		if limits[a.run.ID] > 0 {
			keys = append(keys, runBudget(a.run))
		}
	}
	keys = append(keys, ownerBudget("ann", ledger.PerDay))
	check := func() {
		for _, k := range keys {
			if b := h.budget(t, k); b.Committed() > *b.Limit || b.Spent < 0 || b.Reserved < 0 || b.Unsettled < 0 {
				t.Errorf("budget of %s: %+v", k, b)
			}
		}
	}
	var mu sync.Mutex
	spent := map[events.RunID]events.PicoUSD{} // by the run itself
	open := map[events.RunID]events.PicoUSD{}
	refused := map[ledger.BudgetKind]int{}
	var turn atomic.Int64
	together(len(actors), func(i int) {
		a, random := actors[i], rand.New(rand.NewPCG(uint64(i), 11))
		for range 15 {
			amount := events.PicoUSD(1 + random.IntN(90))
			id, held, err := a.reserve(int(turn.Add(1)), amount)
			if over := (*ledger.BudgetError)(nil); errors.As(err, &over) {
				mu.Lock()
				refused[over.Budget.Kind]++
				mu.Unlock()
				continue
			}
			if err != nil || !held {
				t.Errorf("reserve: held %v, %v", held, err)
				return
			}
			actual := events.PicoUSD(random.Int64N(int64(amount) + 1))
			told := &actual
			if random.IntN(4) == 0 {
				told, actual = nil, 0
			}
			if err := h.Store.Settle(t.Context(), id, told); err != nil {
				t.Error(err)
			}
			mu.Lock()
			spent[a.run.ID] += actual
			if told == nil {
				open[a.run.ID] += amount
			}
			mu.Unlock()
			check()
		}
	})
	if refused[ledger.BudgetRun] == 0 {
		t.Errorf("no cap was reached: the property says nothing (%v)", refused)
	}
	for _, a := range actors {
		if limits[a.run.ID] == 0 {
			continue
		}
		var s, u events.PicoUSD
		for _, b := range actors {
			for id := b.run.ID; !id.IsZero(); id = parents[id] {
				if id == a.run.ID {
					s, u = s+spent[b.run.ID], u+open[b.run.ID]
				}
			}
		}
		t.Run(fmt.Sprintf("budget of %s", a.run.ID), func(t *testing.T) { h.amounts(t, runBudget(a.run), s, 0, u) })
	}
}

// testLimitBeforeChildren: a script calls agents and no model, so nothing makes its
// own budget before them.
func testLimitBeforeChildren(t *testing.T, h Harness) {
	a := start(t, h)
	limit := events.PicoUSD(50)
	limited := func(h *ledger.Handoff) { h.RunLimit = &limit }
	for i := range 10 {
		want := error(nil)
		if i >= 2 {
			want = ledger.ErrBudget
		}
		if _, err := a.call(i, 20, "own", limited); !errors.Is(err, want) {
			t.Errorf("call %d: %v, want %v", i, err, want)
		}
	}
	h.amounts(t, runBudget(a.run), 0, 40, 0)
	if got := h.budget(t, runBudget(a.run)); got.SetBy != "agent clerk" || *got.Limit != 50 {
		t.Errorf("budget made by the agent: %+v", got)
	}
	if n := h.count(t, `SELECT count(*) FROM runs WHERE parent_id = $1`, a.run.ID); n != 2 {
		t.Errorf("%d children", n)
	}
	h.sound(t)
	// A child without a budget of its own, started by another process, counts against it too.
	b := start(t, h)
	in := ledger.Submission{Agent: "clerk", Queue: "limited-" + b.run.Queue, ClientKey: "limited/" + b.run.ID.String(), Input: mustSeal(t, 1), InputMAC: []byte("mac")}
	child, _, err := h.Store.Spawn(t.Context(), b.lease, b.prefix, in, b.handoff(limited, func(h *ledger.Handoff) { h.For = 0 }))
	if err != nil {
		t.Fatal(err)
	}
	c := take(t, h, child)
	c.mustReserve(1, 50)
	if _, _, err := c.reserve(2, 1); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("the child spends more than its parent may: %v", err)
	}
}
