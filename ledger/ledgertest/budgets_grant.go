package ledgertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// call starts a child with a budget for the index-th call of turn 1.
func (a *actor) call(index int, budget events.PicoUSD, trust string, opts ...func(*ledger.Handoff)) (ledger.Run, error) {
	in := ledger.Submission{
		Agent: "clerk", Queue: fmt.Sprintf("children-%d", testCount.Add(1)), ClientKey: fmt.Sprintf("child/%s/%d", a.run.ID, index),
		Input: mustSeal(a.t, map[string]int{"part": index}), InputMAC: []byte("mac"), Budget: &budget,
	}
	h := a.handoff(append(opts, at(index), func(h *ledger.Handoff) { h.Tool, h.For, h.Trust = "clerk", 0, trust })...)
	child, fs, err := a.h.Store.Spawn(a.t.Context(), a.lease, a.prefix, in, h)
	if err == nil {
		a.prefix = nil
		a.absorb(fs...)
	}
	return child, err
}

func (a *actor) mustCall(index int, budget events.PicoUSD) *actor {
	a.t.Helper()
	child, err := a.call(index, budget, "own")
	if err != nil {
		a.t.Fatalf("call with a budget of %d: %v", budget, err)
	}
	return take(a.t, a.h, child)
}

func (a *actor) done() {
	a.t.Helper()
	a.endAs(ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish, Result: json.RawMessage(`"done"`), Own: true})
}

// sound checks that every account says what its rows say, and that what is left of
// each grant and what is drawn from it is what was granted.
func (h Harness) sound(t tb) {
	t.Helper()
	for what, q := range map[string]string{
		"accounts differ from their rows": `SELECT count(*) FROM budget_periods p WHERE
			p.held_pico <> (SELECT coalesce(sum(r.amount_pico), 0) FROM budget_reservations r WHERE r.budget_id = p.budget_id AND r.day = p.day AND r.state <> 'settled')
			OR p.spent_pico <> (SELECT coalesce(sum(r.actual_pico), 0) FROM budget_reservations r WHERE r.budget_id = p.budget_id AND r.day = p.day AND r.state = 'settled')`,
		"rows draw from a grant that is not open": `SELECT count(*) FROM budget_reservations r WHERE r.drawn_from IS NOT NULL AND NOT EXISTS
			(SELECT 1 FROM budget_reservations g WHERE g.attempt_id = r.drawn_from AND g.budget_id = r.budget_id AND g.child_id IS NOT NULL AND g.state = 'reserved')`,
		"budgets are exceeded": `SELECT count(*) FROM budget_periods p JOIN budgets b ON b.id = p.budget_id WHERE p.spent_pico + p.held_pico > b.limit_pico`,
	} {
		if n := h.count(t, q); n != 0 {
			t.Errorf("%d %s", n, what)
		}
	}
}

// granted checks that the grants for a child hold, with what is drawn from them, an amount.
func (h Harness) granted(t tb, child ledger.Run, amount events.PicoUSD) {
	t.Helper()
	n := h.count(t, `SELECT count(*) FROM budget_reservations g WHERE g.child_id = $1 AND g.state = 'reserved' AND $2 <>
		g.amount_pico + (SELECT coalesce(sum(r.drawn_pico), 0) FROM budget_reservations r WHERE r.drawn_from = g.attempt_id AND r.budget_id = g.budget_id)`,
		child.ID, int64(amount))
	if n != 0 {
		t.Errorf("%d grants of run %s do not add up to %d", n, child.ID, amount)
	}
}

