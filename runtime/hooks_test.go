package runtime_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// PR-44: an agent names its validator, which takes the place of the host's, and
// middleware, which comes after the host's. A run that began with them waits for
// a worker that has them.
func TestAgentNamesValidatorAndMiddleware(t *testing.T) {
	var p provider
	var hosts, own atomic.Int64
	var order []string
	w := newWorld(t, scripted.Script(payOnce, finish), payInto(&p, tools.Definition{Approval: true}))
	w.agent = func(a *agents.Agent) { a.Validate, a.Middleware = "strict", []string{"b", "a"} }
	say := func(s string) tools.CallMiddleware {
		return func(_ context.Context, c tools.Call) (tools.Call, error) {
			if c.Name == "pay" && own.Load() == 0 {
				order = append(order, s)
			}
			return c, nil
		}
	}
	full := func(c *runtime.Config) {
		c.Dispatch.CallMiddleware = []tools.CallMiddleware{say("host")}
		c.Dispatch.Validate = func(context.Context, *tools.Definition, tools.Call) error { hosts.Add(1); return nil }
		c.CallMiddleware = map[string]runtime.CallMiddleware{"a": {Call: say("a")}, "b": {Call: say("b"), Result: func(_ context.Context, _ tools.Call, r events.ToolResult) (events.ToolResult, error) {
			r.Output += "!"
			return r, nil
		}}}
		c.CallValidators = map[string]runtime.CallValidator{"strict": func(_ context.Context, d *tools.Definition, _ tools.Call) error {
			own.Add(1)
			return nil
		}}
	}
	w.cfg = full
	first := w.start()
	id := w.submit("go").ID
	a := w.asked(id)
	first.stop(t)
	if s := last[events.RunStarted](w, id); s.CallValidator != "strict" || len(s.Middleware) != 2 {
		t.Errorf("not frozen: %+v", s)
	}
	if got := strings.Join(order, " "); got != "host b a" {
		t.Errorf("middleware ran as %q", got)
	}
	// A worker whose agent names none any more, and that has none of it, leaves the run alone.
	w.decide(a.ID, true)
	w.cfg, w.agent = nil, nil
	without := w.start()
	if r := w.wait(id, true); r.ParkReason != events.ParkNoCapableWorker || p.effects() != 0 {
		t.Errorf("run is %s for %s: %s, %d paid", r.State, r.ParkReason, r.ParkDetail, p.effects())
	}
	without.stop(t)
	w.advance(2 * time.Minute) // it is looked at again after one
	w.cfg = full
	w.start()
	w.until("the run has ended", func() bool {
		r, err := w.store.Run(context.Background(), id)
		return err == nil && r.State == ledger.Finished
	})
	if f := last[events.ToolExecutionFinished](w, id); p.effects() != 1 || hosts.Load() != 0 || own.Load() < 2 || !strings.HasSuffix(f.Result.Output, "!") {
		t.Errorf("%d paid, host's validator asked %d times, own %d times, result %q", p.effects(), hosts.Load(), own.Load(), f.Result.Output)
	}
}

// A validator that an agent names blocks.
func TestNamedValidatorBlocks(t *testing.T) {
	var p provider
	w := newWorld(t, scripted.Script(payOnce, finish), payInto(&p, tools.Definition{}))
	w.agent = func(a *agents.Agent) { a.Validate = "never" }
	w.cfg = func(c *runtime.Config) {
		c.CallValidators = map[string]runtime.CallValidator{"never": func(_ context.Context, d *tools.Definition, _ tools.Call) error {
			if d.Name == "pay" {
				return errors.New("not today")
			}
			return nil
		}}
	}
	w.start()
	id := w.submit("go").ID
	w.wait(id, false)
	if b := last[events.ToolExecutionBlocked](w, id); p.effects() != 0 || b.Reason != events.BlockedValidationFailed || b.Result.Error != "not today" {
		t.Errorf("%d paid, blocked %+v", p.effects(), b)
	}
}
