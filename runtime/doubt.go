package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/tools"
)

// probeTimeout bounds one question to a provider.
const probeTimeout = 30 * time.Second

// settleDoubts does what can be done about calls of this run that nobody can
// know about: run them again where the provider dedupes, ask the provider where
// it can be asked, else wait. done means that there is no doubt (any more) and
// the loop may be asked.
func (s *session) settleDoubts(ctx context.Context) (done bool, err error) {
	ds := s.doubts()
	if len(ds) == 0 {
		return true, nil
	}
	d := ds[0] // in request order; the rest wait for this one
	switch d.Ref.Recovery {
	case ledger.RecoveryKeyed, ledger.RecoveryFenced:
		again, err := s.again(ctx, d)
		if err != nil || again {
			return false, err
		}
	case ledger.RecoveryProbe:
		settled, err := s.probe(ctx, d)
		if err != nil || settled {
			return false, err
		}
	}
	return false, s.parkInDoubt(ctx, d.Call, d.Tool, d.Ref.OpKey, 0)
}

// again dispatches a keyed or fenced call once more under the same key. Begin
// decides whether the provider still remembers it.
func (s *session) again(ctx context.Context, d events.ToolExecutionInDoubt) (bool, error) {
	c, ok := s.pendingCall(d.Call)
	if !ok {
		return false, fmt.Errorf("call %s of run %s is in doubt but not in its history", d.Call, s.run.ID)
	}
	// Every try so far was unclear: do not hammer the provider.
	if wait := againAfter(c.Attempt); wait > s.w.cfg.StayFor {
		if !s.waitedFor(d.Ref.OpKey) {
			return true, s.parkInDoubt(ctx, d.Call, d.Tool, d.Ref.OpKey, wait)
		}
	} else if err := sleep(ctx, wait); err != nil {
		return false, err
	}
	return true, s.callTools(ctx, loops.CallTools{Turn: d.Call.Turn, Calls: []loops.PendingCall{c}})
}

// againAfter is the wait before the given attempt of a call: none before the
// second, then 50 ms, doubling to 5 minutes.
func againAfter(attempt int) time.Duration {
	if attempt <= 2 {
		return 0
	}
	return min(50*time.Millisecond<<min(attempt-3, 20), 5*time.Minute)
}

// waitedFor reports whether the run has just sat out a timed wait for key.
func (s *session) waitedFor(key events.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.hist.Parked()
	return p != nil && p.Reason == events.ParkInDoubt && p.OpKey == key && !p.Until.IsZero() && !s.w.cfg.Now().Before(p.Until)
}

// probe asks the provider, once nobody can act any more, whether the call took
// effect. settled means that the history has moved on.
func (s *session) probe(ctx context.Context, d events.ToolExecutionInDoubt) (settled bool, err error) {
	eff, err := s.effect(ctx, d.Ref.OpKey)
	if err != nil {
		return false, err
	}
	if eff.QuiescentIn > s.w.cfg.StayFor {
		return true, s.parkInDoubt(ctx, d.Call, d.Tool, d.Ref.OpKey, eff.QuiescentIn)
	}
	if eff.QuiescentIn > 0 {
		if err := sleep(ctx, eff.QuiescentIn+time.Millisecond); err != nil {
			return false, err
		}
	}
	c, ok := s.pendingCall(d.Call)
	if !ok {
		return false, fmt.Errorf("call %s of run %s is in doubt but not in its history", d.Call, s.run.ID)
	}
	pctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	answer, perr := s.disp.Probe(pctx, s.env(nil, c), toolCall(c), d.Ref)
	if perr != nil && ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	res := ledger.Resolution{OpKey: d.Ref.OpKey, By: events.ResolvedByProbe, Lease: &s.lease, Note: answer.Evidence}
	switch {
	case perr == nil && answer.State == tools.ProbeHappened:
		res.State, res.Result = events.EffectApplied, answer.Result
	case perr == nil && answer.State == tools.ProbeDidNotHappen:
		res.State = events.EffectNotApplied
	default:
		if perr != nil {
			s.log.Warn("probe failed, asking again later", "tool", d.Tool, "op_key", d.Ref.OpKey, "error", s.w.cfg.Redactor.Error(perr))
		}
		return true, s.parkInDoubt(ctx, d.Call, d.Tool, d.Ref.OpKey, s.w.cfg.ProbeEvery)
	}
	return true, s.resolve(ctx, d.Call, d.Tool, res)
}

func (s *session) resolve(ctx context.Context, c events.CallID, tool string, res ledger.Resolution) error {
	var set ledger.Settlement
	err := s.retry(ctx, "resolve", func() error {
		var err error
		set, err = s.w.cfg.Ledger.Resolve(ctx, res)
		if errors.Is(err, ledger.ErrNotInDoubt) || errors.Is(err, ledger.ErrNotQuiescent) {
			return fmt.Errorf("%w: %w", errUnworkable, err)
		}
		return err
	})
	switch {
	case errors.Is(err, ledger.ErrNotInDoubt):
		// Late evidence or a person was faster: their fact is pending.
		return s.flush(ctx)
	case errors.Is(err, ledger.ErrNotQuiescent):
		return s.parkInDoubt(ctx, c, tool, res.OpKey, s.w.cfg.ProbeEvery)
	case err != nil:
		return err
	}
	if set.Fact != nil && set.Fact.RunID == s.run.ID { // not that of an ended run whose effect this one took over
		return s.adopt(*set.Fact)
	}
	return s.flush(ctx)
}

func (s *session) effect(ctx context.Context, key events.Hash) (eff ledger.Effect, err error) {
	err = s.retry(ctx, "read effect", func() error {
		fs, err := s.w.cfg.Ledger.Effects(ctx, ledger.EffectFilter{OpKey: key, Limit: 1})
		if err != nil {
			return err
		}
		if len(fs) > 0 {
			eff = fs[0]
			return nil
		}
		return fmt.Errorf("effect %s of run %s: %w", key, s.run.ID, ledger.ErrNotFound)
	})
	return eff, err
}
