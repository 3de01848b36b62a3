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
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// failing is a model that fails for good after the first answer, n times.
type failing struct {
	model.Model
	n atomic.Int64
}

func (f *failing) Call(ctx context.Context, r model.Request) (model.Response, error) {
	if len(r.Messages) > 1 && f.n.Add(-1) >= 0 {
		return model.Response{}, &model.Error{Kind: "invalid_request", Err: errors.New("the model is misconfigured")}
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
	m := &failing{Model: scripted.Script(payOnce, payOnce, finish)}
	m.n.Store(1)
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

// endFailed ends a run, of which no worker holds the lease, as failed by an error.
func (w *world) endFailed(id events.RunID, retry ledger.Retry) {
	w.t.Helper()
	ctx := w.t.Context()
	var c ledger.Claim
	w.until("the run is claimed", func() bool {
		cs, err := w.store.Claim(ctx, ledger.ClaimRequest{Worker: "test", TTL: time.Minute, Capabilities: []string{runtime.Capability("tester")}})
		if err != nil || len(cs) == 0 {
			return false
		}
		c = cs[0]
		return true
	})
	if c.Run.ID != id || c.Kind != ledger.ClaimResume {
		w.t.Fatalf("claim %+v", c)
	}
	ids := events.NewIDs(nil, nil)
	prev, seq := c.Base.Hash, c.Base.Seq
	var prefix ledger.Prefix
	add := func(eid events.ID, typ events.Type, p any) {
		w.t.Helper()
		data, err := w.red.JSON(p)
		if err != nil {
			w.t.Fatal(err)
		}
		v, _ := events.CurrentVersion(typ)
		seq++
		e, err := events.Seal(events.Envelope{
			ID: eid, RunID: id, Seq: seq, Epoch: c.Lease.Epoch, Type: typ, Version: v, Time: events.Timestamp(time.Now()), Tenant: c.Run.Tenant, Prev: prev,
		}, data)
		if err != nil {
			w.t.Fatal(err)
		}
		prev, prefix = e.Hash(), append(prefix, e)
	}
	resumed, failed := events.RunResumed{Worker: "test", Epoch: c.Lease.Epoch, BaseSeq: c.Base.Seq, BaseHash: c.Base.Hash}, events.RunFailed{StoppedBy: events.StoppedByError}
	add(ids.Event(), events.TypeOf(resumed), resumed)
	for _, f := range c.Facts {
		add(f.ID, f.Type, f.Data)
	}
	add(ids.Event(), events.TypeOf(failed), failed)
	err := w.store.Finish(ctx, c.Lease, prefix, ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError, Error: "test", Retry: retry})
	if err != nil {
		w.t.Fatal(err)
	}
}

// restatedev/restate#5196: the run that began the effect has ended and asks
// nobody any more; its retry does.
func TestRetryAsksTheProbeOfItsDeadPredecessorsEffect(t *testing.T) {
	var p provider
	var back atomic.Bool
	tool := must(tools.WithProbe(pay(tools.Definition{Recovery: tools.Probed()}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "", errLost
	}), func(context.Context, *tools.Invocation) (tools.ProbeResult, error) {
		if !back.Load() {
			return tools.ProbeResult{}, errors.New("the provider is away")
		}
		return tools.ProbeResult{State: tools.ProbeHappened, Result: "paid"}, nil
	}), nil)
	w := newWorld(t, scripted.Script(payOnce, payOnce, finish), tool)
	k := w.start()
	first := w.submit("go").ID
	if r := w.wait(first, true); r.ParkReason != events.ParkInDoubt {
		t.Fatalf("run = %s %s\n%s", r.State, r.ParkReason, w.story(first))
	}
	k.stop(t)
	w.endFailed(first, ledger.Retry{MaxAttempts: 2, Backoff: time.Second})
	back.Store(true)
	w.start()
	r := w.waitRetries(first, false)
	if r.ID == first || r.State != ledger.Finished || p.effects() != 1 {
		t.Errorf("run = %s %s %s, %d effects\n%s", r.State, r.ParkReason, r.Error, p.effects(), w.story(r.ID))
	}
	if e := last[events.EffectResolved](w, r.ID); e.State != events.EffectApplied || e.By != events.ResolvedByProbe {
		t.Errorf("resolved = %+v", e)
	}
	w.whole()
}