func testGrant(t *testing.T, h Harness) {
	a := start(t, h, withBudget(10), ownedBy("ann"))
	setBudget(t, h, ownerBudget("ann", ledger.PerTotal), 100)
	child := a.mustCall(0, 6)
	h.amounts(t, runBudget(a.run), 0, 6, 0)
	h.amounts(t, runBudget(child.run), 0, 0, 0)
	h.amounts(t, ownerBudget("ann", ledger.PerTotal), 0, 0, 0) // it counts what is spent
	if _, _, err := a.reserve(1, 5); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("the parent spends what it gave: %v", err)
	}
	var over *ledger.BudgetError
	if _, err := a.call(1, 5, "own"); !errors.As(err, &over) || over.Budget != runBudget(a.run) || over.Committed != 6 || over.Wanted != 5 {
		t.Errorf("it gives more than is left: %v", err)
	}
	if n := h.count(t, `SELECT count(*) FROM runs WHERE parent_id = $1`, a.run.ID) + h.count(t, `SELECT count(*) FROM handoffs`); n != 2 {
		t.Errorf("%d children and hand-offs, want one each", n)
	}
	again := a.mustCallAgain(0, 6)
	if again.ID != child.run.ID {
		t.Errorf("called again: run %s, want %s", again.ID, child.run.ID)
	}
	first := child.mustReserve(1, 4)
	h.amounts(t, runBudget(a.run), 0, 6, 0) // 4 of it are the child's attempt
	h.amounts(t, runBudget(child.run), 0, 4, 0)
	h.amounts(t, ownerBudget("ann", ledger.PerTotal), 0, 4, 0)
	if _, _, err := child.reserve(2, 3); !errors.As(err, &over) || over.Budget != runBudget(child.run) {
		t.Errorf("the child spends more than it was given: %v", err)
	}
	child.settle(first, 1)
	h.amounts(t, runBudget(a.run), 1, 5, 0)
	h.granted(t, child.run, 6)
	h.sound(t)
	lost := child.mustReserve(3, 2)
	if err := h.Store.Settle(t.Context(), lost, nil); err != nil {
		t.Fatal(err)
	}
	// A person does not settle what a run still spends.
	os, err := h.Store.OpenReservations(t.Context(), ledger.BudgetFilter{Kind: ledger.BudgetRun, Name: a.run.ID.String()})
	if err != nil || len(os) != 2 || os[0].Child != child.run.ID || os[0].Amount != 3 {
		t.Errorf("open: %+v, %v", os, err)
	} else if _, err := h.Store.SettleBy(t.Context(), os[0].Attempt, 0, "ada"); !errors.Is(err, ledger.ErrNotQuiescent) {
		t.Errorf("settled by hand: %v", err)
	}
	child.done()
	h.amounts(t, runBudget(a.run), 1, 0, 2) // what is left is back
	h.amounts(t, ownerBudget("ann", ledger.PerTotal), 1, 0, 2)
	h.sound(t)
	a.mustReserve(9, 7)
	child.settle(lost, 1)
	h.amounts(t, runBudget(a.run), 2, 7, 0)
	h.sound(t)
}

func (a *actor) mustCallAgain(index int, budget events.PicoUSD) ledger.Run {
	a.t.Helper()
	run, err := a.call(index, budget, "own")
	if err != nil {
		a.t.Fatalf("call again: %v", err)
	}
	return run
}

func testGrantInGrant(t *testing.T, h Harness) {
	root := start(t, h, withBudget(20))
	child := root.mustCall(0, 10)
	deep := child.mustCall(0, 4)
	plain := take(t, h, deep.mustSpawn(1)) // one without a budget of its own
	h.amounts(t, runBudget(root.run), 0, 10, 0)
	h.amounts(t, runBudget(child.run), 0, 4, 0)
	if _, err := deep.call(2, 5, "own"); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("a child gives more than it has: %v", err)
	}
	id := plain.mustReserve(1, 3)
	kept := deep.mustReserve(1, 1)
	h.amounts(t, runBudget(root.run), 0, 10, 0)
	h.amounts(t, runBudget(child.run), 0, 4, 0)
	h.amounts(t, runBudget(deep.run), 0, 4, 0)
	if _, _, err := child.reserve(1, 7); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("the middle spends what it gave: %v", err)
	}
	child.mustReserve(2, 6)
	plain.settle(id, 2)
	h.amounts(t, runBudget(root.run), 2, 8, 0)
	h.amounts(t, runBudget(child.run), 2, 8, 0)
	h.sound(t)
	plain.done()
	deep.done() // it still holds 1, and gives 1 back to the middle
	h.amounts(t, runBudget(child.run), 2, 7, 0)
	h.amounts(t, runBudget(root.run), 2, 8, 0)
	h.granted(t, child.run, 10)
	h.sound(t)
	deep.settle(kept, 0)
	h.amounts(t, runBudget(child.run), 2, 6, 0)
	h.amounts(t, runBudget(root.run), 2, 8, 0)
	h.granted(t, child.run, 10)
	child.absorb(child.pending()...)
	child.done()
	h.amounts(t, runBudget(root.run), 2, 6, 0) // the 6 of an attempt that nobody has settled
	h.sound(t)
}

// A person may raise the budget of a run in the middle: what it spends beyond the
// grant counts above it as if there were none, and the cap above holds.
func testGrantRaised(t *testing.T, h Harness) {
	root := start(t, h, withBudget(12))
	child := root.mustCall(0, 4)
	setBudget(t, h, runBudget(child.run), 100)
	id := child.mustReserve(1, 9)
	h.amounts(t, runBudget(root.run), 0, 9, 0)
	if _, _, err := child.reserve(2, 4); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("beyond the budget above: %v", err)
	}
	deep := child.mustCall(0, 3) // nothing of it comes from the grant
	h.sound(t)
	child.settle(id, 2)
	h.amounts(t, runBudget(root.run), 2, 5, 0)
	h.granted(t, child.run, 4)
	deep.mustReserve(1, 3)
	deep.done()
	child.absorb(child.pending()...)
	child.done()
	h.amounts(t, runBudget(root.run), 2, 3, 0)
	h.sound(t)
	// One that costs more than was reserved for it takes it from what is left.
	other := root.mustCall(1, 5)
	dear := other.mustReserve(1, 1)
	other.settle(dear, 3)
	h.amounts(t, runBudget(root.run), 5, 5, 0)
	h.granted(t, other.run, 5)
	h.sound(t)
}

