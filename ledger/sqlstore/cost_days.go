package sqlstore

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Kinds of rows of cost_days. Every call is in two: in one by the model that served
// or by its tool, and in one by its owner.
const (
	costOfModel = "model"
	costOfTool  = "tool"
	costOfOwner = "owner"
)

// costDay is the key of a row of cost_days.
type costDay struct{ kind, runDay, day, tenant, queue, agent, name string }

var costDayKey = []string{"kind", "run_day", "day", "tenant", "queue", "agent", "name"}

// costSum is what a row of cost_days sums, in the order of costSums.
type costSum [11]int64

var costSums = []string{
	"model_calls", "model_milli", "model_pico", "unpriced", "unsettled", "input_tokens", "output_tokens",
	"tool_calls", "tool_milli", "tool_pico", "unmeasured",
}

// Places in a costSum: those of tool calls begin at toolSums.
const toolSums = 7

func (s *costSum) add(o costSum, sign int64) {
	for i := range s {
		s[i] += sign * o[i]
	}
}

// costDays collects what calls change in cost_days.
type costDays map[costDay]costSum

func (d costDays) add(k costDay, s costSum, sign int64) {
	sum := d[k]
	sum.add(s, sign)
	d[k] = sum
}

// counted is where a run's calls are counted.
type counted struct{ runDay, queue, agent string }

// lastDay is the last that is written with a year of four digits.
const lastDay = 2_932_896

// runDayOf is the day, in UTC, that a run's id tells: that on which it was queued.
func runDayOf(id events.RunID) string {
	ms := int64(binary.BigEndian.Uint64(append([]byte{0, 0}, id[:6]...))) //nolint:gosec // 48 bits
	return time.Unix(min(ms/86_400_000, lastDay)*86_400, 0).UTC().Format(time.DateOnly)
}

func (d costDays) model(p counted, m ledger.ModelCallRow, sign int64) {
	var s costSum
	s[0] = 1
	if m.Cost != nil {
		s[1], s[2] = int64(*m.Cost)/half, int64(*m.Cost)%half
	}
	if m.Unpriced() {
		s[3] = 1
	}
	if m.State == "unsettled" {
		s[4] = 1
	}
	if m.Usage != nil {
		s[5], s[6] = m.Usage.Input, m.Usage.Output
	}
	k := costDay{costOfModel, p.runDay, m.At.UTC().Format(time.DateOnly), m.Tenant, p.queue, p.agent, cmp.Or(m.ServedModel, m.Model)}
	d.add(k, s, sign)
	k.kind, k.name = costOfOwner, m.Owner
	d.add(k, s, sign)
}

// executed reports whether a record is the outcome of something that was executed for
// this call: what was blocked was not, and what was handed over from another call
// was paid for where it was made.
func executed(c ledger.CallRecord) bool {
	return !c.Repeated && (c.Status == "finished" || c.Status == "error" || c.Status == "resolved")
}

func (d costDays) call(p counted, c ledger.CallRecord, sign int64) {
	if !executed(c) {
		return
	}
	var s costSum
	s[toolSums] = 1
	if c.Cost != nil {
		s[toolSums+1], s[toolSums+2] = int64(*c.Cost)/half, int64(*c.Cost)%half
	} else {
		s[toolSums+3] = 1
	}
	k := costDay{costOfTool, p.runDay, c.At.UTC().Format(time.DateOnly), c.Tenant, p.queue, p.agent, c.Tool}
	d.add(k, s, sign)
	k.kind, k.name = costOfOwner, c.Owner
	d.add(k, s, sign)
}

var addCosts = func() string {
	set := make([]string, len(costSums))
	for i, c := range costSums {
		set[i] = c + " = cost_days." + c + " + excluded." + c
	}
	return "ON CONFLICT (" + strings.Join(costDayKey, ", ") + ") DO UPDATE SET " + strings.Join(set, ", ")
}()

// write adds to the rows of cost_days. Other transactions wait for these rows, so it
// comes last in a transaction, and takes them in one order.
func (d costDays) write(ctx context.Context, tx Tx) error {
	keys := make([]costDay, 0, len(d))
	for k, s := range d {
		if s != (costSum{}) { // asked and answered on one day: only the answer counts
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	slices.SortFunc(keys, func(a, b costDay) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.runDay, b.runDay), cmp.Compare(a.day, b.day),
			cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.queue, b.queue), cmp.Compare(a.agent, b.agent), cmp.Compare(a.name, b.name))
	})
	rows := make([][]any, len(keys))
	for i, k := range keys {
		rows[i] = []any{k.kind, k.runDay, k.day, k.tenant, k.queue, k.agent, k.name}
		s := d[k]
		for _, v := range s {
			rows[i] = append(rows[i], v)
		}
	}
	if _, err := tx.InsertMany(ctx, "cost_days", slices.Concat(costDayKey, costSums), rows, addCosts); err != nil {
		return fmt.Errorf("add to the costs of %d days, models, tools and owners: %w", len(rows), err)
	}
	return nil
}

// costs is what this transaction's folds change in cost_days.
func (b *batchTx) costs() costDays {
	d := costDays{}
	at := func(run events.RunID) counted {
		w := b.runs[run]
		return counted{runDayOf(run), w.queue, w.agent}
	}
	for _, m := range b.rows.Settled {
		d.model(at(m.Run), m, -1)
	}
	for _, m := range b.rows.Models {
		d.model(at(m.Run), m, 1)
	}
	for _, c := range b.rows.Calls {
		d.call(at(c.Run), c, 1)
	}
	return d
}

