package ledgertest

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var budgetTests = []conformance{
	{"a run without a budget stores nothing", testNoBudget},
	{"an agent's limit binds children before the run reserves anything itself", testLimitBeforeChildren},
	{"what is reserved counts until it is settled", testReserveAndSettle},
	{"the same attempt is held once and settled once", testReserveTwice},
	{"a refusal holds nothing anywhere and says which budget", testBudgetRefusal},
	{"retries and children share the budget of their root", testBudgetOfLineage},
	{"a day's budget begins anew", testBudgetPerDay},
	{"only the holder reserves", testReserveFenced},
	{"a claim makes what earlier holders reserved unsettled", testUnsettled},
	{"an outcome that was set aside settles the attempt it tells of, and no other", testLateCost},
	{"an outcome in the history settles what nobody settled", testCostFromHistory},
	{"a person settles, and late evidence corrects", testSettleBy},
	{"a call without a price is allowed and counted", testUnpriced},
	{"who set a limit is kept", testSetBudget},
	{"what a budget must be", testMalformedBudgets},
	{"a priced effect is reserved with its begin and settled with its end", testPricedEffect},
	{"an effect without a price is counted, or refused", testUnpricedEffect},
	{"a refused begin leaves nothing", testBudgetRefusesBegin},
	{"a resolution settles what is held for a priced effect", testResolutionSettles},
	{"a resolution and what a person or late evidence says of the cost", testResolutionAndEvidence},
	{"a probe's own cost counts", testProbeCost},
	{"of several attempts one was the effect", testResolutionOfAttempts},
	{"budgets and open attempts are listed in pages", testListBudgets},
	{"a child's budget holds for all that work for it", testBudgetOfChild},
	{"no budget of a tree is ever exceeded", testBudgetTree},
	{"what a call gives a child is held above it, drawn from and returned", testGrant},
	{"what a child gives on is drawn from what it was given", testGrantInGrant},
	{"a budget that is raised in the middle, and a call dearer than reserved", testGrantRaised},
	{"what is held for a child outlives crashes and retries", testGrantOverCrashes},
	{"children that are called at once never exceed the budgets above them", testGrantProperty},
	{"the cap holds over concurrent runs that crash", testBudgetProperty},
}

func withBudget(limit events.PicoUSD) submitOption {
	return func(s *ledger.Submission) { s.Budget = &limit }
}

func setBudget(t tb, h Harness, k ledger.BudgetKey, limit events.PicoUSD) ledger.Budget {
	t.Helper()
	b, err := h.Store.SetBudget(t.Context(), ledger.BudgetChange{BudgetKey: k, Limit: &limit, By: "ada"})
	if err != nil {
		t.Fatalf("set budget: %v", err)
	}
	return b
}

func ownerBudget(name string, p ledger.BudgetPeriod) ledger.BudgetKey {
	return ledger.BudgetKey{Tenant: "acme", Kind: ledger.BudgetOwner, Name: name, Period: p}
}

func runBudget(r ledger.Run) ledger.BudgetKey {
	return ledger.BudgetKey{Tenant: r.Tenant, Kind: ledger.BudgetRun, Name: r.ID.String(), Period: ledger.PerTotal}
}

// budget reads one budget.
func (h Harness) budget(t tb, k ledger.BudgetKey) ledger.Budget {
	t.Helper()
	bs, err := h.Store.Budgets(t.Context(), ledger.BudgetFilter{Tenant: k.Tenant, Kind: k.Kind, Name: k.Name})
	if err != nil {
		t.Fatalf("budgets: %v", err)
	}
	for _, b := range bs {
		if b.BudgetKey == k {
			return b
		}
	}
	t.Fatalf("no budget of %s in %+v", k, bs)
	return ledger.Budget{}
}

// amounts checks what counts against a budget.
func (h Harness) amounts(t tb, k ledger.BudgetKey, spent, reserved, unsettled events.PicoUSD) {
	t.Helper()
	b := h.budget(t, k)
	if b.Spent != spent || b.Reserved != reserved || b.Unsettled != unsettled {
		t.Errorf("budget of %s: spent %s, reserved %s, unsettled %s; want %s, %s, %s", k, b.Spent, b.Reserved, b.Unsettled, spent, reserved, unsettled)
	}
}

