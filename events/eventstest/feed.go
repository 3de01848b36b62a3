package eventstest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
)

// TestFeed runs the promises of [events.Feed].
func TestFeed(t *testing.T, open func(t *testing.T) Harness) {
	t.Helper()
	runCases(t, open, []suiteCase{
		{"subject, id and bytes", feedMessages},
		{"order per run is kept", feedOrder},
		{"published again", feedAgain},
		{"a tenant that is no token stays in its place", feedToken},
		{"a deleted stream is made again", feedDeleted},
		{"Publish waits for the broker", feedRestart},
		{"Publish ends with its context", feedContext},
	})
}

func publish(t *testing.T, f events.Feed, es ...events.Sealed) {
	t.Helper()
	if err := f.Publish(patient(t), es...); err != nil {
		t.Fatalf("Publish: %v", err)
	}
}

func feedMessages(t *testing.T, h Harness) {
	f := h.Feed(t)
	a, b := NewRun(t), NewRun(t)
	b.Tenant = "other_tenant-2"
	es := []events.Sealed{
		a.Next(events.TurnStarted{Turn: 1}),
		b.Next(events.RunFinished{StoppedBy: events.StoppedByFinish}),
	}
	publish(t, f, es...)
	byID := map[string]FeedMessage{}
	for _, m := range h.FeedMessages(t) {
		byID[m.ID] = m
	}
	want := []string{
		"daybook.feed.acme.turn_started." + a.ID.String(),
		"daybook.feed.other_tenant-2.run_finished." + b.ID.String(),
	}
	for i, e := range es {
		m := byID[e.Envelope().ID.String()]
		if m.Subject != want[i] {
			t.Errorf("subject = %q, want %q", m.Subject, want[i])
		}
		if !bytes.Equal(m.Data, e.Bytes()) {
			t.Errorf("data = %s, want the event's own bytes", m.Data)
		}
	}
	publish(t, f) // nothing is no error
}

func feedOrder(t *testing.T, h Harness) {
	f := h.Feed(t)
	const runs, each = 100, 10
	var es []events.Sealed
	want := make([][]events.Sealed, runs)
	rs := make([]*Run, runs)
	for i := range rs {
		rs[i] = NewRun(t)
	}
	for n := range each {
		for i, r := range rs {
			e := r.Next(events.TurnStarted{Turn: n + 1})
			es, want[i] = append(es, e), append(want[i], e)
		}
	}
	publish(t, f, es[:runs*each/2]...)
	publish(t, f, es[runs*each/2:]...)
	checkFeed(t, h, es, want...)
}

// checkFeed checks that the feed holds exactly want, each run in order, after
// duplicates are dropped.
func checkFeed(t *testing.T, h Harness, known []events.Sealed, want ...[]events.Sealed) {
	t.Helper()
	byID := map[string]events.Sealed{}
	for _, e := range known {
		byID[e.Envelope().ID.String()] = e
	}
	seen := map[string]bool{}
	var got []events.Sealed
	for _, m := range h.FeedMessages(t) {
		if seen[m.ID] {
			continue
		}
		seen[m.ID] = true
		e, ok := byID[m.ID]
		if !ok || !bytes.Equal(m.Data, e.Bytes()) {
			t.Fatalf("feed holds %s %s, which nobody published", m.ID, m.Data)
		}
		got = append(got, e)
	}
	checkRuns(t, got, want...)
}

func feedAgain(t *testing.T, h Harness) {
	f := h.Feed(t)
	es := NewRun(t).Turns(60)
	publish(t, f, es[:30]...)
	publish(t, f, es[:30]...)
	publish(t, f, es...) // a projector that died before it kept its position
	checkFeed(t, h, es, es)
}

func feedToken(t *testing.T, h Harness) {
	f := h.Feed(t)
	r := NewRun(t)
	r.Tenant = "a.b*> c"
	e := r.Next(events.TurnStarted{Turn: 1})
	publish(t, f, e)
	ms := h.FeedMessages(t)
	if want := "daybook.feed.a_b___c.turn_started." + r.ID.String(); len(ms) != 1 || ms[0].Subject != want {
		t.Errorf("feed holds %v, want one message on %q", ms, want)
	}
}

func feedDeleted(t *testing.T, h Harness) {
	need(t, h.DeleteFeed != nil, "delete the feed")
	f := h.Feed(t)
	es := NewRun(t).Turns(2)
	publish(t, f, es[0])
	h.DeleteFeed(t)
	publish(t, f, es[1])
	ms := h.FeedMessages(t)
	if len(ms) != 1 || ms[0].ID != es[1].Envelope().ID.String() {
		t.Errorf("the feed made again holds %v, want the event published since", ms)
	}
}

func feedRestart(t *testing.T, h Harness) {
	need(t, h.Stop != nil && h.Start != nil, "restart the broker")
	f := h.Feed(t)
	es := NewRun(t).Turns(40)
	publish(t, f, es[:5]...)
	h.Stop(t)
	ctx := patient(t)
	done := make(chan error, 1)
	go func() { done <- f.Publish(ctx, es[5:]...) }()
	select {
	case err := <-done:
		t.Fatalf("Publish without a broker returned %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	h.Start(t)
	if err := <-done; err != nil {
		t.Fatalf("Publish: %v", err)
	}
	checkFeed(t, h, es, es)
}

func feedContext(t *testing.T, h Harness) {
	need(t, h.Stop != nil && h.Start != nil, "stop the broker")
	f := h.Feed(t)
	es := append(NewRun(t).Turns(3), NewRun(t).Turns(3)...)
	h.Stop(t)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errTest)
	defer cancel()
	if err := f.Publish(ctx, es...); !errors.Is(err, errTest) {
		t.Errorf("Publish = %v, want the cause", err)
	}
	h.Start(t)
}
