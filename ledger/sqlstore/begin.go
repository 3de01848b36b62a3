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

// Begin implements ledger.Effects. The verdict is made in the one transaction
// that also stores what allows it; nothing is read again afterwards.
func (s *Store) Begin(ctx context.Context, l ledger.Lease, p ledger.Prefix, in ledger.Intent) (ledger.Verdict, error) {
	in, err := normal(in)
	if err != nil {
		return ledger.Verdict{}, fmt.Errorf("begin %s of run %s: %w", in.Call, l.RunID, err)
	}
	fail := func(err error) (ledger.Verdict, error) {
		return ledger.Verdict{}, fmt.Errorf("begin %s %s of run %s: %w", in.Tool, in.Call, l.RunID, err)
	}
	if err := fault.Err("begin.before_send"); err != nil {
		return fail(fmt.Errorf("%w: %w", ledger.ErrUnavailable, err))
	}
	var v ledger.Verdict
	var refusal error // committed all the same: prefix and clean-up stand
	err = s.comparing(ctx, func() error {
		return s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
			v, refusal = ledger.Verdict{}, nil
			h, err := s.lockHolder(ctx, tx, l)
			if err != nil {
				return err
			}
			if err := s.refuseRolledBack(ctx, tx, h.now); err != nil {
				return err
			}
			if err := s.carry(ctx, tx, l, p); err != nil {
				return err
			}
			b := beginning{s: s, tx: tx, l: l, in: in, h: h}
			if v, err = b.verdict(ctx); err == nil {
				err = s.unseal(ctx, tx, &v)
			}
			if refused(err) {
				refusal = err
				return nil
			}
			if bug.On(bug.BeginNotDurable) && v.Kind == ledger.Execute {
				return errLost
			}
			return err
		})
	})
	if bug.On(bug.BeginNotDurable) && errors.Is(err, errLost) {
		err = nil
	}
	if bug.On(bug.RereadDecides) && err == nil && refusal == nil && s.startedNow(ctx, v.Ref.OpKey) {
		v.Kind = ledger.Execute
	}
	if err != nil {
		return fail(err)
	}
	if err := fault.Err("begin.after_commit"); err != nil {
		return fail(fmt.Errorf("%w: %w", ledger.ErrUnavailable, err))
	}
	if refusal != nil {
		return fail(refusal)
	}
	return v, nil
}

// refused reports whether err is an answer and no failure of the transaction.
func refused(err error) bool {
	for _, r := range []error{
		ledger.ErrLeaseTooShort, ledger.ErrAuditBehind, ledger.ErrWindowMissing, ledger.ErrWouldWaitOnAncestor,
		ledger.ErrEnded, ledger.ErrFactsPending,
	} {
		if errors.Is(err, r) {
			return true
		}
	}
	return false
}

// normal fills in what is left out and refuses what no caller may mean.
func normal(in ledger.Intent) (ledger.Intent, error) {
	if in.Scope == "" {
		in.Scope = ledger.ScopeRun
	}
	if in.Effect == "" {
		in.Effect = "destructive"
	}
	if in.Recovery.Kind == "" {
		in.Recovery.Kind = ledger.RecoveryNone
	}
	if in.CallAttempt == 0 {
		in.CallAttempt = 1
	}
	switch in.Recovery.Kind {
	case ledger.RecoveryNone, ledger.RecoveryFenced, ledger.RecoveryProbe:
	case ledger.RecoveryKeyed:
		if in.Recovery.TTL <= 0 {
			return in, errors.New("recovery keyed needs the time for which the provider keeps a key")
		}
	default:
		return in, fmt.Errorf("unknown recovery %q", in.Recovery.Kind)
	}
	switch in.Scope {
	case ledger.ScopeRun, ledger.ScopeSession, ledger.ScopeOwner, ledger.ScopeTenant:
	default:
		return in, fmt.Errorf("unknown scope %q", in.Scope)
	}
	switch in.TaintPolicy {
	case "", ledger.TaintAllow, ledger.TaintAsk, ledger.TaintDeny:
	default:
		return in, fmt.Errorf("unknown taint policy %q", in.TaintPolicy)
	}
	switch {
	case in.Token.IsZero() || in.Tool == "" || in.Call.Turn < 1 || in.Call.Index < 0:
		return in, fmt.Errorf("token, tool and call are required")
	case len(in.Identity) == 0 || len(in.Arguments) == 0:
		return in, errors.New("identity and arguments are required, in canonical form")
	case in.Timeout <= 0:
		return in, errors.New("timeout must be positive: without a deadline nothing is ever quiescent")
	}
	return in, nil
}