func testGrantOverCrashes(t *testing.T, h Harness) {
	a := start(t, h, withBudget(10))
	child := a.mustCall(0, 6)
	held := child.mustReserve(1, 2)
	a.flush()
	a = a.successor()
	h.amounts(t, runBudget(a.run), 0, 6, 0) // of no attempt of the dead holder's
	child = take(t, h, child.run)
	h.amounts(t, runBudget(a.run), 0, 4, 2)
	h.granted(t, child.run, 6)
	// A further attempt goes on with what is left.
	child.endAs(ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError, Error: "no model", Retry: ledger.Retry{MaxAttempts: 2}})
	again := h.state(t, h.state(t, child.run.ID).Successor)
	h.amounts(t, runBudget(a.run), 0, 4, 2)
	h.Advance(time.Minute)
	b := take(t, h, again)
	b.mustReserve(1, 4)
	if _, _, err := b.reserve(2, 1); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("a further attempt has a budget of its own: %v", err)
	}
	h.amounts(t, runBudget(a.run), 0, 4, 2)
	h.granted(t, again, 6)
	h.sound(t)
	child.settle(held, 1)
	h.amounts(t, runBudget(a.run), 1, 5, 0)
	// The end of the parent ends the child; whatever was held comes back.
	a = take(t, h, a.run)
	a.absorb(a.pending()...)
	a.endAs(ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByDeadline})
	b.absorb(b.pending()...)
	b.endAs(ledger.Ending{State: ledger.Cancelled, StoppedBy: events.StoppedByCancelled})
	h.amounts(t, runBudget(a.run), 1, 4, 0)
	h.sound(t)
}

// testGrantProperty lets runs of a tree call each other and spend at the same time,
// while some end: no budget is exceeded, every account is its rows, and what was
// granted is there or was given back.
func testGrantProperty(t *testing.T, h Harness) {
	root := start(t, h, withBudget(2000), ownedBy("ann"))
	setBudget(t, h, ownerBudget("ann", ledger.PerDay), 1500)
	var mu sync.Mutex
	refused, ended := 0, 0
	seed := uint64(17)
	// Each works for a while, calls children that do the same, and ends.
	var work func(a *actor, depth int, seed uint64)
	work = func(a *actor, depth int, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 5))
		var below sync.WaitGroup
		for i := range 8 {
			amount := events.PicoUSD(1 + random.IntN(60))
			if depth < 3 && random.IntN(3) == 0 {
				child, err := a.call(i, 3*amount, "own")
				if err == nil {
					c := take(t, h, child)
					below.Add(1)
					next := random.Uint64()
					go func() { defer below.Done(); work(c, depth+1, next) }()
					continue
				}
				if errors.Is(err, ledger.ErrEnded) { // whoever called it has ended
					break
				}
				if !errors.Is(err, ledger.ErrBudget) {
					t.Error(err)
				}
				mu.Lock()
				refused++
				mu.Unlock()
			}
			id, held, err := a.reserve(100+i, amount)
			if errors.Is(err, ledger.ErrBudget) {
				mu.Lock()
				refused++
				mu.Unlock()
				continue
			}
			if err != nil || !held {
				t.Errorf("reserve: %v, %v", held, err)
				return
			}
			actual := events.PicoUSD(random.Int64N(int64(amount) + 1))
			told := &actual
			if random.IntN(5) == 0 {
				told = nil
			}
			if err := h.Store.Settle(t.Context(), id, told); err != nil {
				t.Error(err)
			}
		}
		if depth == 0 || random.IntN(4) > 0 {
			below.Wait()
		}
		if depth > 0 {
			a.absorb(a.pending()...)
			a.done()
			mu.Lock()
			ended++
			mu.Unlock()
		}
		below.Wait()
	}
	together(2, func(i int) {
		if i == 0 {
			work(root, 0, seed)
			return
		}
		for range 20 {
			h.sound(t)
		}
	})
	h.sound(t)
	if refused == 0 || ended < 3 {
		t.Errorf("%d were refused, %d children ended: the property says nothing", refused, ended)
	}
	if n := h.count(t, `SELECT count(*) FROM budget_reservations WHERE child_id IS NOT NULL AND state = 'reserved'`); n != 0 {
		t.Errorf("%d grants are held for runs that have ended", n)
	}
	total := h.count(t, `SELECT coalesce(sum(actual_pico), 0) FROM budget_reservations r JOIN budgets b ON b.id = r.budget_id
		WHERE b.name = 'ann' AND r.state = 'settled'`)
	if b := h.budget(t, runBudget(root.run)); int(b.Spent) != total {
		t.Errorf("the root's budget says %d, its owner's rows %d", b.Spent, total)
	}
}
