package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// causeRestored is why an effect is in doubt that a restored database had lost.
const causeRestored = "restored"

// Reopen implements ledger.Reconciliation.
func (s *Store) Reopen(ctx context.Context, lost ledger.LostEffect) (state events.EffectState, err error) {
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		run, err := lockRun(ctx, tx, lost.Run)
		if err != nil {
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		a, there, err := attemptByToken(ctx, tx, lost.Ref.Token)
		if err != nil {
			return err
		}
		if !there {
			if err := s.putAttempt(ctx, tx, run, lost, now); err != nil {
				return err
			}
			a.Token = lost.Ref.Token
		}
		if state, err = s.resettle(ctx, tx, lost, now); err != nil {
			return err
		}
		return away(fault.Err("reopen.before_commit"))
	})
	if err == nil {
		err = away(fault.Err("reopen.after_commit"))
	}
	if err != nil {
		return "", fmt.Errorf("reopen attempt %s of effect %s: %w", lost.Ref.Token, lost.Ref.OpKey, err)
	}
	return state, nil
}

// lostBase stands for the base key of an effect whose identity nobody knows
// until its call is asked for again: adopt puts the right one in.
func lostBase(key events.Hash) events.Hash {
	return sha256.Sum256(append([]byte("daybook/lost/1"), key[:]...))
}

