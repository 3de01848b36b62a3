package eventstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
)

// TestJournal runs the promises of [events.Journal].
func TestJournal(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	runCases(t, open, []suiteCase{
		{"stored when Record returns", recordStores},
		{"order per worker is kept", orderPerWorker},
		{"64 writers share envelopes", writersShare},
		{"an event of the largest size passes, a larger one is refused", largestEvent},
		{"large events are spread over messages", envelopeLimits},
		{"an ended context does not take events back", endedContext},
		{"a lost ack gives a duplicate and no second event", lostAck},
		{"nothing acknowledged is missing after a restart", restart},
		{"a full stream holds events back and drops none", fullStream},
		{"a blocked call ends with its context", blockedContext},
		{"a deleted stream is made again", deletedStream},
		{"Close waits for what was accepted", closeWaits},
		{"Close gives up with its context", closeGivesUp},
	})
}

func recordStores(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	want := NewRun(t).Turns(3)
	record(t, j, want...)
	lag, err := c.Lag(patient(t))
	if err != nil || lag == 0 {
		t.Errorf("lag after Record = %d, %v; want at least one message", lag, err)
	}
	got := readEvents(t, c, 3)
	checkEvents(t, got.events, want)
	if w := got.messages[0].Worker; w != "w1" {
		t.Errorf("worker = %q, want w1", w)
	}
	if err := j.Err(); err != nil {
		t.Errorf("Err = %v, want nil", err)
	}
}

func orderPerWorker(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	runs := []*Run{NewRun(t), NewRun(t), NewRun(t)}
	var want []events.Sealed
	var last events.Receipt
	for i := range 300 {
		e := runs[i%3].Next(events.TurnStarted{Turn: i})
		want = append(want, e)
		last = appendAll(t, j, e)
	}
	wait(t, last)
	checkEvents(t, readEvents(t, c, len(want)).events, want)
}

