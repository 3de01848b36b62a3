package jetstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events"
)

// readPage is how many messages Read fetches at once.
const readPage = 500

// Position implements [events.Reader].
func (c *Consumer) Position(ctx context.Context) (events.Position, error) {
	info, err := c.info(ctx)
	if err != nil {
		return events.Position{}, fmt.Errorf("position: %w", err)
	}
	rctx, cancel := c.bus.request(ctx)
	defer cancel()
	s, err := c.bus.js.Stream(rctx, JournalStream)
	if err != nil {
		return events.Position{}, fmt.Errorf("position: %w", err)
	}
	st := s.CachedInfo().State
	return events.Position{Incarnation: incarnation(info.Created), First: st.FirstSeq, Last: st.LastSeq, Confirmed: info.AckFloor.Stream}, nil
}

// Read implements [events.Reader], with a consumer of its own that goes away
// by itself. A message that was lost on the way is read again.
func (c *Consumer) Read(ctx context.Context, from, to uint64, f func(events.Message) error) error {
	for tries := 0; from <= to; {
		next, err := c.readSome(ctx, from, to, f)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, errSkipped) || next == from && tries > 5:
			return fmt.Errorf("read journal from %d: %w", next, err)
		case next == from:
			tries++
		default:
			tries = 0
		}
		from = next
	}
	return nil
}

// errSkipped: a message that was delivered did not arrive.
var errSkipped = errors.New("a message did not arrive")

// readSome reads until to, the stream's end or a fault, and returns where to go on.
func (c *Consumer) readSome(ctx context.Context, from, to uint64, f func(events.Message) error) (uint64, error) {
	info, err := c.info(ctx)
	if err != nil {
		return from, err
	}
	rctx, cancel := c.bus.request(ctx)
	defer cancel()
	cons, err := c.bus.js.CreateConsumer(rctx, JournalStream, jetstream.ConsumerConfig{
		Description: "Daybook: reads the journal for a repair", DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(from, 1),
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: time.Minute,
	})
	if err != nil {
		return from, err
	}
	name := cons.CachedInfo().Name
	defer func() {
		dctx, cancel := c.bus.request(context.WithoutCancel(ctx))
		defer cancel()
		_ = c.bus.js.DeleteConsumer(dctx, JournalStream, name) // else it goes away by itself
	}()
	for delivered := uint64(0); from <= to; {
		ms, err := c.pull(ctx, cons, readPage, 0)
		if err != nil {
			return from, err
		}
		for _, m := range ms {
			md, err := m.Metadata()
			if err != nil {
				return from, err
			}
			if delivered++; md.Sequence.Consumer != delivered {
				return from, errSkipped
			}
			if md.Sequence.Stream > to {
				return to + 1, nil
			}
			err = f(events.Message{
				Worker: strings.TrimPrefix(m.Subject(), journalPrefix), Sequence: md.Sequence.Stream, Incarnation: incarnation(info.Created),
				Deliveries: 1, Time: md.Timestamp, Data: m.Data(),
			})
			if err != nil {
				return from, err
			}
			from = md.Sequence.Stream + 1
		}
		if len(ms) == 0 {
			i, err := c.ask(ctx, cons)
			if err != nil {
				return from, err
			}
			switch {
			case i.NumPending == 0 && i.Delivered.Consumer == delivered:
				return from, nil
			case i.Delivered.Consumer != delivered:
				return from, errSkipped
			}
		}
	}
	return from, nil
}
