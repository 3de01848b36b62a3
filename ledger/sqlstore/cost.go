package sqlstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// A sum of amounts does not fit an int64, and SQLite has nothing larger: each
// amount is split at half, both halves are summed, and Go puts them together.
// Both divisions cut toward zero, so the halves have one sign.
const half = 1_000_000_000

const sumCost = `CAST(coalesce(sum(c.cost_pico / 1000000000), 0) AS bigint), CAST(coalesce(sum(c.cost_pico % 1000000000), 0) AS bigint)`

func whole(hi, lo int64) *big.Int {
	v := new(big.Int).Mul(big.NewInt(hi), big.NewInt(half))
	return v.Add(v, big.NewInt(lo))
}

// costKey is, per table, what a grouping groups by; empty: the table has no such key.
type costKey struct{ model, tool, join string }

const runOfCall = " JOIN runs r ON r.id = c.run_id"

func costKeyOf(tx Tx, by string) (costKey, error) {
	switch by {
	case "":
		return costKey{model: "''", tool: "''"}, nil
	case "run":
		return costKey{model: "c.run_id", tool: "c.run_id"}, nil
	case "owner":
		return costKey{model: "c.owner", tool: "c.owner"}, nil
	case "model": // who served is who is paid
		return costKey{model: servedBy}, nil
	case "tool":
		return costKey{tool: "c.tool"}, nil
	case "agent", "queue": // neither changes
		return costKey{model: "r." + by, tool: "r." + by, join: runOfCall}, nil
	case "day":
		return costKey{model: tx.Day("c.at"), tool: tx.Day("c.at")}, nil
	}
	return costKey{}, fmt.Errorf("by %q: want run, owner, model, tool, agent, queue, day or nothing", by)
}

const servedBy = `CASE WHEN c.served_model = '' THEN c.model ELSE c.served_model END`

// Costs implements ledger.Queries. The rows are in the order of their keys; for
// runs the key is the run's id.
func (s *Store) Costs(ctx context.Context, f ledger.CostFilter) ([]ledger.CostRow, error) {
	var sums map[string]*ledger.CostRow
	err := s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		sums = map[string]*ledger.CostRow{}
		if f.By == "" {
			costRow(sums, "")
		}
		from, to, parts, ok := wholeDays(f)
		if !ok {
			return sumCalls(ctx, tx, f, sums)
		}
		if err := sumDays(ctx, tx, f, from, to, sums); err != nil {
			return fmt.Errorf("days: %w", err)
		}
		for _, part := range parts {
			if err := sumCalls(ctx, tx, part, sums); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sum costs: %w", err)
	}
	list := make([]ledger.CostRow, 0, len(sums))
	for _, r := range sums {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b ledger.CostRow) int { return cmp.Compare(a.Key, b.Key) })
	return list, nil
}

// sumCalls sums single calls.
func sumCalls(ctx context.Context, tx Tx, f ledger.CostFilter, sums map[string]*ledger.CostRow) error {
	key, err := costKeyOf(tx, f.By)
	if err != nil {
		return err
	}
	if key.model != "" {
		if err := sumModels(ctx, tx, f, key, sums); err != nil {
			return fmt.Errorf("model calls: %w", err)
		}
	}
	if key.tool != "" {
		if err := sumTools(ctx, tx, f, key, sums); err != nil {
			return fmt.Errorf("tool calls: %w", err)
		}
	}
	return nil
}

func costRow(sums map[string]*ledger.CostRow, key string) *ledger.CostRow {
	r := sums[key]
	if r == nil {
		r = &ledger.CostRow{Key: key, ModelCost: new(big.Int), ToolCost: new(big.Int)}
		sums[key] = r
	}
	return r
}

