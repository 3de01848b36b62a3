package jetstream

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/events"
)

// Whoever may publish can say that he is many: he takes no more than a bound, and
// what is looked through under the lock is looked through by time.
func TestLiveViewersAreBounded(t *testing.T) {
	now := time.Unix(1000, 0)
	l := &Live{now: func() time.Time { return now }, watched: map[string]*watch{}}
	hear := func(run, viewer int) {
		l.heard(&nats.Msg{Subject: events.LiveWatchSubject("acme", events.RunID{byte(run)}), Data: fmt.Appendf(nil, `{"viewer":"v%d"}`, viewer)})
	}
	count := func() (n int) {
		for _, e := range l.watched {
			n += len(e.viewers)
		}
		return n
	}
	const most = 65536
	for i := range most + 5000 {
		hear(i%200, i)
	}
	if n := count(); n != most {
		t.Errorf("%d viewers are kept", n)
	}
	n := l.Watched("acme", events.RunID{1})
	hear(250, 1)
	if l.Watched("acme", events.RunID{250}) != 0 || n == 0 {
		t.Error("one more run is watched than there is room for, or one less")
	}
	now = now.Add(liveWatchFor + 1)
	if l.Watched("acme", events.RunID{1}) != 0 {
		t.Error("watched by those who are gone")
	}
	hear(1, 1)
	if count() != 1 || l.viewers != 1 {
		t.Errorf("%d viewers, counted as %d, are left", count(), l.viewers)
	}
	if again := l.Watched("acme", events.RunID{1}); again == 0 || again == n {
		t.Errorf("who has come back is taken for one that was there: %d", again)
	}
	// A viewer that is gone stays until the next sweep, however many runs come.
	now = now.Add(liveWatchFor)
	hear(2, 2)
	now = now.Add(1)
	for i := range 50 {
		hear(3+i, 3)
	}
	if l.swept.Equal(now) {
		hear(60, 4)
	}
	swept := l.swept
	hear(61, 4)
	if l.swept != swept {
		t.Error("all are looked through at each message")
	}
}
