package memory

import (
	"context"
	"fmt"
	"strconv"

	"github.com/daybookhq/daybook/events"
)

// incarnation of the consumer; s.mu is held.
func (s *Stream) incarnation() string { return strconv.Itoa(s.born + 1) }

// Position implements [events.Reader].
func (c *Consumer) Position(context.Context) (events.Position, error) {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return events.Position{}, fmt.Errorf("position: %w", errDown)
	}
	p := events.Position{Incarnation: s.incarnation(), First: s.last + 1, Last: s.last}
	if len(s.messages) > 0 {
		p.First = s.messages[0].sequence
	}
	p.Confirmed = p.First - 1
	for _, m := range s.messages {
		if !m.confirmed {
			break
		}
		p.Confirmed = m.sequence
	}
	return p, nil
}

// Read implements [events.Reader].
func (c *Consumer) Read(ctx context.Context, from, to uint64, f func(events.Message) error) error {
	c.s.mu.Lock()
	if c.s.down {
		c.s.mu.Unlock()
		return fmt.Errorf("read journal: %w", errDown)
	}
	var ms []events.Message
	for _, m := range c.s.messages {
		if m.sequence >= from && m.sequence <= to {
			ms = append(ms, c.s.event(m))
		}
	}
	c.s.mu.Unlock()
	for _, m := range ms {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read journal: %w", context.Cause(ctx))
		}
		if err := f(m); err != nil {
			return err
		}
	}
	return nil
}
