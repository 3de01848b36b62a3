package loopstest

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/model"
)

// World is what a run meets in [Play]. Everything in it is optional.
type World struct {
	Input any
	// Model answers; nil says "ok".
	Model func(messages []model.Message) events.ModelCallFinished
	// Tool gives the outcome of a call: [events.ToolExecutionFinished],
	// [events.ToolExecutionError], [events.ToolExecutionBlocked],
	// [events.EffectResolved] or [events.ToolExecutionInDoubt] with Continue, whose
	// call, attempt and tool are filled in; nil completes with its arguments.
	Tool func(c loops.PendingCall) events.Payload
	// Judge accepts a version of an artifact, or says what is wrong with it.
	Judge func(c loops.CheckArtifact) (issues []events.ArtifactIssue)
	// Resume says before each step whether another worker takes over.
	Resume func() bool
	// Started is what the run is bound to.
	Started events.RunStarted
}

// open is a loop with the place of its code, if it has one.
func open(t testing.TB, l loops.Loop) (next func(*loops.History) (loops.Step, error), done func()) {
	t.Helper()
	o, ok := l.(loops.Opener)
	if !ok {
		return l.Next, func() {}
	}
	d := o.Open(loops.Host{Go: func(f func()) { go f() }, Patience: time.Minute})
	return func(h *loops.History) (loops.Step, error) { return d.Next(t.Context(), h) }, d.Close
}

// Play runs a loop to the end of its run as a runtime would whom nothing disturbs,
// and returns the events.
func Play(t testing.TB, l loops.Loop, w World) []events.Payload {
	t.Helper()
	input, err := json.Marshal(w.Input)
	if err != nil {
		t.Fatal(err)
	}
	w.Started.Loop, w.Started.LoopVersion = l.Name(), l.Version()
	p := &player{t: t, w: w, h: loops.NewHistory(Run), epoch: 1}
	next, done := open(t, l)
	defer func() { done() }()
	p.record(events.RunQueued{Input: input, Root: Run}, w.Started)
	for range 1000 {
		if _, over := p.h.Terminal(); over {
			return p.all
		}
		if w.Resume != nil && w.Resume() {
			p.epoch++
			p.record(events.RunResumed{Epoch: p.epoch})
			done()
			next, done = open(t, l)
		}
		step, err := next(p.h)
		if err != nil {
			t.Fatalf("after seq %d: %v", p.h.Seq(), err)
		}
		p.act(step)
	}
	t.Fatalf("not over after %d events", len(p.all))
	return nil
}

type player struct {
	t   testing.TB
	w   World
	h   *loops.History
	all []events.Payload

	epoch uint64
}

