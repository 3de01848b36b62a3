package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"sync"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// maxFolds bounds the folds kept in memory; more than the runs that move at one
// time saves nothing.
const maxFolds = 4096

// foldCache keeps folds from one batch to the next, so that a run that moves is
// not read back each time. Whoever takes a fold out owns it; it is put back
// only after the commit, and is worth something only while its Seq is the
// stored folded_seq: folding is deterministic, so then it is the same fold.
type foldCache struct {
	mu sync.Mutex
	m  map[events.RunID]*ledger.Fold
}

func (c *foldCache) take(run events.RunID, seq uint64) *ledger.Fold {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.m[run]
	delete(c.m, run)
	if f == nil || f.Seq != seq {
		return nil
	}
	return f
}

func (c *foldCache) put(f *ledger.Fold) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[events.RunID]*ledger.Fold{}
	}
	for run := range c.m { // any will do
		if len(c.m) < maxFolds {
			break
		}
		delete(c.m, run)
	}
	c.m[f.Run] = f
}

// loadFold reads a fold back from the projections.
func loadFold(ctx context.Context, tx Tx, run events.RunID, seq uint64, open []byte) (*ledger.Fold, error) {
	if seq == 0 {
		return ledger.NewFold(run), nil
	}
	t, err := scanTotals(tx.QueryRow(ctx, `SELECT `+totalsColumns+` FROM run_summaries s WHERE s.run_id = $1`, run))
	if err != nil {
		return nil, fmt.Errorf("read summary of run %s: %w", run, err)
	}
	return ledger.RestoreFold(run, seq, t, open,
		func(seq uint64) (ledger.CallRecord, error) { return readCall(ctx, tx, run, seq) },
		func(seq uint64) (ledger.ModelCallRow, error) {
			m, err := scanModelCall(tx.QueryRow(ctx, `SELECT `+modelColumns+` FROM model_calls m WHERE m.run_id = $1 AND m.seq = $2`, run, seq))
			if err != nil {
				return m, fmt.Errorf("read model call: run %s seq %d: %w", run, seq, err)
			}
			return m, nil
		})
}

