package runtime_test

import (
	"context"
	"errors"
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

// fullJournal has no room while it is full: Append waits, as the contract says.
type fullJournal struct {
	events.Journal
	full    atomic.Bool
	waiting atomic.Int64
}

func (j *fullJournal) Append(ctx context.Context, es ...events.Sealed) (events.Receipt, error) {
	for j.full.Load() {
		j.waiting.Add(1)
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), events.ErrNotAccepted)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return j.Journal.Append(ctx, es...)
}

func (w *world) withFullJournal() *fullJournal {
	j := new(fullJournal)
	w.cfg = func(c *runtime.Config) { j.Journal, c.Journal = c.Journal, j }
	return j
}

// restatedev/restate#5374
// RELIABILITY row 22.
func TestHeartbeatsGoOnWhileTheJournalIsFull(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{Timeout: time.Minute}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		close(in)
		<-out
		inv.Progress("half way", nil) // waits for room, and the session with it
		return "paid", nil
	}))
	j := w.withFullJournal()
	w.ttl = 6 * time.Second // a heartbeat every 2 s
	w.start()
	id := w.submit("go").ID
	<-in
	j.full.Store(true)
	close(out)
	w.until("the session waits for the journal", func() bool { return j.waiting.Load() > 0 })
	before, err := w.store.Run(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	w.until("the lease was extended twice", func() bool {
		r, err := w.store.Run(t.Context(), id)
		return err == nil && r.LeaseUntil.Sub(before.LeaseUntil) > w.ttl/2
	})
	j.full.Store(false)
	if r := w.wait(id, false); r.State != ledger.Finished || r.Epoch != 1 {
		t.Errorf("run = %s in epoch %d, want finished in the first\n%s", r.State, r.Epoch, w.story(id))
	}
	w.whole()
}

// RELIABILITY row 22.
func TestShutdownDoesNotWaitForAFullJournal(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{Timeout: time.Minute}, func(context.Context, *tools.Invocation, text) (string, error) {
		close(in)
		<-out
		return "paid", nil
	}))
	j := w.withFullJournal()
	cfg := w.cfg
	w.cfg = func(c *runtime.Config) {
		cfg(c)
		c.ShutdownGrace, c.Dispatch.EndTimeout = 200*time.Millisecond, 200*time.Millisecond
	}
	k := w.start()
	w.submit("go")
	<-in
	j.full.Store(true)
	close(out)
	w.until("the session waits for the journal", func() bool { return j.waiting.Load() > 0 })
	done := make(chan struct{})
	go func() { defer close(done); k.stop(t) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		j.full.Store(false)
		<-done
		t.Error("the worker did not come down while its journal was full")
	}
}

// slowOpen makes opening a run outlast several heartbeats, and counts those that
// tell of a cancel.
type slowOpen struct {
	*sqlstore.Store
	hold chan struct{}
	in   chan struct{}
	told atomic.Int64
}

func (s *slowOpen) Heartbeat(ctx context.Context, worker string, ls []ledger.Lease) ([]ledger.Beat, error) {
	bs, err := s.Store.Heartbeat(ctx, worker, ls)
	for _, b := range bs {
		if b.Cancelling {
			s.told.Add(1)
		}
	}
	return bs, err
}

func (s *slowOpen) Events(ctx context.Context, run events.RunID, from uint64, f func(events.Sealed) error) error {
	close(s.in)
	select {
	case <-s.hold:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return s.Store.Events(ctx, run, from, f)
}

func TestCancelOfARunThatTakesLongToOpen(t *testing.T) {
	w := newWorld(t, scripted.Script(finish))
	l := &slowOpen{Store: w.store, hold: make(chan struct{}), in: make(chan struct{})}
	w.ttl = 6 * time.Second
	w.startOn(l)
	id := w.submit("go").ID
	<-l.in
	if _, err := w.client().Cancel(t.Context(), id, "ann", "too late"); err != nil {
		t.Fatal(err)
	}
	w.until("two heartbeats say so", func() bool { return l.told.Load() >= 2 })
	close(l.hold)
	r := w.wait(id, false)
	if c := last[events.RunCancelled](w, id); r.State != ledger.Cancelled || r.Epoch != 1 || c.By != "ann" {
		t.Errorf("run = %s in epoch %d, %+v; want cancelled in the first", r.State, r.Epoch, c)
	}
	w.whole()
}

// losingJournal acknowledges and forgets.
type losingJournal struct{ events.Journal }

func (losingJournal) Append(context.Context, ...events.Sealed) (events.Receipt, error) {
	return stored{}, nil
}

type stored struct{}

var closedChan = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

func (stored) Done() <-chan struct{} { return closedChan }

func TestWhatTheJournalLosesIsFlushedWhileACallRuns(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	look := must(tools.New(tools.Definition{Name: "look", Description: "Looks.", Effect: tools.Readonly, Timeout: time.Minute},
		func(context.Context, *tools.Invocation, struct{}) (string, error) {
			close(in)
			<-out
			return "seen", nil
		}))
	w := newWorld(t, scripted.Script(calls(scripted.Call{Name: "look"}), finish), look)
	w.cfg = func(c *runtime.Config) { c.Journal = losingJournal{c.Journal} }
	w.ttl = 6 * time.Second // heartbeats tell how far the archive is
	w.start()
	id := w.submit("go").ID
	<-in
	w.until("the archive has the call that runs", func() bool { return count[events.ToolExecutionStarted](w, id) == 1 })
	close(out)
	if r := w.wait(id, false); r.State != ledger.Finished || r.Epoch != 1 {
		t.Errorf("run = %s in epoch %d\n%s", r.State, r.Epoch, w.story(id))
	}
	w.whole()
}
