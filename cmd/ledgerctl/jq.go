package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/itchyny/gojq"
)

// Bounds of a jq expression: on one value that it is run over, counted while it
// works and not while its output is read, and on what it keeps meanwhile.
const (
	queryTime   = 30 * time.Second
	queryMemory = 1 << 30 // bytes
	queryOutput = 1 << 30 // bytes
)

// query is a compiled --jq.
type query struct {
	code *gojq.Code
	text string
	// limits, which tests make smaller
	time           time.Duration
	memory, output uint64
	written        uint64
}

func parseQuery(s string) (*query, error) {
	parsed, err := gojq.Parse(s)
	if err != nil {
		var at *gojq.ParseError
		if errors.As(err, &at) && at.Offset > 0 {
			return nil, usagef("--jq: %w (at character %d)", err, at.Offset)
		}
		return nil, usagef("--jq: %w", err)
	}
	// Without a loader of modules or of the environment: what is printed depends on
	// the ledger and the expression alone.
	code, err := gojq.Compile(parsed)
	if err != nil {
		return nil, usagef("--jq: %w", err)
	}
	return &query{code: code, text: s, time: queryTime, memory: queryMemory, output: queryOutput}, nil
}

// write runs the query over one JSON value and writes what comes out, a line each:
// texts as they are, anything else as JSON in one line.
func (q *query) write(a *app, b json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // all digits are kept
	var v any
	if err := d.Decode(&v); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(a.context())
	defer cancel(nil)
	guard := q.guard(cancel)
	defer guard.stop()
	results := q.code.RunWithContext(ctx, v)
	for {
		guard.work()
		r, ok := results.Next()
		guard.rest()
		if !ok {
			return nil
		}
		if err, failed := r.(error); failed {
			if cause := context.Cause(ctx); cause != nil {
				return cause
			}
			var halt *gojq.HaltError
			if errors.As(err, &halt) && halt.Value() == nil {
				return nil // halt
			}
			return usagef("--jq: %w", err)
		}
		n, err := q.line(a, r)
		if err != nil {
			return err
		}
		if q.written += uint64(n); q.written > q.output {
			return usagef("--jq: it has written over %d bytes: select less", q.output)
		}
	}
}

func (q *query) line(a *app, v any) (int, error) {
	s, text := v.(string)
	if !text {
		b, err := gojq.Marshal(v)
		if err != nil {
			return 0, err
		}
		s = string(a.harmless(b))
	} else if a.term.width > 0 {
		lines := strings.Split(s, "\n")
		for i, l := range lines {
			lines[i] = clean(l)
		}
		s = strings.Join(lines, "\n")
	}
	return io.WriteString(a.out, s+"\n")
}

// guard ends a query that goes on for too long or keeps too much. Its goroutine ends
// with stop, which waits for it.
type guard struct {
	q        *query
	cancel   context.CancelCauseFunc
	ask      chan bool // whether the query is at work
	stopped  chan struct{}
	finished chan struct{}
}

func (q *query) guard(cancel context.CancelCauseFunc) *guard {
	g := &guard{q: q, cancel: cancel, ask: make(chan bool), stopped: make(chan struct{}), finished: make(chan struct{})}
	go g.watch()
	return g
}

func (g *guard) work() { g.ask <- true }
func (g *guard) rest() { g.ask <- false }
func (g *guard) stop() { close(g.stopped); <-g.finished }

func (g *guard) watch() {
	defer close(g.finished)
	const look = 20 * time.Millisecond
	tick := time.NewTicker(look)
	defer tick.Stop()
	base := heap()
	working, spent, since := false, time.Duration(0), time.Now()
	for {
		select {
		case <-g.stopped:
			return
		case on := <-g.ask:
			if working {
				spent += time.Since(since)
			}
			working, since = on, time.Now()
		case <-tick.C:
			if !working {
				continue
			}
			if spent+time.Since(since) > g.q.time {
				g.cancel(usageError{fmt.Errorf("--jq: it was still at work after %s: is it endless?", g.q.time)})
			}
			if now := heap(); now > base && now-base > g.q.memory {
				g.cancel(usageError{fmt.Errorf("--jq: it keeps more than %d MiB: select less", g.q.memory>>20)})
			}
		}
	}
}

// heap is how many bytes the program's objects take.
func heap() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
