// Package memory is the journal, its consumer and the feed in one process's
// memory, for tests and for programs that need no durability: a [Stream]
// survives whoever uses it, but not the process.
package memory

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Config of a [Stream]. The zero value is a stream without limits.
type Config struct {
	// MaxMessages and MaxBytes make the stream full: it refuses new messages
	// and keeps the old ones. Zero means no limit.
	MaxMessages int
	MaxBytes    int
	// AckWait is how long a message may stay unconfirmed before it is delivered
	// again. Zero means 10 seconds.
	AckWait time.Duration
	// Buffer bounds the events that one journal holds while the stream refuses
	// them. Zero means 64 Ki events.
	Buffer int
	// MaxDelay bounds the wait before a message is sent again. Zero means 2 seconds.
	MaxDelay time.Duration
}

// errAckLost is what a journal sees after [Stream.LoseAcks]: the message is stored.
var errAckLost = errors.New("no answer: the acknowledgement was lost")

// errDown is what everybody sees while the stream is down.
var errDown = errors.New("no answer: the stream is down")

// message is one stored journal message and what its one consumer knows of it.
type message struct {
	sequence   uint64
	worker     string
	at         time.Time
	data       []byte
	deliveries uint64
	again      time.Time // when it is delivered again; zero: not out
	confirmed  bool
}

// FeedMessage is one event as it stands in the feed.
type FeedMessage struct {
	Subject string
	Event   events.Sealed
}

// Stream is what a broker would keep: journal messages, the state of their one
// durable consumer, and the feed. It is safe for concurrent use.
type Stream struct {
	mu       sync.Mutex
	cfg      Config
	changed  chan struct{} // closed and replaced whenever something may be fetched
	messages []*message    // contiguous sequences
	last     uint64
	born     int // counts how often the consumer was made
	bytes    int
	loseAcks int
	down     bool
	feed     []FeedMessage
	fed      map[events.ID]bool
}

// NewStream returns an empty stream.
func NewStream(cfg Config) *Stream {
	if cfg.AckWait <= 0 {
		cfg.AckWait = 10 * time.Second
	}
	return &Stream{cfg: cfg, changed: make(chan struct{}), fed: map[events.ID]bool{}}
}

// SetLimits changes the limits: a test fills the stream and makes room again.
func (s *Stream) SetLimits(maxMessages, maxBytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.MaxMessages, s.cfg.MaxBytes = maxMessages, maxBytes
}

// LoseAcks makes the next n sends store their message and lose the answer.
func (s *Stream) LoseAcks(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loseAcks = n
}

// SetDown makes everything fail without an answer until it is called again
// with false. What is stored stays, and everything out for delivery is
// delivered again, as after a broker's restart.
func (s *Stream) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
	if !down {
		for _, m := range s.messages {
			m.again = time.Time{}
		}
		s.notify()
	}
}

// Delete throws away every stored message and what the consumer knew, like a
// stream that is deleted and made anew: sequences start again.
func (s *Stream) Delete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages, s.last, s.bytes = nil, 0, 0
	s.born++
}

// Reset makes the consumer forget what it confirmed, like one that is deleted
// and made anew: everything stored is delivered again.
func (s *Stream) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.born++
	for _, m := range s.messages {
		m.confirmed, m.deliveries, m.again = false, 0, time.Time{}
	}
	s.notify()
}

// PublishRaw stores data as a journal message of worker, whatever it holds.
func (s *Stream) PublishRaw(worker string, data []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.store(worker, data)
}

// Messages returns how many journal messages are stored.
func (s *Stream) Messages() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.messages)
}

// FeedMessages returns what the feed holds, oldest first.
func (s *Stream) FeedMessages() []FeedMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.feed)
}

// store keeps a copy of data; s.mu is held.
func (s *Stream) store(worker string, data []byte) error {
	if s.down {
		return errDown
	}
	full := s.cfg.MaxMessages > 0 && len(s.messages) >= s.cfg.MaxMessages ||
		s.cfg.MaxBytes > 0 && s.bytes+len(data) > s.cfg.MaxBytes
	if full {
		return fmt.Errorf("%d messages, %d bytes stored: %w", len(s.messages), s.bytes, events.ErrJournalFull)
	}
	s.last++
	s.bytes += len(data)
	s.messages = append(s.messages, &message{sequence: s.last, worker: worker, at: time.Now(), data: slices.Clone(data)})
	s.notify()
	return nil
}

// notify wakes whoever waits for a message; s.mu is held.
func (s *Stream) notify() {
	close(s.changed)
	s.changed = make(chan struct{})
}
