package mcp

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"time"
)

// maxQueuedReports bounds the reports of one call that wait to be recorded; more
// are dropped.
const maxQueuedReports = 64

// reportsWait is how long an answer waits for reports that came before it.
const reportsWait = time.Second

// report is one word of a server about how far a call is.
type report struct {
	progress float64
	total    *float64
	message  string
}

// reports records what comes in, in a goroutine of its own: what reads from the
// server must not wait for a journal.
type reports struct {
	ch   chan report
	done chan struct{}
	late atomic.Bool // the call has its outcome: what comes now is dropped
}

// newReports starts it; the server's Close waits for it, within its bounds.
func (s *server) newReports(to func(text string, metadata any)) *reports {
	r := &reports{ch: make(chan report, maxQueuedReports), done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // nobody would wait for it
		close(r.done)
		return r
	}
	s.wg.Go(func() {
		defer close(r.done)
		for p := range r.ch {
			if !r.late.Load() {
				to(p.text(), p.metadata())
			}
		}
	})
	return r
}

func (r *reports) add(p report) {
	select {
	case r.ch <- p:
	default:
	}
}

// settle waits for what came in, but not for long.
func (r *reports) settle() {
	t := time.NewTimer(reportsWait)
	defer t.Stop()
	select {
	case <-r.done:
	case <-t.C:
		r.late.Store(true)
	}
}

func (p report) text() string {
	if p.message != "" {
		return p.message
	}
	text := strconv.FormatFloat(p.progress, 'g', -1, 64)
	if p.total != nil {
		text = fmt.Sprintf("%s of %s", text, strconv.FormatFloat(*p.total, 'g', -1, 64))
	}
	return text
}

func (p report) metadata() any {
	return struct {
		Progress float64  `json:"progress"`
		Total    *float64 `json:"total,omitempty"`
	}{p.progress, p.total}
}
