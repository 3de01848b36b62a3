package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// Who settled an effect, in effects.settled_by, beside "probe" and persons.
const (
	byEnd          = "end"
	byLateEvidence = "late_evidence"
)

// errPrefix: the prefix could not be carried; the outcome is kept without it.
var errPrefix = errors.New("prefix refused")

// End implements ledger.Effects. Evidence is never lost to a lease: if the
// prefix cannot be carried, the outcome is settled without it.
func (s *Store) End(ctx context.Context, l ledger.Lease, p ledger.Prefix, out ledger.Outcome) (ledger.Settlement, error) {
	fail := func(err error) (ledger.Settlement, error) {
		return ledger.Settlement{}, fmt.Errorf("end attempt %s of run %s as %s: %w", out.Token, l.RunID, out.Kind, err)
	}
	if out.Kind != ledger.Applied && out.Kind != ledger.NotApplied && out.Kind != ledger.Unclear {
		return fail(errors.New("unknown outcome"))
	}
	out = s.fitting(out)
	if err := fault.Err("end.before_send"); err != nil {
		return fail(fmt.Errorf("%w: %w", ledger.ErrUnavailable, err))
	}
	set, err := s.endOnce(ctx, l, p, out)
	if errors.Is(err, errPrefix) && !errors.Is(err, ledger.ErrUnavailable) && ctx.Err() == nil {
		s.cfg.Logger.ErrorContext(ctx, "outcome settled without its prefix", "run", l.RunID, "token", out.Token, "error", err)
		set, err = s.endOnce(ctx, ledger.Lease{}, nil, out)
	}
	if err != nil {
		return fail(err)
	}
	if err := fault.Err("end.after_commit"); err != nil {
		return fail(fmt.Errorf("%w: %w", ledger.ErrUnavailable, err))
	}
	return set, nil
}

func (s *Store) endOnce(ctx context.Context, l ledger.Lease, p ledger.Prefix, out ledger.Outcome) (set ledger.Settlement, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		set = ledger.Settlement{}
		a, ok, err := attemptByToken(ctx, tx, out.Token)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("no such attempt: %w", ledger.ErrNotFound)
		}
		run, err := lockRun(ctx, tx, a.Run)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		held := l.RunID == a.Run && holds(run, l, now)
		if bug.On(bug.EndNeedsLease) && !held {
			return fmt.Errorf("late: %w", ledger.ErrFenced)
		}
		if held {
			if err := s.carry(ctx, tx, l, p); err != nil {
				return fmt.Errorf("%w: %w", errPrefix, err)
			}
		}
		set, err = s.settle(ctx, tx, a, out, now)
		set.LeaseHeld = held
		return err
	})
	return set, err
}

// holds reports whether l is the lease on a locked run at now.
func holds(r ledger.Run, l ledger.Lease, now time.Time) bool {
	return r.ID == l.RunID && r.Epoch == l.Epoch && r.LeaseUntil.After(now)
}

// settle records what an attempt came to and what follows for its effect.
func (s *Store) settle(ctx context.Context, tx Tx, a attemptRow, out ledger.Outcome, now time.Time) (ledger.Settlement, error) {
	e, err := lockEffect(ctx, tx, a.opKey)
	if err != nil {
		return ledger.Settlement{}, err
	}
	// What was unpriced is settled by what says its cost, or that nothing was done;
	// an effect that was priced has something to settle whatever came of it.
	if e.reserved > 0 || out.Result.Cost != nil || out.Kind == ledger.NotApplied {
		if err := s.settleEnd(ctx, tx, out); err != nil {
			return ledger.Settlement{}, err
		}
	}
	as, err := readAttempts(ctx, tx, e.OpKey)
	if err != nil {
		return ledger.Settlement{}, err
	}
	a = as.byToken(a.Token)
	if a.Outcome == ledger.Applied || a.Outcome == ledger.NotApplied || a.ended() && out.Kind == ledger.Unclear {
		// Asked twice: what is recorded stands. Only an unclear end can still be
		// followed by a definite one, which is late evidence.
		if out.Kind == ledger.Applied && a.Outcome == ledger.NotApplied {
			s.cfg.Logger.ErrorContext(ctx, "attempt reported applied after not applied: the first report stands", "run", a.Run, "op_key", e.OpKey, "token", a.Token)
		}
		f, err := pendingOutcome(ctx, tx, a)
		return a.settlement(e, f), err
	}
	before := a
	a.Outcome, a.EndedAt, a.Error = out.Kind, now, out.Error.Message
	if out.Kind == ledger.Applied || out.Result.Status != "" {
		a.Result = &out.Result
	}
	_, err = tx.Exec(ctx, `UPDATE effect_attempts SET outcome = $2, result = $3, error = $4, ended_at = $5 WHERE token = $1`,
		a.Token, a.Outcome, encodeResult(a.Result), a.Error, a.EndedAt)
	if err != nil {
		return ledger.Settlement{}, fmt.Errorf("store outcome of attempt %s: %w", a.Token, err)
	}
	if out.Kind == ledger.Applied {
		if err := s.seal(ctx, tx, a, out.Exact); err != nil {
			return ledger.Settlement{}, err
		}
	}
	as[a.Number-1] = a
	st := settling{s: s, tx: tx, now: now, e: e, before: before, a: a, as: as, out: out}
	if decided(e.State) {
		return st.afterwards(ctx)
	}
	return st.evidence(ctx)
}

