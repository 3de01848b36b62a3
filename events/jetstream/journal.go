package jetstream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/internal/commit"
	"github.com/daybookhq/daybook/internal/fault"
)

// Codes with which a server refuses to store, because a limit of the stream,
// the account or the disk is reached. nats.go has no names for them.
const (
	codeInsufficientResources jetstream.ErrorCode = 10023
	codeMemoryExceeded        jetstream.ErrorCode = 10028
	codeStorageExceeded       jetstream.ErrorCode = 10047
	codeStoreFailed           jetstream.ErrorCode = 10077
)

var errDisconnected = errors.New("not connected to the server")

// Journal is the journal of one worker: one envelope in flight, and whatever is
// recorded meanwhile makes up the next. It implements [events.Journal].
type Journal struct {
	*commit.Committer
	bus     *Bus
	subject string
	// publish is PublishMsg; tests lose its answer.
	publish func(ctx context.Context, m *nats.Msg) error
}

var _ events.Journal = (*Journal)(nil)

// Journal opens the journal of a worker; Close it before the connection. The
// name must be valid by [events.ValidName], and no other live worker's.
func (b *Bus) Journal(worker string) (*Journal, error) {
	if !events.ValidName(worker) {
		return nil, fmt.Errorf("open journal of worker %q: want 1 to 64 letters, digits, '_' and '-'", worker)
	}
	j := &Journal{bus: b, subject: journalPrefix + worker}
	j.publish = func(ctx context.Context, m *nats.Msg) error {
		_, err := b.js.PublishMsg(ctx, m, jetstream.WithExpectStream(JournalStream), jetstream.WithRetryAttempts(0))
		return err
	}
	j.Committer = commit.New(commit.Config{
		Send:      j.send,
		MaxEvents: b.cfg.BufferEvents,
		MaxBytes:  b.cfg.BufferBytes,
		Point:     fault.Err,
		Logger:    b.cfg.Logger.With("worker", worker),
	})
	return j, nil
}

// send tries once to store data.
func (j *Journal) send(ctx context.Context, try int, data []byte) error {
	if !j.bus.nc.IsConnected() {
		// The client would keep the message and send it later: once per try.
		return fmt.Errorf("publish to %s: %w", j.subject, errDisconnected)
	}
	tctx, cancel := context.WithTimeout(ctx, j.bus.cfg.RequestTimeout<<min(try-1, 3))
	defer cancel()
	err := j.publish(tctx, &nats.Msg{Subject: j.subject, Data: data})
	if err == nil {
		return nil
	}
	if missing(err) {
		if merr := j.bus.remakeStream(tctx, JournalStream, j.bus.journalConfig); merr != nil {
			err = errors.Join(err, merr)
		}
	}
	switch {
	case full(err):
		err = fmt.Errorf("%w: %w", events.ErrJournalFull, err)
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		// No answer at all: the server may be busy, or the stream frozen.
		if why := j.bus.whyFrozen(ctx, JournalStream); why != nil {
			err = fmt.Errorf("%w: %w", why, err)
		}
	}
	return fmt.Errorf("publish to %s: %w", j.subject, err)
}

func full(err error) bool {
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode {
	case codeInsufficientResources, codeMemoryExceeded, codeStorageExceeded, codeStoreFailed:
		return true
	}
	return false
}
