package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// first begins a generation. won is false if another Begin was first; then
// nothing was inserted and its row can be locked.
func (b *beginning) first(ctx context.Context, fresh effectRow) (v ledger.Verdict, won bool, err error) {
	if err := b.refuseCancelling(); err != nil {
		return v, false, err
	}
	e := fresh
	e.Tenant, e.Scope, e.Tool, e.Identity = b.h.run.Tenant, b.in.Scope, b.in.Tool, b.in.Identity
	e.State, e.Recovery, e.window, e.firstSent, e.CreatedAt = events.EffectStarted, b.in.Recovery, b.in.Window, b.h.now, b.h.now
	e.Run, e.Call, e.Attempts = b.l.RunID, b.in.Call, 1
	e.Arguments, e.argsDigest, e.taint = b.in.Arguments, ledger.ArgsDigest(b.in.Arguments), taintOf(b.in)
	n, err := b.tx.Exec(ctx, `
		INSERT INTO effects (op_key, base_key, generation, tenant, scope, scope_key, tool, identity, state, recovery, recovery_ttl,
			window_micros, run_id, turn, call_index, attempts, first_sent_at, arguments, args_digest, approval_id, taint, reserved_pico, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'started', $9, $10, $11, $12, $13, $14, 1, $15, $16, $17, $18, $19, $20, $15)
		ON CONFLICT DO NOTHING`,
		e.OpKey, e.base, e.Generation, e.Tenant, e.Scope, e.ScopeKey, e.Tool, e.Identity, e.Recovery.Kind, e.Recovery.TTL.Microseconds(),
		windowMicros(e.window), e.Run, e.Call.Turn, e.Call.Index, b.h.now, e.Arguments, e.argsDigest, e.approval, e.taint, int64(b.in.Reserve))
	if err != nil {
		return v, false, fmt.Errorf("insert effect %s: %w", e.OpKey, err)
	}
	if n == 0 {
		return v, false, nil
	}
	// The gates come after the insert: only who is first may use up an approval.
	p, err := b.s.gates(ctx, b, effectRow{}, false)
	if refused(err) || err == nil && p.stop != nil { // which is committed, so what was begun has to go
		if _, derr := b.tx.Exec(ctx, `DELETE FROM effects WHERE op_key = $1`, e.OpKey); derr != nil {
			return v, false, fmt.Errorf("take back effect %s: %w", e.OpKey, derr)
		}
		if err == nil {
			return *p.stop, true, nil
		}
	}
	if err != nil {
		return v, false, err
	}
	if e.approval = p.approval; !e.approval.IsZero() {
		if _, err := b.tx.Exec(ctx, `UPDATE effects SET approval_id = $2 WHERE op_key = $1`, e.OpKey, e.approval); err != nil {
			return v, false, fmt.Errorf("note approval of effect %s: %w", e.OpKey, err)
		}
	}
	v, err = b.attempt(ctx, e, nil)
	return v, true, err
}

// refuseCancelling: a run that is to end begins nothing new. What has been begun
// is still answered.
func (b *beginning) refuseCancelling() error {
	if b.h.run.State == ledger.Cancelling {
		return fmt.Errorf("it is cancelling: %w", ledger.ErrFactsPending)
	}
	return nil
}

func windowMicros(w time.Duration) int64 {
	if w < 0 {
		return -1
	}
	return int64((w + time.Microsecond - 1) / time.Microsecond) // never rounded to "none"
}

