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
	Between

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
	f := &Faulty{rng: rand.New(rand.NewPCG(seed, 1)), rates: r, calls: map[string]int{}, dead: make(chan struct{})}
	f.Between = Between{Store: s, Call: f.call}
	return f
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

// call makes one call of the store, or none, or two.
func (f *Faulty) call(ctx context.Context, what string, _ events.RunID, ask func(context.Context) error) error {
	fault, delay := f.draw()
	switch fault {
	case "cut", "refuse":
		return away(what)
	case "lose", "last":
		_ = ask(ctx)
		return away(what + ": done, and the answer is lost")
	case "twice":
		_ = ask(ctx)
	case "delay":
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return away(what)
		}
	}
	err := ask(ctx)
	select {
	case <-f.dead: // meanwhile
		return away(what)
	default:
		return err
	}
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
