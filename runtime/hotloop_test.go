package runtime_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/tools"
)

// inDoubt leaves a run behind that is parked in doubt, without a worker.
func inDoubt(t *testing.T) (*world, ledger.Run) {
	t.Helper()
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) {
		return "", errLost
	}))
	k := w.start()
	r := w.wait(w.submit("go").ID, true)
	k.stop(t)
	if r.ParkReason != events.ParkInDoubt {
		t.Fatalf("run = %s %s\n%s", r.State, r.ParkReason, w.story(r.ID))
	}
	return w, r
}

func (w *world) resolve(key events.Hash) {
	w.t.Helper()
	w.until("resolved", func() bool {
		_, err := w.store.Resolve(w.t.Context(), ledger.Resolution{OpKey: key, State: events.EffectApplied, By: "ann"})
		if err != nil && !errors.Is(err, ledger.ErrNotQuiescent) {
			w.t.Fatal(err)
		}
		return err == nil
	})
}

func TestWorkerWithoutTheCapabilityOnlyNumbersFacts(t *testing.T) {
	w, r := inDoubt(t)
	mine := w.tools
	w.tools, w.agent = w.tools[:2], func(a *agents.Agent) { a.Name = "other" }
	other := w.start()
	w.resolve(r.ParkKey)
	w.until("the other worker has numbered the resolution and gone no further", func() bool {
		r = w.wait(r.ID, true)
		return r.ParkReason != events.ParkInDoubt
	})
	if r.State != ledger.Parked || r.ParkReason != events.ParkNoCapableWorker || count[events.EffectResolved](w, r.ID) != 1 {
		t.Errorf("run = %s %s\n%s", r.State, r.ParkReason, w.story(r.ID))
	}
	w.tools, w.agent = mine, nil
	k := w.start()
	if r = w.wait(r.ID, false); r.State != ledger.Finished || r.Worker != k.Name() || r.Worker == other.Name() {
		t.Errorf("run = %s %s of %s\n%s", r.State, r.Error, r.Worker, w.story(r.ID))
	}
	w.whole()
}

// blobless has lost its blobs.
type blobless struct{ countingLedger }

func (b *blobless) Blob(context.Context, string, events.Hash) ([]byte, string, error) {
	return nil, "", ledger.ErrNotFound
}

func TestRunThatNobodyCanContinueIsNotClaimedInALoop(t *testing.T) {
	w, r := inDoubt(t)
	l := &blobless{countingLedger{Store: w.store}}
	w.startOn(l)
	w.resolve(r.ParkKey)
	w.until("parked with a reason", func() bool {
		r = w.wait(r.ID, true)
		return r.ParkReason == events.ParkNoCapableWorker
	})
	n, asked := l.claims.Load(), l.asked.Load()
	w.until("25 more sweeps", func() bool { return l.asked.Load() >= asked+25 })
	if more := l.claims.Load() - n; more > 0 || r.WakeAt.IsZero() || r.ParkDetail == "" {
		t.Errorf("claimed %d times more, parked for %q until %v\n%s", more, r.ParkDetail, r.WakeAt, w.story(r.ID))
	}
	w.whole()
}

// cancelsAtPark cancels the run right before its first wait.
type cancelsAtPark struct {
	countingLedger
	once   sync.Once
	cancel func(events.RunID)
}

func (c *cancelsAtPark) Park(ctx context.Context, l ledger.Lease, p ledger.Prefix, pk ledger.Parking) error {
	c.once.Do(func() { c.cancel(l.RunID) })
	return c.Store.Park(ctx, l, p, pk)
}

func TestCancelWhileParkingIsSeenAtOnce(t *testing.T) {
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) {
		return "", errLost
	}))
	l := &cancelsAtPark{countingLedger: countingLedger{Store: w.store}}
	l.cancel = func(id events.RunID) {
		if _, err := w.client().Cancel(context.Background(), id, "ann", "enough"); err != nil {
			t.Error(err)
		}
	}
	w.startOn(l)
	r := w.wait(w.submit("go").ID, false)
	if c := last[events.RunCancelled](w, r.ID); c.By != "ann" || c.Reason != "enough" || count[events.RunParked](w, r.ID) != 1 {
		t.Errorf("cancelled = %+v after %d flushes\n%s", c, l.flushes.Load(), w.story(r.ID))
	}
	w.whole()
}

func TestWaitEndsWithTheDeadline(t *testing.T) {
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) {
		return "", errLost
	}))
	w.agent = func(a *agents.Agent) { a.Timeout = 2 * time.Second }
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if r.State != ledger.Failed || r.StoppedBy != events.StoppedByDeadline {
		t.Errorf("run = %s %s\n%s", r.State, r.StoppedBy, w.story(r.ID))
	}
	w.whole()
}