// reserve holds an amount for a model call of this actor's epoch.
func (a *actor) reserve(attempt int, amount events.PicoUSD) (events.ID, bool, error) {
	id := ledger.ModelAttempt(a.run.ID, a.lease.Epoch, 1, attempt)
	held, err := a.h.Store.Reserve(a.t.Context(), a.lease, ledger.Reservation{Attempt: id, Amount: amount, What: fmt.Sprintf("model m, turn 1 attempt %d", attempt)})
	return id, held, err
}

func (a *actor) mustReserve(attempt int, amount events.PicoUSD) events.ID {
	a.t.Helper()
	id, held, err := a.reserve(attempt, amount)
	if err != nil || !held {
		a.t.Fatalf("reserve %s: held %v, %v", amount, held, err)
	}
	return id
}

func (a *actor) settle(id events.ID, actual events.PicoUSD) {
	a.t.Helper()
	if err := a.h.Store.Settle(a.t.Context(), id, &actual); err != nil {
		a.t.Fatalf("settle: %v", err)
	}
}

func testNoBudget(t *testing.T, h Harness) {
	a := start(t, h, ownedBy("ann"))
	setBudget(t, h, ownerBudget("bob", ledger.PerTotal), 1) // somebody else's
	if _, held, err := a.reserve(1, 5*events.USD); held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
	if n := h.count(t, `SELECT count(*) FROM budget_reservations`); n != 0 {
		t.Errorf("%d reservations", n)
	}
	a.settle(ledger.ModelAttempt(a.run.ID, a.lease.Epoch, 1, 1), 3) // nothing to settle, no error
}

func testReserveAndSettle(t *testing.T, h Harness) {
	k := ownerBudget("ann", ledger.PerTotal)
	setBudget(t, h, k, 10)
	a := start(t, h, ownedBy("ann"), withBudget(8))
	first := a.mustReserve(1, 6)
	h.amounts(t, k, 0, 6, 0)
	h.amounts(t, runBudget(a.run), 0, 6, 0)
	a.settle(first, 2)
	h.amounts(t, k, 2, 0, 0)
	second := a.mustReserve(2, 6) // exactly what the run has left
	if err := h.Store.Settle(t.Context(), second, nil); err != nil {
		t.Fatal(err)
	}
	h.amounts(t, runBudget(a.run), 2, 0, 6)
	a.settle(second, 1) // it is known after all
	h.amounts(t, runBudget(a.run), 3, 0, 0)
	h.amounts(t, k, 3, 0, 0)
}

func testReserveTwice(t *testing.T, h Harness) {
	a := start(t, h, withBudget(10))
	id := a.mustReserve(1, 6)
	if again := a.mustReserve(1, 6); again != id {
		t.Errorf("attempts %s and %s", id, again)
	}
	h.amounts(t, runBudget(a.run), 0, 6, 0)
	a.settle(id, 5)
	a.settle(id, 9) // what was said first stands
	h.amounts(t, runBudget(a.run), 5, 0, 0)
}

func testBudgetRefusal(t *testing.T, h Harness) {
	owner, tenant := ownerBudget("ann", ledger.PerTotal), ledger.BudgetKey{Tenant: "acme", Kind: ledger.BudgetTenant, Period: ledger.PerDay}
	setBudget(t, h, owner, 10)
	setBudget(t, h, tenant, 4)
	a := start(t, h, ownedBy("ann"), withBudget(100))
	a.mustReserve(1, 3)
	_, held, err := a.reserve(2, 2)
	var over *ledger.BudgetError
	if held || !errors.As(err, &over) || !errors.Is(err, ledger.ErrBudget) {
		t.Fatalf("held %v, %v", held, err)
	}
	if want := (ledger.BudgetError{Budget: tenant, Limit: 4, Committed: 3, Wanted: 2}); *over != want {
		t.Errorf("got %+v, want %+v", *over, want)
	}
	h.amounts(t, owner, 0, 3, 0)
	h.amounts(t, runBudget(a.run), 0, 3, 0)
	setBudget(t, h, tenant, 5)
	a.mustReserve(2, 2)
	setBudget(t, h, tenant, 1) // below what is committed: nothing more, and nothing is taken back
	if _, _, err := a.reserve(3, 1); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("below what is committed: %v", err)
	}
	h.amounts(t, tenant, 0, 5, 0)
	if _, err := h.Store.SetBudget(t.Context(), ledger.BudgetChange{BudgetKey: tenant, By: "ada"}); err != nil {
		t.Fatal(err)
	}
	a.mustReserve(3, 5) // the limit is gone, and what is held still counts
	h.amounts(t, tenant, 0, 10, 0)
	h.amounts(t, owner, 0, 10, 0)
}

