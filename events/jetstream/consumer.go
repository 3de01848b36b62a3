package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events"
)

// trimEvery is how often the journal is cut behind what is confirmed.
const trimEvery = 30 * time.Second

// Consumer reads the journal through the durable consumer that all projectors
// share. It implements [events.Consumer].
type Consumer struct {
	bus *Bus

	mu      sync.Mutex
	cons    jetstream.Consumer // nil before the first use and after a fault
	born    time.Time          // when the server made the consumer
	trimmed time.Time          // when the journal was last looked at for trimming
}

var (
	_ events.Consumer = (*Consumer)(nil)
	_ events.Reader   = (*Consumer)(nil)
)

// incarnation names the consumer that the server made at a moment.
func incarnation(born time.Time) string { return born.UTC().Format(time.RFC3339Nano) }

// handle is what a [events.Message] carries for Ack.
type handle struct {
	msg  jetstream.Msg
	born time.Time
}

// Consumer returns a reader of the journal.
func (b *Bus) Consumer() *Consumer { return &Consumer{bus: b, trimmed: time.Now()} }

// open returns the consumer on the server, which it makes if it is missing.
func (c *Consumer) open(ctx context.Context) (jetstream.Consumer, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cons != nil {
		return c.cons, c.born, nil
	}
	ctx, cancel := c.bus.request(ctx)
	defer cancel()
	cons, err := c.bus.js.Consumer(ctx, JournalStream, Projector)
	if missing(err) {
		if err = c.bus.remakeProjector(ctx); err == nil {
			cons, err = c.bus.js.Consumer(ctx, JournalStream, Projector)
		}
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("open consumer %s: %w", Projector, err)
	}
	c.cons, c.born = cons, cons.CachedInfo().Created
	return c.cons, c.born, nil
}

// forget makes the next use look the consumer up again.
func (c *Consumer) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cons = nil
}

// Fetch implements [events.Consumer].
func (c *Consumer) Fetch(ctx context.Context, n int, wait time.Duration) ([]events.Message, error) {
	for try := 0; ; try++ {
		ms, err := c.fetch(ctx, n, wait)
		if err == nil {
			return ms, nil
		}
		c.forget()
		if !missing(err) || try > 0 {
			return nil, fmt.Errorf("fetch: %w", err)
		}
	}
}

func (c *Consumer) fetch(ctx context.Context, n int, wait time.Duration) ([]events.Message, error) {
	cons, born, err := c.open(ctx)
	if err != nil {
		return nil, err
	}
	got, err := c.pull(ctx, cons, n, 0)
	if err == nil && len(got) == 0 && wait > 0 {
		if got, err = c.pull(ctx, cons, 1, wait); err == nil && len(got) > 0 && n > 1 {
			var more []jetstream.Msg
			more, err = c.pull(ctx, cons, n-1, 0)
			got = append(got, more...)
		}
	}
	if err != nil && len(got) == 0 {
		return nil, err
	}
	if len(got) == 0 {
		return nil, nil
	}
	// The sequences in a message's ack mean something only to the consumer that
	// delivered it, and one that was made again answers to the same name.
	info, err := c.ask(ctx, cons)
	if err != nil || !info.Created.Equal(born) {
		for _, m := range got {
			_ = m.Nak() // else they come again after AckWait
		}
		c.forget()
		return nil, err
	}
	ms := make([]events.Message, 0, len(got))
	for _, m := range got {
		md, err := m.Metadata()
		if err != nil {
			return nil, fmt.Errorf("read metadata: %w", err)
		}
		ms = append(ms, events.Message{
			Worker:      strings.TrimPrefix(m.Subject(), journalPrefix),
			Sequence:    md.Sequence.Stream,
			Incarnation: incarnation(born),
			Deliveries:  md.NumDelivered,
			Time:        md.Timestamp,
			Data:        m.Data(),
			Handle:      handle{m, born},
		})
	}
	return ms, nil
}

// pull asks once for up to n messages. With no wait the server answers with
// what it has; with a wait it answers only when n are there, so n is 1 then.
func (c *Consumer) pull(ctx context.Context, cons jetstream.Consumer, n int, wait time.Duration) ([]jetstream.Msg, error) {
	var batch jetstream.MessageBatch
	var err error
	if wait > 0 {
		batch, err = cons.Fetch(n, jetstream.FetchMaxWait(wait))
	} else {
		batch, err = cons.FetchNoWait(n)
	}
	if err != nil {
		return nil, err
	}
	var ms []jetstream.Msg
	for {
		select {
		case m, ok := <-batch.Messages():
			if !ok {
				return ms, batch.Error()
			}
			ms = append(ms, m)
		case <-ctx.Done():
			return ms, context.Cause(ctx)
		}
	}
}

// Ack implements [events.Consumer]. It returns when the server has the
// confirmations. Those for a consumer that has been deleted since are dropped:
// the new one would take them for its own messages, and delivers everything
// again anyway.
func (c *Consumer) Ack(ctx context.Context, ms ...events.Message) error {
	if len(ms) == 0 {
		return nil
	}
	info, err := c.info(ctx)
	if err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	stale := 0
	for _, m := range ms {
		h, ok := m.Handle.(handle)
		if !ok {
			return fmt.Errorf("ack message %d of %q: not from Fetch", m.Sequence, m.Worker)
		}
		if !h.born.Equal(info.Created) {
			stale++
			continue
		}
		if err := h.msg.Ack(); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
			return fmt.Errorf("ack message %d of %q: %w", m.Sequence, m.Worker, err)
		}
	}
	if stale > 0 {
		c.forget()
		c.bus.cfg.Logger.Warn("dropped confirmations for a consumer that has been made again", "messages", stale)
	}
	fctx, cancel := c.bus.request(ctx)
	defer cancel()
	if err := c.bus.nc.FlushWithContext(fctx); err != nil {
		return fmt.Errorf("ack: %w", err)
	}
	c.trimSometimes(ctx)
	return nil
}

// InProgress implements [events.Consumer]. It is sent and not waited for: what
// gets lost is delivered once more.
func (c *Consumer) InProgress(_ context.Context, ms ...events.Message) error {
	for _, m := range ms {
		h, ok := m.Handle.(handle)
		if !ok {
			return fmt.Errorf("put off delivery of message %d of %q: not from Fetch", m.Sequence, m.Worker)
		}
		if err := h.msg.InProgress(); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
			return fmt.Errorf("put off delivery of message %d of %q: %w", m.Sequence, m.Worker, err)
		}
	}
	return nil
}

// Lag implements [events.Consumer].
func (c *Consumer) Lag(ctx context.Context) (uint64, error) {
	info, err := c.info(ctx)
	if err != nil {
		return 0, fmt.Errorf("lag: %w", err)
	}
	return info.NumPending + uint64(max(info.NumAckPending, 0)), nil
}

// info asks the server, once more after a consumer that was missing.
func (c *Consumer) info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	for try := 0; ; try++ {
		cons, _, err := c.open(ctx)
		if err != nil {
			return nil, err
		}
		info, err := c.ask(ctx, cons)
		if err == nil {
			return info, nil
		}
		c.forget()
		if !missing(err) || try > 0 {
			return nil, err
		}
	}
}

func (c *Consumer) ask(ctx context.Context, cons jetstream.Consumer) (*jetstream.ConsumerInfo, error) {
	ctx, cancel := c.bus.request(ctx)
	defer cancel()
	return cons.Info(ctx)
}

// Close implements [events.Consumer]. The durable consumer stays.
func (c *Consumer) Close(context.Context) error { return nil }
