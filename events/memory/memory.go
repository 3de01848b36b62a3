package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/internal/commit"
)

// Journal is the journal of one worker. It implements [events.Journal].
type Journal struct{ *commit.Committer }

var _ events.Journal = (*Journal)(nil)

// Journal opens the journal of a worker; Close it.
func (s *Stream) Journal(worker string) *Journal {
	s.mu.Lock()
	buffer, maxDelay := s.cfg.Buffer, s.cfg.MaxDelay
	s.mu.Unlock()
	return &Journal{commit.New(commit.Config{
		MaxEvents: buffer,
		MaxDelay:  maxDelay,
		MinDelay:  min(maxDelay, 20*time.Millisecond),
		Send: func(_ context.Context, _ int, data []byte) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err := s.store(worker, data); err != nil {
				return err
			}
			if s.loseAcks > 0 {
				s.loseAcks--
				return errAckLost
			}
			return nil
		},
	})}
}

// Consumer reads a stream's journal. It implements [events.Consumer]; all
// consumers of one stream share their state.
type Consumer struct{ s *Stream }

var (
	_ events.Consumer = (*Consumer)(nil)
	_ events.Reader   = (*Consumer)(nil)
)

// Consumer returns a reader of the journal.
func (s *Stream) Consumer() *Consumer { return &Consumer{s} }

// handle is what a [events.Message] carries for Ack.
type handle struct {
	m    *message
	born int
}

// Fetch implements [events.Consumer].
func (c *Consumer) Fetch(ctx context.Context, n int, wait time.Duration) ([]events.Message, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		ms, changed, next, err := c.take(n)
		if err != nil || len(ms) > 0 || wait <= 0 {
			return ms, err
		}
		again := time.NewTimer(next)
		select {
		case <-changed:
		case <-again.C:
		case <-timer.C:
			wait = 0 // look once more
		case <-ctx.Done():
			again.Stop()
			return nil, fmt.Errorf("fetch: %w", context.Cause(ctx))
		}
		again.Stop()
	}
}

// take marks up to n messages as delivered. It also returns what is closed when
// there may be more, and when the next redelivery is due.
func (c *Consumer) take(n int) (ms []events.Message, changed <-chan struct{}, next time.Duration, err error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	next = s.cfg.AckWait
	if s.down {
		return nil, s.changed, next, fmt.Errorf("fetch: %w", errDown)
	}
	now := time.Now()
	for _, m := range s.messages {
		if len(ms) == n {
			break
		}
		if m.confirmed {
			continue
		}
		if due := m.again.Sub(now); due > 0 {
			next = min(next, due)
			continue
		}
		m.deliveries++
		m.again = now.Add(s.cfg.AckWait)
		em := s.event(m)
		em.Handle = handle{m, s.born}
		ms = append(ms, em)
	}
	return ms, s.changed, next, nil
}

// event is m as a reader sees it; s.mu is held.
func (s *Stream) event(m *message) events.Message {
	return events.Message{
		Worker: m.worker, Sequence: m.sequence, Incarnation: s.incarnation(), Deliveries: m.deliveries,
		Time: m.at, Data: slices.Clone(m.data),
	}
}

// Ack implements [events.Consumer].
func (c *Consumer) Ack(_ context.Context, ms ...events.Message) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.down {
		return fmt.Errorf("ack: %w", errDown)
	}
	for _, m := range ms {
		h, ok := m.Handle.(handle)
		if !ok {
			return fmt.Errorf("ack message %d of %q: not from Fetch", m.Sequence, m.Worker)
		}
		if h.born == c.s.born {
			h.m.confirmed = true
		}
	}
	return nil
}

// InProgress implements [events.Consumer].
func (c *Consumer) InProgress(_ context.Context, ms ...events.Message) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.down {
		return fmt.Errorf("put off delivery: %w", errDown)
	}
	again := time.Now().Add(c.s.cfg.AckWait)
	for _, m := range ms {
		h, ok := m.Handle.(handle)
		if !ok {
			return fmt.Errorf("put off delivery of message %d of %q: not from Fetch", m.Sequence, m.Worker)
		}
		if h.born == c.s.born && !h.m.again.IsZero() {
			h.m.again = again
		}
	}
	return nil
}

// Tail implements [events.Consumer].
func (c *Consumer) Tail(ctx context.Context, worker string, f func(events.Message) error) error {
	c.s.mu.Lock()
	if c.s.down {
		c.s.mu.Unlock()
		return fmt.Errorf("tail of %q: %w", worker, errDown)
	}
	var tail []events.Message
	floor := true
	for _, m := range c.s.messages {
		if floor = floor && m.confirmed; !floor && m.worker == worker {
			tail = append(tail, c.s.event(m))
		}
	}
	c.s.mu.Unlock()
	for _, m := range tail {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("tail of %q: %w", worker, context.Cause(ctx))
		}
		if err := f(m); err != nil {
			return err
		}
	}
	return nil
}

// Lag implements [events.Consumer].
func (c *Consumer) Lag(context.Context) (uint64, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.down {
		return 0, fmt.Errorf("lag: %w", errDown)
	}
	var n uint64
	for _, m := range c.s.messages {
		if !m.confirmed {
			n++
		}
	}
	return n, nil
}

// Close implements [events.Consumer].
func (c *Consumer) Close(context.Context) error { return nil }

// Feed is a stream's feed. It implements [events.Feed].
type Feed struct{ s *Stream }

var _ events.Feed = (*Feed)(nil)

// Feed returns a publisher of the feed.
func (s *Stream) Feed() *Feed { return &Feed{s} }

// Publish implements [events.Feed]. An event that is there already is not
// stored again.
func (f *Feed) Publish(ctx context.Context, es ...events.Sealed) error {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	for f.s.down {
		changed := f.s.changed
		f.s.mu.Unlock()
		select {
		case <-changed:
			f.s.mu.Lock()
		case <-ctx.Done():
			f.s.mu.Lock()
			return fmt.Errorf("publish to the feed: %w: %w", errDown, context.Cause(ctx))
		}
	}
	for _, e := range es {
		env := e.Envelope()
		if f.s.fed[env.ID] {
			continue
		}
		f.s.fed[env.ID] = true
		f.s.feed = append(f.s.feed, FeedMessage{Subject: events.FeedSubject(env), Event: e})
	}
	return nil
}

// Close implements [events.Feed].
func (f *Feed) Close(context.Context) error { return nil }
