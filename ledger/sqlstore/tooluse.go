package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/daybookhq/daybook/ledger"
)

// strictest is, of effects and of trusts, what comes first in the alphabet:
// destructive, idempotent, readonly; external, own. Of recoveries it is none,
// which comes after fenced and keyed and before probe, so any other is told only
// where there is no other.
const strictest = `coalesce(min(CASE WHEN c.effect <> '' THEN c.effect END), ''),
	CASE WHEN coalesce(min(CASE WHEN c.recovery <> '' THEN c.recovery END), '') = coalesce(max(CASE WHEN c.recovery <> '' THEN c.recovery END), '')
		THEN coalesce(min(CASE WHEN c.recovery <> '' THEN c.recovery END), '') ELSE 'none' END,
	coalesce(min(CASE WHEN c.trust <> '' THEN c.trust END), '')`

// ToolUses implements ledger.ToolUses.
func (s *Store) ToolUses(ctx context.Context, f ledger.ToolFilter) ([]ledger.ToolUse, error) {
	var uses map[[2]string]*ledger.ToolUse
	of := func(tenant, tool string) *ledger.ToolUse {
		k := [2]string{tenant, tool}
		if uses[k] == nil {
			uses[k] = &ledger.ToolUse{Tenant: tenant, Tool: tool, Cost: new(big.Int), Switch: ledger.SwitchOn}
		}
		return uses[k]
	}
	err := s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		uses = map[[2]string]*ledger.ToolUse{}
		w := costWhere(ledger.CostFilter{Tenant: f.Tenant, Owner: f.Owner, Since: f.Since})
		rows, err := tx.Query(ctx, `SELECT c.tenant, c.tool, `+strictest+`, `+sumCost+`,
			coalesce(sum(CASE WHEN c.status IN ('finished','error','resolved','blocked') THEN 1 ELSE 0 END), 0),
			coalesce(sum(CASE WHEN c.status = 'error' AND NOT c.repeated THEN 1 ELSE 0 END), 0),
			coalesce(sum(CASE WHEN c.status = 'blocked' THEN 1 ELSE 0 END), 0),
			coalesce(sum(CASE WHEN c.status IN ('finished','error') AND c.repeated THEN 1 ELSE 0 END), 0),
			coalesce(sum(CASE WHEN c.status IN ('finished','error','resolved') AND NOT c.repeated AND c.cost_pico IS NULL THEN 1 ELSE 0 END), 0),
			max(c.at)
			FROM tool_call_records c`+w.String()+` GROUP BY c.tenant, c.tool`, w.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var u ledger.ToolUse
			var hi, lo int64
			if err := rows.Scan(&u.Tenant, &u.Tool, &u.Effect, &u.Recovery, &u.Trust, &hi, &lo, &u.Calls, &u.Errors, &u.Blocked, &u.Repeated, &u.Unmeasured, &u.LastUsed); err != nil {
				return err
			}
			u.Cost, u.Switch = whole(hi, lo), ledger.SwitchOn
			*of(u.Tenant, u.Tool) = u
		}
		if err := rows.Err(); err != nil {
			return err
		}
		w = costWhere(ledger.CostFilter{Tenant: f.Tenant, Since: f.Since}) // effects have no owner of their own
		w.ownedRun("c", f.Owner)
		w.conditions = append(w.conditions, "c.state = 'in_doubt'")
		doubts, err := tx.Query(ctx, `SELECT c.tenant, c.tool, count(*) FROM effects c`+w.String()+` GROUP BY c.tenant, c.tool`, w.args...)
		if err != nil {
			return err
		}
		defer doubts.Close()
		for doubts.Next() {
			var tenant, tool string
			var n int64
			if err := doubts.Scan(&tenant, &tool, &n); err != nil {
				return err
			}
			of(tenant, tool).InDoubt = n
		}
		if err := doubts.Err(); err != nil {
			return err
		}
		for _, u := range uses {
			if u.Switch, err = modeOf(ctx, tx, u.Tenant, u.Tool); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read how tools were used: %w", err)
	}
	list := make([]ledger.ToolUse, 0, len(uses))
	for _, u := range uses {
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b ledger.ToolUse) int {
		return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Tool, b.Tool))
	})
	return list, nil
}
