package runtime_test

import (
	"context"
	"sync/atomic"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/runtime"
)

// killJournal is the journal of a worker that dies at its n-th event: before it
// gets anywhere, or right after it was accepted.
type killJournal struct {
	cutJournal
	die   func()
	n     *atomic.Int64
	at    int64
	after bool
}

func (j killJournal) Append(ctx context.Context, es ...events.Sealed) (events.Receipt, error) {
	mine := j.n.Add(int64(len(es))) == j.at
	if mine && !j.after {
		j.die()
	}
	r, err := j.cutJournal.Append(ctx, es...)
	if mine && j.after {
		j.die()
	}
	return r, err
}

// dies has a run submitted whose first worker dies at an event of its own, before it
// or after it, and returns once it is gone and its lease has lapsed: whoever starts
// another worker goes on. over says that a run has got as far as it can without that
// event; nil = it always comes. cut ends the worker all the same.
func (w *world) dies(at int, after bool, submit func() events.RunID, over func(id events.RunID, cut func()) bool) events.RunID {
	w.t.Helper()
	inner := w.cfg
	store := ledgertest.NewFaulty(w.store, uint64(at), ledgertest.Rates{}) //nolint:gosec // small
	w.cfg = func(cfg *runtime.Config) {
		if inner != nil {
			inner(cfg)
		}
		cfg.Journal = killJournal{cutJournal{cfg.Journal, store.Gone()}, store.Cut, new(atomic.Int64), int64(at), after}
	}
	id := submit()
	doomed := w.startOn(store)
	w.until("the worker is dead, or the run is over", func() bool {
		select {
		case <-store.Gone():
			return true
		default:
			return over != nil && over(id, store.Cut)
		}
	})
	doomed.cancel()
	doomed.stop(w.t)
	w.advance(2 * w.ttl)
	w.cfg = inner
	return id
}

// heir is another worker that goes on with a run whose first one died.
func (w *world) heir(id events.RunID) events.RunID {
	w.t.Helper()
	heir := w.start()
	defer heir.stop(w.t)
	return w.wait(id, false).ID
}
