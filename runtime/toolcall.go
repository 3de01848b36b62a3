package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/internal/trace"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/tools"
)

// callTools performs the calls of a turn in request order: each maximal group
// of non-destructive calls in parallel, each destructive call alone.
func (s *session) callTools(ctx context.Context, step loops.CallTools) error {
	for calls := step.Calls; len(calls) > 0; {
		n := 0
		for n < len(calls) && !s.destructiveCall(calls[n]) {
			n++
		}
		if n == 0 {
			if len(s.handedOff()) > 0 {
				return nil // it waits for what stands before it
			}
			if err := s.callOne(ctx, calls[0]); err != nil {
				return err
			}
			if s.anyPending(calls[:1]) || len(s.handedOff()) > 0 {
				return nil // later calls of the turn wait for this one
			}
			calls = calls[1:]
			continue
		}
		now := s.withinTeam(calls[:n])
		if len(now) == 0 {
			return nil // they wait for those that were made
		}
		if err := s.callGroup(ctx, now); err != nil {
			return err
		}
		if s.handingOver() || s.anyPending(calls[:n]) || len(s.handedOff()) > 0 {
			return nil
		}
		calls = calls[n:]
	}
	return nil
}

// maxParallel bounds the calls of one turn that run at once.
const maxParallel = 32

