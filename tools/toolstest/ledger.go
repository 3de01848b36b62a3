// Package toolstest is how tools, and what uses them, are tested: a conformance
// kit for a single tool, and a ledger in memory that decides about destructive
// calls by the same rules as the real one, without its durability.
package toolstest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// Ledger is an in-memory double of the ledger's effects. Safe for concurrent
// use. Make one with [NewLedger].
type Ledger struct {
	// BeginFunc and EndFunc, if set, are asked first; an error of theirs is returned.
	BeginFunc func(tools.Intent) error
	EndFunc   func(tools.Outcome) error
	// Now is the ledger's clock.
	Now func() time.Time

	ids     *events.IDs
	mu      sync.Mutex
	effects map[events.Hash]*effect
	tokens  map[events.ID]*attempt
}

type effect struct {
	key       events.Hash
	gen       int
	state     events.EffectState
	recovery  tools.Recovery
	window    time.Duration
	run       *Run
	call      events.CallID
	args      string
	result    events.ToolResult
	settledAt time.Time
	attempts  []*attempt
}

type attempt struct {
	effect *effect
	run    *Run
	ref    events.EffectRef
	call   events.CallID
	number int // of the call
	tool   string
	prior  bool
	ended  tools.OutcomeKind // 0 while it runs
	goOn   bool
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger {
	return &Ledger{Now: time.Now, ids: events.NewIDs(nil, nil), effects: map[events.Hash]*effect{}, tokens: map[events.ID]*attempt{}}
}

// Run is one run's view of the ledger: its [tools.Effects] and
// [tools.Recorder].
type Run struct {
	ID      events.RunID
	Tenant  string
	Session string
	Owner   string

	ledger *Ledger
	mu     sync.Mutex
	events []events.Payload
}

// Run opens a new run of tenant "t1", session "s1" and owner "o1".
func (l *Ledger) Run() *Run {
	return &Run{ID: l.ids.Run(), Tenant: "t1", Session: "s1", Owner: "o1", ledger: l}
}

// Env is what a dispatcher is given for the run.
func (r *Run) Env() tools.Env {
	return tools.Env{Run: r.ID, Tenant: r.Tenant, SessionID: r.Session, Owner: r.Owner, Effects: r, Recorder: r}
}

// Record keeps p; what has no JSON form is refused, as in the real journal.
func (r *Run) Record(ctx context.Context, p events.Payload) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, err := json.Marshal(p); err != nil {
		return fmt.Errorf("record %s: %w", events.TypeOf(p), err)
	}
	r.add(p)
	return nil
}

func (r *Run) add(p events.Payload) {
	r.mu.Lock()
	r.events = append(r.events, p)
	r.mu.Unlock()
}

