package jetstream

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

var errLost = errors.New("the answer was lost")

// LoseAnswers makes the journal's publishes lose the answer, after the server
// has stored the message, whenever lose says so. Call it before the first use.
func (j *Journal) LoseAnswers(lose func() bool) {
	publish := j.publish
	j.publish = func(ctx context.Context, m *nats.Msg) error {
		err := publish(ctx, m)
		if err == nil && lose() {
			return errLost
		}
		return err
	}
}

// Trim does at once what otherwise happens from time to time.
func (c *Consumer) Trim(ctx context.Context, before time.Time) error { return c.trim(ctx, before) }
