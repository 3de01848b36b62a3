package script

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
)

// machine runs the code of one run, in a goroutine of its own that is never in
// motion while Next is not being called: the two hand over to each other.
type machine struct {
	loop *loop
	host loops.Host
	s    *Script

	asked  chan events.StepPlanned // by the code
	answer chan *loops.Planned     // to the code
	quit   chan struct{}           // closed: the code is to end where it stands
	done   chan struct{}           // closed: it has
	close  sync.Once
	misuse atomic.Pointer[string]
	end    ending // set before done is closed

	// The rest belongs to whoever calls Next.
	place place
	req   events.StepPlanned // while the code waits for its answer
	pos   int                // recorded steps that the code has been given
	stuck *loops.Stop
}

// place is where the code is.
type place int

const (
	unstarted place = iota
	running
	waiting // for the answer to req
	over
)

// ending is how the code ended, as a step and in words. What the code returned is not
// among it: its methods are code, too.
type ending struct {
	stop  loops.Stop
	words string
}

func newMachine(l *loop, h loops.Host) *machine {
	m := &machine{
		loop: l, host: h, asked: make(chan events.StepPlanned), answer: make(chan *loops.Planned),
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	m.s = &Script{m: m}
	return m
}

// Close implements [loops.Decider].
func (m *machine) Close() {
	m.close.Do(func() { close(m.quit) })
	if m.place == waiting {
		m.place = over
		t := time.NewTimer(m.patience())
		defer t.Stop()
		select {
		case <-m.done:
		case <-t.C: // a deferred function of the code's hangs: its owner waits for it
		}
	}
}

func (m *machine) patience() time.Duration {
	if m.host.Patience > 0 {
		return m.host.Patience
	}
	return 1<<63 - 1
}

// Next implements [loops.Decider].
func (m *machine) Next(ctx context.Context, h *loops.History) (loops.Step, error) {
	if h.Queued() == nil || h.Started() == nil {
		return nil, fmt.Errorf("decide run %s seq %d: the run has not been queued and started", h.Run(), h.Seq())
	}
	if h.CancelRequested() != nil {
		return loops.Stop{By: events.StoppedByCancelled}, nil
	}
	for {
		if m.place == unstarted {
			m.s.begin(h, m.loop.cfg.Name)
			m.place = running
			input := h.Origin().Input
			m.host.Go(func() { m.run(input) })
		}
		if m.place == running {
			if err := m.advance(ctx); err != nil {
				return nil, err
			}
		}
		if m.stuck != nil {
			return *m.stuck, nil
		}
		if what := m.misuse.Load(); what != nil {
			return loops.Fail(KindMisuse, *what), nil
		}
		if m.place == over {
			return m.conclude(h)
		}
		p, step, err := m.resolve(h)
		if p == nil {
			return step, err
		}
		m.answer <- p
		m.place = running
	}
}

// advance waits until the code asks for something, or ends.
func (m *machine) advance(ctx context.Context) error {
	t := time.NewTimer(m.patience())
	defer t.Stop()
	select {
	case m.req = <-m.asked:
		m.place = waiting
	case <-m.done:
		m.place = over
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		if m.stuck == nil {
			stop := loops.Fail(KindBlocked, fmt.Sprintf("the code of script %q has not come back for %s%s: it waits for something outside of the script, or computes for too long. "+
				"Wait with Sleep, Await or Child, and make slow work a tool", m.loop.cfg.Name, m.host.Patience, m.after()))
			m.stuck = &stop
		}
	}
	return nil
}

// after says where the code was seen last.
func (m *machine) after() string {
	if m.req.Op == "" {
		return " since it began"
	}
	return " since it was given " + loops.DescribeStep(m.req)
}

// resolve is what becomes of the step that the code asks for: its answer if that
// is recorded, or else what is to be done for it.
func (m *machine) resolve(h *loops.History) (*loops.Planned, loops.Step, error) {
	recorded := h.Planned()
	if m.req.Op == events.OpPatch {
		if n, ok := m.patch(recorded); ok {
			m.pos = n
			return recorded[n-1], nil, nil
		}
		if m.beyondPatches(recorded) < len(recorded) {
			return &loops.Planned{}, nil, nil // the run has passed here without it
		}
	} else {
		m.pos = m.beyondPatches(recorded)
	}
	if m.pos == len(recorded) || m.req.Op == events.OpPatch {
		step := m.req
		step.Step = len(recorded) + 1
		if step.Op != events.OpPatch {
			step.Turn = h.FreeTurn()
		}
		return nil, loops.Plan{Step: step}, nil
	}
	p := recorded[m.pos]
	if !loops.SameStep(p.StepPlanned, m.req) {
		return nil, nil, loops.Diverge(m.loop.cfg.Name, p, m.req)
	}
	if !p.Done {
		return nil, h.Continue(), nil
	}
	m.pos++
	return p, nil, nil
}

// beyondPatches is where the next step stands that is no patch: code that asks
// about a patch no more is as new as the runs that have it.
func (m *machine) beyondPatches(recorded []*loops.Planned) int {
	n := m.pos
	for n < len(recorded) && recorded[n].Op == events.OpPatch {
		n++
	}
	return n
}

// patch finds the patch that the code asks about among those that stand here.
func (m *machine) patch(recorded []*loops.Planned) (next int, ok bool) {
	for n := m.pos; n < len(recorded) && recorded[n].Op == events.OpPatch; n++ {
		if recorded[n].Name == m.req.Name {
			return n + 1, true
		}
	}
	return 0, false
}

// conclude is the end of the run, unless the record goes on.
func (m *machine) conclude(h *loops.History) (loops.Step, error) {
	recorded := h.Planned()
	if n := m.beyondPatches(recorded); n < len(recorded) {
		p := recorded[n]
		return nil, &loops.DivergedError{Loop: m.loop.cfg.Name, Step: p.Step, Seq: p.Seq, Recorded: loops.DescribeStep(p.StepPlanned), Asked: m.end.words}
	}
	return m.end.stop, nil
}

// run is the goroutine of the code, and of the methods of what it returns or panics
// with: they may do what code may, and whoever calls Next waits no longer for them.
func (m *machine) run(input json.RawMessage) {
	m.s.owner = goroutine()
	m.end = panicked("the code ended its goroutine without a result")
	defer close(m.done)
	defer func() {
		if v := recover(); v != nil {
			where := panickedAt()
			m.end = panicked(fmt.Sprint(v) + where)
		}
		if m.s.fault != nil {
			m.end = failed(m.s.fault)
		}
	}()
	v, err := m.loop.code(m.s, input)
	if err != nil {
		m.end = failed(err)
		return
	}
	m.end = returned(v)
}

func panicked(how string) ending {
	return ending{loops.Fail(KindPanic, how), "the end of the run by a panic: " + how}
}

func failed(err error) ending {
	if declined := (errDeclined{}); errors.As(err, &declined) {
		return ending{loops.Stop{By: events.StoppedByDeclined, DeclinedBecause: declined.because}, "the end of the run, " + err.Error()}
	}
	if refused := (*ModelError)(nil); errors.As(err, &refused) && refused.Kind == refusal {
		return ending{loops.Stop{By: events.StoppedByDeclined, DeclinedBecause: refused.Message}, "the end of the run, declined"}
	}
	kind, message := kindOf(err)
	return ending{loops.Fail(kind, message), "the end of the run by an error, " + kind + ": " + message}
}

func returned(output any) ending {
	if output == nil {
		return ending{loops.Stop{By: events.StoppedByFinish}, "the end of the run, without output"}
	}
	out, err := json.Marshal(output)
	if err != nil {
		return ending{loops.Fail(KindScript, fmt.Sprintf("the output, a %T, cannot be encoded: %v", output, err)), "the end of the run"}
	}
	return ending{loops.Stop{By: events.StoppedByFinish, Output: out}, "the end of the run"}
}

// panickedAt says where, for a person: the innermost function that is not Go's.
func panickedAt() string {
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for panicked := false; ; {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			panicked = true
		case panicked:
			return fmt.Sprintf(" (%s:%d)", filepath.Base(f.File), f.Line)
		}
		if !more {
			return ""
		}
	}
}

// goroutine is the number of the calling goroutine. Nothing depends on it but the
// words for a mistake.
func goroutine() uint64 {
	var b [64]byte
	line := bytes.TrimPrefix(b[:runtime.Stack(b[:], false)], []byte("goroutine "))
	digits, _, _ := bytes.Cut(line, []byte(" "))
	n, _ := strconv.ParseUint(string(digits), 10, 64)
	return n
}