// Events returns what was recorded so far.
func (r *Run) Events() []events.Payload {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// Types returns the wire names of what was recorded so far.
func (r *Run) Types() []string { return TypesOf(r.Events()) }

// TypesOf returns the wire names of es.
func TypesOf(es []events.Payload) []string {
	names := make([]string, len(es))
	for i, e := range es {
		names[i] = string(events.TypeOf(e))
	}
	return names
}

// Begin decides about a call as the ledger does.
func (r *Run) Begin(ctx context.Context, in tools.Intent) (tools.Verdict, error) {
	if ctx.Err() != nil {
		return tools.Verdict{}, context.Cause(ctx)
	}
	l := r.ledger
	if l.BeginFunc != nil {
		if err := l.BeginFunc(in); err != nil {
			return tools.Verdict{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.effect(r, in)
	v := tools.Verdict{Ref: e.ref(), Of: callRef(e), OfArguments: json.RawMessage(e.args), Result: e.result}
	switch e.state {
	case events.EffectApplied:
		v.Kind = tools.Replay
		if e.args != string(in.Arguments) {
			v.Kind = tools.Conflict
		}
		return v, nil
	case events.EffectAbandoned:
		v.Kind = tools.GivenUp
		return v, nil
	case events.EffectStarted, events.EffectInDoubt:
		if e.state == events.EffectInDoubt || !e.mayRunAgain() {
			v.Kind = tools.Busy
			if e.run == r {
				v.Kind = tools.InDoubt
			}
			return v, nil
		}
	}
	return l.begin(r, e, in), nil
}

func (l *Ledger) effect(r *Run, in tools.Intent) *effect {
	d := in.Tool
	scope := map[tools.Scope]string{
		tools.ScopeSession: r.Session, tools.ScopeOwner: r.Owner, tools.ScopeTenant: r.Tenant,
	}[d.Scope]
	if scope == "" {
		scope = r.ID.String()
	}
	for gen := 1; ; gen++ {
		key := events.Hash(sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %q %d", r.Tenant, d.Scope, scope, d.Name, in.Identity, gen)))
		e := l.effects[key]
		if e == nil {
			e = &effect{key: key, gen: gen, recovery: d.Recovery, window: d.Window}
			l.effects[key] = e
		}
		own := e.run == r && e.call == in.Call
		if e.state != events.EffectApplied || own || e.window <= 0 || l.Now().Sub(e.settledAt) < e.window {
			return e
		}
	}
}

// begin opens an attempt.
func (l *Ledger) begin(r *Run, e *effect, in tools.Intent) tools.Verdict {
	prior := slices.ContainsFunc(e.attempts, func(a *attempt) bool { return a.ended != tools.NotApplied })
	a := &attempt{
		effect: e, run: r, call: in.Call, number: in.CallAttempt, tool: in.Tool.Name, prior: prior, goOn: in.Tool.InDoubtContinue,
	}
	e.state, e.run, e.call, e.args = events.EffectStarted, r, in.Call, string(in.Arguments)
	e.attempts = append(e.attempts, a)
	a.ref = e.ref()
	a.ref.Token = l.ids.Event()
	l.tokens[a.ref.Token] = a
	now := l.Now()
	deadline := now.Add(in.Timeout)
	ref := a.ref
	r.add(events.ToolExecutionStarted{
		Call: in.Call, Attempt: in.CallAttempt, Tool: in.Tool.Name, Effect: string(in.Tool.EffectOrDestructive()),
		Arguments: in.Arguments, Ref: &ref, At: now, Deadline: deadline,
	})
	return tools.Verdict{Kind: tools.Execute, Ref: a.ref, Prior: prior, Until: time.Now().Add(in.Timeout), Deadline: deadline}
}

// End settles an attempt as the ledger does.
func (r *Run) End(ctx context.Context, out tools.Outcome) (tools.Settled, error) {
	if ctx.Err() != nil {
		return tools.Settled{}, context.Cause(ctx)
	}
	l := r.ledger
	if l.EndFunc != nil {
		if err := l.EndFunc(out); err != nil {
			return tools.Settled{}, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.tokens[out.Ref.Token]
	if a == nil {
		return tools.Settled{}, errors.New("end: no attempt has this token")
	}
	e, late := a.effect, a.effect.state == events.EffectInDoubt
	if a.ended == 0 || a.ended == tools.Unclear {
		a.ended = out.Kind
	}
	if e.state == events.EffectStarted || late {
		l.settle(e, a, out, late)
	}
	return tools.Settled{State: e.state, Result: e.result, Error: out.Error}, nil
}

func (l *Ledger) settle(e *effect, a *attempt, out tools.Outcome, late bool) {
	others := slices.ContainsFunc(e.attempts, func(o *attempt) bool { return o != a && o.ended != tools.NotApplied })
	state := events.EffectInDoubt
	switch {
	case out.Kind == tools.Applied:
		state = events.EffectApplied
	case out.Kind == tools.NotApplied && !others:
		state = events.EffectNotApplied
	}
	if late && state == events.EffectInDoubt {
		return
	}
	now := l.Now()
	e.state, e.settledAt = state, now
	if state != events.EffectInDoubt {
		e.result = out.Result
	}
	ref := a.ref
	switch {
	case late:
		a.run.add(events.EffectResolved{Call: a.call, Tool: a.tool, Ref: ref, State: state, Result: out.Result, By: "late_evidence", At: now})
	case state == events.EffectApplied:
		a.run.add(events.ToolExecutionFinished{
			Call: a.call, Attempt: a.number, Tool: a.tool, Result: out.Result, Ref: &ref, LatencyMS: out.LatencyMS, At: now,
		})
	case state == events.EffectNotApplied:
		a.run.add(events.ToolExecutionError{
			Call: a.call, Attempt: a.number, Tool: a.tool, Result: out.Result, Error: out.Error, Ref: &ref, LatencyMS: out.LatencyMS, At: now,
		})
	default:
		a.run.add(events.ToolExecutionInDoubt{
			Call: a.call, Attempt: a.number, Tool: a.tool, Ref: ref, Cause: out.Cause, Evidence: out.Error.Message, Continue: a.goOn, At: now,
		})
	}
}

// Crash is what a takeover of the run does to attempts without an end: keyed
// and fenced ones may run again, all others are in doubt.
func (r *Run) Crash() {
	l := r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.tokens {
		if a.run != r || a.ended != 0 {
			continue
		}
		a.ended = tools.Unclear
		if k := a.effect.recovery.Kind; k != tools.RecoveryKeyed && k != tools.RecoveryFenced {
			l.settle(a.effect, a, tools.Outcome{Kind: tools.Unclear, Cause: "takeover"}, false)
		}
	}
}

// Resolve settles an effect as a person would.
func (l *Ledger) Resolve(opKey events.Hash, state events.EffectState, result events.ToolResult) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.effects[opKey]; e != nil {
		e.state, e.result, e.settledAt = state, result, l.Now()
	}
}

// State returns the state of an effect, empty if it never began.
func (l *Ledger) State(opKey events.Hash) events.EffectState {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.effects[opKey]; e != nil {
		return e.state
	}
	return ""
}

func (e *effect) ref() events.EffectRef {
	return events.EffectRef{OpKey: e.key, Generation: e.gen, Attempt: len(e.attempts), Recovery: string(e.recovery.Kind)}
}

// mayRunAgain: all attempts are known to be over, and the provider dedupes.
func (e *effect) mayRunAgain() bool {
	return !slices.ContainsFunc(e.attempts, func(a *attempt) bool { return a.ended == 0 })
}

func callRef(e *effect) events.CallRef {
	if e.run == nil {
		return events.CallRef{}
	}
	return events.CallRef{Run: e.run.ID, Call: e.call}
}
