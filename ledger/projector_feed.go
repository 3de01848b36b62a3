package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/internal/fault"
)

// feedRound is how many events are published at once.
const feedRound = 1000

// errFeedLease ends a publication whose right to publish runs out.
var errFeedLease = errors.New("the feed's lease is about to end")

// feedLoop publishes what is folded, as long as this projector has the feed.
func (p *Projector) feedLoop(ctx context.Context) {
	var until time.Time // the lease's end, counted from before it was asked for
	defer func() {
		if until.IsZero() {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if _, err := p.store.FeedLease(ctx, p.cfg.Name, 0); err != nil {
			p.cfg.Logger.WarnContext(ctx, "cannot give the feed back; the next projector waits for its lease", "error", err)
		}
	}()
	for ctx.Err() == nil {
		more := false
		err := p.retry(ctx, "publish to the feed", func(ctx context.Context) (err error) {
			more, err = p.feedNext(ctx, &until)
			return err
		})
		if err != nil || more {
			continue
		}
		t := time.NewTimer(p.cfg.FeedEvery)
		select {
		case <-p.moved:
		case <-t.C:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

// feedNext publishes one round and reports whether there may be more. Events of
// a run keep their order: only the holder of the lease publishes, and what it
// publishes ends before the lease does.
func (p *Projector) feedNext(ctx context.Context, until *time.Time) (more bool, err error) {
	if asked := p.cfg.Now(); until.Sub(asked) < p.cfg.FeedLease/2 {
		held, err := p.store.FeedLease(ctx, p.cfg.Name, p.cfg.FeedLease)
		if err != nil {
			return false, err
		}
		if !held {
			*until = time.Time{}
			return false, nil
		}
		*until = asked.Add(p.cfg.FeedLease)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, until.Sub(p.cfg.Now())-p.cfg.FeedLease/10, errFeedLease)
	defer cancel()
	es, err := p.store.Unfed(ctx, feedRound)
	if err != nil || len(es) == 0 {
		return false, err
	}
	if err := p.feed.Publish(ctx, es...); err != nil {
		return false, fmt.Errorf("publish %d events: %w", len(es), err)
	}
	fault.Point("feed.after_publish")
	return true, p.store.Fed(ctx, es)
}
