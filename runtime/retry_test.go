package runtime_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/tools"
)

// failing is a model that fails for good at its second answer, in the first n runs.
type failing struct {
	model.Model
	runs atomic.Int64
}

func (f *failing) Call(ctx context.Context, r model.Request) (*model.Response, error) {
	if len(r.Messages) > 1 && f.runs.Add(-1) >= 0 {
		return nil, &model.Error{Kind: model.KindInvalidRequest, Message: "the model is misconfigured"}
	}
	return f.Model.Call(ctx, r)
}

func twice(a *agents.Agent) { a.Retry = agents.Retry{MaxAttempts: 2, Backoff: time.Nanosecond} }

// waitRetries waits for the last attempt of a run.
func (w *world) waitRetries(id events.RunID, parked bool) ledger.Run {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 60*time.Second)
	defer cancel()
	c := w.client()
	c.Poll = 5 * time.Millisecond
	r, err := c.WaitRetries(ctx, id, parked)
	if err != nil {
		w.t.Fatalf("wait for the last attempt of %s: %v\n%s", id, err, w.story(id))
	}
	return r
}

// agentarea/agentarea PR#320, crewAIInc/crewAI#5802: a retry of the whole run
// goes through the same effects.
func TestRetryOfARunRepeatsNoEffect(t *testing.T) {
	var p provider
	m := &failing{Model: scripted.Script(payOnce, finish)}
	m.runs.Store(1)
	w := newWorld(t, m, pay(tools.Definition{}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "paid", nil
	}))
	w.agent = twice
	w.start()
	first := w.submit("go").ID
	r := w.waitRetries(first, false)
	if r.ID == first || r.State != ledger.Finished || r.Attempt != 2 || r.RetryOf != first || p.effects() != 1 {
		t.Fatalf("run = %s %s attempt %d, %d effects\n%s\n%s", r.State, r.Error, r.Attempt, p.effects(), w.story(first), w.story(r.ID))
	}
	if q := last[events.RunQueued](w, r.ID); q.RetryOf != first || q.Attempt != 2 || q.Root != first {
		t.Errorf("queued = %+v", q)
	}
	var repeated bool
	for _, e := range w.history(r.ID) {
		if f, ok := e.Data.(events.ToolExecutionFinished); ok && f.Tool == "pay" {
			repeated = f.Repeated && f.Of != nil && f.Of.Run == first
		}
	}
	if !repeated {
		t.Errorf("the retry's call is not marked as repeated\n%s", w.story(r.ID))
	}
	w.whole()
}

func TestRetryAsksTheProbeForItsDeadPredecessor(t *testing.T) {
	var p provider
	var broken atomic.Bool
	broken.Store(true)
	tool := pay(tools.Definition{Recovery: tools.Probed()}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "", errLost
	})
	tool = withProbe(tool, func(_ context.Context, inv *tools.Invocation) (tools.ProbeAnswer, error) {
		if broken.Load() {
			return tools.ProbeAnswer{}, errors.New("the provider is away")
		}
		return tools.ProbeAnswer{State: tools.ProbeHappened}, nil
	})
	w := newWorld(t, scripted.Script(payOnce, finish), tool)
	w.agent = twice
	k := w.start()
	first := w.submit("go").ID
	if r := w.wait(first, true); r.ParkReason != events.ParkInDoubt {
		t.Fatalf("run = %s %s\n%s", r.State, r.ParkReason, w.story(first))
	}
	k.stop(t)
	w.endFailed(first)
	broken.Store(false)
	w.start()
	r := w.waitRetries(first, false)
	if r.ID == first || r.State != ledger.Finished || p.effects() != 1 {
		t.Errorf("run = %s %s %s, %d effects\n%s", r.State, r.ParkReason, r.Error, p.effects(), w.story(r.ID))
	}
	w.whole()
}
