package jetstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events"
)

// Tail implements [events.Consumer]. It reads from the stream's leader.
func (c *Consumer) Tail(ctx context.Context, worker string, f func(events.Message) error) error {
	if !events.ValidName(worker) {
		return fmt.Errorf("tail of worker %q: want 1 to 64 letters, digits, '_' and '-'", worker)
	}
	info, err := c.info(ctx)
	if err != nil {
		return fmt.Errorf("tail of %q: %w", worker, err)
	}
	rctx, cancel := c.bus.request(ctx)
	defer cancel()
	s, err := c.bus.js.Stream(rctx, JournalStream)
	if err != nil {
		return fmt.Errorf("tail of %q: %w", worker, err)
	}
	subject := journalPrefix + worker
	last, err := s.GetLastMsgForSubject(rctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tail of %q: %w", worker, err)
	}
	for seq := info.AckFloor.Stream + 1; seq <= last.Sequence; seq++ {
		m, err := c.next(ctx, s, seq, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Sequence > last.Sequence {
			return nil // confirmed and cut in the meantime
		}
		if err != nil {
			return fmt.Errorf("tail of %q from %d: %w", worker, seq, err)
		}
		seq = m.Sequence
		if err := f(events.Message{Worker: worker, Sequence: m.Sequence, Incarnation: incarnation(info.Created), Deliveries: 1, Time: m.Time, Data: m.Data}); err != nil {
			return err
		}
	}
	return nil
}

// next reads the first message on subject that is not before seq.
func (c *Consumer) next(ctx context.Context, s jetstream.Stream, seq uint64, subject string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := c.bus.request(ctx)
	defer cancel()
	return s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
}

// trimSometimes cuts the journal every trimEvery. A fault is only logged: the
// next one tries again.
func (c *Consumer) trimSometimes(ctx context.Context) {
	c.mu.Lock()
	due := time.Since(c.trimmed) >= trimEvery
	if due {
		c.trimmed = time.Now()
	}
	c.mu.Unlock()
	if !due || c.bus.cfg.JournalKeep < 0 {
		return
	}
	ctx, cancel := c.bus.request(ctx)
	defer cancel()
	if err := c.trim(ctx, time.Now().Add(-c.bus.cfg.JournalKeep)); err != nil {
		c.bus.cfg.Logger.Warn("journal was not trimmed", "error", err)
	}
}

// trim purges confirmed messages that were stored before a moment, and all
// confirmed ones when the stream is nearly full: it refuses new messages,
// so keeping old ones would stop every worker.
func (c *Consumer) trim(ctx context.Context, before time.Time) error {
	s, err := c.bus.js.Stream(ctx, JournalStream)
	if err != nil {
		return err
	}
	info, err := c.info(ctx)
	if err != nil {
		return err
	}
	i := s.CachedInfo()
	floor := info.AckFloor.Stream
	if i.State.Msgs == 0 || floor < i.State.FirstSeq {
		return nil
	}
	cut := floor + 1 // the first that stays
	if !nearlyFull(i) {
		if !i.State.FirstTime.Before(before) {
			return nil
		}
		if cut, err = firstSince(ctx, s, i.State.FirstSeq, cut, before); err != nil {
			return err
		}
	}
	return s.Purge(ctx, jetstream.WithPurgeSequence(cut))
}

func nearlyFull(i *jetstream.StreamInfo) bool {
	c, st := i.Config, i.State
	return c.MaxBytes > 0 && st.Bytes > uint64(c.MaxBytes)/5*4 ||
		c.MaxMsgs > 0 && st.Msgs > uint64(c.MaxMsgs)/5*4
}

// firstSince returns the first sequence in [lo,hi] whose message is not before
// t, or hi.
func firstSince(ctx context.Context, s jetstream.Stream, lo, hi uint64, t time.Time) (uint64, error) {
	for lo < hi {
		mid := lo + (hi-lo)/2
		m, err := s.GetMsg(ctx, mid, jetstream.WithGetMsgSubject(journalSubject))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			hi = mid
		case err != nil:
			return 0, err
		case m.Time.Before(t):
			lo = min(m.Sequence+1, hi)
		default:
			hi = mid
		}
	}
	return lo, nil
}
