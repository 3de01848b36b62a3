package runtime_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
)

// ahead is a journal that was confirmed further than the database knows.
type ahead struct {
	events.Reader
	by uint64
}

func (a ahead) Position(ctx context.Context) (events.Position, error) {
	p, err := a.Reader.Position(ctx)
	p.Last += a.by
	p.Confirmed = p.Last
	return p, err
}

// RELIABILITY row 16: a worker finds out by itself that the database it was given
// is older than its journal, before it claims anything.
func TestWorkerComparesTheDatabaseBeforeItClaims(t *testing.T) {
	w := newWorld(t, scripted.Script(finish, finish, finish))
	first := w.start()
	w.wait(w.submit("before").ID, false)
	first.stop(t)
	reader := events.Reader(w.stream.Consumer())
	w.until("all is projected", func() bool {
		p, err := reader.Position(t.Context())
		return err == nil && p.Last > 0 && p.Confirmed == p.Last
	})

	compared := atomic.Int64{}
	gone := errors.New("the journal is away")
	w.cfg = func(c *runtime.Config) {
		c.Compare = func(ctx context.Context) error {
			if compared.Add(1) == 1 {
				return gone // asked again
			}
			return ledger.CompareJournal(ctx, w.store, ahead{reader, 3})
		}
	}
	w.start()
	id := w.submit("after").ID
	w.until("it was asked again and again", func() bool { return compared.Load() > 3 })
	if err := w.store.RolledBack(t.Context()); !errors.Is(err, ledger.ErrRolledBack) {
		t.Errorf("the database is not refused: %v", err)
	}
	if r, err := w.store.Run(t.Context(), id); err != nil || r.State != ledger.Queued || r.Epoch != 0 {
		t.Fatalf("run = %s in epoch %d, %v", r.State, r.Epoch, err)
	}
	p, err := ahead{reader, 3}.Position(t.Context())
	if err == nil {
		err = w.store.Reconciled(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r := w.wait(id, false); r.State != ledger.Finished {
		t.Errorf("run = %s\n%s", r.State, w.story(id))
	}
}
