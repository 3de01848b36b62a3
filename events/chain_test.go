package events_test

import (
	"errors"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/eventstest"
)

func TestChain(t *testing.T) {
	r := eventstest.NewRun(t)
	es := r.Turns(5)
	if err := events.VerifyChain(es); err != nil {
		t.Fatalf("a whole chain: %v", err)
	}
	if err := events.VerifyChain(nil); err != nil {
		t.Fatalf("no event: %v", err)
	}
	next := events.Envelope{
		ID: events.ID{1}, RunID: r.ID, Seq: 6, Epoch: 2, Type: "turn_started", Version: 1,
		Time: es[4].Envelope().Time, Tenant: "acme", Prev: es[4].Hash(),
	}
	with := func(f func(*events.Envelope)) events.Sealed {
		e := next
		f(&e)
		return seal(t, e, events.TurnStarted{Turn: 6})
	}
	tests := []struct {
		name string
		next events.Sealed
		want error
	}{
		{"same time and a later epoch", with(func(*events.Envelope) {}), nil},
		{"an event left out", with(func(e *events.Envelope) { e.Seq = 7 }), events.ErrGap},
		{"an event twice", es[4], events.ErrBrokenChain},
		{"an event moved", es[1], events.ErrBrokenChain},
		{"another prev", with(func(e *events.Envelope) { e.Prev = es[3].Hash() }), events.ErrBrokenChain},
		{"no prev", with(func(e *events.Envelope) { e.Prev = events.Hash{} }), events.ErrBrokenChain},
		{"time going back", with(func(e *events.Envelope) { e.Time = e.Time.Add(-time.Microsecond) }), events.ErrBrokenChain},
		{"another run", with(func(e *events.Envelope) { e.RunID = events.RunID{9} }), events.ErrBrokenChain},
		{"no event", events.Sealed{}, events.ErrHash},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := events.ChainAfter(es[4])
			err := c.Add(tt.next)
			if !errors.Is(err, tt.want) {
				t.Fatalf("Add = %v, want %v", err, tt.want)
			}
			if seq, hash := c.Head(); err != nil && (seq != 5 || hash != es[4].Hash()) {
				t.Errorf("a refused event moved the head to %d %s", seq, hash)
			}
		})
	}
}

func TestChainEpochGoingBack(t *testing.T) {
	r := eventstest.NewRun(t)
	r.Epoch = 3
	first := r.Next(events.TurnStarted{Turn: 1})
	r.Epoch = 2
	if err := events.VerifyChain([]events.Sealed{first, r.Next(events.TurnStarted{Turn: 2})}); !errors.Is(err, events.ErrBrokenChain) {
		t.Errorf("epoch 2 after 3: %v, want ErrBrokenChain", err)
	}
}

func TestChainBegins(t *testing.T) {
	es := eventstest.NewRun(t).Turns(2)
	if err := events.VerifyChain(es[1:]); !errors.Is(err, events.ErrGap) {
		t.Errorf("a chain that begins at 2: %v, want ErrGap", err)
	}
	e := es[0].Envelope()
	e.Prev = events.Genesis(events.RunID{1})
	if err := events.VerifyChain([]events.Sealed{seal(t, e, events.TurnStarted{Turn: 1})}); !errors.Is(err, events.ErrBrokenChain) {
		t.Errorf("another run's beginning: %v, want ErrBrokenChain", err)
	}
}

func TestChainFindsChangedBytes(t *testing.T) {
	s := eventstest.NewRun(t).Turns(1)[0]
	b := append([]byte(nil), s.Bytes()...)
	p, err := events.Parse(b, s.Hash())
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-2]++ // Parse keeps b
	if err := events.VerifyChain([]events.Sealed{p}); !errors.Is(err, events.ErrHash) {
		t.Errorf("changed bytes: %v, want ErrHash", err)
	}
}
