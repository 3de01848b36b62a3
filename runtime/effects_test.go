package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/tools"
)

// provider counts what really happened, by key.
type provider struct {
	mu   sync.Mutex
	done map[string]int
	keys []string
}

func (p *provider) apply(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done == nil {
		p.done = map[string]int{}
	}
	p.done[key]++
	p.keys = append(p.keys, key)
	return p.done[key]
}

func (p *provider) count(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done[key]
}

func (p *provider) effects() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.done {
		n += c
	}
	return n
}

var errLost = errors.New("connection reset while waiting for the answer")

// faremeter/interchange PR#84
// RELIABILITY row 6.
func TestUnclearOutcomeWaitsForAPerson(t *testing.T) {
	var p provider
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "", errLost
	}))
	w.start()
	r := w.wait(w.submit("go").ID, true)
	if r.State != ledger.Parked || r.ParkReason != events.ParkInDoubt || r.ParkKey.IsZero() {
		t.Fatalf("run = %s %s %q\n%s", r.State, r.ParkReason, r.ParkDetail, w.story(r.ID))
	}
	res := ledger.Resolution{OpKey: r.ParkKey, State: events.EffectApplied, By: "ann", Note: "seen in the provider's log"}
	w.until("quiescent", func() bool {
		_, err := w.store.Resolve(t.Context(), res)
		if err != nil && !errors.Is(err, ledger.ErrNotQuiescent) {
			t.Fatal(err)
		}
		return err == nil
	})
	r = w.wait(r.ID, false)
	if r.State != ledger.Finished || p.effects() != 1 {
		t.Errorf("run = %s %s, %d effects\n%s", r.State, r.Error, p.effects(), w.story(r.ID))
	}
	if e := last[events.EffectResolved](w, r.ID); e.By != "ann" || e.State != events.EffectApplied {
		t.Errorf("resolved = %+v", e)
	}
	w.whole()
}

// RELIABILITY row 6.
func TestKeyedCallIsMadeAgainUnderTheSameKey(t *testing.T) {
	var p provider
	tries := atomic.Int64{}
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{Recovery: tools.Keyed(time.Hour)}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		if p.count(inv.OpKey) == 0 {
			p.apply(inv.OpKey)
		}
		if tries.Add(1) < 3 {
			return "", errLost
		}
		return "paid", nil
	}))
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if r.State != ledger.Finished || p.effects() != 1 || tries.Load() != 3 {
		t.Errorf("run = %s %s, %d effects after %d tries\n%s", r.State, r.Error, p.effects(), tries.Load(), w.story(r.ID))
	}
	w.whole()
}

// RELIABILITY row 5.
func TestProbeSettlesWhatNobodyKnows(t *testing.T) {
	for _, tt := range []struct {
		name    string
		happens bool // before the first answer is lost
		unknown int  // answers of the probe before it knows
		effects int
	}{
		{"it happened", true, 0, 1},
		{"it did not happen, so the call is made again", false, 0, 1},
		{"the probe cannot tell at first", true, 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p provider
			var asked atomic.Int64
			first := atomic.Bool{}
			first.Store(true)
			tool := pay(tools.Definition{Recovery: tools.Probed()}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
				if first.Swap(false) {
					if tt.happens {
						p.apply(inv.OpKey)
					}
					return "", errLost
				}
				p.apply(inv.OpKey)
				return "paid", nil
			})
			tool = tools.WithProbe(tool, func(_ context.Context, inv *tools.Invocation) (tools.ProbeResult, error) {
				switch {
				case int(asked.Add(1)) <= tt.unknown:
					return tools.ProbeResult{}, errors.New("try later")
				case p.count(inv.OpKey) > 0:
					return tools.ProbeResult{State: tools.ProbeHappened, Result: "paid"}, nil
				default:
					return tools.ProbeResult{State: tools.ProbeDidNotHappen}, nil
				}
			})
			w := newWorld(t, scripted.Script(payOnce, finish), must(tool, nil))
			w.start()
			r := w.wait(w.submit("go").ID, false)
			if r.State != ledger.Finished || p.effects() != tt.effects || len(p.keys) == 0 {
				t.Errorf("run = %s %s, %d effects, want %d\n%s", r.State, r.Error, p.effects(), tt.effects, w.story(r.ID))
			}
			w.whole()
		})
	}
}

// RELIABILITY row 19.
func TestAnotherRunGetsTheEarlierOutcome(t *testing.T) {
	var p provider
	def := tools.Definition{Scope: tools.ScopeTenant, Window: tools.Forever}
	w := newWorld(t, scripted.Script(payOnce, finish, payOnce, finish), pay(def, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "receipt 7", nil
	}))
	w.start()
	a := w.wait(w.submit("one").ID, false)
	b := w.wait(w.submit("two").ID, false)
	var rep *events.ToolExecutionFinished
	for _, e := range w.history(b.ID) {
		if f, ok := e.Data.(events.ToolExecutionFinished); ok && f.Tool == "pay" {
			rep = &f
		}
	}
	if rep == nil || !rep.Repeated || rep.Of == nil || rep.Of.Run != a.ID || rep.Result.Output != "receipt 7" || p.effects() != 1 {
		t.Errorf("second run got %+v, %d effects\n%s", rep, p.effects(), w.story(b.ID))
	}
	w.whole()
}

