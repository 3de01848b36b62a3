// Package commit is the group commit that the journals share: one envelope in
// flight, and whatever is recorded meanwhile makes up the next.
package commit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Config of a [Committer].
type Config struct {
	// Send tries once to store one journal message and returns nil when it is
	// stored. Any error means that nobody knows, and the same bytes are sent
	// again. try counts from 1 per message. Data is only valid during the call.
	Send func(ctx context.Context, try int, data []byte) error
	// MaxEvents and MaxBytes bound what is accepted and not stored yet.
	// Zero means 64 Ki events and 16 MiB.
	MaxEvents, MaxBytes int
	// MinDelay and MaxDelay bound the wait before a message is sent again; it
	// doubles from one to the other. Zero means 20 ms and 2 s.
	MinDelay, MaxDelay time.Duration
	// Jitter returns a number in [0,1) that spreads the waits. Nil means random.
	Jitter func() float64
	// Point is called with the name of each failpoint; its error counts as a
	// send whose answer is unknown. Nil means no failpoints.
	Point func(name string) error
	// Logger tells of failed sends. Nil means none.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	def(&c.MaxEvents, 64<<10)
	def(&c.MaxBytes, 16<<20)
	if c.MinDelay <= 0 {
		c.MinDelay = 20 * time.Millisecond
	}
	if c.MaxDelay < c.MinDelay {
		c.MaxDelay = max(2*time.Second, c.MinDelay)
	}
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.Point == nil {
		c.Point = func(string) error { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Committer is an [events.Journal] over a Send function. It owns one goroutine,
// which ends with Close.
type Committer struct {
	cfg    Config
	cancel context.CancelCauseFunc
	wake   chan struct{} // capacity 1: there is something to send, or closing began
	done   chan struct{} // closed when the goroutine has ended

	mu        sync.Mutex
	queue     []events.Sealed // accepted, oldest first; the head is in flight
	bytes     int             // of the queue
	accepted  uint64          // events ever accepted
	receipts  []*receipt      // not stored yet, by end
	waiters   []*waiter       // blocked for room, oldest first
	closing   bool
	lastError error // nil after an ack
}

// receipt is closed once the events up to end are stored.
type receipt struct {
	end  uint64
	done chan struct{}
}

func (r *receipt) Done() <-chan struct{} { return r.done }

// waiter is a call that waits for room.
type waiter struct {
	es    []events.Sealed
	bytes int
	rcpt  *receipt      // set before ready is closed; nil if refused
	ready chan struct{} // closed when admitted or refused
}

// New starts a committer.
func New(cfg Config) *Committer {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &Committer{
		cfg:    cfg.withDefaults(),
		cancel: cancel,
		wake:   make(chan struct{}, 1),
		done:   make(chan struct{}),
	}
	go c.run(ctx)
	return c
}

// Record implements [events.Journal].
func (c *Committer) Record(ctx context.Context, es ...events.Sealed) error {
	r, err := c.Append(ctx, es...)
	if err != nil {
		return err
	}
	select {
	case <-r.Done():
		return nil
	default:
	}
	select {
	case <-r.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("record %d events: accepted, not known to be stored: %w", len(es), context.Cause(ctx))
	case <-c.done:
		select {
		case <-r.Done():
			return nil
		default:
		}
		return fmt.Errorf("record %d events: accepted, not known to be stored: %w", len(es), events.ErrJournalClosed)
	}
}

// Append implements [events.Journal].
func (c *Committer) Append(ctx context.Context, es ...events.Sealed) (events.Receipt, error) {
	w := &waiter{es: es, ready: make(chan struct{})}
	for i, e := range es {
		if e.IsZero() {
			return nil, fmt.Errorf("append event %d of %d: zero event: %w", i, len(es), events.ErrMalformed)
		}
		w.bytes += len(e.Bytes())
	}
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil, fmt.Errorf("append %d events: %w", len(es), events.ErrJournalClosed)
	}
	if len(c.waiters) == 0 && c.fits(w) {
		c.admit(w)
		c.mu.Unlock()
		return w.rcpt, nil
	}
	c.waiters = append(c.waiters, w)
	c.mu.Unlock()

	select {
	case <-w.ready:
	case <-ctx.Done():
		c.withdraw(w)
		if w.rcpt == nil && !w.refused() {
			return nil, fmt.Errorf("append %d events: %w: %w", len(es), events.ErrNotAccepted, context.Cause(ctx))
		}
	}
	if w.rcpt == nil {
		return nil, fmt.Errorf("append %d events: %w: %w", len(es), events.ErrNotAccepted, events.ErrJournalClosed)
	}
	return w.rcpt, nil
}

func (w *waiter) refused() bool {
	select {
	case <-w.ready:
		return true
	default:
		return false
	}
}

// fits reports whether w may be admitted. An empty journal takes any call.
func (c *Committer) fits(w *waiter) bool {
	return len(c.queue) == 0 ||
		len(c.queue)+len(w.es) <= c.cfg.MaxEvents && c.bytes+w.bytes <= c.cfg.MaxBytes
}

// admit accepts the events of w; c.mu is held.
func (c *Committer) admit(w *waiter) {
	c.queue = append(c.queue, w.es...)
	c.bytes += w.bytes
	c.accepted += uint64(len(w.es))
	w.rcpt = &receipt{end: c.accepted, done: make(chan struct{})}
	if len(w.es) == 0 && len(c.queue) == 0 {
		close(w.rcpt.done)
	} else {
		c.receipts = append(c.receipts, w.rcpt)
	}
	close(w.ready)
	c.signal()
}

// withdraw takes w back unless it was admitted or refused in the meantime.
func (c *Committer) withdraw(w *waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, v := range c.waiters {
		if v == w {
			c.waiters = append(c.waiters[:i], c.waiters[i+1:]...)
			c.admitWaiters() // w may have stood in the way of a smaller one
			return
		}
	}
}

func (c *Committer) admitWaiters() {
	for len(c.waiters) > 0 && c.fits(c.waiters[0]) {
		w := c.waiters[0]
		c.waiters = c.waiters[1:]
		c.admit(w)
	}
}

func (c *Committer) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Err implements [events.Journal].
func (c *Committer) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastError
}

// Close implements [events.Journal]. It may be called again, and then waits too.
func (c *Committer) Close(ctx context.Context) error {
	c.mu.Lock()
	c.closing = true
	for _, w := range c.waiters {
		close(w.ready)
	}
	c.waiters = nil
	c.mu.Unlock()
	c.signal()
	select {
	case <-c.done:
	case <-ctx.Done():
		c.cancel(context.Cause(ctx))
		<-c.done
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.queue); n > 0 {
		cause := context.Cause(ctx)
		if cause == nil { // an earlier Close gave up
			cause = events.ErrJournalClosed
		}
		return errors.Join(fmt.Errorf("close journal: %d events not known to be stored: %w", n, cause), c.lastError)
	}
	return nil
}

// run sends envelopes one after the other until Close has emptied the queue or
// given up.
func (c *Committer) run(ctx context.Context) {
	defer close(c.done)
	defer c.cancel(nil)
	var buf []byte
	for {
		batch, more := c.next()
		if len(batch) == 0 {
			if !more {
				return
			}
			select {
			case <-c.wake:
				// Writers that were woken together get to record before the
				// envelope is cut: without this the first one goes alone.
				goruntime.Gosched()
				continue
			case <-ctx.Done():
				return
			}
		}
		buf = events.AppendMessage(buf[:0], batch)
		if err := c.send(ctx, buf); err != nil {
			return
		}
		_ = c.cfg.Point("journal.after_ack") // stored, nobody told yet; an error changes nothing
		c.stored(len(batch))
		goruntime.Gosched()
	}
}

// next returns the next envelope's events; more is false when none will come.
func (c *Committer) next() (batch []events.Sealed, more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, !c.closing
	}
	return c.queue[:events.Fits(c.queue)], true
}