// settling is one outcome inside its transaction, after the effect's row is
// locked and the attempt's row written.
type settling struct {
	s      *Store
	tx     Tx
	now    time.Time
	e      effectRow
	before attemptRow // as it was
	a      attemptRow // as it is now, also in as
	as     attempts
	out    ledger.Outcome
}

// evidence is an outcome for an effect that is started or in doubt.
func (st *settling) evidence(ctx context.Context) (ledger.Settlement, error) {
	switch {
	case st.out.Kind == ledger.Applied:
		return st.decide(ctx, events.EffectApplied)
	case st.out.Kind == ledger.NotApplied && (!st.as.unclearBut(st.a.Token) || bug.On(bug.DefiniteAfterUnclear)):
		return st.decide(ctx, events.EffectNotApplied)
	case st.e.State == events.EffectStarted && st.a.Number != st.e.Attempts:
		// A repetition is under way; how an earlier attempt ended does not stop it.
		return st.a.settlement(st.e, nil), nil
	}
	// A timeout is never a failure, and a definite error proves nothing while
	// another attempt may have had the effect.
	cause, evidence := st.out.Cause, st.out.Error.Message
	if st.out.Kind == ledger.NotApplied {
		cause, evidence = "unclear_error", "refused after an attempt that nobody knows about: "+evidence
	} else if cause == "" {
		cause = "unclear_error"
	}
	f, err := st.s.doubt(ctx, st.tx, &st.e, st.a, cause, evidence, st.now)
	return st.a.settlement(st.e, f), err
}

// decide settles an undecided effect by this attempt.
func (st *settling) decide(ctx context.Context, state events.EffectState) (ledger.Settlement, error) {
	late := st.e.State == events.EffectInDoubt
	st.e.State, st.e.SettledBy, st.e.SettledAt, st.e.settledToken = state, byEnd, st.now, st.a.Token
	if late || st.before.Outcome == ledger.Unclear {
		st.e.SettledBy = byLateEvidence
	}
	st.e.Outcome, st.e.errorKind, st.e.Evidence = st.a.Result, st.out.Error.Kind, st.out.Error.Message
	st.e.takeArguments(st.a)
	if state == events.EffectApplied && st.a.resolved != "" {
		st.e.Contradicted = true // a person said of this attempt that it had no effect
	}
	if err := st.store(ctx); err != nil {
		return ledger.Settlement{}, err
	}
	f, err := st.outcomeFact(ctx, late)
	if err != nil {
		return ledger.Settlement{}, err
	}
	if err := st.s.tellOthers(ctx, st.tx, st.e, st.as, st.a, byLateEvidence, st.now); err != nil {
		return ledger.Settlement{}, err
	}
	if err := st.s.wakeWaiters(ctx, st.tx, st.e, st.a.Number, st.a.Run); err != nil {
		return ledger.Settlement{}, err
	}
	return st.a.settlement(st.e, f), nil
}

// afterwards is an outcome for an effect that is decided. The state stands;
// what the outcome says against it is kept and flagged.
func (st *settling) afterwards(ctx context.Context) (ledger.Settlement, error) {
	_, other := st.as.appliedBut(st.a.Token)
	applied := st.out.Kind == ledger.Applied
	switch {
	case applied && st.e.State != events.EffectApplied:
		st.e.Contradicted = true
	case applied && other && st.e.Recovery.Kind != ledger.RecoveryKeyed && st.e.Recovery.Kind != ledger.RecoveryFenced:
		st.e.PossibleDuplicate = true
	case st.out.Kind == ledger.NotApplied && st.e.State == events.EffectApplied && !other && !st.as.unclearBut(st.a.Token):
		st.e.Contradicted = true // nobody is left who could have done it
	}
	if err := st.store(ctx); err != nil {
		return ledger.Settlement{}, err
	}
	f, err := st.repeatedFact(ctx)
	return st.a.settlement(st.e, f), err
}

// store writes the effect, and raises an alarm for what should not happen.
func (st *settling) store(ctx context.Context) error {
	if st.e.Contradicted || st.e.PossibleDuplicate {
		st.s.cfg.Logger.ErrorContext(ctx, "outcome contradicts what is recorded", "run", st.a.Run, "call", st.a.Call.String(),
			"op_key", st.e.OpKey, "state", st.e.State, "outcome", st.out.Kind,
			"contradicted", st.e.Contradicted, "possible_duplicate", st.e.PossibleDuplicate)
	}
	return st.e.setState(ctx, st.tx)
}

// takeArguments makes the effect show the arguments of a.
func (e *effectRow) takeArguments(a attemptRow) {
	if a.argsDigest != e.argsDigest && len(a.arguments) > 0 {
		e.Arguments, e.argsDigest = a.arguments, a.argsDigest
	}
}

// settlement is what the attempt's caller is told about the effect.
func (a attemptRow) settlement(e effectRow, f *events.Fact) ledger.Settlement {
	set := ledger.Settlement{
		State: e.State, Ref: a.ref(e), Fact: f, PossibleDuplicate: e.PossibleDuplicate, Contradicted: e.Contradicted,
	}
	if e.Outcome != nil {
		set.Result = *e.Outcome
	}
	if e.State != events.EffectApplied {
		set.Error = events.ErrorInfo{Kind: e.errorKind, Message: e.Evidence}
	}
	return set
}
