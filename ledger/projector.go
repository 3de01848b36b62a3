package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/internal/fault"
)

// ProjectorConfig of a [Projector]. The zero value is good.
type ProjectorConfig struct {
	// Batch is how many journal messages are fetched at once. Zero means 500.
	Batch int
	// Wait is how long a fetch waits for the first message. Zero means 1 second.
	Wait time.Duration
	// KeepEvery is how often the broker is told that what was fetched is still
	// being worked on: a third of its ack wait or less. Zero means 3 seconds.
	KeepEvery time.Duration
	// FoldEvery is how often runs are folded that barriers moved on without a
	// message, once they have waited that long. Zero means 2 seconds.
	FoldEvery time.Duration
	// FeedLease is how long the feed belongs to this projector without a word
	// from it: after a crash another one waits that long. Zero means 10 seconds.
	FeedLease time.Duration
	// FeedEvery is how often the feed is looked after when nothing was folded
	// here. Zero means 1 second.
	FeedEvery time.Duration
	// WatchEvery is how often the projector looks for runs that stand still, and
	// MaintainEvery how often it keeps the database in order. Zero means 1 minute
	// and 1 hour.
	WatchEvery, MaintainEvery time.Duration
	// Name is this projector's name as a holder of the feed; empty means a random one.
	Name string
	// Logger gets what goes wrong. Nil discards.
	Logger *slog.Logger
	// Now is the clock that the feed's lease is counted on. Nil means time.Now.
	Now func() time.Time
}

func (c ProjectorConfig) withDefaults() ProjectorConfig {
	if c.Batch <= 0 {
		c.Batch = 500
	}
	for d, v := range map[*time.Duration]time.Duration{
		&c.Wait: time.Second, &c.KeepEvery: 3 * time.Second, &c.FoldEvery: 2 * time.Second, &c.FeedLease: 10 * time.Second, &c.FeedEvery: time.Second,
		&c.WatchEvery: time.Minute, &c.MaintainEvery: time.Hour,
	} {
		if *d <= 0 {
			*d = v
		}
	}
	if c.Name == "" {
		c.Name = events.NewIDs(nil, nil).Event().String()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// A Projector moves the journal into the ledger and from there to the feed.
// Several may run side by side, in one process or in many: they share the
// journal's consumer, and one of them at a time feeds.
type Projector struct {
	store    Projection
	consumer events.Consumer
	feed     events.Feed // nil: off
	cfg      ProjectorConfig
	moved    chan struct{} // something was folded
}

// NewProjector returns a projector; Run does the work. A nil feed is switched off.
func NewProjector(store Projection, consumer events.Consumer, feed events.Feed, cfg ProjectorConfig) *Projector {
	return &Projector{store, consumer, feed, cfg.withDefaults(), make(chan struct{}, 1)}
}

// Run works until ctx ends and then returns nil: nothing that can go wrong ends
// it. While the database or the broker is away it tries again, and nothing is
// confirmed to the journal that is not committed.
func (p *Projector) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	// Before anything is projected: afterwards an older database would not show.
	if p.compare(ctx) != nil {
		return nil
	}
	wg.Go(func() { p.loop(ctx, "project the journal", p.projectNext) })
	wg.Go(func() { p.maintain(ctx) })
	wg.Go(func() { p.loop(ctx, "fold runs that are behind", p.foldBehind) })
	if p.feed != nil {
		wg.Go(func() { p.feedLoop(ctx) })
	}
	wg.Wait()
	return nil
}

// Backoff of a loop that fails.
const (
	firstPause = 50 * time.Millisecond
	longPause  = 5 * time.Second
)

// loop calls step until ctx ends.
func (p *Projector) loop(ctx context.Context, what string, step func(context.Context) error) {
	for ctx.Err() == nil && p.retry(ctx, what, step) == nil {
	}
}

// retry calls f until it succeeds, waiting longer and longer; it logs the first
// failure, a reminder each minute, and the recovery. It returns an error only
// when ctx has ended.
func (p *Projector) retry(ctx context.Context, what string, f func(context.Context) error) error {
	var pause time.Duration
	var since, said time.Time
	for {
		err := f(ctx)
		switch {
		case err == nil && !since.IsZero():
			p.cfg.Logger.InfoContext(ctx, "works again: "+what, "after", p.cfg.Now().Sub(since))
			return nil
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		now := p.cfg.Now()
		if since.IsZero() {
			since = now
		}
		if now.Sub(said) >= time.Minute {
			said = now
			p.cfg.Logger.ErrorContext(ctx, "cannot "+what+"; trying again, nothing is lost", "error", err)
		}
		pause = min(max(2*pause, firstPause), longPause)
		p.sleep(ctx, pause/2+rand.N(pause/2)) //nolint:gosec // jitter
	}
}

func (p *Projector) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Bounds of one transaction.
const (
	txEvents = 2000
	txBytes  = 8 << 20
)

// projectNext moves one fetch of messages into the ledger.
func (p *Projector) projectNext(ctx context.Context) error {
	ms, err := p.consumer.Fetch(ctx, p.cfg.Batch, p.cfg.Wait)
	if err != nil || len(ms) == 0 {
		return err
	}
	defer p.keep(ctx, ms)()
	for len(ms) > 0 {
		var batch []Incoming
		for n, size := 0, 0; len(batch) < len(ms) && n < txEvents && size < txBytes; {
			in := incoming(ms[len(batch)])
			batch = append(batch, in)
			n, size = n+len(in.Events), size+len(in.Message.Data)
		}
		if bug.On(bug.AckBeforeCommit) {
			_ = p.consumer.Ack(ctx, ms[:len(batch)]...)
		}
		done, err := p.project(ctx, batch)
		if err != nil {
			return err // what was fetched and not confirmed comes again
		}
		fault.Point("projector.before_ack")
		if err := p.consumer.Ack(ctx, ms[:len(batch)]...); err != nil {
			return err
		}
		ms = ms[len(batch):]
		if done.Folded > 0 {
			p.wake()
		}
	}
	return nil
}

// keepFor bounds how long a projector keeps what it cannot commit.
const keepFor = time.Minute

// keep tells the broker that ms are being worked on, until done is called: a
// database that is slow or away would have another projector do the same. When
// this process dies the broker is soon told nothing; and when it gets nowhere for
// a minute neither, since it may be this process alone that is cut off from the
// database, and others wait for what it holds.
func (p *Projector) keep(ctx context.Context, ms []events.Message) (done func()) {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for kept := p.cfg.KeepEvery; kept <= keepFor; kept += p.cfg.KeepEvery {
			p.sleep(ctx, p.cfg.KeepEvery)
			if ctx.Err() != nil {
				return
			}
			if err := p.consumer.InProgress(ctx, ms...); err != nil {
				p.cfg.Logger.DebugContext(ctx, "put off delivery of fetched messages", "error", err)
			}
		}
	})
	return func() {
		stop()
		wg.Wait()
	}
}

