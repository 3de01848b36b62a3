package telemetry

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/trace"
)

// maxRuns bounds how many runs a feed keeps folds of; the one that was heard of
// longest ago is read again when it is heard of again.
const maxRuns = 10000

// History reads the events of a run from seq from on, in order.
type History func(ctx context.Context, run events.RunID, from uint64, each func(events.Sealed) error) error

// flushTimeout is how long a round of the feed waits for the collector to take its
// spans, and flushPause how long no round waits after one was not taken in time.
const (
	flushTimeout = 2 * time.Second
	flushPause   = 30 * time.Second
)

// Feed is a feed that also tells t what it publishes, after it is published: spans
// and metrics are made in whatever process holds the feed, of every valid event.
// Publish returns once the collector has a round's spans, so that a process that is
// killed takes none with it: the next holder tells again what was not marked as fed,
// under the same ids. A collector that is away or slow is waited for 2 s in 30 s;
// what does not fit its queue meanwhile is dropped. Safe for one publisher at a
// time, as feeds are used. With t off it is next.
func (t *Telemetry) Feed(next events.Feed, read History) events.Feed {
	if t == nil || t.traces == nil && t.metrics == nil {
		return next
	}
	return &feed{t: t, next: next, read: read, meters: t.newMeters(), max: maxRuns, runs: map[events.RunID]*list.Element{}, recent: list.New()}
}

type feed struct {
	t      *Telemetry
	next   events.Feed
	read   History
	meters *meters
	max    int
	runs   map[events.RunID]*list.Element // of *trace.Fold by run
	recent *list.List                     // most recent first
	unsent int                            // spans since the last flush
	again  time.Time                      // no flush before
}

// errThere ends the reading of a run's past.
var errThere = errors.New("that is all of the past")

type known struct {
	run  events.RunID
	fold *trace.Fold
}

// Publish implements [events.Feed].
func (f *feed) Publish(ctx context.Context, es ...events.Sealed) error {
	if err := f.next.Publish(ctx, es...); err != nil {
		return err
	}
	for _, s := range es {
		if err := f.tell(ctx, s); err != nil {
			env := s.Envelope()
			f.t.log.WarnContext(ctx, "an event is missing from the trace of its run", "run", env.RunID, "seq", env.Seq, "error", err)
		}
	}
	f.flush(ctx)
	return nil
}

// flush waits for the collector, unless it was too slow a moment ago.
func (f *feed) flush(ctx context.Context) {
	if f.t.traces == nil || f.unsent == 0 || time.Now().Before(f.again) {
		return
	}
	f.unsent = 0
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	if err := f.t.traces.ForceFlush(ctx); err != nil {
		f.again = time.Now().Add(flushPause)
		f.t.log.WarnContext(ctx, "the collector does not take spans; runs go on, spans are dropped once the queue is full", "again in", flushPause, "error", err)
	}
}

// Close implements [events.Feed].
func (f *feed) Close(ctx context.Context) error { return f.next.Close(ctx) }

func (f *feed) tell(ctx context.Context, s events.Sealed) error {
	e, err := s.Decode()
	if err != nil {
		return err
	}
	fold, err := f.of(ctx, e)
	if err != nil {
		return err
	}
	for _, span := range fold.Apply(e) {
		f.meters.count(&span)
		f.t.send(span)
		f.unsent++
	}
	if fold.Ended() {
		f.forget(e.RunID)
	}
	return nil
}

// of is the fold of the event's run, up to the event.
func (f *feed) of(ctx context.Context, e events.Event) (*trace.Fold, error) {
	if at, ok := f.runs[e.RunID]; ok {
		f.recent.MoveToFront(at)
		return at.Value.(known).fold, nil
	}
	fold := trace.New(e.RunID, f.t.options)
	if e.Seq > 1 { // another process told its beginning, or this one has forgotten it
		err := f.read(ctx, e.RunID, 1, func(s events.Sealed) error {
			if s.Envelope().Seq >= e.Seq {
				return errThere
			}
			past, err := s.Decode()
			if err != nil {
				return err
			}
			fold.Apply(past)
			return nil
		})
		if err != nil && !errors.Is(err, errThere) {
			return nil, fmt.Errorf("read the beginning of run %s: %w", e.RunID, err)
		}
	}
	f.runs[e.RunID] = f.recent.PushFront(known{e.RunID, fold})
	for f.recent.Len() > f.max {
		f.forget(f.recent.Back().Value.(known).run)
	}
	return fold, nil
}

func (f *feed) forget(run events.RunID) {
	if at, ok := f.runs[run]; ok {
		f.recent.Remove(at)
		delete(f.runs, run)
	}
}
