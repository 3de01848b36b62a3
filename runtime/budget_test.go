package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// answering is a model that a function answers for.
type answering func(ctx context.Context, r model.Request) (model.Response, error)

func (f answering) Call(ctx context.Context, r model.Request) (model.Response, error) {
	return f(ctx, r)
}

// priced makes the model "test" cost a micro-dollar a token.
func (w *world) priced() {
	w.t.Helper()
	ps, err := model.LoadPrices(fstest.MapFS{"p.yaml": {Data: []byte(`
table: test
models:
  - name: test
    prices:
      - { valid_from: 2020-01-01, input: "1", output: "1" }
`)}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.cfg = func(c *runtime.Config) { c.Prices = ps }
}

const token = events.MicroUSD

// answer costs tokens and goes on n times with readonly calls before it finishes.
func spending(tokens int64, more func(model.Request) bool) answering {
	return func(_ context.Context, r model.Request) (model.Response, error) {
		name, args := "finish", `{"answer":"done"}`
		if more(r) {
			name, args = "look", `{"text":"x"}`
		}
		return model.Response{
			Model: r.Model, StopReason: "tool_use", Usage: events.Usage{Input: tokens},
			Calls: []events.ToolCall{{Name: name, Arguments: []byte(args)}},
		}, nil
	}
}

func always(model.Request) bool { return true }

func look(price int64, f func() error) tools.Tool {
	return must(tools.New(tools.Definition{Name: "look", Description: "Looks.", Effect: tools.Readonly, Price: price},
		func(context.Context, *tools.Invocation, text) (string, error) {
			if f != nil {
				return "seen", f()
			}
			return "seen", nil
		}))
}

func (w *world) budgets() (bs []ledger.Budget) {
	w.t.Helper()
	bs, err := w.store.Budgets(context.Background(), ledger.BudgetFilter{})
	if err != nil {
		w.t.Fatal(err)
	}
	return bs
}

func usd(p events.PicoUSD) *events.PicoUSD { return &p }

func (w *world) submitAs(owner string, budget *events.PicoUSD) ledger.Run {
	w.t.Helper()
	r, _, err := w.client().Submit(w.t.Context(), runtime.Submit{
		Agent: "tester", Input: "go", ClientKey: fmt.Sprint("key-", w.n.Add(1)), Owner: owner, Budget: budget,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// modelCost is the sum of a run's rows of model_calls, and of those that nobody knows the cost of.
func (w *world) modelCost(runs ...ledger.Run) (sum *big.Int, unknown int) {
	w.t.Helper()
	w.caughtUp() // rows are there once a projector, or this, has been
	sum = new(big.Int)
	for _, r := range runs {
		rows, err := w.store.ModelCalls(context.Background(), r.ID)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, row := range rows {
			if row.Cost == nil {
				unknown++
				continue
			}
			sum.Add(sum, big.NewInt(int64(*row.Cost)))
		}
	}
	return sum, unknown
}

func TestBudgetStopsARunBeforeItIsOverspent(t *testing.T) {
	w := newWorld(t, spending(1000, always), look(0, nil))
	w.priced()
	w.limits = events.Limits{MaxTurns: 100, MaxTokens: 500}
	w.start()
	limit := 9000 * token
	r := w.wait(w.submitAs("", &limit).ID, false)
	if r.State != ledger.Failed || r.StoppedBy != events.StoppedByBudget {
		t.Fatalf("run = %s %s %s\n%s", r.State, r.StoppedBy, r.Error, w.story(r.ID))
	}
	b := w.budgets()[0]
	e := last[events.BudgetExceeded](w, r.ID)
	if e.Limit != limit || e.Committed != b.Spent || e.Committed+e.Wanted <= limit || !strings.Contains(e.Budget, r.ID.String()) {
		t.Errorf("event %+v, budget %+v", e, b)
	}
	if !strings.Contains(r.Error, "ledgerctl budgets set --run "+r.ID.String()) {
		t.Errorf("the error does not say how to raise it: %s", r.Error)
	}
	w.whole()
	cost, unknown := w.modelCost(r)
	if b.Spent > limit || b.Reserved != 0 || b.Unsettled != 0 || unknown != 0 || cost.Int64() != int64(b.Spent) {
		t.Errorf("budget %+v, model calls cost %s and %d unknown", b, cost, unknown)
	}
	if b.Spent < 3000*token {
		t.Errorf("stopped after %s of %s: the reservation is too careful to be of use", b.Spent, limit)
	}
}

func TestBudgetOfTheAgentIsThatOfEachRun(t *testing.T) {
	w := newWorld(t, spending(1000, always), look(0, nil))
	w.priced()
	w.limits = events.Limits{MaxTurns: 100, MaxTokens: 500}
	w.agent = func(a *agents.Agent) { a.Budget = usd(6000 * token) }
	w.start()
	first, second := w.submitAs("", nil), w.submitAs("", usd(50*token)) // what a submission says comes first
	for _, tt := range []struct {
		run   ledger.Run
		calls int
	}{{first, 1}, {second, 0}} {
		r := w.wait(tt.run.ID, false)
		if r.StoppedBy != events.StoppedByBudget || count[events.ModelCallStarted](w, r.ID) < tt.calls || tt.calls == 0 && count[events.ModelCallStarted](w, r.ID) > 0 {
			t.Errorf("run = %s %s\n%s", r.State, r.StoppedBy, w.story(r.ID))
		}
	}
	w.whole()
}

func TestRunsWithoutABudgetReserveNothing(t *testing.T) {
	asked := atomic.Int64{}
	w := newWorld(t, answering(func(ctx context.Context, r model.Request) (model.Response, error) {
		asked.Add(int64(r.MaxTokens))
		return spending(1, func(model.Request) bool { return false })(ctx, r)
	}))
	w.priced()
	w.start()
	r := w.wait(w.submitAs("ann", nil).ID, false)
	if r.State != ledger.Finished || asked.Load() != 0 {
		t.Errorf("run = %s %s, max tokens %d", r.State, r.Error, asked.Load())
	}
	if os, err := w.store.OpenReservations(t.Context(), ledger.BudgetFilter{}); err != nil || len(os) != 0 || len(w.budgets()) != 0 {
		t.Errorf("open %v, budgets %v, %v", os, w.budgets(), err)
	}
	r = w.wait(w.submitAs("ann", usd(events.USD)).ID, false)
	if r.State != ledger.Finished || asked.Load() == 0 {
		t.Errorf("run = %s %s: with a budget an answer needs a bound", r.State, r.Error)
	}
}

// adham90/ruby_llm-agents PR#35, n8n-io/n8n PR#33845: every round counts, also
// one that failed, and what is unknown is not 0.
func TestFailedModelCallsAreSettledAtWhatTheyCost(t *testing.T) {
	n := atomic.Int64{}
	fails := []error{
		&model.Error{Kind: "malformed_answer", Retryable: true, Usage: &events.Usage{Input: 100}, Err: errors.New("half an answer")},
		&model.Error{Kind: "rate_limited", Retryable: true, Err: errors.New("slow down")},
		&model.Error{Kind: "unavailable", Retryable: true, Err: errors.New("connection lost while it answered")},
	}
	w := newWorld(t, answering(func(ctx context.Context, r model.Request) (model.Response, error) {
		if i := n.Add(1); int(i) <= len(fails) {
			return model.Response{}, fails[i-1]
		}
		return spending(1000, func(model.Request) bool { return false })(ctx, r)
	}))
	w.priced()
	w.limits = events.Limits{MaxTurns: 3, MaxTokens: 500, MaxModelAttempts: 6}
	w.start()
	r := w.wait(w.submitAs("ann", usd(events.USD)).ID, false)
	if r.State != ledger.Finished {
		t.Fatalf("run = %s %s\n%s", r.State, r.Error, w.story(r.ID))
	}
	w.whole()
	b := w.budgets()[0]
	if b.Spent != 1100*token || b.Reserved != 0 || b.Unsettled < 500*token {
		t.Errorf("budget %+v", b)
	}
	os, err := w.store.OpenReservations(t.Context(), ledger.BudgetFilter{})
	if err != nil || len(os) != 1 || os[0].State != "unsettled" || !strings.Contains(os[0].What, "attempt 3") {
		t.Fatalf("open %+v, %v", os, err)
	}
	if _, err := w.store.SettleBy(t.Context(), os[0].Attempt, 7*token, "ada"); err != nil {
		t.Fatal(err)
	}
	if b := w.budgets()[0]; b.Committed() != 1107*token {
		t.Errorf("budget %+v", b)
	}
}

func TestUnpricedCallsAreAllowedAndCounted(t *testing.T) {
	w := newWorld(t, spending(1000, func(model.Request) bool { return false }))
	w.start()
	r := w.wait(w.submitAs("ann", usd(1)).ID, false)
	if b := w.budgets()[0]; r.State != ledger.Finished || b.Unpriced != 1 || b.Committed() != 0 {
		t.Errorf("run = %s, budget %+v", r.State, b)
	}
}

func TestPricedToolsReserveAndTheModelMayGoOnWithoutThem(t *testing.T) {
	paid, looked := atomic.Int64{}, atomic.Int64{}
	lookCall := calls(scripted.Call{Name: "look", Arguments: `{"text":"x"}`})
	other := calls(scripted.Call{Name: "pay", Arguments: `{"text":"y"}`})
	w := newWorld(t, scripted.Script(lookCall, payOnce, other, lookCall, finish),
		look(100, func() error { looked.Add(1); return nil }),
		pay(tools.Definition{Price: 300}, func(context.Context, *tools.Invocation, text) (string, error) {
			paid.Add(1)
			return "paid", nil
		}))
	w.start()
	r := w.wait(w.submitAs("", usd(650*token)).ID, false)
	if r.State != ledger.Finished || paid.Load() != 1 || looked.Load() != 2 {
		t.Errorf("run = %s %s, paid %d times, looked %d times\n%s", r.State, r.Error, paid.Load(), looked.Load(), w.story(r.ID))
	}
	e := last[events.ToolExecutionBlocked](w, r.ID)
	if e.Reason != events.BlockedPermissionDenied || e.Detail != "budget" || !strings.Contains(e.Result.Error, "are committed of") {
		t.Errorf("blocked %+v", e)
	}
	if b := w.budgets()[0]; b.Spent != 500*token || b.Reserved != 0 || b.Unsettled != 0 {
		t.Errorf("budget %+v", b)
	}
	w.whole()
}

func TestPricedReadonlyCallIsRefusedWithoutMoney(t *testing.T) {
	looked := atomic.Int64{}
	w := newWorld(t, scripted.Script(calls(scripted.Call{Name: "look", Arguments: `{"text":"x"}`}), finish),
		look(100, func() error { looked.Add(1); return nil }))
	w.start()
	r := w.wait(w.submitAs("", usd(99*token)).ID, false)
	if e := last[events.ToolExecutionBlocked](w, r.ID); r.State != ledger.Finished || looked.Load() != 0 || e.Detail != "budget" {
		t.Errorf("run = %s, looked %d times, blocked %+v", r.State, looked.Load(), e)
	}
}

// egonSchiele/agency-lang PR#1079, n8n-io/n8n PR#33845: many runs of an owner
// spend beside each other, with errors and workers that come and go; the cap
// holds at every moment, and the one total is the sum of the rows.
func TestCapHoldsOverRunsThatSpendBesideEachOther(t *testing.T) {
	const runs = 8
	limit := 40_000 * token
	n := atomic.Int64{}
	w := newWorld(t, answering(func(ctx context.Context, r model.Request) (model.Response, error) {
		i := n.Add(1)
		if i%7 == 0 {
			return model.Response{}, &model.Error{Kind: "unavailable", Retryable: true, Err: errors.New("gone")}
		}
		return spending(i%13*100, always)(ctx, r)
	}), look(0, nil))
	w.priced()
	w.limits = events.Limits{MaxTurns: 100, MaxTokens: 500, MaxModelAttempts: 50}
	if _, err := w.store.SetBudget(t.Context(), ledger.BudgetChange{
		BudgetKey: ledger.BudgetKey{Tenant: "default", Kind: ledger.BudgetOwner, Name: "ann", Period: ledger.PerTotal}, Limit: &limit, By: "ada",
	}); err != nil {
		t.Fatal(err)
	}
	first := w.start()
	w.start()
	var rs []ledger.Run
	for range runs {
		rs = append(rs, w.submitAs("ann", nil))
	}
	w.until("some is spent", func() bool { return w.budgets()[0].Spent > 3000*token })
	first.stop(t) // its runs go to the other one
	ctx, stop := context.WithCancel(t.Context())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for ctx.Err() == nil {
			if bs, err := w.store.Budgets(ctx, ledger.BudgetFilter{}); err == nil && bs[0].Committed() > limit {
				t.Errorf("over the cap: %+v", bs[0])
			}
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	for i, r := range rs {
		rs[i] = w.wait(r.ID, false)
		if rs[i].StoppedBy != events.StoppedByBudget {
			t.Errorf("run = %s %s %s", rs[i].State, rs[i].StoppedBy, rs[i].Error)
		}
	}
	stop()
	<-watched
	w.whole()
	b := w.budgets()[0]
	cost, unknown := w.modelCost(rs...)
	os, err := w.store.OpenReservations(t.Context(), ledger.BudgetFilter{})
	if err != nil || cost.Int64() != int64(b.Spent) || b.Reserved != 0 || len(os) != unknown || b.Committed() > limit {
		t.Errorf("model calls cost %s and %d unknown, %d open, budget %+v, %v", cost, unknown, len(os), b, err)
	}
}
