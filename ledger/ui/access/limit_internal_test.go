package access

import (
	"fmt"
	"testing"
	"time"
)

// TestLimiterIsBounded: whoever comes from ever new addresses fills the memory only
// so far, and does not free an address that is at its limit.
func TestLimiterIsBounded(t *testing.T) {
	l, now := newLimiter(10, time.Minute, 100), time.Unix(1, 0)
	for range 10 {
		if !l.take("guesser", now) {
			t.Fatal("refused too early")
		}
	}
	for i := range 10_000 {
		l.take(fmt.Sprint(i), now)
	}
	if len(l.full) > 100 {
		t.Errorf("%d keys", len(l.full))
	}
	if l.take("guesser", now) || l.wait("guesser", now) != time.Minute {
		t.Errorf("the guesser waits %s", l.wait("guesser", now))
	}
	now = now.Add(time.Minute)
	if !l.take("guesser", now) || l.take("guesser", now) {
		t.Error("a minute gives one more, not none and not two")
	}
	if l.wait("never seen", now) != 0 {
		t.Error("who was never seen waits")
	}
	now = now.Add(time.Hour)
	l.take("later", now)
	for i := range 200 {
		l.take(fmt.Sprint("x", i), now)
	}
	if _, there := l.full["guesser"]; there {
		t.Error("what owes nothing is not forgotten where room is needed")
	}
}
