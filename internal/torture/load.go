package torture

import (
	"context"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
)

// tenant of everything a torture submits.
const tenant = "torture"

// load is what was submitted and acknowledged.
type load struct {
	mu   sync.Mutex
	runs map[int]events.RunID
}

func (l *load) accepted(n int, id events.RunID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.runs == nil {
		l.runs = map[int]events.RunID{}
	}
	l.runs[n] = id
}

// submit keeps runs open until ctx ends or there are enough of them. A
// submission whose answer is unknown is sent again under its key.
func (t *torture) submit(ctx context.Context) {
	for n := 1; t.cfg.Runs == 0 || n <= t.cfg.Runs; n++ {
		for open := t.watch.open(ctx); open < 0 || open >= t.cfg.Open; open = t.watch.open(ctx) {
			if !sleep(ctx, 100*time.Millisecond) {
				return
			}
		}
		for {
			run, _, err := t.watch.client.Submit(ctx, runtime.Submit{
				Tenant: tenant, Queue: "torture", Agent: "torture", Input: planRun(t.cfg.Seed, n), ClientKey: clientKey(n), Owner: "torture",
			})
			if err == nil {
				t.load.accepted(n, run.ID)
				break
			}
			if !sleep(ctx, 100*time.Millisecond) {
				return
			}
		}
	}
}

// watch looks at the ledger from outside.
type watch struct {
	store  ledger.Store
	client *runtime.Client

	mu     sync.Mutex
	known  int       // open runs at the last look, -1 = could not be asked
	looked time.Time // when that was
}

func openWatch(ctx context.Context, o system.Options) (*watch, error) {
	st, red, err := system.OpenLedger(ctx, o)
	if err != nil {
		return nil, err
	}
	return &watch{store: st, client: runtime.NewClient(st, red, nil)}, nil
}

func (w *watch) close() { _ = w.store.Close() }

var openStates = []ledger.State{ledger.Queued, ledger.Running, ledger.Cancelling, ledger.Parked}

// open counts runs that have not ended and can go on by themselves, or -1. It
// asks the ledger a few times a second at most.
func (w *watch) open(ctx context.Context) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.looked) < 250*time.Millisecond && w.known >= 0 {
		w.known++ // whoever asks submits one
		return w.known
	}
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	rs, err := w.store.Summaries(ctx, ledger.RunFilter{Tenant: tenant, States: openStates, Limit: 1000})
	w.looked, w.known = time.Now(), -1
	if err != nil {
		return -1
	}
	w.known = 0
	for _, r := range rs {
		if !forPerson(r.Run) {
			w.known++
		}
	}
	return w.known
}

// forPerson reports whether a run waits for somebody to settle an effect.
func forPerson(r ledger.Run) bool {
	return r.State == ledger.Parked && r.ParkReason == events.ParkInDoubt
}
