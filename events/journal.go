// Package events holds what can happen in a run: the envelope, one Go type per
// event, their canonical bytes and hash chain, and the contracts of the journal
// they are written to, the consumer that projects them and the feed others read.
package events

import (
	"context"
	"errors"
	"time"
)

// Limits of one journal message.
const (
	MaxEnvelopeEvents = 1000
	MaxEnvelopeBytes  = 512 << 10
)

// Errors of the journal.
var (
	// ErrJournalFull: the stream is full and discards new messages. The journal
	// keeps what it was given and tries again; nothing is dropped.
	ErrJournalFull = errors.New("journal stream is full: start a projector or raise its limits; the worker keeps its events and tries again")
	// ErrJournalFrozen: the server could not write to the stream, and takes nothing
	// more for it until it is restarted, also when its disk has room again. The
	// journal keeps what it was given and tries again; nothing is dropped.
	ErrJournalFrozen = errors.New("the stream is frozen: free space and restart the server")
	// ErrJournalClosed: Append or Record after Close.
	ErrJournalClosed = errors.New("journal is closed")
	// ErrNotAccepted: ctx ended, or the journal was closed, while the journal had
	// no room: none of the events of this call was taken.
	ErrNotAccepted = errors.New("journal had no room in time: none of the events was accepted")
)

// Journal makes the events of one worker durable, in order. Delivery is at
// least once: a send whose answer is unknown is sent again byte for byte, and
// whoever reads drops duplicates by (run, seq, hash). Safe for concurrent use.
type Journal interface {
	// Record returns nil once every event is stored (the broker has acknowledged).
	// When ctx ends first it returns the cause, and the events are still sent:
	// they have been accepted, unless the error also wraps [ErrNotAccepted].
	// Errors: [ErrJournalClosed].
	Record(ctx context.Context, es ...Sealed) error
	// Append accepts events without waiting for the broker; they are stored
	// after everything accepted before, even if ctx has ended already. It blocks
	// only while the journal holds more than it may (back-pressure); if ctx ends
	// meanwhile the error wraps its cause and [ErrNotAccepted]. The events of one
	// call are taken together or not at all. Errors: [ErrJournalClosed].
	Append(ctx context.Context, es ...Sealed) (Receipt, error)
	// Err returns why the journal is not getting through at the moment, such as
	// [ErrJournalFull] or [ErrJournalFrozen]; nil when it is.
	Err() error
	// Close sends what was accepted and waits for it, at most until ctx ends;
	// then the error says how many events are not known to be stored. In any
	// case nothing of the journal runs any more when it returns.
	Close(ctx context.Context) error
}

// Receipt tells when accepted events are stored.
type Receipt interface {
	// Done is closed when the broker has acknowledged the events. It stays open
	// for ever if the journal is closed before that.
	Done() <-chan struct{}
}

// Message is one journal message as a consumer sees it.
type Message struct {
	Worker string
	// Sequence is the stream's sequence; it starts again when a stream is made anew.
	Sequence uint64
	// Incarnation is that of the consumer, see [Position]; empty if there is none to tell.
	Incarnation string
	// Deliveries counts from 1.
	Deliveries uint64
	Time       time.Time
	Data       []byte
	// Handle is the implementation's own; callers pass it back in Ack.
	Handle any
}

// Consumer reads the journal once over all its users, in stream order, at
// least once. Safe for concurrent use.
type Consumer interface {
	// Fetch returns up to n messages, waiting at most wait for the first. No
	// message is not an error. A missing stream or consumer is made again.
	Fetch(ctx context.Context, n int, wait time.Duration) ([]Message, error)
	// Ack confirms messages whose events are committed; they are not delivered again.
	Ack(ctx context.Context, ms ...Message) error
	// InProgress says that ms are still being worked on: the time after which
	// they are delivered again begins anew. One that was delivered to another
	// since, or confirmed, is left alone or put off; nothing is lost by it.
	InProgress(ctx context.Context, ms ...Message) error
	// Tail calls f with every message of worker's subject that was stored when
	// Tail was called and that lies beyond the last message up to which the
	// consumer has confirmed all, oldest first; so some of them may be confirmed.
	// It neither confirms nor takes them from other readers; they have no Handle.
	// It ends at f's first error and returns it.
	Tail(ctx context.Context, worker string, f func(Message) error) error
	// Lag returns how many stored messages are not confirmed yet.
	Lag(ctx context.Context) (uint64, error)
	Close(ctx context.Context) error
}

// Position is where the journal and its consumer stand.
type Position struct {
	// Incarnation changes whenever the consumer is made again, and so whenever
	// the stream is: what is known of another one's sequences means nothing.
	Incarnation string
	// First and Last are the sequences of the oldest and the newest message that
	// is stored; there is none when Last < First.
	First, Last uint64
	// Confirmed: every message up to here has been confirmed.
	Confirmed uint64
}

// Reader reads the journal beside its consumer, whose state it leaves alone:
// for repairs. Safe for concurrent use.
type Reader interface {
	Position(ctx context.Context) (Position, error)
	// Read calls f with every message that is stored between the sequences from
	// and to, both included, oldest first, whether it is confirmed or not. The
	// messages have no Handle. It ends at f's first error and returns it.
	Read(ctx context.Context, from, to uint64, f func(Message) error) error
}

// Feed is the public stream: one message per valid event, subject
// daybook.feed.<tenant>.<type>.<run>, in order per run, at least once.
type Feed interface {
	// Publish returns once every event is stored, those of one run in the order
	// given. It tries until ctx ends.
	Publish(ctx context.Context, es ...Sealed) error
	Close(ctx context.Context) error
}
