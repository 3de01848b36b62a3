package sqlstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// gates are the conditions of an execution beyond the effect's own state, in
// lock order. Whatever is left unset in the intent is allowed. e is the effect
// as it stands, zero for a first attempt.
func (s *Store) gates(ctx context.Context, b *beginning, e effectRow) error {
	if err := s.auditGate(ctx, b); err != nil {
		return err
	}
	if err := taintGate(b.in); err != nil {
		return err
	}
	if err := consumeApproval(ctx, b, e); err != nil {
		return err
	}
	return reserveBudget(b.in)
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
func (s *Store) auditGate(ctx context.Context, b *beginning) error {
	var behind bool
	err := b.tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT 1 FROM facts WHERE run_id = $1 AND created_at < $2 AND type IN `+effectFacts+`)`,
		b.l.RunID, b.h.now.Add(-s.cfg.AuditAge)).Scan(&behind)
	if err != nil {
		return fmt.Errorf("read pending effect facts of run %s: %w", b.l.RunID, err)
	}
	if behind {
		return fmt.Errorf("run %s has effect facts pending for over %s: %w", b.l.RunID, s.cfg.AuditAge, ledger.ErrAuditBehind)
	}
	many, err := s.audit.tooMany(ctx, b.tx, b.h.now, s.cfg.AuditMax)
	if err != nil {
		return err
	}
	if many {
		return fmt.Errorf("%d effect facts or more are pending: %w", s.cfg.AuditMax, ledger.ErrAuditBehind)
	}
	return nil
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

// taintGate is where a run whose context holds foreign text will be stopped;
// until there is a policy, what the caller let through is recorded.
func taintGate(ledger.Intent) error { return nil }

// consumeApproval uses up the approval of this call, once. A repetition of the
// same effect under the same approval is the same use.
func consumeApproval(ctx context.Context, b *beginning, e effectRow) error {
	id := b.in.Approval
	if id.IsZero() || (id == e.approval && e.State != events.EffectNotApplied) {
		return nil
	}
	n, err := b.tx.Exec(ctx, `
		UPDATE approvals SET state = 'consumed', consumed_at = $5
		WHERE id = $1 AND run_id = $2 AND turn = $3 AND call_index = $4 AND state = 'approved' AND expires_at > $5`,
		id, b.l.RunID, b.in.Call.Turn, b.in.Call.Index, b.h.now)
	if err != nil {
		return fmt.Errorf("consume approval %s: %w", id, err)
	}
	if n == 0 {
		return fmt.Errorf("approval %s for %s: %w", id, b.in.Call, ledger.ErrNotApproved)
	}
	return nil
}

// reserveBudget is where an amount will be set aside; until budgets exist it
// is recorded with the effect.
func reserveBudget(ledger.Intent) error { return nil }
