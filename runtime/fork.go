package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
)

// Fork describes a run that begins with another one's history. Run, Seq, Effects
// and By are required.
type Fork struct {
	Run events.RunID
	// Seq is the last event that the fork inherits, from 1.
	Seq uint64
	// Effects says what destructive calls do that nobody of the lineage has made;
	// there is no default, since one of the answers is that they are executed.
	Effects ledger.ForkEffects
	// Note is what the model is told where the inherited history ends: a string,
	// or any value, encoded to JSON; nil = nothing.
	Note any
	// ClientKey makes the fork idempotent; empty = a new fork each time.
	ClientKey string
	By        string
	// Trace is a W3C traceparent; default: that of Run.
	Trace string
}

// Fork queues a run that begins with the history of another one up to an event,
// and returns once its row is committed. The other run is not changed; it may
// still go on. Whatever it has done with effect is handed back to the fork and
// not done again. existed is true when the client key was used for the same fork
// before. Errors: [ErrInvalidSubmit], [ledger.ErrNotFound], [ledger.ErrNoSuchEvent],
// [ledger.ErrClientKeyConflict], [ledger.ErrUnavailable].
func (c *Client) Fork(ctx context.Context, f Fork) (run ledger.Run, existed bool, err error) {
	_, perr := ledger.ParseForkEffects(string(f.Effects))
	switch {
	case f.By == "":
		err = errors.New("by is empty: say who asks")
	case perr != nil:
		err = perr
	case len(f.ClientKey) > 512:
		err = fmt.Errorf("client key has %d bytes: want 512 at most", len(f.ClientKey))
	case f.Trace != "" && !traceparent.MatchString(f.Trace):
		err = fmt.Errorf("trace %q: want a W3C traceparent", f.Trace)
	}
	var note redact.JSON
	if err == nil && f.Note != nil {
		if note, err = c.redactor.JSON(f.Note); err == nil && note.Len() > events.MaxDataBytes/2 {
			err = fmt.Errorf("note has %d bytes, at most %d", note.Len(), events.MaxDataBytes/2)
		}
	}
	if err != nil {
		return ledger.Run{}, false, fmt.Errorf("%w: fork of run %s: %w", ErrInvalidSubmit, f.Run, err)
	}
	run, existed, err = c.ledger.Fork(ctx, ledger.ForkRequest{
		Run: f.Run, Seq: f.Seq, Effects: f.Effects, ClientKey: f.ClientKey, Note: note, By: f.By, Trace: f.Trace,
	})
	if err == nil && c.waker != nil {
		c.waker.Wake(run.Queue)
	}
	return run, existed, err
}

// inherit is [Inherit] for a session of a worker's.
func (s *session) inherit(ctx context.Context) error {
	if s.run.ForkOf.IsZero() && s.run.Continues.IsZero() {
		return nil
	}
	err := s.retry(ctx, "read inherited history", func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		return Inherit(ctx, s.w.cfg.Ledger, s.run, s.hist)
	})
	if err == nil || !errors.Is(err, errUnworkable) || s.run.Continues.IsZero() {
		return err
	}
	// Those behind it in its session wait for its end, which needs no transcript.
	switch {
	case s.run.State == ledger.Cancelling:
	case errors.Is(err, errTooMuch):
		s.unfit = &events.RunFailed{StoppedBy: events.StoppedByError, Error: events.ErrorInfo{
			Kind: "session_too_long", Message: cut(s.w.cfg.Redactor.Error(err).Error(), maxDetail),
		}}
	default:
		return err
	}
	s.log.Warn("the run ends without what its session has said before", "error", s.w.cfg.Redactor.Error(err))
	o := s.run.Continues
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hist = loops.NewHistory(s.run.ID)
	s.hist.BeginBehind(o.Run, o.Seq, o.Hash)
	return nil
}

// forkOrigin is what a fork's first event says of where it comes from; nil for
// a run that is none.
func (s *session) forkOrigin() *events.Fork {
	if s.run.ForkOf.IsZero() {
		return nil
	}
	run, seq, hash := s.hist.Inherited()
	return &events.Fork{Run: run, Seq: seq, Hash: hash, Effects: string(s.run.ForkEffects)}
}

// boundBefore is what the runs were bound to that this one goes on from: a fork's
// origin, and the attempt before this one, which was bound to those before it. This run
// is bound to no less.
func (s *session) boundBefore(ctx context.Context) (before []*events.RunStarted, err error) {
	if origin := s.hist.InheritedStart(); origin != nil {
		before = append(before, origin)
	}
	if s.run.RetryOf.IsZero() {
		return before, nil
	}
	var last *events.RunStarted
	err = s.retry(ctx, "read the attempt before", func() error {
		err := s.w.cfg.Ledger.Events(ctx, s.run.RetryOf, 1, func(e events.Sealed) error {
			d, err := e.Decode()
			if err != nil {
				return fmt.Errorf("%w: %w", errUnworkable, err)
			}
			if started, ok := d.Data.(events.RunStarted); ok {
				last = &started
				return errEnough
			}
			return nil
		})
		if errors.Is(err, errEnough) {
			err = nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what run %s, the attempt before, was bound to: %w", s.run.RetryOf, err)
	}
	if last != nil { // else it ended before it was bound to anything, or retention has dropped it
		before = append(before, last)
	}
	return before, nil
}

// stricter binds a fork, or a further attempt, to the tools of today, and to what the
// run it comes from took them to be where that is stricter: what was begun there under
// the protocol is asked for under the protocol here, and rules see no more trust.
func stricter(now []events.ToolBinding, before *events.RunStarted) []events.ToolBinding {
	for i := range now {
		for _, b := range before.Tools {
			if b.Name == now[i].Name {
				now[i] = tools.StricterBinding(now[i], b)
				now[i].Budget = least(now[i].Budget, b.Budget)
			}
		}
	}
	return now
}

// tellInherited gives a fork the outcome of a call that its origin has begun and
// that is refused here before Begin: no fact about it comes to the fork. told is
// false while the effect is not decided.
func (s *session) tellInherited(ctx context.Context, c loops.PendingCall, ref events.EffectRef) (told bool, err error) {
	if s.run.ForkOf.IsZero() {
		return false, nil
	}
	eff, err := s.effect(ctx, ref.OpKey)
	if err != nil {
		return false, err
	}
	of := events.CallRef{Run: eff.Run, Call: eff.Call}
	switch {
	case eff.State == events.EffectApplied && eff.Outcome != nil:
		return true, s.Record(ctx, events.ToolExecutionFinished{
			Call: c.ID, Attempt: c.Attempt, Tool: c.Name, Result: *eff.Outcome, Ref: &ref, Repeated: true, Of: &of, Redacted: true, At: s.w.cfg.Now(),
		})
	case eff.State == events.EffectNotApplied: // certainly not done, so the refusal is its outcome
		_, err = s.disp.Dispatch(ctx, s.env(&sessionEffects{s: s}, c), toolCall(c))
		return true, err
	case eff.State == events.EffectAbandoned:
		return true, s.Record(ctx, events.ToolExecutionBlocked{
			Call: c.ID, Tool: c.Name, Arguments: c.Arguments, Reason: events.BlockedPermissionDenied, Detail: "abandoned", OpKey: ref.OpKey, Of: &of,
			Result: events.ToolResult{Status: "failed", Error: "unknown whether this took effect, given up by a person; do not retry", Trust: "own"}, At: s.w.cfg.Now(),
		})
	}
	return false, nil
}
