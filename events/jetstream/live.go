package jetstream

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/events"
)

const (
	// liveQueue bounds the messages that wait to be sent; what does not fit is dropped.
	liveQueue = 256
	// liveWatchEvery is how often a viewer says that it watches, and liveWatchFor how
	// long that holds.
	liveWatchEvery = 3 * time.Second
	liveWatchFor   = 10 * time.Second
	// liveViewers bounds the viewers of all runs together in one process.
	liveViewers = 65536

	watchSubjects = "livewatch.*.*"
)

// Live tells viewers over core NATS what runs are doing. Safe for concurrent use.
type Live struct {
	nc      *nats.Conn
	now     func() time.Time
	out     chan events.Live
	dropped atomic.Uint64
	sub     *nats.Subscription
	done    chan struct{}

	mu      sync.Mutex
	closed  bool
	watched map[string]*watch // by <tenant>.<run>
	viewers int               // in watched
	swept   time.Time         // when who is gone was looked for last
	n       uint64            // the last that a watch was given
}

type watch struct {
	viewers map[string]time.Time // when each said so last
	last    time.Time            // when one of them did
	n       uint64               // changes when somebody has to be told from the beginning
}

// Live begins to listen for viewers. The caller closes it before the connection.
func (b *Bus) Live() (*Live, error) { return NewLive(b.nc, time.Now) }

// NewLive is [Bus.Live] over a connection of its own.
func NewLive(nc *nats.Conn, now func() time.Time) (*Live, error) {
	l := &Live{nc: nc, now: now, out: make(chan events.Live, liveQueue), done: make(chan struct{}), watched: map[string]*watch{}}
	var err error
	if l.sub, err = nc.Subscribe(watchSubjects, l.heard); err != nil {
		return nil, fmt.Errorf("listen for viewers on %s: %w", watchSubjects, err)
	}
	go l.send()
	return l, nil
}

// heard notes that somebody watches.
func (l *Live) heard(m *nats.Msg) {
	var w events.LiveWatch
	key, ok := strings.CutPrefix(m.Subject, "livewatch.")
	if !ok || json.Unmarshal(m.Data, &w) != nil || w.Viewer == "" || len(w.Viewer) > 64 {
		return
	}
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.swept) > liveWatchFor {
		l.forget(now)
	}
	e := l.watched[key]
	var last time.Time
	known := false
	if e != nil {
		last, known = e.viewers[w.Viewer]
	}
	if !known {
		if l.viewers >= liveViewers {
			return
		}
		if e == nil {
			e = &watch{viewers: map[string]time.Time{}}
			l.watched[key] = e
		}
		l.viewers++
	}
	e.viewers[w.Viewer], e.last = now, now
	if !known || w.Again || now.Sub(last) > liveWatchFor {
		l.n++
		e.n = l.n
	}
}

// forget drops the viewers that are gone, and the runs that nobody watches any more.
func (l *Live) forget(now time.Time) {
	l.swept = now
	for key, e := range l.watched {
		for v, last := range e.viewers {
			if now.Sub(last) > liveWatchFor {
				delete(e.viewers, v)
				l.viewers--
			}
		}
		if len(e.viewers) == 0 {
			delete(l.watched, key)
		}
	}
}

// Watched implements runtime.Live.
func (l *Live) Watched(tenant string, run events.RunID) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.watched) == 0 {
		return 0
	}
	e := l.watched[strings.TrimPrefix(events.LiveSubject(tenant, run), "live.")]
	if e == nil || l.now().Sub(e.last) > liveWatchFor {
		return 0
	}
	return e.n
}

// Tell implements runtime.Live: it never waits for the network.
func (l *Live) Tell(m events.Live) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	select {
	case l.out <- m:
		return true
	default:
		l.dropped.Add(1)
		return false
	}
}

// Dropped counts the messages that were not sent because too many waited.
func (l *Live) Dropped() uint64 { return l.dropped.Load() }

func (l *Live) send() {
	defer close(l.done)
	for m := range l.out {
		b, err := json.Marshal(m)
		if err == nil {
			err = l.nc.Publish(events.LiveSubject(m.Tenant, m.Run), b)
		}
		if err != nil {
			l.dropped.Add(1)
		}
	}
}

// Close ends it and waits for its goroutine.
func (l *Live) Close() {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		_ = l.sub.Unsubscribe() // the connection may be closed already
		close(l.out)
	}
	l.mu.Unlock()
	<-l.done
}
