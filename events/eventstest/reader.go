package eventstest

import (
	"errors"
	"testing"

	"github.com/daybookhq/daybook/events"
)

// TestReader runs the promises of [events.Reader]; the harness's consumers must
// be readers too.
func TestReader(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	runCases(t, open, []suiteCase{
		{"everything stored is read, confirmed or not", readAll},
		{"a position tells what is confirmed", position},
		{"a consumer made again is another incarnation", incarnation},
	})
}

func reader(t *testing.T, c events.Consumer) events.Reader {
	t.Helper()
	r, ok := c.(events.Reader)
	if !ok {
		t.Fatalf("%T is no events.Reader", c)
	}
	return r
}

func positionOf(t *testing.T, c events.Consumer) events.Position {
	t.Helper()
	p, err := reader(t, c).Position(patient(t))
	if err != nil {
		t.Fatalf("Position: %v", err)
	}
	return p
}

func readAll(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	es := NewRun(t).Turns(20)
	for _, e := range es {
		record(t, j, e)
	}
	readUntil(t, c, true, func(f *fetched) bool { return len(f.messages) >= 10 })
	for _, tt := range []struct{ from, to, skip, want int }{{0, len(es), 0, len(es)}, {1, len(es) + 100, 0, len(es)}, {3, 5, 2, 3}, {len(es) + 1, len(es) + 9, 0, 0}} {
		f := &fetched{}
		err := reader(t, c).Read(patient(t), uint64(tt.from), uint64(tt.to), func(m events.Message) error { //nolint:gosec // small
			if m.Worker != "w1" || m.Incarnation == "" {
				t.Errorf("message %d is of %q, incarnation %q", m.Sequence, m.Worker, m.Incarnation)
			}
			f.add(t, []events.Message{m})
			return nil
		})
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		checkEvents(t, f.events, es[tt.skip:tt.skip+tt.want])
	}
	calls := 0
	if err := reader(t, c).Read(patient(t), 1, 9, func(events.Message) error { calls++; return errTest }); !errors.Is(err, errTest) || calls != 1 {
		t.Errorf("Read = %v after %d calls, want the function's error after 1", err, calls)
	}
}

func position(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	if p := positionOf(t, c); p.Last >= p.First && p.Last > 0 || p.Confirmed != 0 {
		t.Errorf("of an empty journal: %+v", p)
	}
	for _, e := range NewRun(t).Turns(4) {
		record(t, j, e)
	}
	got := readUntil(t, c, false, func(f *fetched) bool { return len(f.messages) >= 4 })
	first, last := got.messages[0].Sequence, got.messages[3].Sequence
	if p := positionOf(t, c); p.Confirmed >= first || p.First != first || p.Last < last || p.Incarnation != got.messages[0].Incarnation {
		t.Errorf("before anything is confirmed: %+v, the first message is %d of %q", p, first, got.messages[0].Incarnation)
	}
	if err := c.Ack(patient(t), got.messages[:3]...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the position moves on", func() bool {
		p, err := reader(t, c).Position(t.Context())
		return err == nil && p.Confirmed == got.messages[2].Sequence
	})
}

func incarnation(t *testing.T, h Harness) {
	need(t, h.DeleteConsumer != nil, "delete the consumer")
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	record(t, j, NewRun(t).Turns(1)...)
	before := positionOf(t, c)
	readUntil(t, c, true, func(f *fetched) bool { return len(f.messages) > 0 })
	h.DeleteConsumer(t)
	if after := positionOf(t, c); after.Incarnation == before.Incarnation || after.Confirmed != 0 {
		t.Errorf("before %+v, after it was deleted %+v", before, after)
	}
}