func costWhere(f ledger.CostFilter) (w where) {
	if f.Tenant != "" {
		w.add("c.tenant = $%d", f.Tenant)
	}
	switch {
	case f.Run.IsZero():
	case f.Lineage:
		w.add(`c.run_id IN (WITH RECURSIVE below (id) AS (
			SELECT r.id FROM runs r WHERE r.id = $%d UNION SELECT r.id FROM runs r JOIN below b ON r.parent_id = b.id
		) SELECT id FROM below)`, f.Run)
	default:
		w.add("c.run_id = $%d", f.Run)
	}
	if f.Since.UnixMilli() > 0 { // earlier there are no ids
		w.add("c.run_id >= $%d", firstOf(f.Since))
	}
	if !f.Until.IsZero() {
		w.add("c.run_id < $%d", firstOf(f.Until))
	}
	if f.Owner != "" {
		w.add("c.owner = $%d", f.Owner)
		if f.Run.IsZero() { // no index of the calls knows owners
			w.add("c.run_id IN (SELECT s.run_id FROM run_summaries s WHERE s.owner = $%d)", f.Owner)
		}
	}
	return w
}

// firstOf is the lowest id that a run of the millisecond of t can have.
func firstOf(t time.Time) (id events.RunID) {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(max(t.UnixMilli(), 0)))
	copy(id[:6], b[2:])
	return id
}

// modelCounts and toolCounts are what stands beside the sum of an amount.
const (
	modelCounts = `coalesce(sum(CASE WHEN c.state <> 'unsettled' AND c.cost_pico IS NULL AND (c.usage_missing OR c.input_tokens IS NOT NULL) THEN 1 ELSE 0 END), 0),
		coalesce(sum(CASE WHEN c.state = 'unsettled' THEN 1 ELSE 0 END), 0),
		CAST(coalesce(sum(c.input_tokens), 0) AS bigint), CAST(coalesce(sum(c.output_tokens), 0) AS bigint)`
	toolCounts = `coalesce(sum(CASE WHEN c.cost_pico IS NULL THEN 1 ELSE 0 END), 0)`
)

// executedCalls are those that something was executed for: not what was blocked,
// and not outcomes handed to another call, which were paid for where they were made.
const executedCalls = `c.status IN ('finished','error','resolved') AND NOT c.repeated`

func sumModels(ctx context.Context, tx Tx, f ledger.CostFilter, key costKey, sums map[string]*ledger.CostRow) error {
	w := costWhere(f)
	return sumRows(ctx, tx, f.By, `SELECT `+key.model+` AS k, `+sumCost+`, count(*), `+modelCounts+`
		FROM model_calls c`+key.join+w.String()+` GROUP BY k`, w.args, func(k string, v []int64) {
		r := costRow(sums, k)
		r.ModelCost.Add(r.ModelCost, whole(v[0], v[1]))
		r.ModelCalls, r.Unpriced, r.Unsettled = r.ModelCalls+v[2], r.Unpriced+v[3], r.Unsettled+v[4]
		r.InputTokens, r.OutputTokens = r.InputTokens+v[5], r.OutputTokens+v[6]
	}, 7)
}

func sumTools(ctx context.Context, tx Tx, f ledger.CostFilter, key costKey, sums map[string]*ledger.CostRow) error {
	w := costWhere(f)
	w.conditions = append(w.conditions, executedCalls)
	return sumRows(ctx, tx, f.By, `SELECT `+key.tool+` AS k, `+sumCost+`, count(*), `+toolCounts+`
		FROM tool_call_records c`+key.join+w.String()+` GROUP BY k`, w.args, func(k string, v []int64) {
		r := costRow(sums, k)
		r.ToolCost.Add(r.ToolCost, whole(v[0], v[1]))
		r.ToolCalls, r.Unmeasured = r.ToolCalls+v[2], r.Unmeasured+v[3]
	}, 4)
}

func sumRows(ctx context.Context, tx Tx, by, q string, args []any, add func(key string, v []int64), n int) error {
	rows, err := tx.Query(ctx, q, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var run events.RunID
		v := make([]int64, n)
		dest := []any{&key}
		if by == "run" {
			dest = []any{&run}
		}
		for i := range v {
			dest = append(dest, &v[i])
		}
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if by == "run" {
			key = run.String()
		}
		add(key, v)
	}
	return rows.Err()
}
