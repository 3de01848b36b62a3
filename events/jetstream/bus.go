// Package jetstream keeps the journal and the feed on NATS JetStream: the
// journal of a worker with group commit, the one durable consumer that projects
// it, and the public feed. Streams and consumer are declared by [Open] and made
// again by whoever finds them missing.
package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/events"
)

// Names on the server.
const (
	JournalStream = "DAYBOOK_JOURNAL"
	FeedStream    = "DAYBOOK_FEED"
	Projector     = "projector" // the durable consumer of the journal

	journalPrefix  = "daybook.journal."
	journalSubject = journalPrefix + "*"
	feedSubject    = "daybook.feed.>"
)

// minPayload is the largest message of ours, with room for its headers.
const minPayload = max(events.MaxEnvelopeBytes, events.MaxEventBytes) + 8<<10

// ErrMaxPayload: the server takes smaller messages than the journal sends.
var ErrMaxPayload = errors.New("server refuses messages of the journal's size: raise max_payload, its default of 1 MB is enough")

// Config of a [Bus]. The zero value is good. Where a field says so, zero keeps
// what an operator has set on the server.
type Config struct {
	// Replicas of both streams and of the consumer. Zero keeps what is there,
	// and makes new streams with 1.
	Replicas int
	// JournalMaxBytes and JournalMaxMessages bound the journal; once full it
	// refuses new messages and workers wait (back-pressure, never loss). Zero
	// keeps what is there, and makes a new stream without the limit; so does a
	// negative one. A server reserves JournalMaxBytes on its disk.
	JournalMaxBytes    int64
	JournalMaxMessages int64
	// JournalKeep is how long messages stay that the projector has confirmed;
	// unconfirmed ones stay for ever. Above 80 % of a limit confirmed messages
	// go at once. Zero means 72 hours; negative means for ever.
	JournalKeep time.Duration
	// FeedMaxAge is how long the feed keeps events. Zero keeps what is there,
	// and makes a new stream with 7 days; negative means that there is no feed.
	FeedMaxAge time.Duration
	// AckWait is when an unconfirmed message is delivered again: so long events
	// may be late after the death of a projector, which puts it off while it
	// works on one. Zero keeps what is there, and makes a new consumer with 10
	// seconds; less than 3 makes projectors do the same work twice.
	AckWait time.Duration
	// MaxAckPending bounds the messages that all projectors hold at once: 2 ×
	// projectors × batch. Zero keeps what is there, and makes a new consumer
	// with 2,000.
	MaxAckPending int
	// RequestTimeout bounds the first try of a publish; it doubles with each
	// further try, up to eightfold. Other requests may take four times as long.
	// Zero means 2 seconds.
	RequestTimeout time.Duration
	// BufferEvents and BufferBytes bound what one journal holds that is not
	// stored yet. Zero means 64 Ki events and 16 MiB.
	BufferEvents, BufferBytes int
	// SyncAlways is the operator's word that the server fsyncs before it
	// acknowledges; no client can see it. Then a full set of feed events goes as
	// one atomic batch, which costs one fsync and not one per event; on a server
	// that syncs on an interval batches are the slower way.
	SyncAlways bool
	// Logger is told when the journal does not get through and when a stream or
	// consumer had to be made again. Nil means nobody is.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.JournalKeep == 0 {
		c.JournalKeep = 72 * time.Hour
	}
	if c.RequestTimeout <= 0 {
		c.RequestTimeout = 2 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Bus is the JetStream side of one connection. It holds nothing that has to be
// closed; what it hands out is closed before the connection, which stays the
// caller's. It is safe for concurrent use.
type Bus struct {
	nc  *nats.Conn
	js  jetstream.JetStream
	cfg Config
	// batches is set when the feed should go in atomic batches and the server
	// has said that it takes them.
	batches atomic.Bool
}

// Open declares the streams and the consumer on nc's server. nc should
// reconnect for ever. Errors: [ErrMaxPayload], and what the server says of a
// stream that exists with settings that cannot be changed.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Bus, error) {
	if p := nc.MaxPayload(); p < minPayload {
		return nil, fmt.Errorf("open jetstream: max_payload is %d, want at least %d: %w", p, minPayload, ErrMaxPayload)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	b := &Bus{nc: nc, js: js, cfg: cfg.withDefaults()}
	if err := b.declareStream(ctx, JournalStream, b.journalConfig); err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	if b.hasFeed() {
		if err := b.declareStream(ctx, FeedStream, b.feedConfig); err != nil {
			return nil, fmt.Errorf("open jetstream: %w", err)
		}
	}
	if err := b.declareProjector(ctx); err != nil {
		return nil, fmt.Errorf("open jetstream: %w", err)
	}
	return b, nil
}

// request bounds one or a few requests: what is sent while the server goes away
// is never answered, and a caller's context may last for hours.
func (b *Bus) request(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 4*b.cfg.RequestTimeout)
}

func (b *Bus) hasFeed() bool { return b.cfg.FeedMaxAge >= 0 }

// override sets *v to want, or to def if neither is set.
func override[T int | int64 | time.Duration](v *T, want, def T) {
	switch {
	case want != 0:
		*v = want
	case *v == 0:
		*v = def
	}
}