func (s *session) callGroup(ctx context.Context, calls []loops.PendingCall) error {
	if len(calls) == 1 {
		return s.callOne(ctx, calls[0])
	}
	var wg sync.WaitGroup
	errs := make([]error, len(calls))
	slots := make(chan struct{}, maxParallel)
	for i, c := range calls {
		wg.Add(1)
		slots <- struct{}{}
		go func() {
			defer wg.Done()
			defer func() { <-slots }()
			errs[i] = s.guard(func() error { return s.callOne(ctx, c) })
		}()
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *session) callOne(ctx context.Context, c loops.PendingCall) error {
	eff := &sessionEffects{s: s}
	env := s.env(eff, c)
	begun, isBegun := s.begun(c.ID)
	if isBegun {
		env.Recorder = begunRecorder{s}
	}
	out, err := s.dispatcherFor(c.OwnTool()).Dispatch(ctx, env, toolCall(c))
	if err != nil {
		switch {
		case errors.Is(err, errBegun):
			if told, err := s.tellInherited(ctx, c, begun); told || err != nil {
				return err
			}
			s.log.Warn("a call that may have taken effect is refused now", "tool", c.Name, "call", c.ID.String(), "op_key", begun.OpKey, "error", s.w.cfg.Redactor.Error(err))
			return s.parkInDoubt(ctx, c.ID, c.Name, begun.OpKey, begunRecheck)
		case errors.Is(err, ledger.ErrAuditBehind):
			return s.park(ctx, events.RunParked{Reason: events.ParkAuditBehind, Detail: "earlier effects are not in the record yet", Call: &c.ID}, auditRecheck)
		}
		return fmt.Errorf("dispatch %s of run %s: %w", c.ID, s.run.ID, err)
	}
	switch out.State {
	case tools.StateHandedOff:
		return s.handOff(ctx, eff, c, out)
	case tools.StateBusy:
		return s.park(ctx, events.RunParked{
			Reason: events.ParkEffectBusy, OpKey: out.Verdict.Ref.OpKey, Call: &c.ID,
			Detail: fmt.Sprintf("%s is being done or is in doubt in run %s call %s", c.Name, out.Verdict.Of.Run, out.Verdict.Of.Call),
		}, max(eff.quiescentIn+time.Second, busyRecheck))
	case tools.StateNeedsApproval:
		return s.parkFor(ctx, events.RunParked{
			Reason: events.ParkApproval, Call: &c.ID,
			Detail: fmt.Sprintf("%s (%s) needs a person's approval: ledgerctl approve %s, or ledgerctl deny %s", c.Name, c.ID, out.Verdict.Approval, out.Verdict.Approval),
		}, eff.approvalIn, ledger.Parking{Approval: out.Verdict.Approval})
	case tools.StatePaused:
		return s.parkFor(ctx, events.RunParked{
			Reason: events.ParkPaused, Call: &c.ID,
			Detail: fmt.Sprintf("%s: ledgerctl tools on %s lets %s go on", out.Verdict.Text, c.Name, c.ID),
		}, pausedRecheck, ledger.Parking{Tool: eff.tool})
	case tools.StateInDoubt:
		if eff.executed || ctx.Err() != nil {
			return nil // End has recorded the event: the next step sees to it
		}
		if v := out.Verdict; v.Of.Run != s.run.ID && v.Ref.Recovery == ledger.RecoveryProbe {
			// It was left by a run that has ended: nobody else asks the provider.
			_, err := s.probe(ctx, events.ToolExecutionInDoubt{Call: c.ID, Tool: c.Name, Ref: v.Ref})
			return err
		}
		// Begin does not let it run again, whoever is in doubt about it. If that is
		// news to this call, its fact is pending, and the wait ends before it begins.
		if v := out.Verdict; v.Detail == ledger.DetailKillSwitch {
			return s.parkFor(ctx, events.RunParked{
				Reason: events.ParkInDoubt, OpKey: v.Ref.OpKey, Call: &c.ID,
				Detail: fmt.Sprintf("nobody can know whether %s (%s) took effect, and its switch keeps it from being made again: ledgerctl tools on %s makes it again under the same key; else look at the provider, then ledgerctl resolve %s",
					c.Name, c.ID, eff.tool, v.Ref.OpKey),
			}, pausedRecheck, ledger.Parking{Tool: eff.tool})
		}
		return s.parkInDoubt(ctx, c.ID, c.Name, out.Verdict.Ref.OpKey, max(eff.quiescentIn, 0))
	}
	return nil
}

// errBegun says that a call was refused before Begin although an earlier
// attempt of it may have taken effect.
var errBegun = errors.New("refused now, and an earlier attempt may have taken effect")

// begunRecheck is how often a run looks whether such a call is allowed again.
const begunRecheck = time.Minute

// begun returns the effect of a call that an earlier attempt has begun and that
// has no outcome.
func (s *session) begun(id events.CallID) (events.EffectRef, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.hist.InDoubt() {
		if d.Call == id {
			return d.Ref, true
		}
	}
	for _, o := range s.hist.OpenCalls() {
		if o.ID == id && o.Ref != nil {
			return *o.Ref, true
		}
	}
	return events.EffectRef{}, false
}

// begunRecorder records for such a call: that it was not run is no outcome of
// it, unless the ledger says so, which names the effect.
type begunRecorder struct{ s *session }

// Record implements [tools.Recorder].
func (r begunRecorder) Record(ctx context.Context, p events.Payload) error {
	if b, ok := p.(events.ToolExecutionBlocked); ok && b.OpKey.IsZero() {
		return fmt.Errorf("%w: %s %s", errBegun, b.Reason, b.Detail)
	}
	return r.s.Record(ctx, p)
}

// anyPending reports whether one of calls has no outcome.
func (s *session) anyPending(calls []loops.PendingCall) bool {
	return slices.ContainsFunc(calls, func(c loops.PendingCall) bool {
		_, pending := s.pendingCall(c.ID)
		return pending
	})
}

// busyRecheck is how often a run looks at an effect that another run holds,
// although the transaction that settles it wakes it.
const busyRecheck = time.Minute

// pausedRecheck is how often a run looks whether its tool is still paused,
// although whoever lets the tool go on wakes it.
const pausedRecheck = 10 * time.Minute

// auditRecheck is how often a run looks whether the record has caught up.
const auditRecheck = 5 * time.Second

func toolCall(c loops.PendingCall) tools.Call {
	return tools.Call{ID: c.ID, Attempt: c.Attempt, Name: c.Name, Arguments: c.Arguments, Malformed: c.Malformed}
}

// env is the run as the dispatcher sees it for one call.
func (s *session) env(eff tools.Effects, c loops.PendingCall) tools.Env {
	var offered []string
	if s.agent.Select > 0 {
		offered, _ = s.offered()
	}
	return tools.Env{
		Run: s.run.ID, Tenant: s.run.Tenant, SessionID: s.run.SessionID, Owner: s.run.Owner, Trace: s.traceOf(c),
		Bindings: s.hist.Started().Tools, Effects: eff, Recorder: s, Spawner: spawner{s}, Spending: sessionSpending{s}, Past: past{s}, Skills: sessionSkills{s}, Recaller: recaller{s},
		RefuseUnpriced: s.policy.priced, Offered: offered,
		Rule: s.ruling(),
	}
}

// traceOf is the traceparent of a call: whatever it calls becomes part of the run's
// trace, below the span that the record makes of it.
func (s *session) traceOf(c loops.PendingCall) string {
	p, ok := trace.ParseParent(s.run.Trace)
	if !ok {
		return s.run.Trace
	}
	p.Span = trace.Call(s.run.ID, c.ID, c.Attempt)
	return p.String()
}

// sessionEffects adapts the ledger's protocol to what the dispatcher needs: it
// keeps the prefix, tries again while the database is away, and makes the facts
// part of the history.
type sessionEffects struct {
	s           *session
	tool        string // as asked for, after middleware
	quiescentIn time.Duration
	approvalIn  time.Duration // until the approval that is needed expires
	executed    bool          // Begin allowed it
}

// Begin implements [tools.Effects].
func (e *sessionEffects) Begin(ctx context.Context, in tools.Intent) (tools.Verdict, error) {
	s := e.s
	token := s.w.ids.Event()
	s.in.Lock()
	s.tokens[token] = true
	s.in.Unlock()
	li := ledger.Intent{
		Token: token, Call: in.Call, CallAttempt: in.CallAttempt, Tool: in.Tool.Name, Effect: string(in.Tool.Effect),
		Scope: ledger.Scope(in.Tool.Scope), Window: in.Tool.Window, Identity: in.Identity, Arguments: in.Arguments,
		Recovery: ledger.Recovery{Kind: string(in.Tool.Recovery.Kind), TTL: in.Tool.Recovery.TTL},
		Timeout:  in.Timeout, Continue: in.Tool.InDoubtContinue, Trace: in.Trace,
		Reserve: priceOf(in.Tool), Unpriced: in.Unpriced, RefuseUnpriced: s.policy.priced, RunLimit: s.agent.Budget,
	}
	if li.Scope == "" {
		li.Scope = ledger.ScopeRun
	}
	e.tool = li.Tool
	s.guardIntent(&li, in)
	v, sent, err := e.begin(ctx, li)
	if err != nil || v.Kind != ledger.Execute {
		e.forget(token)
	}
	if err != nil {
		return tools.Verdict{}, err
	}
	e.quiescentIn = v.QuiescentIn
	if v.Kind == ledger.NeedsApproval {
		e.approvalIn = max(v.Remaining, time.Millisecond)
	}
	if v.Fact != nil {
		if err := s.adopt(*v.Fact); err != nil {
			return tools.Verdict{}, err
		}
	}
	out := tools.Verdict{
		Kind: verdictKinds[v.Kind], Ref: v.Ref, Prior: v.Prior, Deadline: v.Deadline, Result: v.Result, Of: v.Of,
		OfArguments: v.OfArguments, Redacted: v.Redacted, Exact: v.Exact,
		Detail: v.Detail, Text: v.Text, Approval: v.Approval, Expires: v.Expires,
	}
	if v.Kind == ledger.Execute {
		// The lease's end is not fixed here: heartbeats extend it, and the
		// session's context ends with it.
		e.executed = true
		out.Until, out.Held = sent.Add(v.Remaining), func() bool { return s.local.left() > 0 }
	}
	return out, nil
}

var verdictKinds = map[ledger.VerdictKind]tools.VerdictKind{
	ledger.Execute: tools.Execute, ledger.Replay: tools.Replay, ledger.Conflict: tools.Conflict,
	ledger.InDoubt: tools.InDoubt, ledger.Busy: tools.Busy, ledger.GivenUp: tools.GivenUp,
	ledger.Refused: tools.Refused, ledger.NeedsApproval: tools.NeedsApproval, ledger.Paused: tools.Paused, ledger.Simulated: tools.Simulated,
}

// begin asks the same token again while the answer is unknown: the row says
// whether it is ours.
func (e *sessionEffects) begin(ctx context.Context, li ledger.Intent) (v ledger.Verdict, sent time.Time, err error) {
	s := e.s
	for {
		err = s.barrier(ctx, "begin "+li.Tool, func(p ledger.Prefix) error {
			sent = s.w.cfg.Now()
			v, err = s.w.cfg.Ledger.Begin(ctx, s.lease, p, li)
			if bug.On(bug.ExecuteUnavailable) && errors.Is(err, ledger.ErrUnavailable) {
				v, err = ledger.Verdict{Kind: ledger.Execute, Ref: events.EffectRef{Token: li.Token, Attempt: 1}, Remaining: li.Timeout}, nil
			}
			return err
		})
		if !errors.Is(err, ledger.ErrLeaseTooShort) {
			return v, sent, err
		}
		// Heartbeats come every third of the lease; the next one makes it long enough.
		if err := sleep(ctx, s.w.cfg.LeaseTTL/20); err != nil {
			return v, sent, err
		}
	}
}

// endTry bounds one try to store an outcome.
const endTry = 10 * time.Second

// End implements [tools.Effects]. It does not need the lease and does not give
// up while the worker lives: a late outcome is still evidence.
func (e *sessionEffects) End(ctx context.Context, out tools.Outcome) (tools.Settled, error) {
	s := e.s
	defer e.forget(out.Ref.Token)
	lo := ledger.Outcome{
		Token: out.Ref.Token, Kind: outcomeKinds[out.Kind], Result: out.Result, Error: out.Error, Cause: out.Cause, LatencyMS: out.LatencyMS,
		Exact: out.Exact,
	}
	for attempt := 1; ; attempt++ {
		p := s.snapshot()
		// A context of its own for each try: what the tool said is worth waiting
		// for the database longer than any caller does.
		tctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTry)
		set, err := s.w.cfg.Ledger.End(tctx, s.lease, p, lo)
		cancel()
		if err == nil {
			if set.LeaseHeld {
				s.carried(p)
			} else {
				s.stop(errLeaseLost)
			}
			if set.PossibleDuplicate || set.Contradicted {
				s.log.Error("an outcome contradicts what is recorded", "op_key", out.Ref.OpKey, "possible_duplicate", set.PossibleDuplicate, "contradicted", set.Contradicted)
			}
			if set.Fact != nil && set.LeaseHeld {
				if err := s.adopt(*set.Fact); err != nil {
					return tools.Settled{}, err
				}
			}
			return tools.Settled{State: set.State, Result: set.Result, Error: set.Error}, nil
		}
		if !errors.Is(err, ledger.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) || s.w.cutOff() {
			return tools.Settled{}, fmt.Errorf("end of %s in run %s: %w", out.Call, s.run.ID, err)
		}
		wait := backoff(attempt, s.w.cfg.Random)
		s.log.Warn("end: database unavailable, trying again", "in", wait, "error", s.w.cfg.Redactor.Error(err))
		select {
		case <-time.After(wait):
		case <-s.w.life.Done():
		}
	}
}

var outcomeKinds = map[tools.OutcomeKind]ledger.OutcomeKind{
	tools.Applied: ledger.Applied, tools.NotApplied: ledger.NotApplied, tools.Unclear: ledger.Unclear,
}

func (e *sessionEffects) forget(token events.ID) {
	e.s.in.Lock()
	defer e.s.in.Unlock()
	delete(e.s.tokens, token)
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n]
}

func (s *session) doubts() []events.ToolExecutionInDoubt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hist.InDoubt()
}

func (s *session) parkInDoubt(ctx context.Context, call events.CallID, tool string, key events.Hash, after time.Duration) error {
	fault.Point("park.in_doubt")
	return s.park(ctx, events.RunParked{
		Reason: events.ParkInDoubt, OpKey: key, Call: &call,
		Detail: fmt.Sprintf("nobody can know whether %s (%s) took effect: look at the provider, then ledgerctl resolve %s", tool, call, key),
	}, after)
}
