package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/ledger"
)

// errMoved: the effect went to another run while its first one was locked.
var errMoved = errors.New("effect went to another run meanwhile: ask again")

// Resolve implements ledger.Effects.
func (s *Store) Resolve(ctx context.Context, r ledger.Resolution) (set ledger.Settlement, err error) {
	fail := func(err error) (ledger.Settlement, error) {
		return ledger.Settlement{}, fmt.Errorf("resolve effect %s as %s: %w", r.OpKey, r.State, err)
	}
	switch r.State {
	case events.EffectApplied, events.EffectNotApplied, events.EffectAbandoned:
	default:
		return fail(errors.New("a resolution says applied, not_applied or abandoned"))
	}
	if r.By == "" {
		return fail(errors.New("a resolution names who made it"))
	}
	r.By, r.Note = s.cfg.Redactor.String(r.By), s.cfg.Redactor.String(r.Note)
	r.Result = s.fitting(ledger.Outcome{Result: r.Result}).Result
	for range 3 {
		err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
			set, err = s.resolve(ctx, tx, r)
			return err
		})
		if !errors.Is(err, errMoved) {
			break
		}
	}
	if err != nil {
		return fail(err)
	}
	return set, nil
}

func (s *Store) resolve(ctx context.Context, tx Tx, r ledger.Resolution) (ledger.Settlement, error) {
	e, run, err := lockWithRun(ctx, tx, r.OpKey)
	if err != nil {
		return ledger.Settlement{}, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return ledger.Settlement{}, err
	}
	if r.Lease != nil && !holds(run, *r.Lease, now) {
		// What a former holder's probe saw may be older than the last attempt.
		return ledger.Settlement{}, fmt.Errorf("run %s is at epoch %d: %w", run.ID, run.Epoch, ledger.ErrFenced)
	}
	if e.State != events.EffectInDoubt {
		return ledger.Settlement{}, fmt.Errorf("it is %s: %w", e.State, ledger.ErrNotInDoubt)
	}
	switch {
	case r.Attempt != 0 && r.Attempt != e.Attempts:
		return ledger.Settlement{}, fmt.Errorf("what was said is of attempt %d, the latest is %d: %w", r.Attempt, e.Attempts, ledger.ErrAttemptedSince)
	case !r.Run.IsZero() && r.Run != e.Run:
		return ledger.Settlement{}, fmt.Errorf("run %s has it, and not %s: %w", e.Run, r.Run, ledger.ErrAttemptedSince)
	}
	as, err := readAttempts(ctx, tx, e.OpKey)
	if err != nil {
		return ledger.Settlement{}, err
	}
	active, err := s.active(ctx, tx, as, run, now)
	if err != nil {
		return ledger.Settlement{}, err
	}
	if bug.On(bug.EarlyProbe) {
		active = ""
	}
	// "It happened" needs no quiet: once true it stays true, whatever a late
	// attempt does. "It did not" and "we give up" can be overtaken.
	if active != "" && r.State != events.EffectApplied && !r.Force {
		return ledger.Settlement{}, fmt.Errorf("%s: %w", active, ledger.ErrNotQuiescent)
	}
	if err := s.settleResolved(ctx, tx, as, r.State, r.Result.Cost, active == "", r.By); err != nil {
		return ledger.Settlement{}, err
	}
	if r.State == events.EffectNotApplied {
		if err := clearAttempts(ctx, tx, e.OpKey, active == ""); err != nil {
			return ledger.Settlement{}, err
		}
	}
	a := as.latest()
	result := r.Result
	if result.Status == "" {
		result = defaultResult(r.State, r.By)
	}
	e.State, e.Outcome, e.SettledBy, e.SettledAt, e.settledToken = r.State, &result, r.By, now, a.Token
	e.errorKind, e.Evidence, e.Forced = "", r.Note, r.Force
	if err := e.setState(ctx, tx); err != nil {
		return ledger.Settlement{}, err
	}
	f, err := s.outcome(ctx, tx, a, events.EffectResolved{
		Call: a.Call, Tool: e.Tool, Ref: a.ref(e), State: e.State, Result: result, By: r.By, Note: r.Note, Forced: r.Force, At: now,
	})
	if err != nil {
		return ledger.Settlement{}, err
	}
	if err := s.tellOthers(ctx, tx, e, as, a, r.By, now); err != nil {
		return ledger.Settlement{}, err
	}
	if err := s.wakeWaiters(ctx, tx, e, a.Number, a.Run); err != nil {
		return ledger.Settlement{}, err
	}
	set := a.settlement(e, f)
	set.LeaseHeld = r.Lease != nil
	return set, nil
}

