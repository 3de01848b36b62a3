package ledgertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// Rates are the probabilities of what may happen to a call of a [Faulty] store.
type Rates struct {
	Refuse float64 // the database is away: nothing is done
	Lose   float64 // done, and the caller hears that the database is away
	Twice  float64 // asked twice, and only the second answer arrives
	Delay  float64 // the answer takes up to MaxDelay
	// MaxDelay bounds a delay. Zero means 20 ms.
	MaxDelay time.Duration
}

// Faulty is a store as a worker sees it over a bad network, repeatable by its
// seed. Cut takes the database away from this worker for good: as far as
// anybody else can see, its process has been killed. Safe for concurrent use.
type Faulty struct {
	*sqlstore.Store

	mu    sync.Mutex
	rng   *rand.Rand
	rates Rates
	calls map[string]int // by fault
	n     int
	cutAt int // 0 = never
	dead  chan struct{}
	onCut func()
}

// NewFaulty returns a store over s that fails at the given rates.
func NewFaulty(s *sqlstore.Store, seed uint64, r Rates) *Faulty {
	if r.MaxDelay == 0 {
		r.MaxDelay = 20 * time.Millisecond
	}
	return &Faulty{Store: s, rng: rand.New(rand.NewPCG(seed, 1)), rates: r, calls: map[string]int{}, dead: make(chan struct{})}
}

// CutAfter makes the n-th call from now the last one: it is done, and its answer
// and everything after it is lost. then is called once, from that call.
func (f *Faulty) CutAfter(n int, then func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cutAt, f.onCut = f.n+n, then
}

// Cut takes the database away for good.
func (f *Faulty) Cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut()
}

// Gone is closed by the cut.
func (f *Faulty) Gone() <-chan struct{} { return f.dead }

func (f *Faulty) cut() {
	select {
	case <-f.dead:
	default:
		close(f.dead)
		if f.onCut != nil {
			go f.onCut()
		}
	}
}

// Heal ends all faults but a cut.
func (f *Faulty) Heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rates = Rates{}
}

// Faults says how often each fault happened.
func (f *Faulty) Faults() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]int{}
	for k, n := range f.calls {
		out[k] = n
	}
	return out
}

// draw decides what happens to the next call.
func (f *Faulty) draw() (fault string, delay time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.dead:
		return "cut", 0
	default:
	}
	f.n++
	if f.cutAt > 0 && f.n >= f.cutAt {
		f.cut()
		return "last", 0
	}
	x, r := f.rng.Float64(), f.rates
	for _, p := range []struct {
		fault string
		rate  float64
	}{{"refuse", r.Refuse}, {"lose", r.Lose}, {"twice", r.Twice}, {"delay", r.Delay}} {
		if x -= p.rate; x < 0 {
			f.calls[p.fault]++
			if p.fault == "delay" {
				delay = rand.N(r.MaxDelay) //nolint:gosec // a test
			}
			return p.fault, delay
		}
	}
	return "", 0
}

// away is what a caller hears without an answer.
func away(what string) error { return fmt.Errorf("injected: %s: %w", what, ledger.ErrUnavailable) }

// asked makes one call of f.
func asked[T any](ctx context.Context, f *Faulty, what string, call func() (T, error)) (T, error) {
	var none T
	fault, delay := f.draw()
	switch fault {
	case "cut", "refuse":
		return none, away(what)
	case "lose", "last":
		_, _ = call()
		return none, away(what + ": done, and the answer is lost")
	case "twice":
		_, _ = call()
	case "delay":
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return none, away(what)
		}
	}
	v, err := call()
	select {
	case <-f.dead: // meanwhile
		return none, away(what)
	default:
		return v, err
	}
}

// told is asked for a call that returns nothing but an error.
func told(ctx context.Context, f *Faulty, what string, call func() error) error {
	_, err := asked(ctx, f, what, func() (struct{}, error) { return struct{}{}, call() })
	return err
}

// Claim implements ledger.Runs.
func (f *Faulty) Claim(ctx context.Context, r ledger.ClaimRequest) ([]ledger.Claim, error) {
	return asked(ctx, f, "claim", func() ([]ledger.Claim, error) { return f.Store.Claim(ctx, r) })
}

// Base implements ledger.Runs.
func (f *Faulty) Base(ctx context.Context, l ledger.Lease) (ledger.Base, error) {
	return asked(ctx, f, "base", func() (ledger.Base, error) { return f.Store.Base(ctx, l) })
}

// Heartbeat implements ledger.Runs.
func (f *Faulty) Heartbeat(ctx context.Context, worker string, ls []ledger.Lease) ([]ledger.Beat, error) {
	return asked(ctx, f, "heartbeat", func() ([]ledger.Beat, error) { return f.Store.Heartbeat(ctx, worker, ls) })
}

// Flush implements ledger.Barriers.
func (f *Faulty) Flush(ctx context.Context, l ledger.Lease, p ledger.Prefix) ([]events.Fact, error) {
	return asked(ctx, f, "flush", func() ([]events.Fact, error) { return f.Store.Flush(ctx, l, p) })
}

// Park implements ledger.Barriers.
func (f *Faulty) Park(ctx context.Context, l ledger.Lease, p ledger.Prefix, park ledger.Parking) error {
	return told(ctx, f, "park", func() error { return f.Store.Park(ctx, l, p, park) })
}

// Finish implements ledger.Barriers.
func (f *Faulty) Finish(ctx context.Context, l ledger.Lease, p ledger.Prefix, e ledger.Ending) error {
	return told(ctx, f, "finish", func() error { return f.Store.Finish(ctx, l, p, e) })
}

// Release implements ledger.Barriers.
func (f *Faulty) Release(ctx context.Context, l ledger.Lease, p ledger.Prefix) error {
	return told(ctx, f, "release", func() error { return f.Store.Release(ctx, l, p) })
}

// Begin implements ledger.Effects.
func (f *Faulty) Begin(ctx context.Context, l ledger.Lease, p ledger.Prefix, in ledger.Intent) (ledger.Verdict, error) {
	return asked(ctx, f, "begin", func() (ledger.Verdict, error) { return f.Store.Begin(ctx, l, p, in) })
}

// End implements ledger.Effects.
func (f *Faulty) End(ctx context.Context, l ledger.Lease, p ledger.Prefix, out ledger.Outcome) (ledger.Settlement, error) {
	return asked(ctx, f, "end", func() (ledger.Settlement, error) { return f.Store.End(ctx, l, p, out) })
}

// Resolve implements ledger.Effects.
func (f *Faulty) Resolve(ctx context.Context, r ledger.Resolution) (ledger.Settlement, error) {
	return asked(ctx, f, "resolve", func() (ledger.Settlement, error) { return f.Store.Resolve(ctx, r) })
}

// FireDue implements ledger.Schedules. It has no faults but the cut: it is called
// by the clock, and what a seed does must not depend on that.
func (f *Faulty) FireDue(ctx context.Context, limit int) ([]ledger.Fired, error) {
	select {
	case <-f.dead:
		return nil, away("fire")
	default:
		return f.Store.FireDue(ctx, limit)
	}
}
