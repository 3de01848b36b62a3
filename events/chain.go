package events

import (
	"crypto/sha256"
	"errors"
	"fmt"
)

// Errors of [Chain]; each is wrapped with the run and the numbers it is about.
var (
	// ErrGap: one or more events are missing before this one.
	ErrGap = errors.New("events are missing")
	// ErrBrokenChain: the event cannot follow the one before it; one of them was
	// changed, repeated or moved.
	ErrBrokenChain = errors.New("event does not follow the one before it")
)

// Chain checks that events are the one history of a run: dense sequence, every
// prev the hash of the event before, every hash that of the bytes, one run, and
// neither epoch nor time ever going back. The zero value expects the first
// event of any run.
type Chain struct {
	last Envelope
	hash Hash
}

// ChainAfter returns a chain that expects the event after s.
func ChainAfter(s Sealed) Chain { return Chain{last: s.env, hash: s.hash} }

// Head returns the sequence and hash of the last event; zero before the first.
func (c *Chain) Head() (seq uint64, hash Hash) { return c.last.Seq, c.hash }

// Add checks the next event and, only if it fits, moves on to it. Errors:
// [ErrGap], [ErrBrokenChain], [ErrHash].
func (c *Chain) Add(s Sealed) error {
	e, prev := s.env, c.hash
	if c.last.Seq == 0 {
		prev = Genesis(e.RunID)
	}
	fail := func(cause error, format string, args ...any) error {
		return fmt.Errorf("check run %s seq %d: %s: %w", e.RunID, e.Seq, fmt.Sprintf(format, args...), cause)
	}
	switch {
	case sha256.Sum256(s.bytes) != s.hash:
		return fail(ErrHash, "stored hash %s", s.hash)
	case c.last.Seq != 0 && e.RunID != c.last.RunID:
		return fail(ErrBrokenChain, "event of another run, want %s", c.last.RunID)
	case e.Seq > c.last.Seq+1:
		return fail(ErrGap, "want seq %d", c.last.Seq+1)
	case e.Seq <= c.last.Seq:
		return fail(ErrBrokenChain, "want seq %d", c.last.Seq+1)
	case e.Prev != prev:
		return fail(ErrBrokenChain, "prev is %s, want %s", e.Prev, prev)
	case e.Epoch < c.last.Epoch:
		return fail(ErrBrokenChain, "epoch %d after %d", e.Epoch, c.last.Epoch)
	case e.Time.Before(c.last.Time):
		return fail(ErrBrokenChain, "time %s before %s", e.Time, c.last.Time)
	}
	c.last, c.hash = e, s.hash
	return nil
}

// VerifyChain checks a whole history from its first event. Errors: those of
// [Chain.Add].
func VerifyChain(es []Sealed) error {
	var c Chain
	for _, e := range es {
		if err := c.Add(e); err != nil {
			return err
		}
	}
	return nil
}
