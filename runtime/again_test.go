package runtime_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// countingLedger counts what it is asked.
type countingLedger struct {
	*sqlstore.Store
	begins, claims, flushes atomic.Int64
	asked                   atomic.Int64 // for claims, also where there were none
}

func (c *countingLedger) Begin(ctx context.Context, l ledger.Lease, p ledger.Prefix, in ledger.Intent) (ledger.Verdict, error) {
	c.begins.Add(1)
	return c.Store.Begin(ctx, l, p, in)
}

func (c *countingLedger) Flush(ctx context.Context, l ledger.Lease, p ledger.Prefix) ([]events.Fact, error) {
	c.flushes.Add(1)
	return c.Store.Flush(ctx, l, p)
}

func (c *countingLedger) Claim(ctx context.Context, r ledger.ClaimRequest) ([]ledger.Claim, error) {
	cs, err := c.Store.Claim(ctx, r)
	c.claims.Add(int64(len(cs)))
	c.asked.Add(1)
	return cs, err
}

// riverqueue/river#682
// riverqueue/river#347
func TestDestructiveCallMayOutlastItsLease(t *testing.T) {
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{Timeout: time.Minute}, func(ctx context.Context, _ *tools.Invocation, _ text) (string, error) {
		select {
		case <-time.After(7 * time.Second):
			return "paid", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}))
	w.ttl = 6 * time.Second
	w.start()
	if r := w.wait(w.submit("go").ID, true); r.State != ledger.Finished {
		t.Errorf("run = %s %s\n%s", r.State, r.ParkReason, w.story(r.ID))
	}
}

// RELIABILITY row 18.
func TestKeyedCallWhoseKeyIsForgottenWaitsForAPerson(t *testing.T) {
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{Recovery: tools.Keyed(500 * time.Millisecond)}, func(context.Context, *tools.Invocation, text) (string, error) {
		return "", errLost
	}))
	l := &countingLedger{Store: w.store}
	w.startOn(l)
	id := w.submit("go").ID
	var r ledger.Run
	w.until("parked without a timer", func() bool {
		r = w.wait(id, true)
		return r.WakeAt.IsZero()
	})
	if r.State != ledger.Parked || r.ParkReason != events.ParkInDoubt || l.begins.Load() > 20 {
		t.Errorf("run = %s %s after %d begins\n%s", r.State, r.ParkReason, l.begins.Load(), w.story(id))
	}
	w.whole()
}

func TestRefusalNowIsNoOutcomeOfACallThatMayHaveTakenEffect(t *testing.T) {
	var p provider
	stopped := atomic.Bool{}
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{Recovery: tools.Keyed(time.Hour)}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		stopped.Store(true)
		return "", errLost
	}))
	w.cfg = func(c *runtime.Config) {
		c.Dispatch.Permission = func(_ context.Context, _ tools.Env, def *tools.Definition, _ tools.Call) error {
			if def.Name == "pay" && stopped.Load() {
				return errors.New("payments are switched off")
			}
			return nil
		}
	}
	w.start()
	r := w.wait(w.submit("go").ID, true)
	if r.State != ledger.Parked || r.ParkReason != events.ParkInDoubt || count[events.ToolExecutionBlocked](w, r.ID) != 0 {
		t.Errorf("run = %s %s, want parked in doubt: the first attempt may have paid\n%s", r.State, r.ParkReason, w.story(r.ID))
	}
	w.whole()
}

// RELIABILITY row 19.
func TestModelAsksAgainForWhatIsInDoubt(t *testing.T) {
	var p provider
	w := newWorld(t, scripted.Script(payOnce, payOnce, finish), pay(tools.Definition{InDoubtContinue: true}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "", errLost
	}))
	l := &countingLedger{Store: w.store}
	w.startOn(l)
	id := w.submit("go").ID
	var r ledger.Run
	w.until("parked for good", func() bool {
		r = w.wait(id, true)
		return r.State != ledger.Parked || r.WakeAt.IsZero()
	})
	if r.ParkReason != events.ParkInDoubt || p.effects() != 1 || l.begins.Load() > 10 {
		t.Errorf("run = %s %s, %d effects, %d begins\n%s", r.State, r.ParkReason, p.effects(), l.begins.Load(), w.story(id))
	}
}

// settlesBeforePark lets the effect that a run is about to wait for be settled
// at the last moment, so that the wait is refused.
type settlesBeforePark struct {
	*sqlstore.Store
	once   sync.Once
	settle func()
}

func (s *settlesBeforePark) Park(ctx context.Context, l ledger.Lease, p ledger.Prefix, pk ledger.Parking) error {
	if pk.Reason == events.ParkEffectBusy {
		s.once.Do(s.settle)
	}
	return s.Store.Park(ctx, l, p, pk)
}

func TestCallsKeepTheirOrderWhenAWaitIsRefused(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var order []string
	def := tools.Definition{Scope: tools.ScopeTenant, Window: tools.Forever, Timeout: 20 * time.Second}
	first := sync.Once{}
	both := calls(scripted.Call{Name: "pay", Arguments: `{"text":"x"}`}, scripted.Call{Name: "pay", Arguments: `{"text":"y"}`})
	w := newWorld(t, scripted.Script(payOnce, both, finish, finish), pay(def, func(_ context.Context, _ *tools.Invocation, a text) (string, error) {
		if a.Text == "x" {
			first.Do(func() { close(in) })
			<-out
		}
		mu.Lock()
		defer mu.Unlock()
		order = append(order, a.Text)
		return "paid", nil
	}))
	l := &settlesBeforePark{Store: w.store}
	w.startOn(l)
	a := w.submit("one").ID
	<-in
	l.settle = func() {
		close(out)
		w.until("the other run's effect is settled", func() bool {
			es, err := w.store.Effects(context.Background(), ledger.EffectFilter{Run: a})
			return err == nil && len(es) > 0 && es[0].State == events.EffectApplied
		})
	}
	b := w.submit("two").ID
	w.wait(a, false)
	w.wait(b, false)
	var ended []string
	for _, e := range w.history(b) {
		if f, ok := e.Data.(events.ToolExecutionFinished); ok && f.Tool == "pay" {
			ended = append(ended, f.Call.String())
		}
	}
	if len(ended) != 2 || !slices.IsSorted(ended) {
		t.Errorf("calls ended in the order %q\n%s", ended, w.story(b))
	}
	w.whole()
}

// awayForEnd refuses outcomes for a while.
type awayForEnd struct {
	*sqlstore.Store
	until atomic.Pointer[time.Time]
}

func (a *awayForEnd) End(ctx context.Context, l ledger.Lease, p ledger.Prefix, out ledger.Outcome) (ledger.Settlement, error) {
	if a.until.Load() == nil {
		end := time.Now().Add(time.Second)
		a.until.Store(&end)
	}
	if time.Now().Before(*a.until.Load()) {
		return ledger.Settlement{}, ledger.ErrUnavailable
	}
	return a.Store.End(ctx, l, p, out)
}

func TestOutcomeWaitsLongerForTheDatabaseThanItsCaller(t *testing.T) {
	var p provider
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "paid", nil
	}))
	w.cfg = func(c *runtime.Config) { c.Dispatch.EndTimeout = 50 * time.Millisecond }
	w.startOn(&awayForEnd{Store: w.store})
	r := w.wait(w.submit("go").ID, true)
	if r.State != ledger.Finished || p.effects() != 1 || count[events.ToolExecutionInDoubt](w, r.ID) != 0 {
		t.Errorf("run = %s %s, %d effects; want no doubt about what the tool said\n%s", r.State, r.ParkReason, p.effects(), w.story(r.ID))
	}
}