// uncount takes out of cost_days what the stored rows of a run put in.
func uncount(ctx context.Context, tx Tx, run events.RunID) (costDays, error) {
	d, p := costDays{}, counted{runDay: runDayOf(run)}
	if err := tx.QueryRow(ctx, `SELECT queue, agent FROM runs WHERE id = $1`, run).Scan(&p.queue, &p.agent); err != nil {
		return nil, fmt.Errorf("read queue and agent: %w", err)
	}
	rows, err := tx.Query(ctx, `SELECT `+modelColumns+` FROM model_calls m WHERE m.run_id = $1`, run)
	err = each(rows, err, func(row Row) error {
		m, err := scanModelCall(row)
		if err == nil {
			d.model(p, m, -1)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read model calls: %w", err)
	}
	rows, err = tx.Query(ctx, `SELECT c.tenant, c.owner, c.tool, c.status, c.repeated, c.cost_pico, c.at FROM tool_call_records c WHERE c.run_id = $1`, run)
	err = each(rows, err, func(row Row) error {
		var c ledger.CallRecord
		err := row.Scan(&c.Tenant, &c.Owner, &c.Tool, &c.Status, &c.Repeated, &c.Cost, &c.At)
		if err == nil {
			d.call(p, c, -1)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read tool calls: %w", err)
	}
	return d, nil
}

// dayKeys say what rows of cost_days a grouping sums, and by what column.
var dayKeys = map[string]struct{ column, kinds string }{
	"":      {"''", "'model', 'tool'"},
	"owner": {"d.name", "'owner'"},
	"model": {"d.name", "'model'"},
	"tool":  {"d.name", "'tool'"},
	"agent": {"d.agent", "'model', 'tool'"},
	"queue": {"d.queue", "'model', 'tool'"},
	"day":   {"d.day", "'model', 'tool'"},
}

// wholeDays splits a filter: what cost_days can tell of it, from day to day (empty:
// no bound), and the parts of days before and behind that only single calls tell.
// ok is false if all has to be read from single calls.
func wholeDays(f ledger.CostFilter) (from, to string, edges []ledger.CostFilter, ok bool) {
	_, grouped := dayKeys[f.By]
	if !grouped || !f.Run.IsZero() || f.Owner != "" && (f.By == "model" || f.By == "tool") {
		return "", "", nil, false
	}
	const day = 24 * time.Hour
	since, until := f.Since.Truncate(time.Millisecond), f.Until.Truncate(time.Millisecond)
	first, last := since.Truncate(day), until.Truncate(day)
	bounded := since.UnixMilli() > 0
	if bounded && first.Before(since) {
		first = first.Add(day)
	}
	if !f.Until.IsZero() && (bounded && !first.Before(last) || last.Unix() <= 0) {
		return "", "", nil, false
	}
	if bounded {
		from = first.UTC().Format(time.DateOnly)
		if since.Before(first) {
			e := f
			e.Until = first
			edges = append(edges, e)
		}
	}
	if !f.Until.IsZero() {
		to = last.UTC().Format(time.DateOnly)
		if last.Before(until) {
			e := f
			e.Since = last
			edges = append(edges, e)
		}
	}
	return from, to, edges, true
}

// sumDays sums rows of cost_days.
func sumDays(ctx context.Context, tx Tx, f ledger.CostFilter, from, to string, sums map[string]*ledger.CostRow) error {
	key := dayKeys[f.By]
	var w where
	if f.Owner != "" {
		w.add("d.kind = 'owner' AND d.name = $%d", f.Owner)
	} else {
		w.conditions = append(w.conditions, "d.kind IN ("+key.kinds+")")
	}
	if f.Tenant != "" {
		w.add("d.tenant = $%d", f.Tenant)
	}
	if from != "" {
		w.add("d.run_day >= $%d", from)
	}
	if to != "" {
		w.add("d.run_day < $%d", to)
	}
	columns := make([]string, len(costSums))
	for i, c := range costSums {
		columns[i] = "CAST(coalesce(sum(d." + c + "), 0) AS bigint)"
	}
	q := `SELECT ` + key.column + ` AS k, ` + strings.Join(columns, ", ") + ` FROM cost_days d` + w.String() + ` GROUP BY k`
	return sumRows(ctx, tx, f.By, q, w.args, func(k string, v []int64) {
		if v[0] == 0 && v[toolSums] == 0 {
			return // all of it was folded again elsewhere
		}
		r := costRow(sums, k)
		r.ModelCost.Add(r.ModelCost, whole(v[1], v[2]))
		r.ToolCost.Add(r.ToolCost, whole(v[toolSums+1], v[toolSums+2]))
		r.ModelCalls, r.Unpriced, r.Unsettled = r.ModelCalls+v[0], r.Unpriced+v[3], r.Unsettled+v[4]
		r.InputTokens, r.OutputTokens = r.InputTokens+v[5], r.OutputTokens+v[6]
		r.ToolCalls, r.Unmeasured = r.ToolCalls+v[toolSums], r.Unmeasured+v[toolSums+3]
	}, len(costSums))
}