func (p *player) record(ps ...events.Payload) {
	p.t.Helper()
	p.all = append(p.all, ps...)
	for _, e := range Events(p.all...)[len(p.all)-len(ps):] {
		if err := p.h.Apply(e); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *player) turn(n int) {
	if n > p.h.Turn() {
		p.record(events.TurnStarted{Turn: n})
	}
}

func (p *player) act(step loops.Step) {
	p.t.Helper()
	switch s := step.(type) {
	case loops.Plan:
		p.turn(s.Step.Turn)
		p.record(s.Step)
	case loops.CallModel:
		p.turn(s.Turn)
		attempt := p.h.ModelAttempts() + 1
		p.record(events.ModelCallStarted{Turn: s.Turn, Attempt: attempt, Messages: len(s.Messages)})
		a := events.ModelCallFinished{Text: "ok", StopReason: "end_turn"}
		if p.w.Model != nil {
			a = p.w.Model(s.Messages)
		}
		a.Turn, a.Attempt = s.Turn, attempt
		p.record(a)
	case loops.CallTools:
		for _, c := range s.Calls {
			p.call(c)
		}
	case loops.CheckArtifact:
		p.record(events.ArtifactValidationStarted{Turn: s.Turn, Artifact: s.Artifact, Revision: s.Revision, Parser: s.Parser, Validators: s.Validators})
		v := events.ArtifactValidationFinished{
			Turn: s.Turn, Artifact: s.Artifact, Revision: s.Revision, Content: sha256.Sum256([]byte(s.Text)), Bytes: int64(len(s.Text)),
		}
		if p.w.Judge != nil {
			v.Issues = p.w.Judge(s)
		}
		v.OK = len(v.Issues) == 0
		p.record(v)
	case loops.AcceptArtifact:
		p.record(s.Artifact)
	case loops.RejectArtifact:
		p.record(s.Artifact)
	case loops.Stop:
		if s.Err != nil {
			p.record(events.RunFailed{StoppedBy: s.By, Error: *s.Err, Turns: p.h.Turn()})
			return
		}
		p.record(events.RunFinished{StoppedBy: s.By, Output: s.Output, DeclinedBecause: s.DeclinedBecause, Turns: p.h.Turn()})
	default:
		p.t.Fatalf("after seq %d the loop asks for a %T %+v", p.h.Seq(), step, step)
	}
}

func (p *player) call(c loops.PendingCall) {
	p.record(events.ToolExecutionStarted{Call: c.ID, Attempt: c.Attempt, Tool: c.Name, Arguments: c.Arguments})
	var end events.Payload = events.ToolExecutionFinished{Result: events.ToolResult{Status: "completed", Output: string(c.Arguments), Trust: "own"}}
	if p.w.Tool != nil {
		end = p.w.Tool(c)
	}
	if c.OwnTool() {
		p.record(events.ToolExecutionProgress{Call: c.ID, Attempt: c.Attempt, Tool: c.Name, HandedOff: &events.HandedOff{Reason: events.ParkTimer}})
	}
	switch e := end.(type) {
	case events.ToolExecutionFinished:
		e.Call, e.Attempt, e.Tool = c.ID, c.Attempt, c.Name
		end = e
	case events.ToolExecutionError:
		e.Call, e.Attempt, e.Tool = c.ID, c.Attempt, c.Name
		end = e
	case events.ToolExecutionBlocked:
		e.Call, e.Tool = c.ID, c.Name
		end = e
	case events.EffectResolved:
		e.Call, e.Tool = c.ID, c.Name
		end = e
	case events.ToolExecutionInDoubt:
		e.Call, e.Attempt, e.Tool = c.ID, c.Attempt, c.Name
		end = e
	}
	p.record(end)
}

// Cuts checks that a loop goes on from everywhere: at each event of a history a
// loop that has seen it from the beginning, one that sees it for the first time and
// one that is asked twice decide the same, and that rehearsing the history finds
// nothing.
func Cuts(t testing.TB, l loops.Loop, ps []events.Payload) {
	t.Helper()
	es := Events(ps...)
	h := loops.NewHistory(Run)
	next, done := open(t, l)
	defer done()
	for _, e := range es {
		if err := h.Apply(e); err != nil {
			t.Fatal(err)
		}
		if _, over := h.Terminal(); over || h.Started() == nil {
			continue
		}
		step, err := next(h)
		again, errAgain := next(h)
		fresh, errFresh := l.Next(MustFold(t, ps[:e.Seq]...))
		if got, want := said(again, errAgain), said(step, err); got != want {
			t.Errorf("after seq %d %s: asked again it decides %s, before that %s", e.Seq, e.Type, got, want)
		}
		if got, want := said(fresh, errFresh), said(step, err); got != want {
			t.Errorf("after seq %d %s: from the beginning it decides %s, one that went along %s", e.Seq, e.Type, got, want)
		}
	}
	found, err := loops.Rehearse(loops.NewHistory(Run), es, l)
	if err != nil || len(found) > 0 {
		t.Errorf("rehearse: %v %v", found, err)
	}
}

func said(s loops.Step, err error) string {
	b, _ := json.Marshal(s)
	return fmt.Sprintf("%v %s %v", reflect.TypeOf(s), b, err)
}
