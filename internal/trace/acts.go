package trace

import (
	"time"

	"github.com/daybookhq/daybook/events"
)

// handedOff marks an open span whose outcome comes from outside.
const handedOff = "daybook.handed_off"

func (f *Fold) model(e events.Event) {
	switch p := e.Data.(type) {
	case events.ModelCallStarted:
		s := f.span(Model(f.run, p.Turn, p.Attempt), f.under(), Chat+" "+p.Model, Client, e.Time,
			Attr{OperationName, Chat}, Attr{RequestModel, p.Model}, Attr{Turn, int64(p.Turn)}, Attr{Attempt, int64(p.Attempt)})
		if whose := provider(p); whose != nil {
			f.asked[s.ID] = whose
			s.Attrs = append(s.Attrs, whose...)
		}
		f.start(s)
	case events.ModelCallFinished:
		s := f.answered(Model(f.run, p.Turn, p.Attempt), e.Time, p.LatencyMS, p.Model, p.Turn, p.Attempt)
		s.Attrs = append(s.Attrs, Attr{ResponseModel, p.ServedModel}, Attr{FinishReasons, []string{p.StopReason}})
		if p.RequestID != "" {
			s.Attrs = append(s.Attrs, Attr{ResponseID, p.RequestID})
		}
		s.Attrs = append(s.Attrs, usage(p.Usage)...)
		s.Attrs = append(s.Attrs, cost(p.Cost)...)
		if f.opt.Content {
			s.Attrs = append(s.Attrs, Attr{OutputMessages, outputMessages(p)})
		}
		f.emit(s, e.Time)
	case events.ModelCallError:
		s := f.answered(Model(f.run, p.Turn, p.Attempt), e.Time, p.LatencyMS, p.Model, p.Turn, p.Attempt)
		s.ErrorType, s.Message = p.Error.Kind, p.Error.Message
		if p.ServedModel != "" {
			s.Attrs = append(s.Attrs, Attr{ResponseModel, p.ServedModel})
		}
		if p.Usage != nil {
			s.Attrs = append(s.Attrs, usage(*p.Usage)...)
			s.Attrs = append(s.Attrs, cost(p.Cost)...)
		}
		f.emit(s, e.Time)
	}
}

// answered is the open span of an attempt; for an outcome that came late, when its
// span had ended as interrupted, a span of its own, so that what it cost is told once.
func (f *Fold) answered(id SpanID, at time.Time, ms int64, model string, turn, attempt int) *Span {
	whose := f.asked[id]
	delete(f.asked, id)
	if s := f.open[id]; s != nil {
		delete(f.open, id)
		return s
	}
	s := f.span(derive("late", id[:], number(int(f.seq))), f.under(), Chat+" "+model, Client, at.Add(-time.Duration(ms)*time.Millisecond), //nolint:gosec // a count
		Attr{OperationName, Chat}, Attr{RequestModel, model}, Attr{Turn, int64(turn)}, Attr{Attempt, int64(attempt)})
	s.Attrs = append(s.Attrs, whose...)
	s.Links = append(s.Links, Link{f.parent.Trace, id, "late outcome of"})
	return s
}

// provider is whom a call asks; nil if that was not recorded.
func provider(p events.ModelCallStarted) (as []Attr) {
	if p.Provider != "" {
		as = append(as, Attr{ProviderName, p.Provider})
	}
	if p.Server != "" {
		as = append(as, Attr{ServerAddress, p.Server})
	}
	return as
}

func usage(u events.Usage) []Attr {
	if u.Missing {
		return []Attr{{UsageMissing, true}}
	}
	as := []Attr{{InputTokens, u.Input + u.CacheRead + u.CacheWrite}, {OutputTokens, u.Output}}
	if u.CacheRead > 0 {
		as = append(as, Attr{CacheReadTokens, u.CacheRead}, Attr{CachedTokensOld, u.CacheRead})
	}
	if u.CacheWrite > 0 {
		as = append(as, Attr{CacheWriteTokens, u.CacheWrite})
	}
	if u.Reasoning > 0 {
		as = append(as, Attr{ReasoningTokens, u.Reasoning})
	}
	return as
}

func cost(c *events.PicoUSD) []Attr {
	if c == nil {
		return nil
	}
	return []Attr{{Cost, c.String()}}
}

func (f *Fold) artifact(e events.Event) {
	id := func(turn int, name string, revision int) SpanID {
		return derive("artifact", f.run[:], number(turn), []byte(name), number(revision))
	}
	switch p := e.Data.(type) {
	case events.ArtifactValidationStarted:
		f.start(f.span(id(p.Turn, p.Artifact, p.Revision), f.under(), "validate "+p.Artifact, Internal, e.Time,
			Attr{Artifact, p.Artifact}, Attr{Revision, int64(p.Revision)}, Attr{Turn, int64(p.Turn)}))
	case events.ArtifactValidationFinished:
		s := f.open[id(p.Turn, p.Artifact, p.Revision)]
		if s == nil {
			return
		}
		s.Attrs = append(s.Attrs, Attr{Accepted, p.OK})
		if p.Error != nil {
			s.ErrorType, s.Message = p.Error.Kind, p.Error.Message
		}
		f.end(s.ID, e.Time)
	}
}

