package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/memory"
	"github.com/daybookhq/daybook/redact"
)

// fakeProjection commits in memory; while down it fails.
type fakeProjection struct {
	mu      sync.Mutex
	down    bool
	events  []events.Sealed
	fed     int
	holder  string
	until   time.Time
	unacked func() // called in Project, before it returns
}

var errAway = fmt.Errorf("dial: %w", ErrUnavailable)

func (f *fakeProjection) Project(_ context.Context, batch []Incoming) (p Projected, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return p, errAway
	}
	for _, in := range batch {
		f.events = append(f.events, in.Events...)
		p.Folded += len(in.Events)
	}
	if f.unacked != nil {
		f.unacked()
	}
	return p, nil
}

func (f *fakeProjection) Quarantine(context.Context, events.Message, string, []byte) error {
	return nil
}

func (f *fakeProjection) FoldBehind(context.Context, time.Duration, int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return 0, errAway
	}
	return 0, nil
}

func (f *fakeProjection) FeedLease(_ context.Context, holder string, ttl time.Duration) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return false, errAway
	}
	if f.holder != holder && time.Now().Before(f.until) {
		return false, nil
	}
	f.holder, f.until = holder, time.Now().Add(ttl)
	return ttl > 0, nil
}

func (f *fakeProjection) Unfed(_ context.Context, limit int) ([]events.Sealed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	es := f.events[f.fed:]
	return es[:min(len(es), limit)], nil
}

func (f *fakeProjection) Fed(_ context.Context, es []events.Sealed) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fed += len(es)
	return nil
}

func (f *fakeProjection) Rebuild(context.Context, events.RunID) error { return nil }

func (f *fakeProjection) set(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *fakeProjection) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.events)
}

func sealedEvents(t *testing.T, n int) []events.Sealed {
	t.Helper()
	r := redact.New(redact.Config{})
	ids := events.NewIDs(nil, nil)
	run := ids.Run()
	prev := events.Genesis(run)
	var es []events.Sealed
	for i := range n {
		data, err := r.JSON(events.TurnStarted{Turn: i + 1})
		if err != nil {
			t.Fatal(err)
		}
		s, err := events.Seal(events.Envelope{
			ID: ids.Event(), RunID: run, Seq: uint64(i + 1), Epoch: 1, Type: "turn_started", Version: 1, Time: time.Now(), Tenant: "acme", Prev: prev,
		}, data)
		if err != nil {
			t.Fatal(err)
		}
		prev = s.Hash()
		es = append(es, s)
	}
	return es
}

// lines is what is logged.
type lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), s)
}