// putAttempt inserts what the journal says of an attempt, and of its effect if need be.
func (s *Store) putAttempt(ctx context.Context, tx Tx, run ledger.Run, lost ledger.LostEffect, now time.Time) error {
	st := events.ToolExecutionStarted{Call: lost.Call, Attempt: 1, Tool: lost.Tool, Arguments: json.RawMessage(`{}`), At: now, Deadline: now}
	if lost.Started != nil {
		st = *lost.Started
	}
	if st.Deadline.IsZero() {
		st.Deadline = now
	}
	digest := ledger.ArgsDigest(st.Arguments)
	_, err := tx.Exec(ctx, `
		INSERT INTO effects (op_key, base_key, generation, tenant, scope, scope_key, tool, identity, state, recovery, run_id, turn, call_index,
			attempts, first_sent_at, arguments, args_digest, created_at)
		VALUES ($1, $2, $3, $4, 'run', $5, $6, $7, 'started', $8, $9, $10, $11, 1, $12, $7, $13, $12)
		ON CONFLICT (op_key) DO NOTHING`,
		lost.Ref.OpKey, lostBase(lost.Ref.OpKey), lost.Ref.Generation, run.Tenant, run.Root.String(), st.Tool, st.Arguments,
		recoveryOf(lost.Ref), lost.Run, st.Call.Turn, st.Call.Index, stamp(st.At), digest)
	if err != nil {
		return fmt.Errorf("insert effect: %w", err)
	}
	e, err := lockEffect(ctx, tx, lost.Ref.OpKey)
	if err != nil {
		return err
	}
	as, err := readAttempts(ctx, tx, lost.Ref.OpKey)
	if err != nil {
		return err
	}
	// Numbers are dense, and a fence is never given twice: those before this one
	// that nobody told of may have reached the provider too.
	n := len(as) + 1
	for ; n < lost.Ref.Attempt; n++ {
		gap := events.DerivedID(lost.Ref.Token, events.Type(fmt.Sprintf("lost attempt %d", n)))
		if err := putLostAttempt(ctx, tx, lost, st, n, gap, digest, true); err != nil {
			return err
		}
	}
	if err := putLostAttempt(ctx, tx, lost, st, n, lost.Ref.Token, digest, n > 1); err != nil {
		return err
	}
	if decided(e.State) && e.State != events.EffectNotApplied {
		_, err = tx.Exec(ctx, `UPDATE effects SET attempts = $2 WHERE op_key = $1`, e.OpKey, n)
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE effects SET state = 'started', run_id = $2, turn = $3, call_index = $4, attempts = $5, arguments = $6, args_digest = $7,
			outcome = NULL, error_kind = '', evidence = '', settled_by = '', settled_token = NULL, settled_at = NULL
		WHERE op_key = $1`, e.OpKey, lost.Run, st.Call.Turn, st.Call.Index, n, st.Arguments, digest)
	return err
}

func recoveryOf(r events.EffectRef) string {
	switch {
	case r.Recovery == ledger.RecoveryFenced, r.Recovery == ledger.RecoveryProbe:
		return r.Recovery
	case r.Recovery == ledger.RecoveryKeyed && r.Attempt == 1:
		return r.Recovery // adopt says for how long
	}
	// When the key of a later attempt was first sent is not known here, so
	// nothing is sent again under it.
	return ledger.RecoveryNone
}

func putLostAttempt(ctx context.Context, tx Tx, lost ledger.LostEffect, st events.ToolExecutionStarted, n int, token events.ID, digest events.Hash, prior bool) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO effect_attempts (op_key, attempt, token, run_id, epoch, turn, call_index, call_attempt, args_digest, prior,
			started_at, deadline, arguments, trace)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		lost.Ref.OpKey, n, token, lost.Run, lost.Epoch, st.Call.Turn, st.Call.Index, max(st.Attempt, 1), digest, prior,
		stamp(st.At), stamp(st.Deadline), st.Arguments, lost.Trace)
	if err != nil {
		return fmt.Errorf("insert attempt %d: %w", n, err)
	}
	return nil
}

// resettle settles an attempt by what the journal says, or puts it in doubt.
func (s *Store) resettle(ctx context.Context, tx Tx, lost ledger.LostEffect, now time.Time) (events.EffectState, error) {
	e, err := lockEffect(ctx, tx, lost.Ref.OpKey)
	if err != nil {
		return "", err
	}
	as, err := readAttempts(ctx, tx, lost.Ref.OpKey)
	if err != nil {
		return "", err
	}
	a := as.byToken(lost.Ref.Token)
	switch out := lost.Outcome; {
	case out == nil:
		return s.lostDoubt(ctx, tx, e, a, now)
	case out.By != "" && !decided(e.State):
		return s.resolvedAgain(ctx, tx, e, as, a, *out, now)
	case out.By != "":
		return e.State, nil
	default:
		kind := ledger.Applied
		if out.State == events.EffectNotApplied {
			kind = ledger.NotApplied
		}
		set, err := s.settle(ctx, tx, a, ledger.Outcome{Token: a.Token, Kind: kind, Result: out.Result, Error: out.Error}, now)
		return set.State, err
	}
}

// lostDoubt puts an attempt in doubt that nobody knows the outcome of. Its run
// is told unless its history does not even have the call.
func (s *Store) lostDoubt(ctx context.Context, tx Tx, e effectRow, a attemptRow, now time.Time) (events.EffectState, error) {
	if e.State != events.EffectStarted || a.Number != e.Attempts {
		return e.State, nil
	}
	const evidence = "the database was restored to a moment before it began; the journal does not say how it ended"
	var told int
	err := tx.QueryRow(ctx, `SELECT count(*) FROM events WHERE run_id = $1 AND event_id = $2`,
		a.Run, events.DerivedID(a.Token, events.TypeOf(events.ToolExecutionStarted{}))).Scan(&told)
	if err != nil {
		return "", fmt.Errorf("look for the call: %w", err)
	}
	if told == 0 {
		e.State, e.Evidence = events.EffectInDoubt, causeRestored+": "+evidence
		return e.State, e.setState(ctx, tx)
	}
	_, err = s.doubt(ctx, tx, &e, a, causeRestored, evidence, now)
	return e.State, err
}

// resolvedAgain repeats what a person or a probe had said.
func (s *Store) resolvedAgain(ctx context.Context, tx Tx, e effectRow, as attempts, a attemptRow, out ledger.LostOutcome, now time.Time) (events.EffectState, error) {
	if err := s.settleResolved(ctx, tx, as, out.State, out.Result.Cost, !out.Forced, out.By); err != nil {
		return "", err
	}
	if out.State == events.EffectNotApplied {
		if err := clearAttempts(ctx, tx, e.OpKey, !out.Forced); err != nil {
			return "", err
		}
	}
	e.State, e.Outcome, e.SettledBy, e.SettledAt, e.settledToken = out.State, &out.Result, out.By, now, a.Token
	e.errorKind, e.Evidence, e.Forced = "", out.Note, out.Forced
	if err := e.setState(ctx, tx); err != nil {
		return "", err
	}
	_, err := s.outcome(ctx, tx, a, events.EffectResolved{
		Call: a.Call, Tool: e.Tool, Ref: a.ref(e), State: e.State, Result: out.Result, By: out.By, Note: out.Note, Forced: out.Forced, At: now,
	})
	return e.State, err
}

// adopt finds an effect that was put back without its identity: this call means
// it, for the op key is made of that. e is what lockGeneration would begin.
func (b *beginning) adopt(ctx context.Context, e effectRow) (effectRow, bool, error) {
	got, err := lockEffect(ctx, b.tx, e.OpKey)
	if errors.Is(err, ledger.ErrNotFound) {
		return e, false, nil
	}
	if err != nil {
		return e, false, err
	}
	if got.base != lostBase(got.OpKey) {
		return e, false, fmt.Errorf("effect %s stands under another identity: tell whoever maintains Daybook", got.OpKey)
	}
	got.base, got.Scope, got.ScopeKey, got.Identity, got.window = e.base, b.in.Scope, e.ScopeKey, b.in.Identity, b.in.Window
	if got.Recovery.Kind == ledger.RecoveryKeyed && b.in.Recovery.Kind == ledger.RecoveryKeyed {
		got.Recovery.TTL = b.in.Recovery.TTL
	}
	_, err = b.tx.Exec(ctx, `
		UPDATE effects SET base_key = $2, scope = $3, scope_key = $4, identity = $5, window_micros = $6, recovery_ttl = $7 WHERE op_key = $1`,
		got.OpKey, got.base, got.Scope, got.ScopeKey, got.Identity, windowMicros(got.window), got.Recovery.TTL.Microseconds())
	if err != nil {
		return e, false, fmt.Errorf("adopt effect %s: %w", got.OpKey, err)
	}
	return got, true, nil
}