func (f *Fold) tool(e events.Event) {
	switch p := e.Data.(type) {
	case events.ToolExecutionStarted:
		s := f.call(Call(f.run, p.Call, p.Attempt), p.Tool, p.Call, p.Attempt, e.Time)
		if s.Attrs = append(s.Attrs, Attr{Effect, p.Effect}); p.Ref != nil {
			s.Attrs = append(s.Attrs, Attr{OpKey, p.Ref.OpKey.String()}, Attr{Recovery, p.Ref.Recovery})
		}
		if f.opt.Content {
			s.Attrs = append(s.Attrs, Attr{ToolArguments, string(p.Arguments)})
		}
		f.start(s)
	case events.ToolExecutionProgress:
		if s := f.open[Call(f.run, p.Call, p.Attempt)]; s != nil {
			name := "progress"
			if p.HandedOff != nil {
				name, s.Attrs = "handed off", append(s.Attrs, Attr{handedOff, string(p.HandedOff.Reason)})
			}
			s.Moments = append(s.Moments, Moment{Name: name, At: e.Time})
		}
	case events.ToolExecutionFinished:
		s := f.done(p.Call, p.Attempt, p.Tool, e.Time)
		if p.Repeated {
			s.Attrs = append(s.Attrs, Attr{Repeated, true})
		}
		if p.Of != nil {
			s.Attrs = append(s.Attrs, Attr{RepeatedRun, p.Of.Run.String()})
		}
		if p.Simulated {
			s.Attrs = append(s.Attrs, Attr{Simulated, true})
		}
		f.result(s, p.Result)
		f.emit(s, e.Time)
	case events.ToolExecutionError:
		s := f.done(p.Call, p.Attempt, p.Tool, e.Time)
		if p.Repeated {
			s.Attrs = append(s.Attrs, Attr{Repeated, true})
		}
		if p.Of != nil {
			s.Attrs = append(s.Attrs, Attr{RepeatedRun, p.Of.Run.String()})
		}
		f.result(s, p.Result)
		s.ErrorType, s.Message = p.Error.Kind, p.Error.Message
		f.emit(s, e.Time)
	case events.ToolExecutionBlocked:
		s := f.call(derive("blocked", f.run[:], number(p.Call.Turn), number(p.Call.Index), number(int(f.seq))), p.Tool, p.Call, 0, e.Time) //nolint:gosec // a count
		s.Attrs = append(s.Attrs, Attr{Blocked, string(p.Reason)})
		if p.Detail != "" {
			s.Attrs = append(s.Attrs, Attr{BlockedWhy, p.Detail})
		}
		s.ErrorType, s.Message = string(p.Reason), p.Result.Error
		f.emit(s, e.Time)
	case events.ToolExecutionInDoubt:
		f.inDoubt(e, p)
	case events.EffectResolved:
		f.resolved(e, p)
	case events.ChildStarted:
		f.moment(e.Time, "child run started", Attr{ChildRun, p.Child.String()}, Attr{ToolCallID, p.Call.String()})
	}
}

func (f *Fold) call(id SpanID, tool string, c events.CallID, attempt int, at time.Time) *Span {
	return f.span(id, f.under(), ExecuteTool+" "+tool, Internal, at, Attr{OperationName, ExecuteTool}, Attr{ToolName, tool},
		Attr{ToolType, "function"}, Attr{ToolCallID, c.String()}, Attr{Turn, int64(c.Turn)}, Attr{Attempt, int64(attempt)})
}

// done is the open span of a call; a replay never opened one.
func (f *Fold) done(c events.CallID, attempt int, tool string, at time.Time) *Span {
	id := Call(f.run, c, attempt)
	if s := f.open[id]; s != nil {
		delete(f.open, id)
		return s
	}
	return f.call(derive("replay", id[:], number(int(f.seq))), tool, c, attempt, at) //nolint:gosec // a count
}

func (f *Fold) result(s *Span, r events.ToolResult) {
	s.Attrs = append(s.Attrs, cost(r.Cost)...)
	if r.Status == "failed" {
		s.ErrorType, s.Message = "tool_failed", r.Error
	}
	if f.opt.Content && r.Output != "" {
		s.Attrs = append(s.Attrs, Attr{ToolResult, r.Output})
	}
}

// inDoubt ends the call's span, and begins that of the doubt.
func (f *Fold) inDoubt(e events.Event, p events.ToolExecutionInDoubt) {
	s := f.done(p.Call, p.Attempt, p.Tool, e.Time)
	s.Attrs = append(s.Attrs, Attr{DoubtCause, p.Cause})
	s.ErrorType = "in_doubt"
	f.emit(s, e.Time)
	d := f.span(derive("doubt", s.ID[:]), f.rootID(), "in doubt "+p.Tool, Internal, e.Time, Attr{ToolName, p.Tool}, Attr{ToolCallID, p.Call.String()},
		Attr{OpKey, p.Ref.OpKey.String()}, Attr{DoubtCause, p.Cause})
	d.Links = append(d.Links, Link{f.parent.Trace, s.ID, "in doubt"})
	f.doubts[p.Call] = d
}

func (f *Fold) resolved(e events.Event, p events.EffectResolved) {
	d := f.doubts[p.Call]
	if d == nil {
		return
	}
	delete(f.doubts, p.Call)
	d.Attrs = append(d.Attrs, Attr{Resolved, string(p.State)}, Attr{ResolvedBy, who(p.By)})
	f.emit(d, e.Time)
}

// who is what settled an effect, of few values: a person's name is none of it.
func who(by string) string {
	if by == events.ResolvedByProbe || by == events.ResolvedByLateEvidence {
		return by
	}
	return "person"
}