func testBudgetOfLineage(t *testing.T, h Harness) {
	root := start(t, h, withBudget(10))
	child := start(t, h, childOf(root.run), withBudget(7))
	root.mustReserve(1, 6)
	if _, _, err := child.reserve(1, 5); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("a child spends beside its root: %v", err)
	}
	child.mustReserve(1, 4)
	h.amounts(t, runBudget(root.run), 0, 10, 0)
	h.amounts(t, runBudget(child.run), 0, 4, 0)
	// An agent's limit is the run's unless it has one.
	limit := events.PicoUSD(3)
	b := start(t, h)
	for i, want := range []error{nil, ledger.ErrBudget} {
		_, err := h.Store.Reserve(t.Context(), b.lease, ledger.Reservation{
			Attempt: ledger.ModelAttempt(b.run.ID, 1, 1, i+1), Amount: 2, What: "model", RunLimit: &limit,
		})
		if !errors.Is(err, want) {
			t.Errorf("reservation %d: %v", i+1, err)
		}
	}
	if got := h.budget(t, runBudget(b.run)); got.SetBy != "agent clerk" || *got.Limit != 3 {
		t.Errorf("budget made by the agent: %+v", got)
	}
}

func testBudgetPerDay(t *testing.T, h Harness) {
	k := ownerBudget("ann", ledger.PerDay)
	setBudget(t, h, k, 10)
	a := start(t, h, ownedBy("ann"))
	yesterday := a.mustReserve(1, 9)
	now := dbNow(t, h).UTC()
	h.Advance(now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now)) // midnight
	a = take(t, h, a.run)
	a.mustReserve(1, 9)
	h.amounts(t, k, 0, 9, 0)
	a.settle(yesterday, 5) // counts for the day on which it was reserved
	h.amounts(t, k, 0, 9, 0)
	if n := h.count(t, `SELECT count(*) FROM budget_periods WHERE spent_pico = 5 AND held_pico = 0`); n != 1 {
		t.Errorf("%d days spent 5, want yesterday", n)
	}
}