// beginning is one Begin inside its transaction, after the run's row is locked.
type beginning struct {
	s  *Store
	tx Tx
	l  ledger.Lease
	in ledger.Intent
	h  holder
}

func (b *beginning) verdict(ctx context.Context) (ledger.Verdict, error) {
	if b.h.run.State.Ended() {
		return ledger.Verdict{}, ledger.ErrEnded
	}
	if b.h.left < b.l.TTL/3 {
		return ledger.Verdict{}, fmt.Errorf("%s of %s left: %w", b.h.left, b.l.TTL, ledger.ErrLeaseTooShort)
	}
	if b.in.Window == 0 && (b.in.Scope == ledger.ScopeOwner || b.in.Scope == ledger.ScopeTenant) {
		return ledger.Verdict{}, ledger.ErrWindowMissing
	}
	if a, ok, err := attemptByToken(ctx, b.tx, b.in.Token); err != nil {
		return ledger.Verdict{}, err
	} else if ok {
		return b.again(ctx, a)
	}
	for taken := false; ; taken = true {
		e, found, err := b.lockGeneration(ctx)
		if err == nil && !found && taken {
			e, found, err = b.adopt(ctx, e)
		}
		if err != nil {
			return ledger.Verdict{}, err
		}
		if found {
			return b.decide(ctx, e)
		}
		// Nobody has begun this generation: the insert decides who is first, and
		// who is not reads the winner's row, locked.
		v, won, err := b.first(ctx, e)
		if err != nil || won {
			return v, err
		}
	}
}

// again answers a token that has begun before: the answer to its COMMIT was
// lost. It is executed only while nothing has happened to it since.
func (b *beginning) again(ctx context.Context, a attemptRow) (ledger.Verdict, error) {
	if a.Run != b.l.RunID || a.Call != b.in.Call {
		return ledger.Verdict{}, fmt.Errorf("token %s is that of call %s of run %s", a.Token, a.Call, a.Run)
	}
	e, err := lockEffect(ctx, b.tx, a.opKey)
	if err != nil {
		return ledger.Verdict{}, err
	}
	as, err := readAttempts(ctx, b.tx, e.OpKey)
	if err != nil {
		return ledger.Verdict{}, err
	}
	a = as.byToken(a.Token)
	switch {
	case e.State == events.EffectStarted && as.latest().Token == a.Token && a.Epoch == b.l.Epoch && !a.ended(), bug.On(bug.TokenBlind):
		return b.execute(ctx, e, a)
	case e.State == events.EffectApplied:
		return b.applied(e, as)
	case e.State == events.EffectAbandoned:
		return b.told(ledger.GivenUp, e, as), nil
	case e.State == events.EffectNotApplied:
		return ledger.Verdict{}, fmt.Errorf("token %s has ended without effect: begin again with a new one", a.Token)
	case e.State == events.EffectStarted && as.latest().Token == a.Token:
		if err := b.s.putInDoubt(ctx, b.tx, &e, a, "takeover", "begun under an earlier epoch"); err != nil {
			return ledger.Verdict{}, err
		}
	}
	return b.waits(ledger.InDoubt, e, as), nil
}

// decide gives the verdict on a locked effect. b's token is new.
func (b *beginning) decide(ctx context.Context, e effectRow) (ledger.Verdict, error) {
	as, err := readAttempts(ctx, b.tx, e.OpKey)
	if err != nil {
		return ledger.Verdict{}, err
	}
	switch e.State {
	case events.EffectApplied:
		return b.applied(e, as)
	case events.EffectAbandoned:
		return b.told(ledger.GivenUp, e, as), nil
	case events.EffectNotApplied:
		if a, ok := as.appliedBut(events.ID{}); ok {
			// Late evidence contradicts what a person said. The state stands, but
			// to run it again would be a second effect that we know of.
			e.Outcome, e.settledToken = a.Result, a.Token
			e.takeArguments(a)
			return b.applied(e, as)
		}
		return b.next(ctx, e, as)
	}
	if e.Run != b.l.RunID {
		return b.others(ctx, e, as)
	}
	if a := as.latest(); e.State == events.EffectStarted && a.handedOff() && !a.ended() {
		return b.waits(ledger.InDoubt, e, as), nil // somebody is doing it
	}
	if b.mayRepeat(e, as) {
		return b.next(ctx, e, as)
	}
	if e.State == events.EffectStarted {
		// Our own attempt, and whoever asks does not know how it ended.
		if err := b.s.putInDoubt(ctx, b.tx, &e, as.latest(), "takeover", "asked for again without an outcome"); err != nil {
			return ledger.Verdict{}, err
		}
	}
	return b.waits(ledger.InDoubt, e, as), nil
}