// RELIABILITY row 19.
func TestSameIdentityWithOtherArgumentsIsAConflict(t *testing.T) {
	var p provider
	type order struct {
		Order  string `json:"order"`
		Amount string `json:"amount"`
	}
	tool := must(tools.New(tools.Definition{Name: "pay", Description: "Pays.", Effect: tools.Destructive, Identity: []string{"order"}},
		func(_ context.Context, inv *tools.Invocation, in order) (string, error) {
			p.apply(inv.OpKey)
			return "paid " + in.Amount, nil
		}))
	ask := func(amount string) scripted.Answer {
		return calls(scripted.Call{Name: "pay", Arguments: `{"order":"o1","amount":"` + amount + `"}`})
	}
	w := newWorld(t, scripted.Script(ask("10"), ask("11"), finish), tool)
	w.start()
	r := w.wait(w.submit("go").ID, false)
	b := last[events.ToolExecutionBlocked](w, r.ID)
	if p.effects() != 1 || b.Reason != events.BlockedInvalidArguments || b.Detail != "identity_conflict" || !strings.Contains(b.Result.Error, "10") {
		t.Errorf("%d effects, blocked = %+v", p.effects(), b)
	}
	w.whole()
}

func TestRunWaitsForAnEffectThatAnotherHolds(t *testing.T) {
	var p provider
	in, out := make(chan struct{}), make(chan struct{})
	def := tools.Definition{Scope: tools.ScopeTenant, Window: tools.Forever, Timeout: 20 * time.Second}
	w := newWorld(t, scripted.Script(payOnce, payOnce, finish, finish), pay(def, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		close(in)
		<-out
		p.apply(inv.OpKey)
		return "paid", nil
	}))
	w.start()
	a := w.submit("one").ID
	<-in
	b := w.submit("two").ID
	if r := w.wait(b, true); r.ParkReason != events.ParkEffectBusy {
		t.Fatalf("second run = %s %s", r.State, r.ParkReason)
	}
	close(out)
	for _, id := range []events.RunID{a, b} {
		if r := w.wait(id, false); r.State != ledger.Finished {
			t.Errorf("run %s = %s %s", id, r.State, r.Error)
		}
	}
	if p.effects() != 1 {
		t.Errorf("%d effects, want 1", p.effects())
	}
	w.whole()
}

func TestSecretsReachToolsAndNothingElse(t *testing.T) {
	const secret = "correct-horse-battery-staple"
	var got string
	w := newWorld(t, scripted.Script(
		calls(scripted.Call{Name: "pay", Arguments: `{"text":"secret://bank"}`}),
		calls(scripted.Call{Name: "pay", Arguments: `{"text":"` + secret + `"}`}), finish),
		pay(tools.Definition{}, func(_ context.Context, _ *tools.Invocation, in text) (string, error) {
			got = in.Text
			return "used " + in.Text, nil
		}))
	if err := w.vault.Set("bank", secret); err != nil {
		t.Fatal(err)
	}
	w.start()
	r := w.wait(w.submit("my password is "+secret).ID, false)
	if got != secret {
		t.Errorf("the tool got %q", got)
	}
	// A destructive call with a redacted argument is not made: its identity would be the marker's.
	if b := last[events.ToolExecutionBlocked](w, r.ID); b.Detail != "redacted_argument" {
		t.Errorf("blocked = %+v", b)
	}
	for _, e := range w.history(r.ID) {
		if b, _ := json.Marshal(e.Data); strings.Contains(string(b), secret) {
			t.Errorf("seq %d %s holds the secret", e.Seq, e.Type)
		}
	}
	if run, _ := w.store.Run(t.Context(), r.ID); strings.Contains(string(run.Input), secret) {
		t.Error("the runs row holds the secret")
	}
}

// faultyLedger loses answers: the call is done, the caller hears that the
// database is unavailable (Temporal's ExecuteAndTimeout).
type faultyLedger struct {
	*sqlstore.Store
	begins, ends, parks, finishes atomic.Int64
	loseEvery                     int64
}

func (f *faultyLedger) lose(n *atomic.Int64) bool { return n.Add(1)%f.loseEvery == 1 }

func (f *faultyLedger) Begin(ctx context.Context, l ledger.Lease, p ledger.Prefix, in ledger.Intent) (ledger.Verdict, error) {
	v, err := f.Store.Begin(ctx, l, p, in)
	if err == nil && f.lose(&f.begins) {
		return ledger.Verdict{}, ledger.ErrUnavailable
	}
	return v, err
}

func (f *faultyLedger) End(ctx context.Context, l ledger.Lease, p ledger.Prefix, out ledger.Outcome) (ledger.Settlement, error) {
	s, err := f.Store.End(ctx, l, p, out)
	if err == nil && f.lose(&f.ends) {
		return ledger.Settlement{}, ledger.ErrUnavailable
	}
	return s, err
}