func TestProjectorWaitsForDatabaseAndBroker(t *testing.T) {
	es := sealedEvents(t, 30)
	synctest.Test(t, func(t *testing.T) {
		stream := memory.NewStream(memory.Config{})
		store := &fakeProjection{down: true}
		for _, e := range es {
			if err := stream.PublishRaw("w", events.AppendMessage(nil, []events.Sealed{e})); err != nil {
				t.Fatal(err)
			}
		}
		var log lines
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		p := NewProjector(store, stream.Consumer(), stream.Feed(), ProjectorConfig{Batch: 10, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		go func() { done <- p.Run(ctx) }()

		time.Sleep(30 * time.Second) // of the bubble's time
		if n, err := stream.Consumer().Lag(ctx); n != 30 || err != nil {
			t.Errorf("lag %d, %v: something was confirmed that is not committed", n, err)
		}
		if n := log.count("cannot project into the ledger"); n != 1 {
			t.Errorf("the outage was logged %d times, want once", n)
		}
		store.set(false)
		time.Sleep(10 * time.Second)
		if n, err := stream.Consumer().Lag(ctx); n != 0 || err != nil || store.count() != 30 {
			t.Errorf("lag %d, %v, %d events", n, err, store.count())
		}
		if n := log.count("works again: project into the ledger"); n != 1 {
			t.Errorf("the recovery was logged %d times", n)
		}
		if n := len(stream.FeedMessages()); n != 30 {
			t.Errorf("%d events in the feed", n)
		}
		stream.SetDown(true)
		time.Sleep(10 * time.Second)
		stream.SetDown(false)
		if err := stream.PublishRaw("w", events.AppendMessage(nil, es[:1])); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if store.count() != 31 || len(stream.FeedMessages()) != 30 {
			t.Errorf("after the broker was away: %d events, %d in the feed", store.count(), len(stream.FeedMessages()))
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if store.until.After(time.Now()) {
			t.Error("the feed was not given back")
		}
	})
}

// RELIABILITY row 12.
func TestProjectorConfirmsOnlyWhatIsCommitted(t *testing.T) {
	es := sealedEvents(t, 5)
	synctest.Test(t, func(t *testing.T) {
		stream := memory.NewStream(memory.Config{})
		lag := make(chan uint64, 1)
		store := &fakeProjection{unacked: func() {
			n, _ := stream.Consumer().Lag(context.Background())
			lag <- n
		}}
		if err := stream.PublishRaw("w", events.AppendMessage(nil, es)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- NewProjector(store, stream.Consumer(), nil, ProjectorConfig{}).Run(ctx) }()
		if n := <-lag; n != 1 {
			t.Errorf("lag %d inside of the transaction", n)
		}
		synctest.Wait()
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Fault 21 of RELIABILITY: what one projector holds while the database is away does
// not go to another as well, and what a dead one held goes to another soon.
func TestProjectorKeepsWhatItWorksOn(t *testing.T) {
	es := sealedEvents(t, 30)
	synctest.Test(t, func(t *testing.T) {
		stream := memory.NewStream(memory.Config{})
		for _, e := range es {
			if err := stream.PublishRaw("w", events.AppendMessage(nil, []events.Sealed{e})); err != nil {
				t.Fatal(err)
			}
		}
		if ms, err := stream.Consumer().Fetch(t.Context(), 5, 0); len(ms) != 5 || err != nil { // by one that dies now
			t.Fatalf("%d messages, %v", len(ms), err)
		}
		store := &fakeProjection{down: true}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if err := NewProjector(store, stream.Consumer(), nil, ProjectorConfig{Batch: 25}).Run(ctx); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(50 * time.Second)
		store.set(false)
		time.Sleep(15 * time.Second)
		if n, err := stream.Consumer().Lag(ctx); n != 0 || err != nil || store.count() != len(es) {
			t.Errorf("lag %d, %v; %d events projected, want each of %d once", n, err, store.count(), len(es))
		}
		stop()
		wg.Wait()
	})
}

// One projector that is cut off from the database does not keep what it has
// fetched from those that are not.
func TestProjectorGivesUpWhatItCannotCommit(t *testing.T) {
	es := sealedEvents(t, 5)
	synctest.Test(t, func(t *testing.T) {
		stream := memory.NewStream(memory.Config{})
		if err := stream.PublishRaw("w", events.AppendMessage(nil, es)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		project := func(store *fakeProjection) {
			wg.Go(func() {
				if err := NewProjector(store, stream.Consumer(), nil, ProjectorConfig{}).Run(ctx); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		project(&fakeProjection{down: true}) // it gets the message
		well := &fakeProjection{}
		project(well)
		time.Sleep(keepFor - 5*time.Second)
		if n := well.count(); n != 0 {
			t.Errorf("%d events went to another at once", n)
		}
		time.Sleep(30 * time.Second)
		if n, err := stream.Consumer().Lag(ctx); n != 0 || err != nil || well.count() != len(es) {
			t.Errorf("lag %d, %v; the other projected %d of %d events", n, err, well.count(), len(es))
		}
		stop()
		wg.Wait()
	})
}

func TestProjectTailStopsAtTheFirstError(t *testing.T) {
	stream := memory.NewStream(memory.Config{})
	if err := stream.PublishRaw("w", events.AppendMessage(nil, sealedEvents(t, 2))); err != nil {
		t.Fatal(err)
	}
	store := &fakeProjection{down: true}
	if _, err := ProjectTail(t.Context(), store, stream.Consumer(), "w"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("while the database is away: %v", err)
	}
	store.set(false)
	if p, err := ProjectTail(t.Context(), store, stream.Consumer(), "w"); err != nil || p.Folded != 2 {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := ProjectTail(t.Context(), store, stream.Consumer(), "other"); err != nil || p.Folded != 0 {
		t.Errorf("of another worker: %+v, %v", p, err)
	}
}
