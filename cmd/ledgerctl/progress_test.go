package main

import (
	"strings"
	"testing"
	"time"
)

func TestProgressTold(t *testing.T) {
	for _, tt := range []struct {
		name        string
		done, total int64
		since       time.Duration
		want        string
	}{
		{"nothing yet", 0, 1_000_000, 0, "0 of 1,000,000 events (0 %), 0/s"},
		{"a quarter", 250_000, 1_000_000, 10 * time.Second, "250,000 of 1,000,000 events (25 %), 25,000/s, 30s left"},
		{"more than was counted", 1_200, 1_000, time.Second, "1,200 of 1,000 events (100 %), 1,200/s"},
		{"nobody knows of how many", 1_234_567, 0, time.Second, "1,234,567 events, 1,234,567/s"},
	} {
		p := &progress{what: "verifying", unit: "events"}
		p.total.Store(tt.total)
		p.done.Store(tt.done)
		if got := p.told(tt.since); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Plain lines come with each tick, and one at the end.
func TestProgressPlain(t *testing.T) {
	var said paper
	ticks := make(chan time.Time)
	p := &progress{what: "verifying", unit: "events", begun: time.Now(), err: &said, tick: func() <-chan time.Time { return ticks }, stop: make(chan struct{})}
	p.lines.Go(p.writeLines)
	p.Total(10)
	p.Set(4)
	ticks <- time.Time{}
	p.Add(6)
	p.Stop()
	p.Stop()
	if s := said.String(); !strings.Contains(s, "verifying: 4 of 10 events (40 %)") || !strings.HasSuffix(strings.TrimRight(s, "s.0123456789\n"), "verifying: 10 events in ") {
		t.Errorf("%q", s)
	}
	// Off a terminal there is none unless asked for.
	var quiet paper
	a := newApp(strings.NewReader(""), &quiet, &quiet, time.Now)
	a.progressKind = progressAuto
	q := a.startProgress(t.Context(), "verifying", "events", 10)
	q.Set(3)
	q.Stop()
	if quiet.String() != "" {
		t.Errorf("it said %q", quiet.String())
	}
}