func TestRunsThatFailForGoodAreDeadAndCanBeQueuedAgain(t *testing.T) {
	m := &failing{Model: scripted.Script(payOnce, payOnce, payOnce, finish)}
	m.n.Store(2)
	w := newWorld(t, m, pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) { return "paid", nil }))
	w.agent = twice
	w.start()
	r := w.waitRetries(w.submit("go").ID, false)
	if r.State != ledger.Failed || r.Attempt != 2 || r.DeadAt.IsZero() {
		t.Fatalf("run = %s attempt %d dead %v\n%s", r.State, r.Attempt, r.DeadAt, w.story(r.ID))
	}
	again, err := w.store.Requeue(t.Context(), r.ID, 1, "ann", "the model is configured")
	if err != nil {
		t.Fatal(err)
	}
	if got := w.wait(again.ID, false); got.State != ledger.Finished || got.Attempt != 3 {
		t.Errorf("run = %s attempt %d\n%s", got.State, got.Attempt, w.story(again.ID))
	}
	w.until("the dead run's history says who queued it again", func() bool {
		return count[events.OperatorActed](w, r.ID) == 1
	})
	w.whole()
}

func TestPausedRunParksAfterTheActInHandAndGoesOnWhenResumed(t *testing.T) {
	var p provider
	begun, release := make(chan struct{}), make(chan struct{})
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{Timeout: time.Minute}, func(ctx context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		close(begun)
		select {
		case <-release:
			return "paid", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}))
	w.start()
	id := w.submit("go").ID
	<-begun
	if _, done, err := w.client().Pause(t.Context(), id, "ann", "wrong customer?"); err != nil || !done {
		t.Fatal(done, err)
	}
	w.until("the holder knows", func() bool {
		// Its next heartbeat brings the fact; the pump flushes it.
		return count[events.OperatorActed](w, id) == 1
	})
	close(release)
	r := w.wait(id, true)
	if r.State != ledger.Parked || r.ParkReason != events.ParkPaused || count[events.ToolExecutionFinished](w, id) != 1 {
		t.Fatalf("run = %s %s\n%s", r.State, r.ParkReason, w.story(id))
	}
	if _, err := w.client().Resume(t.Context(), id, "ann", "right one"); err != nil {
		t.Fatal(err)
	}
	if r = w.wait(id, false); r.State != ledger.Finished || p.effects() != 1 || count[events.OperatorActed](w, id) != 2 {
		t.Errorf("run = %s %s, %d effects\n%s", r.State, r.Error, p.effects(), w.story(id))
	}
	w.whole()
}

func TestPausedBeforeItIsClaimedStaysInTheQueue(t *testing.T) {
	w := newWorld(t, scripted.Script(finish, finish))
	id := w.submit("go").ID
	if _, _, err := w.client().Pause(t.Context(), id, "ann", "not yet"); err != nil {
		t.Fatal(err)
	}
	w.start()
	other := w.submit("go")
	w.wait(other.ID, false) // the worker has been at the queue
	if r, err := w.store.Run(t.Context(), id); err != nil || r.State != ledger.Queued {
		t.Fatalf("run = %s, %v", r.State, err)
	}
	if _, err := w.client().Resume(t.Context(), id, "ann", "now"); err != nil {
		t.Fatal(err)
	}
	if r := w.wait(id, false); r.State != ledger.Finished {
		t.Errorf("run = %s %s", r.State, r.Error)
	}
}
