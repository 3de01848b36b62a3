package access

import (
	"sync"
	"time"
)

// limiter bounds how often something happens per key, in bounded memory: burst
// at once, then one per every. Safe for concurrent use.
type limiter struct {
	burst int
	every time.Duration
	most  int // keys

	mu   sync.Mutex
	full map[string]time.Time // when the bucket of a key is full again
}

func newLimiter(burst int, every time.Duration, most int) *limiter {
	return &limiter{burst: burst, every: every, most: most, full: map[string]time.Time{}}
}

// wait is how long a key has to wait; 0 if it need not.
func (l *limiter) wait(key string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waits(key, now)
}

func (l *limiter) waits(key string, now time.Time) time.Duration {
	at, ok := l.full[key]
	if !ok {
		return 0
	}
	return max(0, at.Sub(now)-time.Duration(l.burst-1)*l.every)
}

// take counts one of a key, and reports whether it was within the limit.
func (l *limiter) take(key string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	ok := l.waits(key, now) == 0
	if !ok {
		return false // not counted: who goes on trying is not locked out for ever
	}
	if _, there := l.full[key]; !there && len(l.full) >= l.most {
		l.room(now)
	}
	at := l.full[key]
	if at.Before(now) {
		at = now
	}
	l.full[key] = at.Add(l.every)
	return true
}

// room forgets the keys that owe nothing, or else the one that owes least: who
// fills the memory with new keys cannot free one that is at its limit.
func (l *limiter) room(now time.Time) {
	var least string
	for k, at := range l.full {
		if !at.After(now) {
			delete(l.full, k)
			continue
		}
		if o, ok := l.full[least]; !ok || at.Before(o) {
			least = k
		}
	}
	if len(l.full) >= l.most {
		delete(l.full, least)
	}
}
