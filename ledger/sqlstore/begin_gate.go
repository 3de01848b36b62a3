package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/bug"
	"github.com/daybookhq/daybook/ledger"
)

// passage is what the gates say of an execution. stop is the verdict that
// keeps it from happening, nil to let it pass under approval and taint.
type passage struct {
	stop     *ledger.Verdict
	approval events.ID
	taint    string
}

// gates are the conditions of an execution beyond the effect's own state, in
// lock order: switch, approval, budget. An approval is used up only when
// everything else lets the call through, and nobody is asked about what would
// not happen anyway. e is the effect as it stands, zero for a first attempt;
// repeat says that it is undecided: an earlier attempt may have reached the provider.
func (s *Store) gates(ctx context.Context, b *beginning, e effectRow, repeat bool) (passage, error) {
	w, err := s.auditGate(ctx, b)
	if err != nil {
		return passage{}, err
	}
	if v := taintGate(b.in); v != nil {
		return passage{stop: v}, nil
	}
	if b.in.Unpriced && b.in.RefuseUnpriced {
		return passage{stop: refusal(ledger.DetailUnpriced, "not done: nobody knows what %s costs, and calls without a known price are refused here. Do not try again.", b.in.Tool)}, nil
	}
	if b.h.run.ForkEffects == ledger.ForkSimulate {
		return passage{stop: &ledger.Verdict{Kind: ledger.Simulated}}, nil
	}
	if v := switchGate(w, b.in.Tool); v != nil && !bug.On(bug.SwitchIgnored) {
		return passage{stop: v}, nil
	}
	ask, err := b.approvals(ctx, e, repeat)
	if err != nil {
		return passage{}, err
	}
	if v, err := b.approvalGate(ctx, ask); v != nil || err != nil {
		return passage{stop: v}, err
	}
	if v, err := s.reserveBudget(ctx, b); v != nil || err != nil {
		return passage{stop: v}, err
	}
	return passage{approval: ask.granted(), taint: taintOf(b.in)}, ask.consume(ctx, b)
}

// auditCount is how many effect facts are pending over all runs, read at most
// once a second: it is a brake, not a lock.
type auditCount struct {
	mu   sync.Mutex
	at   time.Time
	many bool
}

// effectFacts are the facts that the protocol of effects makes.
const effectFacts = `('tool_execution_started', 'tool_execution_finished', 'tool_execution_error', 'tool_execution_in_doubt', 'effect_resolved')`

// auditGate refuses further effects while the record of earlier ones is behind.
// In the same round trip it reads the tool's switch, which stays as it is until
// the transaction ends.
func (s *Store) auditGate(ctx context.Context, b *beginning) (ledger.Switch, error) {
	if err := b.tx.Later(ctx, "lock the switches", lockSwitchesToRead); err != nil {
		return ledger.Switch{}, err
	}
	var behind bool
	w := ledger.Switch{SwitchChange: ledger.SwitchChange{Tenant: b.h.run.Tenant}}
	err := b.tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM facts WHERE run_id = $1 AND created_at < $2 AND type IN `+effectFacts+`),
			coalesce(w.tool, ''), coalesce(w.mode, 'on'), coalesce(w.set_by, ''), coalesce(w.set_role, ''), coalesce(w.reason, '')
		FROM (SELECT 1 AS one) o LEFT JOIN (`+strictestSwitch(3)+`) w ON true`,
		b.l.RunID, b.h.now.Add(-s.cfg.AuditAge), b.h.run.Tenant, b.in.Tool).Scan(&behind, &w.Tool, &w.Mode, &w.By, &w.Role, &w.Reason)
	if err != nil {
		return w, fmt.Errorf("read pending effect facts of run %s and the switch of %s: %w", b.l.RunID, b.in.Tool, err)
	}
	if behind {
		return w, fmt.Errorf("run %s has effect facts pending for over %s: %w", b.l.RunID, s.cfg.AuditAge, ledger.ErrAuditBehind)
	}
	many, err := s.audit.tooMany(ctx, b.tx, b.h.now, s.cfg.AuditMax)
	if err != nil {
		return w, err
	}
	if many {
		return w, fmt.Errorf("%d effect facts or more are pending: %w", s.cfg.AuditMax, ledger.ErrAuditBehind)
	}
	return w, nil
}

func (c *auditCount) tooMany(ctx context.Context, tx Tx, now time.Time, most int) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if age := now.Sub(c.at); age >= 0 && age < time.Second {
		return c.many, nil
	}
	var n int
	err := tx.QueryRow(ctx, `SELECT count(*) FROM (SELECT 1 FROM facts WHERE type IN `+effectFacts+` LIMIT $1) f`, most).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("count pending effect facts: %w", err)
	}
	c.at, c.many = now, n >= most
	return c.many, nil
}

// taintGate stops a run whose context holds foreign text, if policy says so.
func taintGate(in ledger.Intent) *ledger.Verdict {
	if !in.Tainted || in.TaintPolicy != ledger.TaintDeny {
		return nil
	}
	return refusal(ledger.DetailTaint, "not done: %s acts on the world, and foreign text has come in before (%s): policy denies that. Do not try again in this run.",
		in.Tool, orElse(in.TaintBy, "an earlier call"))
}

// taintOf is the policy that lets a call through although foreign text has come
// in; empty if none has.
func taintOf(in ledger.Intent) string {
	if !in.Tainted {
		return ""
	}
	return orElse(in.TaintPolicy, ledger.TaintAllow)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// refusal is the verdict of a gate that is closed; the text is for the model.
func refusal(detail, format string, args ...any) *ledger.Verdict {
	return &ledger.Verdict{Kind: ledger.Refused, Detail: detail, Text: fmt.Sprintf(format, args...)}
}

// whyAsk lists what wants an approval for this call, empty for nothing.
func (b *beginning) whyAsk() string {
	var why []string
	if b.in.Ask {
		why = append(why, ledger.WhyPolicy)
	}
	if b.in.Tainted && b.in.TaintPolicy == ledger.TaintAsk {
		why = append(why, ledger.WhyTaint)
	}
	if b.h.run.ForkEffects == ledger.ForkAsk {
		why = append(why, ledger.WhyFork)
	}
	return strings.Join(why, ",")
}

// stopped gives the verdict of a gate that is closed for an attempt of e. What
// may have happened already is not refused or simulated: that would be told as
// not done. Nobody can know, and it is not run again.
func (b *beginning) stopped(ctx context.Context, e effectRow, as attempts, repeat bool, v *ledger.Verdict) (ledger.Verdict, error) {
	if !repeat || v.Kind == ledger.NeedsApproval || v.Kind == ledger.Paused {
		return *v, nil
	}
	if e.State == events.EffectStarted {
		if err := b.s.putInDoubt(ctx, b.tx, &e, as.latest(), "takeover", "it may not be made again: "+orElse(v.Text, "the fork only simulates")); err != nil {
			return ledger.Verdict{}, err
		}
	}
	w := b.waits(ledger.InDoubt, e, as)
	w.Detail, w.Text = v.Detail, v.Text
	return w, nil
}
