package loops

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/model"
)

// Divergence is a point of a recorded run at which a loop of today would decide
// otherwise. Both sides are words for a person.
type Divergence struct {
	Seq      uint64 `json:"seq"`
	Kind     string `json:"kind"` // step or request
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// Kinds of divergence.
const (
	DivergentStep    = "step"    // another step
	DivergentRequest = "request" // the same call of the model, with another conversation
	DivergentScript  = "script"  // the code of a script asks for something else; it is not asked again
)

func (d Divergence) String() string {
	return fmt.Sprintf("at seq %d the record has: %s; today's loop would: %s", d.Seq, d.Expected, d.Got)
}

// Rehearse folds events into h one by one, and asks l at each point where the
// record shows which step was taken. It has no effect on anything but h, which
// must be the history before es: empty, or for a fork what it inherits. What the
// runtime decided, or a person, is no decision of the loop and is not compared.
// The record is folded whatever l says, so one change may diverge many times. An
// error is an event that does not continue the history.
func Rehearse(h *History, es []events.Event, l Loop) ([]Divergence, error) {
	r := rehearsal{h: h, next: l.Next}
	if o, ok := l.(Opener); ok {
		d := o.Open(Host{Go: func(f func()) { go f() }, Patience: rehearsalPatience})
		defer d.Close()
		r.next, r.script = func(h *History) (Step, error) { return d.Next(context.Background(), h) }, true
	}
	for _, e := range es {
		if _, over := h.Terminal(); !over && h.Started() != nil {
			r.compare(e)
		}
		if err := h.Apply(e); err != nil {
			return r.found, err
		}
		if _, ok := e.Data.(events.StepPlanned); ok && r.script && !r.lost {
			r.step() // the code goes by what is recorded, so it is asked afterwards
		}
	}
	return r.found, nil
}

// rehearsalPatience is how long the code of a script may take between two steps.
const rehearsalPatience = time.Minute

type rehearsal struct {
	h      *History
	next   func(*History) (Step, error)
	found  []Divergence
	said   int // the turn of which a divergence was told at its beginning
	script bool
	lost   bool // the code of the script is at another place than the record
}

// compare asks the loop if e shows a decision of it.
func (r *rehearsal) compare(e events.Event) {
	h := r.h
	if r.lost {
		return
	}
	switch p := e.Data.(type) {
	case events.TurnStarted:
		if n := len(h.plans); r.script && (n == 0 || h.plans[n-1].Done) {
			return // a step of the script begins
		}
		if p.Turn > h.Turn() && !r.want(e.Seq, fmt.Sprintf("model call of turn %d", p.Turn), modelCall(p.Turn)) {
			r.said = p.Turn
		}
	case events.ModelCallStarted:
		if p.Turn != r.said && p.Turn == h.NextTurn() {
			r.request(e.Seq, p)
		}
	case events.TranscriptCompacted:
		r.compaction(e.Seq, p)
	case events.ToolExecutionStarted:
		r.call(e.Seq, p.Call)
	case events.ToolExecutionBlocked:
		r.call(e.Seq, p.Call)
	case events.ToolExecutionFinished:
		if p.Repeated {
			r.call(e.Seq, p.Call)
		}
	case events.ArtifactValidationStarted, events.ArtifactRevisionStarted, events.ArtifactFinished, events.ArtifactFailed:
		r.artifact(e.Seq, p)
	case events.RunParked:
		r.parked(e.Seq, p)
	case events.RunFinished:
		r.want(e.Seq, "stop "+string(p.StoppedBy)+with(p.Output), func(s Step) bool {
			stop, ok := s.(Stop)
			return ok && stop.Err == nil && stop.By == p.StoppedBy && sameJSON(stop.Output, p.Output)
		})
	case events.RunFailed:
		r.failed(e.Seq, p)
	}
}

func modelCall(turn int) func(Step) bool {
	return func(s Step) bool {
		c, ok := s.(CallModel)
		return ok && c.Turn == turn
	}
}

// request compares a call of the model, and how long its conversation was.
func (r *rehearsal) request(seq uint64, p events.ModelCallStarted) {
	recorded := fmt.Sprintf("model call of turn %d", p.Turn)
	if !r.want(seq, recorded, modelCall(p.Turn)) {
		return
	}
	if p.Compacts != nil { // the runtime's, before the call that the loop asked for
		if route, ok := r.h.CompactionRoute(); ok && len(r.h.CompactionChain()) > 1 {
			r.asked(seq, "compaction before the "+recorded, route, p)
		}
		return
	}
	if route, ok := r.h.Route(); ok && len(r.h.Chain()) > 1 {
		r.asked(seq, recorded, route, p)
	}
	if c, ok := r.step().(CallModel); ok && p.Messages > 0 && len(c.Messages) != p.Messages {
		r.found = append(r.found, Divergence{
			Seq: seq, Kind: DivergentRequest,
			Expected: fmt.Sprintf("%s with %d messages", recorded, p.Messages), Got: fmt.Sprintf("send %d messages, the last one of %s", len(c.Messages), last(c.Messages)),
		})
	}
}

// asked compares which model of a chain was asked.
func (r *rehearsal) asked(seq uint64, recorded string, route Route, p events.ModelCallStarted) {
	if route.Model != p.Model {
		r.found = append(r.found, Divergence{Seq: seq, Kind: DivergentRequest, Expected: recorded + " to " + p.Model, Got: "ask " + route.Model})
	}
}

func last(ms []model.Message) string {
	if len(ms) == 0 {
		return "nobody"
	}
	return string(ms[len(ms)-1].Role)
}

// compaction compares what was replaced with what it would be of today.
func (r *rehearsal) compaction(seq uint64, p events.TranscriptCompacted) {
	if d, err := transcriptDigest(r.h.Original(p.Span)); err != nil || d != p.Span.Digest {
		r.found = append(r.found, Divergence{
			Seq: seq, Kind: DivergentRequest,
			Expected: fmt.Sprintf("messages %d to %d compacted, digest %.12s", p.Span.From, p.Span.To, p.Span.Digest), Got: fmt.Sprintf("have digest %.12s there", d),
		})
	}
}

// call compares the first of the calls that run at once; the others are part of
// the same step.
func (r *rehearsal) call(seq uint64, id events.CallID) {
	h := r.h
	if len(h.OpenCalls()) > 0 || len(h.InDoubt()) > 0 {
		return
	}
	i := slices.IndexFunc(h.Pending(), func(c PendingCall) bool { return c.ID == id })
	if i < 0 {
		return // late, or of another turn: nobody asked the loop about it
	}
	r.want(seq, "tool call "+describeCall(h.Pending()[i]), func(s Step) bool {
		ct, ok := s.(CallTools)
		return ok && slices.ContainsFunc(ct.Calls, func(c PendingCall) bool { return c.ID == id })
	})
}

// parked compares a wait that the loop may have asked for. Whatever else the
// runtime parked for, the run was not at its end.
func (r *rehearsal) parked(seq uint64, p events.RunParked) {
	h := r.h
	if len(h.InDoubt()) > 0 || len(h.OpenCalls()) > 0 || h.CancelRequested() != nil || p.Reason == events.ParkDiverged {
		return
	}
	r.want(seq, "wait for "+string(p.Reason), func(s Step) bool {
		if a, ok := s.(Await); ok {
			return a.Reason == p.Reason
		}
		_, stop := s.(Stop)
		return !stop
	})
}

func (r *rehearsal) failed(seq uint64, p events.RunFailed) {
	switch p.StoppedBy {
	case events.StoppedByDeadline, events.StoppedByBudget, events.StoppedByCancelled:
		return // the runtime's
	}
	if len(r.h.InDoubt()) > 0 || p.Error.Kind == "output_too_large" || p.Error.Kind == events.KindOutputMismatch || p.Error.Kind == events.KindRepairer {
		return // the runtime's too
	}
	r.want(seq, fmt.Sprintf("fail: %s (%s)", p.StoppedBy, p.Error.Kind), func(s Step) bool {
		stop, ok := s.(Stop)
		return ok && stop.Err != nil && stop.By == p.StoppedBy && stop.Err.Kind == p.Error.Kind
	})
}

// want reports whether the loop decides as recorded, and notes it if not.
func (r *rehearsal) want(seq uint64, recorded string, same func(Step) bool) bool {
	step := r.step()
	if r.lost || step != nil && same(step) {
		return true
	}
	got := "fail: "
	if f, failed := step.(broken); failed {
		got += f.text
	} else {
		got = describe(step)
	}
	r.found = append(r.found, Divergence{Seq: seq, Kind: DivergentStep, Expected: recorded, Got: got})
	return false
}

// broken is the step of a loop that returned an error, or panicked.
type broken struct{ text string }

func (broken) step() {}

func (r *rehearsal) step() (s Step) {
	defer func() {
		if v := recover(); v != nil {
			s = broken{fmt.Sprintf("the loop panicked: %v", v)}
		}
	}()
	s, err := r.next(r.h)
	if d := (*DivergedError)(nil); errors.As(err, &d) {
		if !r.lost {
			r.lost = true
			r.found = append(r.found, Divergence{Seq: d.Seq, Kind: DivergentScript, Expected: d.Recorded, Got: d.Asked})
		}
		return nil
	}
	if err != nil {
		return broken{err.Error()}
	}
	return s
}

// describe says a step in words.
func describe(s Step) string {
	switch s := s.(type) {
	case CallModel:
		return fmt.Sprintf("model call of turn %d", s.Turn)
	case CallTools:
		if len(s.Calls) == 0 {
			return "no tool call at all"
		}
		text := "tool call " + describeCall(s.Calls[0])
		if n := len(s.Calls) - 1; n > 0 {
			text += fmt.Sprintf(" and %d more", n)
		}
		return text
	case Plan:
		return DescribeStep(s.Step)
	case CheckArtifact, ReviseArtifact, AcceptArtifact, RejectArtifact:
		return describeArtifact(s)
	case Await:
		return "wait for " + string(s.Reason)
	case Stop:
		if s.Err != nil {
			return fmt.Sprintf("fail: %s (%s)", s.By, s.Err.Kind)
		}
		return "stop " + string(s.By) + with(s.Output)
	}
	return fmt.Sprintf("%T", s)
}

// with names an output, if there is one.
func with(output []byte) string {
	if len(output) == 0 {
		return ""
	}
	return fmt.Sprintf(" (output %s)", digest(output))
}

// describeCall names a call by what tells it from others, and its arguments by
// their digest: they may be long, and are in the record.
func describeCall(c PendingCall) string {
	return fmt.Sprintf("%s %s (arguments %s)", c.ID, c.Name, digest(c.Arguments))
}

func digest(raw []byte) string {
	return events.Hash(sha256.Sum256(raw)).String()[:12]
}

func sameJSON(a, b []byte) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	x, errX := canonical.JSON(a)
	y, errY := canonical.JSON(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