// readArchive returns the events of a run from seq from to seq to, at most limit.
func readArchive(ctx context.Context, tx Tx, run events.RunID, from, to uint64, limit int) ([]events.Sealed, error) {
	rows, err := tx.Query(ctx, `
		SELECT seq, hash, bytes FROM events WHERE run_id = $1 AND seq >= $2 AND seq <= $3 ORDER BY seq LIMIT $4`, run, from, to, limit)
	if err != nil {
		return nil, fmt.Errorf("read events of run %s from %d: %w", run, from, err)
	}
	defer rows.Close()
	var es []events.Sealed
	for rows.Next() {
		var seq uint64
		var h events.Hash
		var b []byte
		if err := rows.Scan(&seq, &h, &b); err != nil {
			return nil, fmt.Errorf("read events of run %s from %d: %w", run, from, err)
		}
		e, err := events.Parse(b, h)
		if err == nil && (e.Envelope().RunID != run || e.Envelope().Seq != seq) {
			err = fmt.Errorf("it is run %s seq %d by its bytes: %w", e.Envelope().RunID, e.Envelope().Seq, events.ErrMalformed)
		}
		if err != nil {
			return es, fmt.Errorf("read event: run %s seq %d: %w", run, seq, err)
		}
		es = append(es, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read events of run %s from %d: %w", run, from, err)
	}
	return es, nil
}

// damaged reports whether a stored event does not fit its hash or its place.
func damaged(err error) bool {
	return errors.Is(err, events.ErrHash) || errors.Is(err, events.ErrMalformed)
}

var callRowColumns = []string{
	"run_id", "seq", "tenant", "owner", "session_id", "turn", "call_index", "attempt", "status", "terminal", "tool", "effect", "recovery",
	"op_key", "token", "arguments", "result", "reason", "detail", "repeated", "of_run_id", "of_turn", "of_index", "trust", "cost_pico",
	"latency_ms", "started_at", "at", "trace",
}

func callRow(c ledger.CallRecord) []any {
	var of events.RunID
	var turn, index *int
	if c.Of != nil {
		of, turn, index = c.Of.Run, &c.Of.Call.Turn, &c.Of.Call.Index
	}
	return []any{
		c.Run, c.Seq, c.Tenant, c.Owner, c.SessionID, c.Call.Turn, c.Call.Index, c.Attempt, c.Status, c.Terminal, c.Tool, c.Effect, c.Recovery,
		c.OpKey, c.Token, c.Arguments, c.Result, c.Reason, c.Detail, c.Repeated, of, turn, index, c.Trust, c.Cost,
		c.LatencyMS, c.StartedAt, c.At, c.Trace,
	}
}

const callColumns = `c.run_id, c.seq, c.tenant, c.owner, c.session_id, c.turn, c.call_index, c.attempt, c.status, c.terminal, c.tool, c.effect, c.recovery,
	c.op_key, c.token, c.arguments, c.result, c.reason, c.detail, c.repeated, c.of_run_id, c.of_turn, c.of_index, c.trust, c.cost_pico,
	c.latency_ms, c.started_at, c.at, c.trace`

func scanCall(row Row) (c ledger.CallRecord, err error) {
	var of events.RunID
	var turn, index *int
	err = row.Scan(&c.Run, &c.Seq, &c.Tenant, &c.Owner, &c.SessionID, &c.Call.Turn, &c.Call.Index, &c.Attempt, &c.Status, &c.Terminal, &c.Tool, &c.Effect, &c.Recovery,
		&c.OpKey, &c.Token, &c.Arguments, &c.Result, &c.Reason, &c.Detail, &c.Repeated, &of, &turn, &index, &c.Trust, &c.Cost,
		&c.LatencyMS, &c.StartedAt, &c.At, &c.Trace)
	if err == nil && turn != nil && index != nil {
		c.Of = &events.CallRef{Run: of, Call: events.CallID{Turn: *turn, Index: *index}}
	}
	return c, err
}

func readCall(ctx context.Context, tx Tx, run events.RunID, seq uint64) (ledger.CallRecord, error) {
	c, err := scanCall(tx.QueryRow(ctx, `SELECT `+callColumns+` FROM tool_call_records c WHERE c.run_id = $1 AND c.seq = $2`, run, seq))
	if err != nil {
		return c, fmt.Errorf("read tool call record: run %s seq %d: %w", run, seq, err)
	}
	return c, nil
}

var modelRowColumns = []string{
	"run_id", "seq", "tenant", "owner", "turn", "attempt", "epoch", "state", "model", "served_model",
	"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "usage_missing",
	"cost_pico", "rates", "error_kind", "latency_ms", "started_at", "at", "trace",
}

// modelUpsert settles a row that is there.
const modelUpsert = `ON CONFLICT (run_id, seq) DO UPDATE SET state = excluded.state, model = excluded.model, served_model = excluded.served_model,
	input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens, cache_read_tokens = excluded.cache_read_tokens,
	cache_write_tokens = excluded.cache_write_tokens, reasoning_tokens = excluded.reasoning_tokens, usage_missing = excluded.usage_missing,
	cost_pico = excluded.cost_pico, rates = excluded.rates, error_kind = excluded.error_kind, latency_ms = excluded.latency_ms, at = excluded.at`

func modelRow(m ledger.ModelCallRow) []any {
	var u [5]*int64
	missing := false
	switch {
	case m.Usage == nil:
	case m.Usage.Missing:
		missing = true
	default:
		u = [5]*int64{&m.Usage.Input, &m.Usage.Output, &m.Usage.CacheRead, &m.Usage.CacheWrite, &m.Usage.Reasoning}
	}
	return []any{
		m.Run, m.Seq, m.Tenant, m.Owner, m.Turn, m.Attempt, m.Epoch, m.State, m.Model, m.ServedModel,
		u[0], u[1], u[2], u[3], u[4], missing,
		m.Cost, m.Rates, m.ErrorKind, m.LatencyMS, m.StartedAt, m.At, m.Trace,
	}
}

const modelColumns = `m.run_id, m.seq, m.tenant, m.owner, m.turn, m.attempt, m.epoch, m.state, m.model, m.served_model,
	m.input_tokens, m.output_tokens, m.cache_read_tokens, m.cache_write_tokens, m.reasoning_tokens, m.usage_missing,
	m.cost_pico, m.rates, m.error_kind, m.latency_ms, m.started_at, m.at, m.trace`

func scanModelCall(row Row) (m ledger.ModelCallRow, err error) {
	var in, out, read, write, reasoning *int64
	var missing bool
	err = row.Scan(&m.Run, &m.Seq, &m.Tenant, &m.Owner, &m.Turn, &m.Attempt, &m.Epoch, &m.State, &m.Model, &m.ServedModel,
		&in, &out, &read, &write, &reasoning, &missing,
		&m.Cost, &m.Rates, &m.ErrorKind, &m.LatencyMS, &m.StartedAt, &m.At, &m.Trace)
	switch {
	case err != nil:
	case missing:
		m.Usage = &events.Usage{Missing: true}
	case in != nil && out != nil && read != nil && write != nil && reasoning != nil:
		m.Usage = &events.Usage{Input: *in, Output: *out, CacheRead: *read, CacheWrite: *write, Reasoning: *reasoning}
	}
	return m, err
}

var totalsRowColumns = []string{
	"run_id", "tenant", "owner", "agent", "events", "turns", "model_calls", "tool_calls", "destructive", "repeated", "blocked", "in_doubt",
	"resumes", "input_tokens", "output_tokens", "cost_pico", "unpriced", "unmeasured", "first_at", "last_at", "state",
}

const totalsUpsert = `ON CONFLICT (run_id) DO UPDATE SET owner = excluded.owner, agent = excluded.agent, events = excluded.events, turns = excluded.turns,
	model_calls = excluded.model_calls, tool_calls = excluded.tool_calls, destructive = excluded.destructive, repeated = excluded.repeated,
	blocked = excluded.blocked, in_doubt = excluded.in_doubt, resumes = excluded.resumes, input_tokens = excluded.input_tokens,
	output_tokens = excluded.output_tokens, cost_pico = excluded.cost_pico, unpriced = excluded.unpriced, unmeasured = excluded.unmeasured,
	last_at = excluded.last_at, state = excluded.state`

func totalsRow(f *ledger.Fold) []any {
	t := f.Totals
	return []any{
		f.Run, t.Tenant, t.Owner, t.Agent, t.Events, t.Turns, t.ModelCalls, t.ToolCalls, t.Destructive, t.Repeated, t.Blocked, t.Doubtful,
		t.Resumes, t.InputTokens, t.OutputTokens, t.Cost, t.Unpriced, t.Unmeasured, t.FirstAt, t.LastAt, t.State,
	}
}

const totalsColumns = `s.tenant, s.owner, s.agent, s.events, s.turns, s.model_calls, s.tool_calls, s.destructive, s.repeated, s.blocked, s.in_doubt,
	s.resumes, s.input_tokens, s.output_tokens, s.cost_pico, s.unpriced, s.unmeasured, s.first_at, s.last_at, s.state`

func totalsDest(t *ledger.Totals) []any {
	t.Cost = new(big.Int)
	return []any{
		&t.Tenant, &t.Owner, &t.Agent, &t.Events, &t.Turns, &t.ModelCalls, &t.ToolCalls, &t.Destructive, &t.Repeated, &t.Blocked, &t.Doubtful,
		&t.Resumes, &t.InputTokens, &t.OutputTokens, t.Cost, &t.Unpriced, &t.Unmeasured, &t.FirstAt, &t.LastAt, &t.State,
	}
}

func scanTotals(row Row) (t ledger.Totals, err error) {
	err = row.Scan(totalsDest(&t)...)
	return t, err
}

// insertRows adds what folds gave to the projections.
func insertRows(ctx context.Context, tx Tx, out ledger.Rows, folds []*ledger.Fold) error {
	insert := func(table string, columns []string, rows [][]any, conflict string) error {
		if len(rows) == 0 {
			return nil
		}
		if _, err := tx.InsertMany(ctx, table, columns, rows, conflict); err != nil {
			return fmt.Errorf("insert %d rows into %s: %w", len(rows), table, err)
		}
		return nil
	}
	calls := make([][]any, len(out.Calls))
	for i, c := range out.Calls {
		calls[i] = callRow(c)
	}
	models := make([][]any, len(out.Models))
	for i, m := range out.Models {
		models[i] = modelRow(m)
	}
	artifacts := make([][]any, len(out.Artifacts))
	for i, a := range out.Artifacts {
		artifacts[i] = []any{a.Run, a.Seq, a.Tenant, a.Name, a.Content, a.Bytes, a.At}
	}
	versions := make([][]any, len(out.Versions))
	for i, v := range out.Versions {
		versions[i] = versionRow(v)
	}
	totals := make([][]any, len(folds))
	for i, f := range folds {
		totals[i] = totalsRow(f)
	}
	if err := insert("tool_call_records", callRowColumns, calls, ""); err != nil {
		return err
	}
	if err := insert("model_calls", modelRowColumns, models, modelUpsert); err != nil {
		return err
	}
	if err := insert("artifacts", []string{"run_id", "seq", "tenant", "name", "content", "bytes", "at"}, artifacts, ""); err != nil {
		return err
	}
	if err := insert("artifact_versions", versionRowColumns, versions, ""); err != nil {
		return err
	}
	return insert("run_summaries", totalsRowColumns, totals, totalsUpsert)
}
