package torture

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events/jetstream"
)

// feed listens to what the projectors publish: an event's age when it arrives
// is how far the ledger is behind, since it is published after it is folded.
type feed struct {
	nc   *nats.Conn
	stop context.CancelFunc
	done chan struct{}

	mu   sync.Mutex
	seen []arrival
}

// arrival is when an event arrived, and how old it was.
type arrival struct {
	at  time.Time
	age time.Duration
}

// timeHeader carries an event's time, as CloudEvents has it on NATS.
const timeHeader = "ce-time"

func listen(ctx context.Context, url string) (*feed, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	js, err := natsjs.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	f := &feed{nc: nc, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		f.follow(ctx, js)
	}()
	return f, nil
}

// follow reads the stream, so that what is published while the server goes
// down is read, late, when it is back; and begins anew when the stream itself
// has gone.
func (f *feed) follow(ctx context.Context, js natsjs.JetStream) {
	for after := uint64(0); ctx.Err() == nil; sleep(ctx, 200*time.Millisecond) {
		s, err := js.Stream(ctx, jetstream.FeedStream)
		if err != nil {
			continue
		}
		if s.CachedInfo().State.LastSeq < after { // made again, or lost its tail
			after = 0
		}
		c, err := s.OrderedConsumer(ctx, natsjs.OrderedConsumerConfig{DeliverPolicy: natsjs.DeliverByStartSequencePolicy, OptStartSeq: after + 1})
		if err != nil {
			continue
		}
		for ctx.Err() == nil {
			b, err := c.Fetch(500, natsjs.FetchMaxWait(500*time.Millisecond))
			if err != nil {
				break
			}
			for m := range b.Messages() {
				f.take(m.Headers())
				if md, err := m.Metadata(); err == nil {
					after = md.Sequence.Stream
				}
			}
			if b.Error() != nil {
				break
			}
		}
	}
}

func (f *feed) take(h nats.Header) {
	at, err := time.Parse(time.RFC3339Nano, h.Get(timeHeader))
	if err != nil {
		return
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, arrival{at: now, age: now.Sub(at)})
}

// lags are the ages of what arrived from one moment to another; zero = always.
func (f *feed) lags(from, to time.Time) (ages []time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.seen {
		if !a.at.Before(from) && (to.IsZero() || a.at.Before(to)) {
			ages = append(ages, a.age)
		}
	}
	return ages
}

// caughtUp is how long after a moment the last event arrived that was older
// than behind, in what arrived until another.
func (f *feed) caughtUp(from, to time.Time) (d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.seen {
		if a.age > behind && !a.at.Before(from) && a.at.Before(to) {
			d = max(d, a.at.Sub(from))
		}
	}
	return d
}

// behind is the age of an event from which the feed is late: the target for
// the lag of a system to which nothing happens.
const behind = 2 * time.Second

func (f *feed) close() {
	f.stop()
	<-f.done
	f.nc.Close()
}

// quantile of durations, in seconds; -1 if there are none.
func quantile(ds []time.Duration, q float64) float64 {
	if len(ds) == 0 {
		return -1
	}
	ds = slices.Clone(ds)
	slices.Sort(ds)
	return ds[min(int(q*float64(len(ds))), len(ds)-1)].Seconds()
}