// journalConfig lays what the journal relies on over what the server has.
func (b *Bus) journalConfig(c *jetstream.StreamConfig) {
	c.Name, c.Subjects = JournalStream, []string{journalSubject}
	c.Description = "Daybook: events as they happen, one envelope per message"
	c.Storage, c.Retention, c.Discard = jetstream.FileStorage, jetstream.LimitsPolicy, jetstream.DiscardNew
	c.PersistMode = jetstream.DefaultPersistMode
	c.MaxAge = 0          // age never takes what nobody has read
	c.AllowDirect = false // the last message is read from the leader
	c.NoAck = false       // an ack is a promise
	c.MaxMsgsPerSubject = -1
	override(&c.MaxBytes, b.cfg.JournalMaxBytes, -1)
	override(&c.MaxMsgs, b.cfg.JournalMaxMessages, -1)
	override(&c.Replicas, b.cfg.Replicas, 1)
}

func (b *Bus) feedConfig(c *jetstream.StreamConfig) {
	c.Name, c.Subjects = FeedStream, []string{feedSubject}
	c.Description = "Daybook: one message per valid event"
	c.Storage, c.Retention, c.Discard = jetstream.FileStorage, jetstream.LimitsPolicy, jetstream.DiscardOld
	c.NoAck = false
	c.AllowAtomicPublish = c.PersistMode == jetstream.DefaultPersistMode // the server allows only one of them
	override(&c.MaxAge, b.cfg.FeedMaxAge, 7*24*time.Hour)
	override(&c.Replicas, b.cfg.Replicas, 1)
}

func (b *Bus) projectorConfig(c *jetstream.ConsumerConfig) {
	c.Durable, c.Name = Projector, Projector
	c.Description = "Daybook: events → ledger"
	c.DeliverPolicy, c.AckPolicy = jetstream.DeliverAllPolicy, jetstream.AckExplicitPolicy
	c.MaxDeliver = -1
	override(&c.AckWait, b.cfg.AckWait, 10*time.Second)
	override(&c.MaxAckPending, b.cfg.MaxAckPending, 2000)
	if b.cfg.Replicas != 0 {
		c.Replicas = b.cfg.Replicas
	}
}

// declareStream makes the stream, or changes what differs from lay.
func (b *Bus) declareStream(ctx context.Context, name string, lay func(*jetstream.StreamConfig)) error {
	s, err := b.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return b.makeStream(ctx, lay)
	}
	if err != nil {
		return fmt.Errorf("look up stream %s: %w", name, err)
	}
	c := s.CachedInfo().Config
	lay(&c)
	if s, err = b.js.UpdateStream(ctx, c); err != nil {
		return fmt.Errorf("update stream %s: %w", name, err)
	}
	b.notice(s)
	return nil
}

// notice keeps what a server says of a stream that was declared; one that does
// not know a setting leaves it out.
func (b *Bus) notice(s jetstream.Stream) {
	if c := s.CachedInfo().Config; c.Name == FeedStream {
		b.batches.Store(b.cfg.SyncAlways && c.AllowAtomicPublish)
	}
}

func (b *Bus) makeStream(ctx context.Context, lay func(*jetstream.StreamConfig)) error {
	var c jetstream.StreamConfig
	lay(&c)
	s, err := b.js.CreateStream(ctx, c)
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another made it just now
		s, err = b.js.Stream(ctx, c.Name)
	}
	if err != nil {
		return fmt.Errorf("create stream %s: %w", c.Name, err)
	}
	b.notice(s)
	return nil
}

func (b *Bus) declareProjector(ctx context.Context) error {
	var c jetstream.ConsumerConfig
	cons, err := b.js.Consumer(ctx, JournalStream, Projector)
	switch {
	case err == nil:
		c = cons.CachedInfo().Config
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return fmt.Errorf("look up consumer %s: %w", Projector, err)
	}
	b.projectorConfig(&c)
	if _, err := b.js.CreateOrUpdateConsumer(ctx, JournalStream, c); err != nil {
		return fmt.Errorf("declare consumer %s: %w", Projector, err)
	}
	return nil
}

// remakeStream makes a stream again that somebody deleted, or that a server
// restored from an older copy does not know.
func (b *Bus) remakeStream(ctx context.Context, name string, lay func(*jetstream.StreamConfig)) error {
	_, err := b.js.Stream(ctx, name)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	if err := b.makeStream(ctx, lay); err != nil {
		return err
	}
	b.cfg.Logger.Warn("a stream was missing and has been made again; what it held is gone", "stream", name)
	return nil
}

// remakeProjector makes the journal stream and its consumer again where they
// are missing. A new consumer starts at the stream's first message.
func (b *Bus) remakeProjector(ctx context.Context) error {
	if err := b.remakeStream(ctx, JournalStream, b.journalConfig); err != nil {
		return err
	}
	_, err := b.js.Consumer(ctx, JournalStream, Projector)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return err
	}
	if err := b.declareProjector(ctx); err != nil {
		return err
	}
	b.cfg.Logger.Warn("a consumer was missing and has been made again; everything stored is delivered once more",
		"stream", JournalStream, "consumer", Projector)
	return nil
}

// missing reports whether err may mean that a stream or consumer is not there.
// A server that is starting gives the same answers.
func missing(err error) bool {
	for _, e := range []error{
		nats.ErrNoResponders, jetstream.ErrNoStreamResponse, jetstream.ErrStreamNotFound,
		jetstream.ErrConsumerNotFound, jetstream.ErrConsumerDeleted, jetstream.ErrConsumerDoesNotExist,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
