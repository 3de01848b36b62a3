package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// defaultEffects is how many effects a list has unless asked otherwise.
const defaultEffects = 100

// Effects implements ledger.Effects.
func (s *Store) Effects(ctx context.Context, f ledger.EffectFilter) (es []ledger.Effect, err error) {
	if f.Limit <= 0 {
		f.Limit = defaultEffects
	}
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		es, err = s.listEffects(ctx, tx, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list effects: %w", err)
	}
	return es, nil
}

func (s *Store) listEffects(ctx context.Context, tx Tx, f ledger.EffectFilter) ([]ledger.Effect, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	var where []string
	var args []any
	arg := func(v any) int {
		args = append(args, v)
		return len(args)
	}
	if f.Tenant != "" {
		where = append(where, fmt.Sprintf("e.tenant = $%d", arg(f.Tenant)))
	}
	if f.Owner != "" {
		where = append(where, fmt.Sprintf("EXISTS (SELECT 1 FROM runs o WHERE o.id = e.run_id AND o.owner = $%d)", arg(f.Owner)))
	}
	if !f.Run.IsZero() {
		where = append(where, fmt.Sprintf("e.run_id = $%d", arg(f.Run)))
	}
	if !f.OpKey.IsZero() {
		where = append(where, fmt.Sprintf("e.op_key = $%d", arg(f.OpKey)))
	}
	if len(f.States) > 0 {
		states := make([]string, len(f.States))
		for i, st := range f.States {
			states[i] = string(st)
		}
		where = append(where, tx.In("e.state", arg(states)))
	}
	if !f.After.IsZero() {
		n := arg(f.After)
		where = append(where, fmt.Sprintf("(e.created_at, e.op_key) > (SELECT k.created_at, k.op_key FROM effects k WHERE k.op_key = $%d)", n))
	}
	q := `SELECT ` + effectColumns + `, a.token,
		(SELECT u.deadline FROM effect_attempts u WHERE u.op_key = e.op_key AND u.outcome IN ('', 'unclear') AND u.resolved <> 'not_applied'
			ORDER BY u.deadline DESC LIMIT 1)
		FROM effects e JOIN effect_attempts a ON a.op_key = e.op_key AND a.attempt = e.attempts`
	if len(where) > 0 {
		q += ` WHERE ` + strings.Join(where, " AND ")
	}
	q += fmt.Sprintf(` ORDER BY e.created_at, e.op_key LIMIT $%d`, arg(f.Limit))
	rows, err := tx.Query(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var es []ledger.Effect
	for rows.Next() {
		var token events.ID
		var deadline time.Time
		var e effectRow
		if e, err = scanEffect(rows, &token, &deadline); err != nil {
			return nil, err
		}
		e.Token, e.Deadline = token, deadline
		if !decided(e.State) && !deadline.IsZero() {
			e.QuiescentIn = deadline.Add(s.cfg.Grace).Sub(now)
		}
		es = append(es, e.Effect)
	}
	return es, rows.Err()
}

// Attempts implements ledger.Effects.
func (s *Store) Attempts(ctx context.Context, opKey events.Hash) (list []ledger.Attempt, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		list = nil
		as, err := readAttempts(ctx, tx, opKey)
		if err != nil {
			return err
		}
		if len(as) == 0 {
			return ledger.ErrNotFound
		}
		for _, a := range as {
			list = append(list, a.Attempt)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list attempts of effect %s: %w", opKey, err)
	}
	return list, nil
}