func testReserveFenced(t *testing.T, h Harness) {
	a := start(t, h, withBudget(10))
	b := a.successor()
	if _, _, err := a.reserve(1, 1); !errors.Is(err, ledger.ErrFenced) {
		t.Errorf("a former holder reserves: %v", err)
	}
	b.mustReserve(1, 1)
	for name, r := range map[string]ledger.Reservation{
		"no attempt": {Amount: 1, What: "x"},
		"no word":    {Attempt: testIDs.Event(), Amount: 1},
		"negative":   {Attempt: testIDs.Event(), Amount: -1, What: "x"},
	} {
		if _, err := h.Store.Reserve(t.Context(), b.lease, r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func testUnsettled(t *testing.T, h Harness) {
	a := start(t, h, withBudget(10))
	id := a.mustReserve(1, 6)
	b := a.successor()
	h.amounts(t, runBudget(a.run), 0, 0, 6)
	if _, _, err := b.reserve(1, 5); !errors.Is(err, ledger.ErrBudget) {
		t.Errorf("what is unsettled does not count: %v", err)
	}
	b.mustReserve(1, 4)
	a.settle(id, 2) // the former holder reports after all
	h.amounts(t, runBudget(a.run), 2, 4, 0)
}

// modelCall records a call and its answer.
func (a *actor) modelCall(turn, attempt int, cost events.PicoUSD) {
	a.note(events.ModelCallStarted{Turn: turn, Attempt: attempt, Model: "m"})
	a.note(events.ModelCallFinished{Turn: turn, Attempt: attempt, Model: "m", ServedModel: "m", Usage: events.Usage{Input: 1}, Cost: &cost})
}

func testLateCost(t *testing.T, h Harness) {
	a := start(t, h, withBudget(100))
	a.note(events.RunQueued{Agent: "clerk", Root: a.run.ID})
	a.mustReserve(1, 60)
	a.flush()
	a.modelCall(1, 1, 7) // recorded in the journal, and not projected in time
	late := a.prefix
	b := a.successor()
	h.amounts(t, runBudget(a.run), 0, 0, 60)
	b.note(events.RunResumed{Worker: b.worker, Epoch: b.lease.Epoch, BaseSeq: b.seq, BaseHash: b.prev})
	second := b.mustReserve(1, 30)
	b.flush()
	h.project(t, late...)
	h.amounts(t, runBudget(a.run), 7, 30, 0)
	// Its fact gets a number of the new epoch; the new holder's attempt has the
	// same numbers and is another one.
	b.absorb(b.pending()...)
	b.flush()
	if _, err := h.Store.FoldBehind(t.Context(), 0, 10); err != nil {
		t.Fatal(err)
	}
	h.amounts(t, runBudget(a.run), 7, 30, 0)
	b.settle(second, 3)
	h.amounts(t, runBudget(a.run), 10, 0, 0)
}

func testCostFromHistory(t *testing.T, h Harness) {
	a := start(t, h, withBudget(100))
	a.note(events.RunQueued{Agent: "clerk", Root: a.run.ID})
	a.mustReserve(1, 60)
	a.modelCall(1, 1, 7)
	a.flush() // and then it died
	b := a.successor()
	if _, err := h.Store.FoldBehind(t.Context(), 0, 10); err != nil {
		t.Fatal(err)
	}
	h.amounts(t, runBudget(a.run), 7, 0, 0)
	_ = b
}

func testSettleBy(t *testing.T, h Harness) {
	a := start(t, h, withBudget(10))
	id := a.mustReserve(1, 6)
	if _, err := h.Store.SettleBy(t.Context(), id, 2, "ada"); !errors.Is(err, ledger.ErrNotQuiescent) {
		t.Errorf("while it may be under way: %v", err)
	}
	a.crash()
	o, err := h.Store.SettleBy(t.Context(), id, 2, "ada")
	if err != nil || o.Amount != 6 || o.Run != a.run.ID {
		t.Fatalf("settled %+v, %v", o, err)
	}
	h.amounts(t, runBudget(a.run), 2, 0, 0)
	if f := pendingOf(t, h, a.run.ID); len(f) != 1 || payload[events.OperatorActed](t, &f[0]).Verb != "settle_cost" {
		t.Errorf("facts %v", types(f))
	}
	if _, err := h.Store.SettleBy(t.Context(), id, 1, "ada"); !errors.Is(err, ledger.ErrSettled) {
		t.Errorf("twice: %v", err)
	}
	if _, err := h.Store.SettleBy(t.Context(), testIDs.Event(), 1, "ada"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if _, err := h.Store.SettleBy(t.Context(), id, 1, ""); err == nil {
		t.Error("nobody settles")
	}
	a.settle(id, 5) // what happened counts, whatever was said
	h.amounts(t, runBudget(a.run), 5, 0, 0)
}

func testUnpriced(t *testing.T, h Harness) {
	a := start(t, h, withBudget(10))
	a.mustReserve(1, 10)
	id := ledger.ModelAttempt(a.run.ID, a.lease.Epoch, 1, 2)
	held, err := h.Store.Reserve(t.Context(), a.lease, ledger.Reservation{Attempt: id, What: "model m", Unpriced: true})
	if err != nil || !held {
		t.Fatalf("held %v, %v", held, err)
	}
	if b := h.budget(t, runBudget(a.run)); b.Unpriced != 1 || b.Committed() != 10 {
		t.Errorf("budget %+v", b)
	}
	if err := h.Store.Settle(t.Context(), id, nil); err != nil {
		t.Fatal(err)
	}
	if b := h.budget(t, runBudget(a.run)); b.Unpriced != 1 {
		t.Errorf("unpriced %d after nobody knew", b.Unpriced)
	}
	a.settle(id, 1) // a price was found: it is over the limit, and says so
	if b := h.budget(t, runBudget(a.run)); b.Unpriced != 0 || b.Committed() != 11 {
		t.Errorf("budget %+v", b)
	}
}

func testSetBudget(t *testing.T, h Harness) {
	k := ownerBudget("ann", ledger.PerTotal)
	setBudget(t, h, k, 10)
	h.Advance(time.Hour)
	limit := events.PicoUSD(20)
	b, err := h.Store.SetBudget(t.Context(), ledger.BudgetChange{BudgetKey: k, Limit: &limit, By: "bob"})
	if err != nil || b.SetBy != "bob" || *b.Limit != 20 {
		t.Fatalf("%+v, %v", b, err)
	}
	if d := cmp.Diff(b, h.budget(t, k)); d != "" {
		t.Error(d)
	}
	if n := h.count(t, `SELECT count(*) FROM budget_changes`); n != 2 {
		t.Errorf("%d changes kept, want 2", n)
	}
	r := submit(t, h)
	setBudget(t, h, runBudget(r), 5)
	if f := pendingOf(t, h, r.ID); len(f) != 1 || payload[events.OperatorActed](t, &f[0]) != (events.OperatorActed{Verb: "set_budget", By: "ada", Detail: "limit 0.000000000005 USD"}) {
		t.Errorf("facts %v", types(f))
	}
}

func testMalformedBudgets(t *testing.T, h Harness) {
	limit, less := events.PicoUSD(1), events.PicoUSD(-1)
	r := submit(t, h)
	for name, c := range map[string]ledger.BudgetChange{
		"nobody":            {BudgetKey: ownerBudget("ann", ledger.PerTotal), Limit: &limit},
		"negative":          {BudgetKey: ownerBudget("ann", ledger.PerTotal), Limit: &less, By: "ada"},
		"no owner":          {BudgetKey: ownerBudget("", ledger.PerTotal), Limit: &limit, By: "ada"},
		"no period":         {BudgetKey: ownerBudget("ann", ""), Limit: &limit, By: "ada"},
		"a run per day":     {BudgetKey: ledger.BudgetKey{Tenant: "acme", Kind: ledger.BudgetRun, Name: r.ID.String(), Period: ledger.PerDay}, Limit: &limit, By: "ada"},
		"no run":            {BudgetKey: ledger.BudgetKey{Tenant: "acme", Kind: ledger.BudgetRun, Name: "x", Period: ledger.PerTotal}, Limit: &limit, By: "ada"},
		"another tenant":    {BudgetKey: ledger.BudgetKey{Tenant: "globex", Kind: ledger.BudgetRun, Name: r.ID.String(), Period: ledger.PerTotal}, Limit: &limit, By: "ada"},
		"an unknown kind":   {BudgetKey: ledger.BudgetKey{Tenant: "acme", Kind: "x", Name: "y", Period: ledger.PerTotal}, Limit: &limit, By: "ada"},
		"a tenant's tenant": {BudgetKey: ledger.BudgetKey{Tenant: "acme", Kind: ledger.BudgetTenant, Name: "y", Period: ledger.PerTotal}, Limit: &limit, By: "ada"},
		"a bad tenant":      {BudgetKey: ledger.BudgetKey{Tenant: "a.b", Kind: ledger.BudgetTenant, Period: ledger.PerTotal}, Limit: &limit, By: "ada"},
	} {
		if _, err := h.Store.SetBudget(t.Context(), c); err == nil || errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := h.count(t, `SELECT count(*) FROM budgets`); n != 0 {
		t.Errorf("%d budgets", n)
	}
}

func reserving(amount events.PicoUSD) func(*ledger.Intent) {
	return func(in *ledger.Intent) { in.Reserve = amount }
}

func testPricedEffect(t *testing.T, h Harness) {
	a := start(t, h, withBudget(20))
	in := refund(reserving(6))
	a.want(ledger.Execute, in)
	a.want(ledger.Execute, in) // the answer was lost: the same reservation
	h.amounts(t, runBudget(a.run), 0, 6, 0)
	cost := events.PicoUSD(4)
	out := outcome(in.Token, ledger.Applied)
	out.Result.Cost = &cost
	for range 2 {
		if _, err := h.Store.End(t.Context(), a.lease, a.prefix, out); err != nil {
			t.Fatal(err)
		}
	}
	h.amounts(t, runBudget(a.run), 4, 0, 0)
	a.prefix = nil
	a.flush()
	// One that certainly took no effect costs nothing; nobody knows of an unclear one.
	refused, unclear := refund(order(8), call(2, 0), reserving(6)), refund(order(9), call(3, 0), reserving(6))
	a.want(ledger.Execute, refused)
	a.end(refused.Token, ledger.NotApplied)
	h.amounts(t, runBudget(a.run), 4, 0, 0)
	a.want(ledger.Execute, unclear)
	a.end(unclear.Token, ledger.Unclear)
	h.amounts(t, runBudget(a.run), 4, 0, 6)
	// A replay costs nothing.
	a.want(ledger.Replay, refund(call(4, 0), reserving(16)))
	h.amounts(t, runBudget(a.run), 4, 0, 6)
}

func testBudgetRefusesBegin(t *testing.T, h Harness) {
	a := start(t, h, withBudget(10))
	asked := a.asked(refund(ask, reserving(11)))
	h.amounts(t, runBudget(a.run), 0, 0, 0) // waiting for a person holds no money
	decide(t, h, asked.Approval, true)
	a.flush()
	a.note(events.TurnStarted{Turn: 1})
	v := a.want(ledger.Refused, refund(ask, reserving(11)))
	if v.Detail != ledger.DetailBudget || v.Text == "" {
		t.Errorf("verdict %+v", v)
	}
	wantApproval(t, h, asked.Approval, ledger.ApprovalApproved)
	if effectsOf(t, h, a.run.ID) != 0 {
		t.Error("a refused begin left an effect")
	}
	if h.archived(t, a.run.ID) != int(a.seq) {
		t.Error("the refused barrier did not keep its prefix")
	}
	h.amounts(t, runBudget(a.run), 0, 0, 0)
	a.want(ledger.Execute, refund(ask, reserving(10)))
	h.amounts(t, runBudget(a.run), 0, 10, 0)
	wantApproval(t, h, asked.Approval, ledger.ApprovalConsumed)
}

func testListBudgets(t *testing.T, h Harness) {
	for i := range 5 {
		setBudget(t, h, ownerBudget(fmt.Sprintf("o%d", i), ledger.PerTotal), 10)
	}
	var names []string
	f := ledger.BudgetFilter{Limit: 2}
	for {
		bs, err := h.Store.Budgets(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(bs) == 0 {
			break
		}
		for _, b := range bs {
			names = append(names, b.Name)
		}
		f.After = bs[len(bs)-1].BudgetKey
	}
	if d := cmp.Diff([]string{"o0", "o1", "o2", "o3", "o4"}, names); d != "" {
		t.Error(d)
	}
	a := start(t, h, ownedBy("o1"), withBudget(10))
	id := a.mustReserve(1, 3)
	os, err := h.Store.OpenReservations(t.Context(), ledger.BudgetFilter{Kind: ledger.BudgetOwner, Name: "o1"})
	if err != nil || len(os) != 1 || os[0].Attempt != id || os[0].State != "reserved" || os[0].What == "" {
		t.Errorf("open %+v, %v", os, err)
	}
	if os, _ := h.Store.OpenReservations(t.Context(), ledger.BudgetFilter{}); len(os) != 1 || len(os[0].Budgets) != 2 {
		t.Errorf("open %+v, want one attempt that counts twice", os)
	}
}

// egonSchiele/agency-lang PR#1079: a total that is reserved before and settled
// after a call is the only one there is, and never goes over its cap.
func testBudgetProperty(t *testing.T, h Harness) {
	const runs, limit = 6, 1000
	owner := ownerBudget("ann", ledger.PerTotal)
	setBudget(t, h, owner, limit)
	root := start(t, h, ownedBy("ann"), withBudget(limit/2))
	actors := []*actor{root}
	for i := range runs - 1 {
		opts := []submitOption{ownedBy("ann")}
		if i < 2 {
			opts = append(opts, childOf(root.run))
		}
		actors = append(actors, start(t, h, opts...))
	}
	var mu sync.Mutex
	settled, refused := new(big.Int), 0
	check := func() {
		for _, k := range []ledger.BudgetKey{owner, runBudget(root.run)} {
			if b := h.budget(t, k); b.Committed() > *b.Limit || b.Reserved < 0 || b.Unsettled < 0 {
				t.Errorf("budget of %s: %+v", k, b)
			}
		}
	}
	together(runs, func(i int) {
		a, random := actors[i], rand.New(rand.NewPCG(uint64(i), 7))
		for n := 1; n <= 12; n++ {
			amount := events.PicoUSD(random.IntN(120))
			id, held, err := a.reserve(n, amount)
			if errors.Is(err, ledger.ErrBudget) {
				mu.Lock()
				refused++
				mu.Unlock()
				continue
			}
			if err != nil || !held {
				t.Errorf("reserve: held %v, %v", held, err)
				return
			}
			if random.IntN(4) == 0 {
				continue // died before it could say what it cost
			}
			actual := events.PicoUSD(random.Int64N(int64(amount) + 1))
			if err := h.Store.Settle(t.Context(), id, &actual); err != nil {
				t.Error(err)
			}
			mu.Lock()
			settled.Add(settled, big.NewInt(int64(actual)))
			mu.Unlock()
			check()
		}
	})
	if refused == 0 {
		t.Error("the cap was never reached: the property says nothing")
	}
	b := h.budget(t, owner)
	if settled.Int64() != int64(b.Spent) || b.Unsettled != 0 {
		t.Errorf("settled %s, budget %+v", settled, b)
	}
	open := b.Reserved
	for _, a := range actors {
		a.crash()
		take(t, h, a.run)
	}
	check()
	if b = h.budget(t, owner); b.Reserved != 0 || b.Unsettled != open {
		t.Errorf("after everybody died: %+v, %s were reserved", b, open)
	}
}
