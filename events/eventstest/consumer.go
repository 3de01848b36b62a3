package eventstest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
)

// TestConsumer runs the promises of [events.Consumer].
func TestConsumer(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	runCases(t, open, []suiteCase{
		{"no message is no error", emptyFetch},
		{"Fetch returns with the first message", fetchReturns},
		{"confirmed messages do not come again, others do", redelivery},
		{"messages in progress are put off, and only as long", inProgress},
		{"two readers share the messages", twoReaders},
		{"one poisonous event leaves its neighbours alone", poison},
		{"Tail shows what is not confirmed and takes nothing", tail},
		{"Tail of a large message", tailLarge},
		{"Lag counts what is not confirmed", lag},
		{"a deleted consumer is made again", deletedConsumer},
		{"a deleted stream is made again by its reader", deletedStreamReader},
		{"a confirmation does not reach a later stream's message", staleAck},
		{"only own messages are confirmed", foreignAck},
	})
}

func emptyFetch(t *testing.T, h Harness) {
	c := h.Consumer(t)
	for _, d := range []time.Duration{0, 20 * time.Millisecond} {
		if ms, err := c.Fetch(patient(t), 10, d); err != nil || len(ms) != 0 {
			t.Errorf("Fetch for %v = %d messages, %v; want none", d, len(ms), err)
		}
	}
}

func fetchReturns(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	e := NewRun(t).Turns(1)
	ctx := patient(t)
	got := make(chan error, 1)
	go func() {
		ms, err := c.Fetch(ctx, 100, patience)
		if err == nil && len(ms) != 1 {
			err = fmt.Errorf("%d messages, want 1", len(ms))
		}
		got <- err
	}()
	start := time.Now()
	record(t, j, e...)
	if err := <-got; err != nil {
		t.Errorf("Fetch: %v", err)
	}
	if d := time.Since(start); d > patience/2 {
		t.Errorf("Fetch returned %v after the message was stored", d)
	}
}

func redelivery(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	es := NewRun(t).Turns(2)
	record(t, j, es[0])
	record(t, j, es[1])
	first := readUntil(t, c, false, func(f *fetched) bool { return len(f.messages) == 2 })
	if err := c.Ack(patient(t), first.messages[0]); err != nil {
		t.Fatalf("Ack: %v", err)
	}
	again := readUntil(t, c, true, func(f *fetched) bool { return len(f.messages) > 0 })
	checkEvents(t, again.events, es[1:])
	if d := again.messages[0].Deliveries; d != 2 {
		t.Errorf("deliveries = %d, want 2", d)
	}
	if got, want := again.messages[0].Sequence, first.messages[1].Sequence; got != want {
		t.Errorf("sequence = %d, want %d", got, want)
	}
	eventually(t, "nothing is left", func() bool { n, err := c.Lag(t.Context()); return err == nil && n == 0 })
}

// inProgress: fault 21 of RELIABILITY. A slow reader keeps what it has, and a dead
// one loses it soon.
func inProgress(t *testing.T, h Harness) {
	j, c, other := h.Journal(t, "w1"), h.Consumer(t), h.Consumer(t)
	es := NewRun(t).Turns(2)
	record(t, j, es[0])
	record(t, j, es[1])
	first := readUntil(t, c, false, func(f *fetched) bool { return len(f.messages) == 2 })
	kept, left := first.messages[0], first.messages[1]
	// What is put off does not come while another has come twice.
	var again, comesTwice int
	for deadline := time.Now().Add(patience); comesTwice < 2; {
		if time.Now().After(deadline) {
			t.Fatalf("the message that nobody works on came %d times again, want 2", comesTwice)
		}
		if err := c.InProgress(patient(t), kept); err != nil {
			t.Fatalf("InProgress: %v", err)
		}
		ms, err := other.Fetch(patient(t), 10, h.AckWait/10)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			switch m.Sequence {
			case kept.Sequence:
				again++
			case left.Sequence:
				comesTwice++
			}
		}
	}
	if again > 0 {
		t.Errorf("the message in progress came %d times", again)
	}
	come := readUntil(t, other, true, func(f *fetched) bool {
		return slices.ContainsFunc(f.messages, func(m events.Message) bool { return m.Sequence == kept.Sequence }) &&
			slices.ContainsFunc(f.messages, func(m events.Message) bool { return m.Sequence == left.Sequence })
	})
	if err := c.InProgress(patient(t), come.messages...); err != nil {
		t.Errorf("InProgress of what is confirmed: %v", err)
	}
	eventually(t, "nothing is left", func() bool { n, err := c.Lag(t.Context()); return err == nil && n == 0 })
}