// applied hands back an outcome: to its own call whatever it asks, to another
// only if it asks for the very same.
func (b *beginning) applied(e effectRow, as attempts) (ledger.Verdict, error) {
	own := as.byToken(e.settledToken).call() == events.CallRef{Run: b.l.RunID, Call: b.in.Call} || bug.On(bug.ConflictReplays)
	if own || e.argsDigest == ledger.ArgsDigest(b.in.Arguments) {
		return b.told(ledger.Replay, e, as), nil
	}
	return b.told(ledger.Conflict, e, as), nil
}

// told is a verdict that carries a settled outcome.
func (b *beginning) told(kind ledger.VerdictKind, e effectRow, as attempts) ledger.Verdict {
	a := as.byToken(e.settledToken)
	v := ledger.Verdict{
		Kind: kind, Ref: a.ref(e), Of: a.call(), OfArguments: e.Arguments, OfEnded: e.SettledAt,
		Redacted: true, // unless it can be unsealed
	}
	if e.Outcome != nil {
		v.Result = *e.Outcome
	}
	return v
}

// waits is a verdict about an effect that is not decided.
func (b *beginning) waits(kind ledger.VerdictKind, e effectRow, as attempts) ledger.Verdict {
	a := as.latest()
	return ledger.Verdict{
		Kind: kind, Ref: a.ref(e), Of: a.call(), OfArguments: e.Arguments,
		Deadline: as.deadline(), QuiescentIn: b.s.quiescentIn(as, b.h.now),
	}
}

// refuseAncestor fails if e is held by a run that waits for this one.
func (b *beginning) refuseAncestor(ctx context.Context, e effectRow) error {
	for id := b.h.run.Parent; !id.IsZero(); {
		if id == e.Run {
			return fmt.Errorf("effect %s of run %s: %w", e.OpKey, e.Run, ledger.ErrWouldWaitOnAncestor)
		}
		var parent events.RunID
		err := b.tx.QueryRow(ctx, `SELECT parent_id FROM runs WHERE id = $1`, id).Scan(&parent)
		if errors.Is(err, ErrNoRows) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read parent of run %s: %w", id, err)
		}
		id = parent
	}
	return nil
}

// mayRepeat reports whether an undecided effect of this run, or of an ended one,
// may be run again under the same key: both the recorded and the present
// declaration say that the provider absorbs it, it will still know the key, and
// no attempt of this epoch is under way.
func (b *beginning) mayRepeat(e effectRow, as attempts) bool {
	if bug.On(bug.ReexecStarted) || bug.On(bug.ExpireStarted) && as.deadline().Before(b.h.now) {
		return true
	}
	kind := e.Recovery.Kind
	if kind != b.in.Recovery.Kind || b.h.run.State == ledger.Cancelling {
		return false
	}
	a := as.latest()
	if a.Run == b.l.RunID && a.Epoch == b.l.Epoch && !a.ended() && e.State == events.EffectStarted {
		return false
	}
	switch kind {
	case ledger.RecoveryFenced:
		return true
	case ledger.RecoveryKeyed:
		return bug.On(bug.KeyedForever) || b.h.now.Before(e.firstSent.Add(lasting(min(e.Recovery.TTL, b.in.Recovery.TTL), repeatPercent)))
	}
	return false
}

// Shares of a keyed provider's TTL, counted from the first sending of the key:
// until when the key may be sent again, and when every attempt ends. The rest
// is for what is on the wire.
const (
	repeatPercent = 80
	endPercent    = 95
)

func lasting(ttl time.Duration, percent int) time.Duration {
	return ttl / 100 * time.Duration(percent)
}