// lockWithRun locks the run that an effect belongs to, then the effect.
func lockWithRun(ctx context.Context, tx Tx, key events.Hash) (effectRow, ledger.Run, error) {
	var id events.RunID
	err := tx.QueryRow(ctx, `SELECT run_id FROM effects WHERE op_key = $1`, key).Scan(&id)
	if errors.Is(err, ErrNoRows) {
		err = ledger.ErrNotFound
	}
	if err != nil {
		return effectRow{}, ledger.Run{}, err
	}
	run, err := lockRun(ctx, tx, id)
	if err != nil {
		return effectRow{}, ledger.Run{}, err
	}
	e, err := lockEffect(ctx, tx, key)
	if err == nil && e.Run != id {
		err = errMoved
	}
	return e, run, err
}

// active says which attempt might still act; empty when all is quiet. An
// attempt that nobody knows about is quiet once deadline and grace have passed
// and its executor is gone: it came back, or its epoch's lease is dead.
func (s *Store) active(ctx context.Context, tx Tx, as attempts, run ledger.Run, now time.Time) (string, error) {
	for _, a := range as {
		if !a.unclear() {
			continue
		}
		if left := a.Deadline.Add(s.cfg.Grace).Sub(now); left > 0 {
			return fmt.Sprintf("attempt %d may act for %s more", a.Number, left.Round(time.Millisecond)), nil
		}
		if a.ended() {
			continue
		}
		epoch, until := run.Epoch, run.LeaseUntil
		if a.Run != run.ID {
			// An earlier attempt of another run. Its row is read, not locked: a
			// lease that is dead for an epoch never comes back to it.
			err := tx.QueryRow(ctx, `SELECT epoch, lease_until FROM runs WHERE id = $1`, a.Run).Scan(&epoch, &until)
			if err != nil {
				return "", fmt.Errorf("read lease of run %s: %w", a.Run, err)
			}
		}
		if a.Epoch == epoch && until.After(now) {
			return fmt.Sprintf("attempt %d belongs to a live lease of run %s", a.Number, a.Run), nil
		}
	}
	return "", nil
}

// clearAttempts records that a resolution answers for the attempts that nobody
// knows about: in full after quiescence; forced before it, they stay unclear.
// An end that comes in spite of it is still taken as evidence.
func clearAttempts(ctx context.Context, tx Tx, key events.Hash, quiet bool) error {
	as := resolvedForced
	if quiet {
		as = resolvedNotApplied
	}
	_, err := tx.Exec(ctx, `
		UPDATE effect_attempts SET outcome = 'unclear', resolved = $2
		WHERE op_key = $1 AND outcome IN ('', 'unclear') AND resolved <> 'not_applied'`, key, as)
	if err != nil {
		return fmt.Errorf("resolve attempts: %w", err)
	}
	return nil
}

// toldResult is what the model reads of a decided effect.
func toldResult(e effectRow, by string) events.ToolResult {
	if e.Outcome != nil {
		return *e.Outcome
	}
	return defaultResult(e.State, by)
}

// defaultResult is what the model is told when nobody brought words.
func defaultResult(state events.EffectState, by string) events.ToolResult {
	switch state {
	case events.EffectApplied:
		return events.ToolResult{Status: "completed", Trust: "own", Output: "The call took effect (confirmed by " + by + "). Its own output is not known. Do not call it again."}
	case events.EffectNotApplied:
		return events.ToolResult{Status: "failed", Trust: "own", Error: "The call did not take effect (confirmed by " + by + "). It may be made again."}
	default:
		return events.ToolResult{Status: "failed", Trust: "own", Error: "It is unknown whether the call took effect, and it was given up (by " + by + "). Do not call it again."}
	}
}
