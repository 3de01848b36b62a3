package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events"
)

// A server that could not write to a stream, because its disk is full or
// broken, never writes to it again until it is restarted, whatever becomes of
// the disk. Publishes are not answered then, so nothing in their error says so.

// healthyRefusals are what a server that can write says when it is to delete a
// message that cannot exist.
var healthyRefusals = []string{"stream store EOF", "no message found"}

// whyFrozen asks why a stream takes no messages: [events.ErrJournalFrozen] with
// the server's own reason, or nil if it is not frozen or cannot be asked. It has
// the server delete a message that cannot exist, which changes nothing, and which
// a frozen stream refuses with the error that froze it. Only a stream without
// replicas freezes: others change their leader.
func (b *Bus) whyFrozen(ctx context.Context, name string) error {
	ctx, cancel := b.request(ctx)
	defer cancel()
	s, err := b.js.Stream(ctx, name)
	if err != nil {
		return nil
	}
	if c := s.CachedInfo().Config; c.Replicas > 1 || c.DenyDelete || c.Sealed || c.Storage != jetstream.FileStorage {
		return nil
	}
	err = s.DeleteMsg(ctx, math.MaxUint64)
	if !errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		return nil
	}
	for _, said := range healthyRefusals {
		if strings.Contains(err.Error(), said) {
			return nil
		}
	}
	return fmt.Errorf("stream %s: %w: the server says %q", name, events.ErrJournalFrozen, err)
}

// Frozen is [Bus.Frozen] for whoever only looks at nc's server: nothing is
// declared, and a stream that does not exist is not frozen.
func Frozen(ctx context.Context, nc *nats.Conn) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("look for frozen streams: %w", err)
	}
	return (&Bus{nc: nc, js: js, cfg: Config{}.withDefaults()}).Frozen(ctx)
}

// Frozen returns an error that is [events.ErrJournalFrozen] for each stream that
// takes no messages until its server is restarted, and nil if there is none.
func (b *Bus) Frozen(ctx context.Context) error {
	err := b.whyFrozen(ctx, JournalStream)
	if b.hasFeed() {
		err = errors.Join(err, b.whyFrozen(ctx, FeedStream))
	}
	return err
}
