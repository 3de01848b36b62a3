package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/tools"
)

func refusesUnpriced(a *agents.Agent) { a.BudgetUnpriced = "refuse" }

func TestModelWithoutAPriceIsRefusedIfTheAgentSaysSo(t *testing.T) {
	w := newWorld(t, scripted.Script(finish))
	w.agent = refusesUnpriced
	w.start()
	r := w.wait(w.submitAs("", nil).ID, false) // whether or not anything counts
	e := last[events.RunFailed](w, r.ID)
	if r.StoppedBy != events.StoppedByBudget || e.Error.Kind != ledger.DetailUnpriced || !strings.Contains(e.Error.Message, "nobody knows what test costs") {
		t.Errorf("run = %s by %s, %+v", r.State, r.StoppedBy, e)
	}
	if n := count[events.ModelCallStarted](w, r.ID); n != 0 {
		t.Errorf("%d model calls", n)
	}
	w.whole()
}

func TestModelWithAPriceIsCalledIfUnpricedOnesAreRefused(t *testing.T) {
	w := newWorld(t, spending(10, func(model.Request) bool { return false }))
	w.priced()
	w.agent = refusesUnpriced
	w.start()
	if r := w.wait(w.submitAs("", usd(20_000*token)).ID, false); r.State != ledger.Finished {
		t.Errorf("run = %s by %s: %s", r.State, r.StoppedBy, r.Error)
	}
}

// TestToolWithoutAPrice calls tools that cost something only they know, after the
// call: readonly ones and destructive ones, refused and counted.
func TestToolWithoutAPrice(t *testing.T) {
	for _, refuse := range []bool{true, false} {
		t.Run(fmt.Sprintf("refused %v", refuse), func(t *testing.T) { toolWithoutAPrice(t, refuse) })
	}
}

func toolWithoutAPrice(t *testing.T, refuse bool) {
	looked, paid := atomic.Int64{}, atomic.Int64{}
	costs := func(tool tools.Tool, n *atomic.Int64) tools.Tool {
		return tools.WithCost(tool, func(any) (int64, bool) { n.Add(1); return 100, true })
	}
	w := newWorld(t, scripted.Script(
		calls(scripted.Call{Name: "look", Arguments: `{"text":"x"}`}), payOnce, finish),
		costs(look(0, nil), &looked),
		costs(pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) { return "paid", nil }), &paid))
	w.priced()
	if refuse {
		w.agent = refusesUnpriced
	}
	w.start()
	r := w.wait(w.submitAs("", usd(50_000*token)).ID, false)
	if r.State != ledger.Finished {
		t.Fatalf("run = %s by %s: %s\n%s", r.State, r.StoppedBy, r.Error, w.story(r.ID))
	}
	b := w.budgets()[0]
	cost, _ := w.modelCost(r)
	if refuse {
		if e := last[events.ToolExecutionBlocked](w, r.ID); looked.Load()+paid.Load() != 0 || e.Reason != events.BlockedPermissionDenied || e.Detail != ledger.DetailUnpriced ||
			count[events.ToolExecutionBlocked](w, r.ID) != 2 {
			t.Errorf("looked %d, paid %d, blocked %+v\n%s", looked.Load(), paid.Load(), e, w.story(r.ID))
		}
		if p := last[events.RunStarted](w, r.ID).Policy; p == nil || p.Unpriced != "refuse" {
			t.Errorf("the policy is not frozen: %+v", p)
		}
	} else if looked.Load() != 1 || paid.Load() != 1 || b.Unpriced != 0 || int64(b.Spent) != cost.Int64()+int64(200*token) {
		t.Errorf("looked %d, paid %d, unpriced %d, spent %s", looked.Load(), paid.Load(), b.Unpriced, b.Spent)
	}
	if b.Reserved != 0 || b.Unsettled != 0 {
		t.Errorf("budget %+v", b)
	}
	w.whole()
}