// next begins a further attempt of the same generation: after not_applied, or
// a repetition that the provider absorbs.
func (b *beginning) next(ctx context.Context, e effectRow, as attempts) (ledger.Verdict, error) {
	if err := b.refuseCancelling(); err != nil {
		return ledger.Verdict{}, err
	}
	undecided := !decided(e.State) // else an earlier attempt took no effect, or a person said so
	p, err := b.s.gates(ctx, b, e, undecided)
	if err != nil {
		return ledger.Verdict{}, err
	}
	if p.stop != nil {
		return b.stopped(ctx, e, as, undecided, p.stop)
	}
	e.approval, e.taint = p.approval, p.taint
	digest := ledger.ArgsDigest(b.in.Arguments)
	if digest != e.argsDigest {
		// The effect shows the arguments of the latest attempt; the earlier ones
		// keep theirs, for late evidence.
		_, err := b.tx.Exec(ctx, `UPDATE effect_attempts SET arguments = $2 WHERE op_key = $1 AND args_digest = $3 AND arguments IS NULL`,
			e.OpKey, e.Arguments, e.argsDigest)
		if err != nil {
			return ledger.Verdict{}, fmt.Errorf("keep arguments of effect %s: %w", e.OpKey, err)
		}
	}
	repeat := as.unclearBut(events.ID{})
	if repeat {
		e.Recovery.TTL = min(e.Recovery.TTL, b.in.Recovery.TTL)
	} else {
		// Nothing is outstanding, so the present declaration counts. A provider
		// may remember the key of a refused attempt: its time runs on until over.
		if e.Recovery.Kind != ledger.RecoveryKeyed || !b.h.now.Before(e.firstSent.Add(e.Recovery.TTL)) {
			e.firstSent = b.h.now
		}
		e.Recovery = b.in.Recovery
	}
	e.State, e.Run, e.Call, e.Arguments, e.argsDigest = events.EffectStarted, b.l.RunID, b.in.Call, b.in.Arguments, digest
	e.Attempts++
	_, err = b.tx.Exec(ctx, `
		UPDATE effects SET state = 'started', run_id = $2, turn = $3, call_index = $4, attempts = $5, arguments = $6, args_digest = $7,
			recovery = $8, recovery_ttl = $9, first_sent_at = $10, outcome = NULL, error_kind = '', evidence = '', settled_by = '',
			settled_token = NULL, settled_at = NULL, approval_id = $11, taint = $12, reserved_pico = $13
		WHERE op_key = $1`,
		e.OpKey, e.Run, e.Call.Turn, e.Call.Index, e.Attempts, e.Arguments, e.argsDigest,
		e.Recovery.Kind, e.Recovery.TTL.Microseconds(), e.firstSent, e.approval, e.taint, int64(b.in.Reserve))
	if err != nil {
		return ledger.Verdict{}, fmt.Errorf("begin attempt %d of effect %s: %w", e.Attempts, e.OpKey, err)
	}
	return b.attempt(ctx, e, as)
}

// attempt inserts the attempt that e counts already, and its started fact.
func (b *beginning) attempt(ctx context.Context, e effectRow, before attempts) (ledger.Verdict, error) {
	a := attemptRow{
		Attempt: ledger.Attempt{
			Number: e.Attempts, Token: b.in.Token, Run: b.l.RunID, Epoch: b.l.Epoch, Call: b.in.Call,
			Prior: before.unclearBut(b.in.Token), StartedAt: b.h.now, Deadline: b.deadline(e),
		},
		callAttempt: b.in.CallAttempt, argsDigest: e.argsDigest, continues: b.in.Continue, trace: b.in.Trace,
	}
	_, err := b.tx.Exec(ctx, `
		INSERT INTO effect_attempts (op_key, attempt, token, run_id, epoch, turn, call_index, call_attempt, args_digest, prior,
			started_at, deadline, continues, trace)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)`,
		e.OpKey, a.Number, a.Token, a.Run, a.Epoch, a.Call.Turn, a.Call.Index, a.callAttempt, a.argsDigest, a.Prior,
		a.StartedAt, a.Deadline, a.continues, a.trace)
	if err != nil {
		return ledger.Verdict{}, fmt.Errorf("insert attempt %d of effect %s: %w", a.Number, e.OpKey, err)
	}
	return b.execute(ctx, e, a)
}

// deadline is when the attempt ends. A keyed one ends while the provider still
// knows the key: nothing of it may arrive when the key would count as new. A
// first sending after the time for repetitions is never repeated and needs no
// such end.
func (b *beginning) deadline(e effectRow) time.Time {
	d := b.h.now.Add(b.in.Timeout)
	if e.Recovery.Kind == ledger.RecoveryKeyed && b.h.now.Before(e.firstSent.Add(lasting(e.Recovery.TTL, repeatPercent))) {
		if end := e.firstSent.Add(lasting(e.Recovery.TTL, endPercent)); end.Before(d) {
			d = end
		}
	}
	return events.Timestamp(d)
}

// execute is the verdict that allows one execution of a, with its started
// fact. Asked again it makes the same fact, which is stored once.
func (b *beginning) execute(ctx context.Context, e effectRow, a attemptRow) (ledger.Verdict, error) {
	ref := a.ref(e)
	f, _, err := b.s.addFact(ctx, b.tx, a.Run, events.DerivedID(a.Token, events.TypeOf(events.ToolExecutionStarted{})), events.ToolExecutionStarted{
		Call: a.Call, Attempt: a.callAttempt, Tool: e.Tool, Effect: b.in.Effect, Arguments: e.Arguments, Ref: &ref, At: a.StartedAt, Deadline: a.Deadline,
		Approval: e.approval, Taint: e.taint,
	}, a.trace)
	if err != nil {
		return ledger.Verdict{}, err
	}
	return ledger.Verdict{
		Kind: ledger.Execute, Ref: ref, Prior: a.Prior, Deadline: a.Deadline, Remaining: a.Deadline.Sub(b.h.now), Fact: &f,
	}, nil
}
