package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
)

// feedLanes bounds the publishes in flight of one call of Publish.
const feedLanes = 64

// ErrNoFeed: [Config] says that there is no feed.
var ErrNoFeed = errors.New("the feed is switched off")

// Feed publishes valid events. A message's body is the event's own bytes; its
// headers are a CloudEvent's in binary mode, with ce-sequence (of the run) and
// ce-hash, against which a reader can check the body. It implements
// [events.Feed].
type Feed struct{ bus *Bus }

var _ events.Feed = (*Feed)(nil)

// Feed returns a publisher of the feed. Errors: [ErrNoFeed].
func (b *Bus) Feed() (*Feed, error) {
	if !b.hasFeed() {
		return nil, ErrNoFeed
	}
	return &Feed{b}, nil
}

// Publish implements [events.Feed]. Where [Config.SyncAlways] is set, many
// events go as atomic batches. Others, and those of a batch that did not get through, go one by one: within a run each
// after the ack of the one before, so that no retry can reorder them.
func (f *Feed) Publish(ctx context.Context, es ...events.Sealed) error {
	for len(es) > 0 {
		n := cutBatch(es)
		if n < minBatch || !f.bus.batches.Load() || f.publishBatch(ctx, es[:n]) != nil {
			if err := f.publishEach(ctx, es[:n]); err != nil {
				return err
			}
		}
		es = es[n:]
	}
	return fault.Err("feed.after_publish")
}

// publishEach sends the events of each run one after the other, and runs beside
// each other.
func (f *Feed) publishEach(ctx context.Context, es []events.Sealed) error {
	var runs []events.RunID
	byRun := map[events.RunID][]events.Sealed{}
	for _, e := range es {
		run := e.Envelope().RunID
		if byRun[run] == nil {
			runs = append(runs, run)
		}
		byRun[run] = append(byRun[run], e)
	}
	next := make(chan []events.Sealed)
	errs := make(chan error, feedLanes)
	var wg sync.WaitGroup
	for range min(feedLanes, len(runs)) {
		wg.Go(func() {
			for lane := range next {
				for _, e := range lane {
					if err := f.publish(ctx, e); err != nil {
						errs <- err
						break // a later event of this run would pass it
					}
				}
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	for _, run := range runs {
		select {
		case next <- byRun[run]:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("publish to the feed: %w", context.Cause(ctx))
	}
	return nil
}

// Close implements [events.Feed]: Publish has waited for everything.
func (f *Feed) Close(context.Context) error { return nil }

// publish tries until e is stored or ctx ends.
func (f *Feed) publish(ctx context.Context, e events.Sealed) error {
	m := feedMessage(e)
	var last error
	told := false // that the stream is frozen
	for try := 0; ; try++ {
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("publish to %s: %w", m.Subject, context.Cause(ctx)), last)
		}
		if last = f.try(ctx, try, m); last == nil {
			return nil
		}
		if frozen := errors.Is(last, events.ErrJournalFrozen); try == 0 || frozen && !told {
			told = frozen
			f.bus.cfg.Logger.Warn("feed does not get through; the same event is sent again", "subject", m.Subject, "error", last)
		}
		delay := 20 * time.Millisecond << min(try, 6)
		timer := time.NewTimer(delay/2 + rand.N(delay/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

func (f *Feed) try(ctx context.Context, try int, m *nats.Msg) error {
	if !f.bus.nc.IsConnected() {
		return errDisconnected
	}
	tctx, cancel := context.WithTimeout(ctx, f.bus.cfg.RequestTimeout<<min(try, 3))
	defer cancel()
	_, err := f.bus.js.PublishMsg(tctx, m, jetstream.WithExpectStream(FeedStream), jetstream.WithRetryAttempts(0))
	switch {
	case err == nil:
	case missing(err):
		err = errors.Join(err, f.bus.remakeStream(tctx, FeedStream, f.bus.feedConfig))
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		err = errors.Join(err, f.bus.whyFrozen(ctx, FeedStream))
	}
	return err
}

func feedMessage(e events.Sealed) *nats.Msg {
	env := e.Envelope()
	h := nats.Header{}
	set := func(k, v string) { h[k] = []string{v} } // header names are case-sensitive
	set(jetstream.MsgIDHeader, env.ID.String())
	set("content-type", "application/json")
	set("ce-specversion", "1.0")
	set("ce-id", env.ID.String())
	set("ce-type", string(env.Type))
	set("ce-source", "/daybook/"+env.Tenant)
	set("ce-subject", env.RunID.String())
	set("ce-time", env.Time.Format(time.RFC3339Nano))
	set("ce-sequence", strconv.FormatUint(env.Seq, 10))
	set("ce-hash", e.Hash().String())
	if env.Trace != "" {
		set("traceparent", env.Trace)
	}
	return &nats.Msg{Subject: events.FeedSubject(env), Header: h, Data: e.Bytes()}
}