// send tries until data is stored; its error is that of a ctx that ended.
func (c *Committer) send(ctx context.Context, data []byte) error {
	delay := c.cfg.MinDelay
	for try := 1; ; try++ {
		err := c.try(ctx, try, data)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.mu.Lock()
		first := c.lastError == nil || kind(err) != kind(c.lastError)
		c.lastError = err
		c.mu.Unlock()
		wait := delay/2 + time.Duration(c.cfg.Jitter()*float64(delay/2))
		if first {
			c.cfg.Logger.Warn("journal does not get through; the same message is sent again", "error", err, "bytes", len(data), "try", try)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		delay = min(2*delay, c.cfg.MaxDelay)
	}
}

// kind is what an operator would have to do about a failed send; nil is nothing
// in particular.
func kind(err error) error {
	for _, k := range []error{events.ErrJournalFull, events.ErrJournalFrozen} {
		if errors.Is(err, k) {
			return k
		}
	}
	return nil
}

func (c *Committer) try(ctx context.Context, try int, data []byte) error {
	if err := c.cfg.Point("journal.before_send"); err != nil {
		return err
	}
	if err := c.cfg.Send(ctx, try, data); err != nil {
		return err
	}
	return c.cfg.Point("journal.after_send")
}

// stored settles the oldest n events.
func (c *Committer) stored(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lastError != nil {
		c.cfg.Logger.Info("journal gets through again")
		c.lastError = nil
	}
	for _, e := range c.queue[:n] {
		c.bytes -= len(e.Bytes())
	}
	clear(c.queue[:n])
	if c.queue = c.queue[n:]; len(c.queue) == 0 {
		c.queue = nil
	}
	end := c.accepted - uint64(len(c.queue))
	for len(c.receipts) > 0 && c.receipts[0].end <= end {
		close(c.receipts[0].done)
		c.receipts = c.receipts[1:]
	}
	c.admitWaiters()
}