func writersShare(t *testing.T, h Harness) {
	const writers, each = 64, 20
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	want := make([][]events.Sealed, writers)
	for i := range want {
		want[i] = NewRun(t).Turns(each)
	}
	ctx := patient(t)
	var wg sync.WaitGroup
	for _, es := range want {
		wg.Go(func() {
			for _, e := range es {
				if err := j.Record(ctx, e); err != nil {
					t.Errorf("Record: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	got := readEvents(t, c, writers*each)
	checkRuns(t, got.events, want...)
	if n := len(got.messages); n >= writers*each {
		t.Errorf("%d messages for %d events: no envelope was shared", n, writers*each)
	}
}

func largestEvent(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	r := NewRun(t)
	overhead := len(`{"data":"","name":"x"}`)
	text := strings.Repeat("a ", (events.MaxDataBytes-overhead)/2)
	e := r.Next(events.SignalReceived{Name: "x", Data: []byte(`"` + text + `"`)})
	record(t, j, e)
	checkEvents(t, readEvents(t, c, 1).events, []events.Sealed{e})
	data, err := r.red.JSON(events.SignalReceived{Name: "x", Data: []byte(`"` + text + `ab"`)})
	if err != nil {
		t.Fatal(err)
	}
	env := e.Envelope()
	env.Seq, env.Prev = 2, e.Hash()
	if _, err := events.Seal(env, data); !errors.Is(err, events.ErrTooLarge) {
		t.Errorf("Seal of an event over the limit: %v, want ErrTooLarge", err)
	}
}

func envelopeLimits(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	r := NewRun(t)
	var want []events.Sealed
	for range 12 {
		want = append(want, r.Next(events.SignalReceived{Name: "x", Data: []byte(`"` + strings.Repeat("a ", 100<<9) + `"`)}))
	}
	record(t, j, want...)
	got := readEvents(t, c, len(want))
	checkEvents(t, got.events, want)
	for _, m := range got.messages {
		if len(m.Data) > events.MaxEnvelopeBytes {
			t.Errorf("message of %d bytes, at most %d", len(m.Data), events.MaxEnvelopeBytes)
		}
	}
}

var errTest = errors.New("the test's own cause")

func endedContext(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	want := NewRun(t).Turns(2)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errTest)
	err := j.Record(ctx, want[0])
	if err != nil && (!errors.Is(err, errTest) || errors.Is(err, events.ErrNotAccepted)) {
		t.Errorf("Record = %v, want nil or the cause", err)
	}
	record(t, j, want[1])
	checkEvents(t, readEvents(t, c, 2).events, want)
}

func lostAck(t *testing.T, h Harness) {
	need(t, h.LoseAcks != nil, "lose an ack")
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	want := NewRun(t).Turns(4)
	record(t, j, want[0])
	h.LoseAcks(t, 2)
	record(t, j, want[1:3]...)
	record(t, j, want[3])
	got := readEvents(t, c, len(want))
	checkEvents(t, got.unique(), want)
	if len(got.events) != 8 {
		t.Errorf("read %d events, want 8: two were stored three times", len(got.events))
	}
	byData := map[string]int{}
	for _, m := range got.messages {
		byData[string(m.Data)]++
	}
	if len(byData) != 3 {
		t.Errorf("%d different messages, want 3: a message is sent again byte for byte", len(byData))
	}
}

func restart(t *testing.T, h Harness) {
	need(t, h.Stop != nil && h.Start != nil, "restart the broker")
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	want := NewRun(t).Turns(200)
	record(t, j, want[:100]...)
	h.Stop(t)
	last := appendAll(t, j, want[100:]...)
	eventually(t, "Err says that the journal does not get through", func() bool { return j.Err() != nil })
	h.Start(t)
	wait(t, last)
	eventually(t, "Err is nil again", func() bool { return j.Err() == nil })
	checkRuns(t, readEvents(t, c, len(want)).unique(), want)
}

func fullStream(t *testing.T, h Harness) {
	need(t, h.MaxMessages != nil, "make the stream full")
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	r := NewRun(t)
	h.MaxMessages(t, 1)
	first := r.Next(events.TurnStarted{Turn: 1})
	record(t, j, first)
	want := []events.Sealed{first}
	// The journal takes as many as it may hold, then blocks.
	var last events.Receipt
	for i := range h.Buffer {
		e := r.Next(events.TurnStarted{Turn: i})
		last = appendAll(t, j, e)
		want = append(want, e)
	}
	eventually(t, "Err is ErrJournalFull", func() bool { return errors.Is(j.Err(), events.ErrJournalFull) })
	blocked := make(chan error, 1)
	e := r.Next(events.TurnStarted{Turn: 0})
	ctx := patient(t)
	go func() { blocked <- j.Record(ctx, e) }()
	select {
	case <-last.Done():
		t.Fatal("events are stored in a full stream")
	case err := <-blocked:
		t.Fatalf("Record into a full journal returned %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	h.MaxMessages(t, 0)
	if err := <-blocked; err != nil {
		t.Fatalf("Record after room was made: %v", err)
	}
	if err := j.Err(); err != nil {
		t.Errorf("Err after room was made = %v", err)
	}
	checkEvents(t, readEvents(t, c, len(want)+1).unique(), append(want, e))
}

func blockedContext(t *testing.T, h Harness) {
	need(t, h.MaxMessages != nil, "make the stream full")
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	r := NewRun(t)
	h.MaxMessages(t, 1)
	want := []events.Sealed{r.Next(events.TurnStarted{Turn: 1})}
	record(t, j, want...)
	rest := r.Turns(h.Buffer)
	last := appendAll(t, j, rest...)
	want = append(want, rest...)
	other := NewRun(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errTest)
	defer cancel()
	_, err := j.Append(ctx, other.Turns(3)...)
	if !errors.Is(err, events.ErrNotAccepted) || !errors.Is(err, errTest) {
		t.Errorf("Append = %v, want ErrNotAccepted and the cause", err)
	}
	ctx, cancel = context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errTest)
	defer cancel()
	if err := j.Record(ctx, other.Turns(3)...); !errors.Is(err, events.ErrNotAccepted) || !errors.Is(err, errTest) {
		t.Errorf("Record = %v, want ErrNotAccepted and the cause", err)
	}
	h.MaxMessages(t, 0)
	wait(t, last)
	checkEvents(t, readEvents(t, c, len(want)).unique(), want)
}

func deletedStream(t *testing.T, h Harness) {
	need(t, h.DeleteStream != nil, "delete the stream")
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	want := NewRun(t).Turns(40)
	record(t, j, want[:20]...)
	readEvents(t, c, 20)
	h.DeleteStream(t)
	for _, e := range want[20:] {
		record(t, j, e)
	}
	checkEvents(t, readEvents(t, c, 20).unique(), want[20:])
}

func closeWaits(t *testing.T, h Harness) {
	j, c := h.Journal(t, "w1"), h.Consumer(t)
	want := NewRun(t).Turns(min(500, h.Buffer))
	last := appendAll(t, j, want...)
	closeJournal(t, j)
	select {
	case <-last.Done():
	default:
		t.Error("Close returned before the last receipt was done")
	}
	if err := j.Record(t.Context(), want[0]); !errors.Is(err, events.ErrJournalClosed) {
		t.Errorf("Record after Close = %v, want ErrJournalClosed", err)
	}
	if _, err := j.Append(t.Context(), want[0]); !errors.Is(err, events.ErrJournalClosed) {
		t.Errorf("Append after Close = %v, want ErrJournalClosed", err)
	}
	closeJournal(t, j)
	checkEvents(t, readEvents(t, c, len(want)).events, want)
}

func closeGivesUp(t *testing.T, h Harness) {
	need(t, h.Stop != nil, "stop the broker")
	j := h.Journal(t, "w1")
	record(t, j, NewRun(t).Turns(1)...)
	h.Stop(t)
	es := NewRun(t).Turns(7)
	recorded := make(chan error, 1)
	appendAll(t, j, es[:6]...)
	go func() { recorded <- j.Record(context.WithoutCancel(t.Context()), es[6]) }()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errTest)
	defer cancel()
	err := j.Close(ctx)
	if !errors.Is(err, errTest) {
		t.Errorf("Close = %v, want the cause", err)
	}
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d events", 7)) && !strings.Contains(err.Error(), "6 events") {
		t.Errorf("Close = %v, want it to count the events", err)
	}
	if err := <-recorded; !errors.Is(err, events.ErrJournalClosed) {
		t.Errorf("Record = %v, want ErrJournalClosed", err)
	}
	h.Start(t)
}
