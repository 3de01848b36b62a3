// Package queue carries wake-ups: hints over core NATS that a queue has work
// or a run has ended. They may be lost; whoever waits also looks.
package queue

import (
	"fmt"
	"regexp"
	"sync"

	"github.com/nats-io/nats.go"
)

const prefix = "daybook.wake."

var token = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// NATS wakes over a connection. Safe for concurrent use.
type NATS struct{ nc *nats.Conn }

// NewNATS returns a waker over nc, which stays its owner's to close.
func NewNATS(nc *nats.Conn) *NATS { return &NATS{nc} }

func subject(queue string) string { return prefix + token.ReplaceAllString(queue, "_") }

// Wake hints that queue has work.
func (n *NATS) Wake(queue string) {
	// A lost hint costs a sweep interval; there is nothing to do about an error.
	_ = n.nc.Publish(subject(queue), nil)
}

// Hints delivers a value after Wake was called for one of queues (none: for any).
func (n *NATS) Hints(queues []string) (<-chan struct{}, func(), error) {
	subjects := []string{prefix + ">"}
	if len(queues) > 0 {
		subjects = subjects[:0]
		for _, q := range queues {
			subjects = append(subjects, subject(q))
		}
	}
	c := make(chan struct{}, 1)
	var subs []*nats.Subscription
	stop := func() {
		for _, s := range subs {
			_ = s.Unsubscribe()
		}
	}
	for _, s := range subjects {
		sub, err := n.nc.Subscribe(s, func(*nats.Msg) { poke(c) })
		if err != nil {
			stop()
			return nil, nil, fmt.Errorf("subscribe to %s: %w", s, err)
		}
		subs = append(subs, sub)
	}
	return c, stop, nil
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Local wakes within one process. The zero value is ready to use.
type Local struct {
	mu   sync.Mutex
	next int
	subs map[int]chan struct{}
}

// Wake hints to every subscriber.
func (l *Local) Wake(string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.subs {
		poke(c)
	}
}

// Hints delivers a value after Wake.
func (l *Local) Hints([]string) (<-chan struct{}, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.subs == nil {
		l.subs = map[int]chan struct{}{}
	}
	id, c := l.next, make(chan struct{}, 1)
	l.next++
	l.subs[id] = c
	return c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.subs, id)
	}, nil
}
