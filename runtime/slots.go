package runtime

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
)

// slots bound how many calls of a model are under way in this process. Who has waited
// longest comes first, however often it was parked meanwhile.
type slots struct {
	mu   sync.Mutex
	of   map[string]*line
	most map[string]int
}

type line struct {
	busy  int
	queue []*waiter // by since
	since map[events.RunID]place
}

// place is when a run began to wait for a slot, and when it was last seen to.
type place struct{ since, seen time.Time }

type waiter struct {
	run   events.RunID
	since time.Time
	ready chan struct{}
}

// forgotten is how long a run that was parked keeps its place in a line without coming
// back for it: it ended, or went on elsewhere.
const forgotten = 10 * time.Minute

// take waits for a slot, at most so long. ok is false if there was none by then;
// release has to be called once if there was.
func (s *slots) take(ctx context.Context, model string, run events.RunID, now time.Time, wait time.Duration) (release func(), ok bool, err error) {
	most := s.most[model]
	if most <= 0 {
		return func() {}, true, nil
	}
	s.mu.Lock()
	if s.of == nil {
		s.of = map[string]*line{}
	}
	l := s.of[model]
	if l == nil {
		l = &line{since: map[events.RunID]place{}}
		s.of[model] = l
	}
	for r, p := range l.since {
		if now.Sub(p.seen) > forgotten {
			delete(l.since, r)
		}
	}
	w := &waiter{run: run, since: now, ready: make(chan struct{})}
	if p, before := l.since[run]; before {
		w.since = p.since
	}
	l.since[run] = place{since: w.since, seen: now}
	at, _ := slices.BinarySearchFunc(l.queue, w, func(a, b *waiter) int {
		if c := a.since.Compare(b.since); c != 0 {
			return c
		}
		return -1 // behind those of the same moment
	})
	l.queue = slices.Insert(l.queue, at, w)
	l.admit(most)
	s.mu.Unlock()

	release = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		l.busy--
		l.admit(most)
	})
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-w.ready:
		return release, true, nil
	case <-t.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.mu.Lock()
	i := slices.Index(l.queue, w)
	if i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	s.mu.Unlock()
	if i >= 0 {
		return nil, false, err
	}
	if err != nil { // admitted in the same moment
		release()
		return nil, false, err
	}
	return release, true, nil
}

// admit lets in who is first. The slots' lock is held.
func (l *line) admit(most int) {
	for l.busy < most && len(l.queue) > 0 {
		w := l.queue[0]
		l.queue = l.queue[1:]
		l.busy++
		delete(l.since, w.run)
		close(w.ready)
	}
}