func (f *faultyLedger) Finish(ctx context.Context, l ledger.Lease, p ledger.Prefix, e ledger.Ending) error {
	err := f.Store.Finish(ctx, l, p, e)
	if err == nil && f.lose(&f.finishes) {
		return ledger.ErrUnavailable
	}
	return err
}

func (f *faultyLedger) Park(ctx context.Context, l ledger.Lease, p ledger.Prefix, pk ledger.Parking) error {
	err := f.Store.Park(ctx, l, p, pk)
	if err == nil && f.lose(&f.parks) {
		return ledger.ErrUnavailable
	}
	return err
}

// RELIABILITY rows 3, 8.
func TestLostAnswersOfTheDatabaseAreAskedAgain(t *testing.T) {
	var p provider
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{Timeout: 20 * time.Second}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "paid", nil
	}))
	f := &faultyLedger{Store: w.store, loseEvery: 2}
	w.startOn(f)
	r := w.wait(w.submit("go").ID, false)
	if r.State != ledger.Finished || p.effects() != 1 || f.begins.Load() != 2 || f.ends.Load() != 2 {
		t.Errorf("run = %s, %d effects, %d begins, %d ends", r.State, p.effects(), f.begins.Load(), f.ends.Load())
	}
	if n := count[events.ToolExecutionStarted](w, r.ID); n != 2 { // pay and finish, each once
		t.Errorf("%d started events\n%s", n, w.story(r.ID))
	}
	w.whole()
}

// awayLedger refuses Begin as long as the database is away.
type awayLedger struct {
	*sqlstore.Store
	away  atomic.Bool
	asked atomic.Int64
}

func (f *awayLedger) Begin(ctx context.Context, l ledger.Lease, p ledger.Prefix, in ledger.Intent) (ledger.Verdict, error) {
	if f.away.Load() {
		f.asked.Add(1)
		return ledger.Verdict{}, ledger.ErrUnavailable
	}
	return f.Store.Begin(ctx, l, p, in)
}

// RELIABILITY row 15.
func TestNoDestructiveCallWhileTheDatabaseIsAway(t *testing.T) {
	var p provider
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "paid", nil
	}))
	f := &awayLedger{Store: w.store}
	f.away.Store(true)
	w.startOn(f)
	id := w.submit("go").ID
	w.until("Begin was asked more than once", func() bool { return f.asked.Load() > 2 })
	if p.effects() != 0 {
		t.Fatal("the tool ran without a durable claim")
	}
	f.away.Store(false)
	if r := w.wait(id, false); r.State != ledger.Finished || p.effects() != 1 {
		t.Errorf("run = %s %s, %d effects", r.State, r.Error, p.effects())
	}
	w.whole()
}

// RELIABILITY row 13.
func TestZombieKeepsItsOutcomeAndNothingElse(t *testing.T) {
	var p provider
	in, out := make(chan struct{}), make(chan struct{})
	once := sync.Once{}
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{Timeout: 20 * time.Second}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		once.Do(func() { close(in) })
		<-out // deaf to its context, like a paused process
		return "paid", nil
	}))
	deaf := &deafLedger{Store: w.store}
	w.ttl = 3 * time.Second // is waited for
	w.startOn(deaf)
	id := w.submit("go").ID
	<-in
	deaf.deaf.Store(true) // its heartbeats do not arrive any more: the lease lapses
	w.ttl = 15 * time.Second
	second := w.start()
	r := w.wait(id, true)
	if r.State != ledger.Parked || r.ParkReason != events.ParkInDoubt || r.Worker != second.Name() {
		t.Fatalf("run = %s %s of %s, want parked in doubt by %s\n%s", r.State, r.ParkReason, r.Worker, second.Name(), w.story(id))
	}
	close(out) // the zombie wakes up and reports: late evidence
	r = w.wait(id, false)
	if r.State != ledger.Finished || p.effects() != 1 {
		t.Errorf("run = %s %s, %d effects\n%s", r.State, r.Error, p.effects(), w.story(id))
	}
	if e := last[events.EffectResolved](w, id); e.By != "late_evidence" || e.State != events.EffectApplied {
		t.Errorf("resolved = %+v", e)
	}
	w.whole()
}

type deafLedger struct {
	*sqlstore.Store
	deaf atomic.Bool
}

func (d *deafLedger) Heartbeat(ctx context.Context, worker string, ls []ledger.Lease) ([]ledger.Beat, error) {
	if d.deaf.Load() {
		return nil, ledger.ErrUnavailable
	}
	return d.Store.Heartbeat(ctx, worker, ls)
}

func (d *deafLedger) Claim(ctx context.Context, r ledger.ClaimRequest) ([]ledger.Claim, error) {
	if d.deaf.Load() {
		return nil, ledger.ErrUnavailable
	}
	return d.Store.Claim(ctx, r)
}