// project commits a batch. While the database is away it keeps the batch: the
// broker would deliver it again only after its ack wait.
func (p *Projector) project(ctx context.Context, batch []Incoming) (done Projected, err error) {
	err = p.retry(ctx, "project into the ledger", func(ctx context.Context) error {
		done, err = p.store.Project(ctx, batch)
		return err
	})
	return done, err
}

func incoming(m events.Message) Incoming {
	in := Incoming{Message: m}
	in.Events, in.Rejected, in.Err = events.ParseMessage(m.Data)
	return in
}

func (p *Projector) wake() {
	select {
	case p.moved <- struct{}{}:
	default:
	}
}

// foldBehind folds what has waited, and waits for the next time.
func (p *Projector) foldBehind(ctx context.Context) error {
	p.sleep(ctx, p.cfg.FoldEvery)
	for ctx.Err() == nil {
		n, err := p.store.FoldBehind(ctx, p.cfg.FoldEvery, 100)
		if err != nil {
			return err
		}
		if n == 0 {
			return nil
		}
		p.wake()
	}
	return nil
}

// ProjectTail projects what the consumer has not confirmed of one worker's
// messages: a takeover calls it for the last holder's journal. Each message is
// committed when it returns nil; none is confirmed to the consumer.
func ProjectTail(ctx context.Context, store Projection, consumer events.Consumer, worker string) (Projected, error) {
	var sum Projected
	err := consumer.Tail(ctx, worker, func(m events.Message) error {
		p, err := store.Project(ctx, []Incoming{incoming(m)})
		sum.Events += p.Events
		sum.Duplicates += p.Duplicates
		sum.SetAside += p.SetAside
		sum.Quarantined += p.Quarantined
		sum.Folded += p.Folded
		return err
	})
	if err != nil {
		return sum, fmt.Errorf("project the journal tail of worker %q: %w", worker, err)
	}
	return sum, nil
}
