package torture

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events/jetstream"
)

// The journal itself is not deleted here: what no projector has read of it yet
// would be gone, and with it model calls that the provider has billed. That the
// system goes on all the same, tests show.

func (c *chaos) deleteConsumer(ctx context.Context) error {
	return c.admin(ctx, func(ctx context.Context, js natsjs.JetStream) error {
		c.count(func(f *Faults) { f.ConsumerDeleted++ })
		return js.DeleteConsumer(ctx, jetstream.JournalStream, jetstream.Projector)
	})
}

func (c *chaos) deleteFeed(ctx context.Context) error {
	return c.admin(ctx, func(ctx context.Context, js natsjs.JetStream) error {
		c.count(func(f *Faults) { f.FeedDeleted++ })
		return js.DeleteStream(ctx, jetstream.FeedStream)
	})
}

// admin does something to the NATS server. That it is not there (deleted a
// moment ago) is nothing to complain about.
func (c *chaos) admin(ctx context.Context, f func(context.Context, natsjs.JetStream) error) error {
	nc, err := nats.Connect(c.plant.natsURL, nats.Timeout(5*time.Second))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := natsjs.New(nc)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	err = f(ctx, js)
	if errors.Is(err, natsjs.ErrStreamNotFound) || errors.Is(err, natsjs.ErrConsumerNotFound) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}