func twoReaders(t *testing.T, h Harness) {
	j, a, b := h.Journal(t, "w1"), h.Consumer(t), h.Consumer(t)
	es := NewRun(t).Turns(10)
	for _, e := range es {
		record(t, j, e)
	}
	seen := &fetched{}
	for _, c := range []events.Consumer{a, b} {
		ms, err := c.Fetch(patient(t), 5, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		seen.add(t, ms)
	}
	checkEvents(t, seen.events, es)
}

func poison(t *testing.T, h Harness) {
	need(t, h.PublishRaw != nil, "publish what is no event")
	c := h.Consumer(t)
	es := NewRun(t).Turns(3)
	good := func(e events.Sealed) string {
		m := events.AppendMessage(nil, []events.Sealed{e})
		return string(m[1 : len(m)-1])
	}
	wrongHash := fmt.Sprintf(`{"hash":"%s","event":%s}`, es[0].Hash(), es[1].Bytes())
	h.PublishRaw(t, "w1", []byte("["+good(es[0])+","+wrongHash+`,{"hash":"zz","event":{}},7,`+good(es[1])+"]"))
	h.PublishRaw(t, "w1", []byte("no envelope at all\x00\xff"))
	h.PublishRaw(t, "w1", nil)
	h.PublishRaw(t, "w1", events.AppendMessage(nil, es[2:]))
	got := readUntil(t, c, true, func(f *fetched) bool { return len(f.messages) == 4 })
	checkEvents(t, got.events, es)
	if got.garbage != 2 {
		t.Errorf("%d messages are no envelope, want 2", got.garbage)
	}
	want := []struct {
		index int
		err   error
	}{{1, events.ErrHash}, {2, events.ErrMalformed}, {3, events.ErrMalformed}}
	if len(got.rejected) != len(want) {
		t.Fatalf("%d events rejected, want %d: %v", len(got.rejected), len(want), got.rejected)
	}
	for i, w := range want {
		if r := got.rejected[i]; r.Index != w.index || !errors.Is(r.Err, w.err) {
			t.Errorf("rejected event %d: %v, want %d: %v", r.Index, r.Err, w.index, w.err)
		}
	}
}

func readTail(t *testing.T, c events.Consumer, worker string) *fetched {
	t.Helper()
	f := &fetched{}
	err := c.Tail(patient(t), worker, func(m events.Message) error { f.add(t, []events.Message{m}); return nil })
	if err != nil {
		t.Fatalf("Tail: %v", err)
	}
	return f
}

func tail(t *testing.T, h Harness) {
	j1, j2, c := h.Journal(t, "w1"), h.Journal(t, "w2"), h.Consumer(t)
	es, other := NewRun(t).Turns(6), NewRun(t).Turns(6)
	for i := range es {
		record(t, j1, es[i])
		record(t, j2, other[i])
	}
	ms, err := c.Fetch(patient(t), 8, time.Second) // four of each
	if err != nil || len(ms) != 8 {
		t.Fatalf("Fetch = %d messages, %v; want 8", len(ms), err)
	}
	if err := c.Ack(patient(t), ms[:4]...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tail begins behind what is confirmed", func() bool { return len(readTail(t, c, "w1").events) == 4 })
	got := readTail(t, c, "w1")
	checkEvents(t, got.events, es[2:])
	checkEvents(t, readTail(t, c, "w2").events, other[2:])
	if got.messages[0].Worker != "w1" || got.messages[0].Sequence != ms[4].Sequence {
		t.Errorf("tail begins with %q %d, want w1 %d", got.messages[0].Worker, got.messages[0].Sequence, ms[4].Sequence)
	}
	if n := len(readTail(t, c, "w3").messages); n != 0 {
		t.Errorf("tail of a worker without messages has %d", n)
	}
	calls := 0
	if err := c.Tail(patient(t), "w1", func(events.Message) error { calls++; return errTest }); !errors.Is(err, errTest) || calls != 1 {
		t.Errorf("Tail = %v after %d calls, want the function's error after 1", err, calls)
	}
	// Nothing was taken: the rest is still delivered, once.
	rest := readUntil(t, c, true, func(f *fetched) bool { return len(f.messages) >= 4 })
	checkRuns(t, append(append([]events.Sealed{}, parse(t, ms)...), rest.events...), es, other)
}

func parse(t *testing.T, ms []events.Message) []events.Sealed {
	t.Helper()
	f := &fetched{}
	f.add(t, ms)
	return f.events
}

func tailLarge(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	r := NewRun(t)
	text := make([]byte, 200<<10)
	for i := range text {
		text[i] = "a "[i%2]
	}
	es := []events.Sealed{
		r.Next(events.SignalReceived{Name: "x", Data: []byte(`"` + string(text) + `"`)}),
		r.Next(events.SignalReceived{Name: "x", Data: []byte(`"` + string(text) + `"`)}),
	}
	record(t, j, es...)
	checkEvents(t, readTail(t, c, "w1").events, es)
}

func lag(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	for _, e := range NewRun(t).Turns(3) {
		record(t, j, e)
	}
	is := func(want uint64) func() bool {
		return func() bool { n, err := c.Lag(t.Context()); return err == nil && n == want }
	}
	eventually(t, "lag is 3", is(3))
	ms, err := c.Fetch(patient(t), 2, time.Second)
	if err != nil || len(ms) != 2 {
		t.Fatalf("Fetch = %d messages, %v", len(ms), err)
	}
	eventually(t, "lag is 3 before the ack", is(3))
	if err := c.Ack(patient(t), ms...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "lag is 1", is(1))
}

func deletedConsumer(t *testing.T, h Harness) {
	need(t, h.DeleteConsumer != nil, "delete the consumer")
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	es := NewRun(t).Turns(20)
	for _, e := range es[:10] {
		record(t, j, e)
	}
	ms, err := c.Fetch(patient(t), 5, time.Second)
	if err != nil || len(ms) != 5 {
		t.Fatalf("Fetch = %d messages, %v", len(ms), err)
	}
	h.DeleteConsumer(t)
	if err := c.Ack(patient(t), ms...); err != nil {
		t.Errorf("Ack for a deleted consumer: %v", err)
	}
	for _, e := range es[10:] {
		record(t, j, e)
	}
	checkRuns(t, readEvents(t, c, len(es)).unique(), es)
	h.DeleteConsumer(t)
	if _, err := c.Lag(patient(t)); err != nil {
		t.Errorf("Lag after the consumer was deleted: %v", err)
	}
	h.DeleteConsumer(t)
	readTail(t, c, "w1")
}

func deletedStreamReader(t *testing.T, h Harness) {
	need(t, h.DeleteStream != nil, "delete the stream")
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	es := NewRun(t).Turns(2)
	record(t, j, es[0])
	readEvents(t, c, 1)
	h.DeleteStream(t)
	if ms, err := c.Fetch(patient(t), 10, 20*time.Millisecond); err != nil || len(ms) != 0 {
		t.Errorf("Fetch = %d messages, %v; want none and no error", len(ms), err)
	}
	record(t, j, es[1])
	checkEvents(t, readEvents(t, c, 1).events, es[1:])
}

func staleAck(t *testing.T, h Harness) {
	need(t, h.DeleteStream != nil, "delete the stream")
	j, c, other := h.Journal(t, "w1"), h.Consumer(t), h.Consumer(t)
	es := NewRun(t).Turns(6)
	for _, e := range es[:3] {
		record(t, j, e)
	}
	old, err := c.Fetch(patient(t), 3, time.Second)
	if err != nil || len(old) != 3 {
		t.Fatalf("Fetch = %d messages, %v", len(old), err)
	}
	h.DeleteStream(t)
	for _, e := range es[3:] {
		record(t, j, e)
	}
	// Out for delivery under the sequences that the old messages had.
	if ms, err := other.Fetch(patient(t), 3, time.Second); err != nil || len(ms) != 3 {
		t.Fatalf("Fetch = %d messages, %v", len(ms), err)
	}
	if err := c.Ack(patient(t), old...); err != nil {
		t.Errorf("Ack for a deleted stream: %v", err)
	}
	checkEvents(t, readEvents(t, c, 3).unique(), es[3:])
}

func foreignAck(t *testing.T, h Harness) {
	c := h.Consumer(t)
	if err := c.Ack(patient(t), events.Message{Worker: "w1", Sequence: 1}); err == nil {
		t.Error("Ack of a message that Fetch did not give: no error")
	}
}
