package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

const (
	defaultLimit = 50
	maxLimit     = 10_000
)

// where collects conditions and their parameters.
type where struct {
	conditions []string
	args       []any
}

// add appends a condition; its %d are the numbers of the parameters.
func (w *where) add(condition string, args ...any) {
	n := make([]any, len(args))
	for i := range args {
		n[i] = len(w.args) + i + 1
	}
	w.conditions = append(w.conditions, fmt.Sprintf(condition, n...))
	w.args = append(w.args, args...)
}

// arg adds a parameter and returns its number.
func (w *where) arg(v any) int {
	w.args = append(w.args, v)
	return len(w.args)
}

// ownedRun leaves rows whose run has an owner; alias is that of their table. A
// look-up by the run's key for each row: these lists are short.
func (w *where) ownedRun(alias, owner string) {
	if owner != "" {
		w.add("EXISTS (SELECT 1 FROM runs o WHERE o.id = "+alias+".run_id AND o.owner = $%d)", owner)
	}
}

func (w *where) String() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

func limitOf(n int) int {
	if n <= 0 {
		return defaultLimit
	}
	return min(n, maxLimit)
}

// Summaries implements ledger.Queries.
func (s *Store) Summaries(ctx context.Context, f ledger.RunFilter) (list []ledger.Summary, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		list = nil
		var w where
		for _, c := range []struct{ column, value string }{
			{"tenant", f.Tenant},
			{"queue", f.Queue},
			{"agent", f.Agent},
			{"owner", f.Owner},
			{"session_id", f.SessionID},
		} {
			if c.value != "" {
				w.add("r."+c.column+" = $%d", c.value)
			}
		}
		if !f.Before.IsZero() {
			w.add("r.id < $%d", f.Before)
		}
		if f.Since.UnixMilli() > 0 { // earlier there are no ids
			w.add("r.id >= $%d", firstOf(f.Since))
		}
		if !f.Until.IsZero() {
			w.add("r.id < $%d", firstOf(f.Until))
		}
		if len(f.States) > 0 {
			states := make([]string, len(f.States))
			for i, s := range f.States {
				states[i] = string(s)
			}
			w.conditions = append(w.conditions, tx.In("r.state", w.arg(states)))
		}
		n := w.arg(limitOf(f.Limit))
		// The page first: joined before, a whole table would be read for it.
		rows, err := tx.Query(ctx, `SELECT `+runColumns+`, `+optionalTotals+` FROM (SELECT * FROM runs r`+
			w.String()+fmt.Sprintf(` ORDER BY r.id DESC LIMIT $%d`, n)+`) r LEFT JOIN run_summaries s ON s.run_id = r.id ORDER BY r.id DESC`, w.args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var t ledger.Totals
			run, err := scanRun(rows, totalsDest(&t)...)
			if err != nil {
				return err
			}
			list = append(list, summary(run, t))
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return list, nil
}

// optionalTotals are totalsColumns of a row that may be missing.
var optionalTotals = func() string {
	columns := strings.Split(totalsColumns, ",")
	for i, c := range columns {
		c = strings.TrimSpace(c)
		switch c {
		case "s.first_at", "s.last_at", "s.cost_pico": // NULL is read as zero
			columns[i] = c
		case "s.tenant", "s.owner", "s.agent", "s.state":
			columns[i] = "coalesce(" + c + ", '')"
		default:
			columns[i] = "coalesce(" + c + ", 0)"
		}
	}
	return strings.Join(columns, ", ")
}()

func summary(run ledger.Run, t ledger.Totals) ledger.Summary {
	return ledger.Summary{
		Run: run, Events: t.Events, Turns: t.Turns, ModelCalls: t.ModelCalls, ToolCalls: t.ToolCalls,
		Destructive: t.Destructive, Repeated: t.Repeated, Blocked: t.Blocked, Doubtful: t.Doubtful,
		Resumes: t.Resumes, InputTokens: t.InputTokens, OutputTokens: t.OutputTokens,
		Cost: t.Cost, Unpriced: t.Unpriced, Unmeasured: t.Unmeasured, FirstAt: t.FirstAt, LastAt: t.LastAt,
	}
}

// Calls implements ledger.Queries. Without All it merges the terminal rows with
// the rows that stand for calls still open, which run_folds names.
func (s *Store) Calls(ctx context.Context, f ledger.CallFilter) (list []ledger.CallRecord, err error) {
	limit := limitOf(f.Limit)
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		list = nil
		if f.All || f.Status == "" || terminalStatus(f.Status) {
			if list, err = recordedCalls(ctx, tx, f, limit); err != nil {
				return err
			}
		}
		if f.All || terminalStatus(f.Status) {
			return nil
		}
		open, err := openCalls(ctx, tx, f, limit)
		if err != nil {
			return err
		}
		list = append(list, open...)
		slices.SortFunc(list, func(a, b ledger.CallRecord) int { return -comparePlace(a.Run, a.Seq, b.Run, b.Seq) })
		list = list[:min(len(list), limit)]
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list tool calls: %w", err)
	}
	return list, nil
}

func terminalStatus(s string) bool {
	return s == "finished" || s == "error" || s == "blocked" || s == "resolved"
}

func comparePlace(r events.RunID, s uint64, q events.RunID, t uint64) int {
	if c := slices.Compare(r[:], q[:]); c != 0 {
		return c
	}
	switch {
	case s < t:
		return -1
	case s > t:
		return 1
	}
	return 0
}

// recordedCalls lists rows: the terminal ones, or all.
func recordedCalls(ctx context.Context, tx Tx, f ledger.CallFilter, limit int) ([]ledger.CallRecord, error) {
	var w where
	if !f.All {
		w.conditions = append(w.conditions, "c.terminal")
	}
	if f.Tenant != "" {
		w.add("c.tenant = $%d", f.Tenant)
	}
	if f.Owner != "" {
		w.add("c.owner = $%d", f.Owner)
	}
	if !f.Run.IsZero() {
		w.add("c.run_id = $%d", f.Run)
	}
	if f.Tool != "" {
		w.add("c.tool = $%d", f.Tool)
	}
	if f.Status != "" {
		w.add("c.status = $%d", f.Status)
	}
	if !f.OpKey.IsZero() {
		w.add("c.op_key = $%d", f.OpKey)
	}
	if !f.BeforeRun.IsZero() {
		w.add("(c.run_id, c.seq) < ($%d, $%d)", f.BeforeRun, f.BeforeSeq)
	}
	n := w.arg(limit)
	rows, err := tx.Query(ctx, `SELECT `+callColumns+` FROM tool_call_records c`+w.String()+fmt.Sprintf(` ORDER BY c.run_id DESC, c.seq DESC LIMIT $%d`, n), w.args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []ledger.CallRecord
	for rows.Next() {
		c, err := scanCall(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, rows.Err()
}

// openCalls lists the rows of calls without an outcome.
func openCalls(ctx context.Context, tx Tx, f ledger.CallFilter, limit int) ([]ledger.CallRecord, error) {
	var list []ledger.CallRecord
	first, before := firstID(f.Run), lastID(f.BeforeRun)
	if !f.Run.IsZero() {
		before = f.Run
	}
	for len(list) < limit {
		type openRun struct {
			run  events.RunID
			open []byte
		}
		var page []openRun
		rows, err := tx.Query(ctx, `SELECT run_id, open FROM run_folds WHERE length(open) > 0 AND run_id <= $1 AND run_id >= $2 ORDER BY run_id DESC LIMIT $3`, before, first, limit)
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			var o openRun
			if err := rows.Scan(&o.run, &o.open); err != nil {
				rows.Close()
				return nil, err
			}
			page = append(page, o)
		}
		err = rows.Err()
		rows.Close()
		if err != nil {
			return nil, err
		}
		for _, o := range page {
			seqs, err := ledger.OpenCalls(o.open)
			if err != nil {
				return nil, fmt.Errorf("run %s: %w", o.run, err)
			}
			for _, seq := range seqs {
				c, err := readCall(ctx, tx, o.run, seq)
				if errors.Is(err, ErrNoRows) {
					continue // verify says so; the others are still worth showing
				}
				if err != nil {
					return nil, err
				}
				if matches(c, f) {
					list = append(list, c)
				}
			}
		}
		if len(page) < limit {
			break
		}
		before = below(page[len(page)-1].run)
	}
	return list, nil
}

func matches(c ledger.CallRecord, f ledger.CallFilter) bool {
	return (f.Tenant == "" || c.Tenant == f.Tenant) && (f.Owner == "" || c.Owner == f.Owner) && (f.Tool == "" || c.Tool == f.Tool) && (f.Status == "" || c.Status == f.Status) &&
		(f.OpKey.IsZero() || c.OpKey == f.OpKey) && (f.BeforeRun.IsZero() || comparePlace(c.Run, c.Seq, f.BeforeRun, f.BeforeSeq) < 0)
}

// below is the id before r.
func below(r events.RunID) events.RunID {
	for i := len(r) - 1; i >= 0; i-- {
		r[i]--
		if r[i] != 0xff {
			break
		}
	}
	return r
}

// ModelCalls implements ledger.Queries.
func (s *Store) ModelCalls(ctx context.Context, run events.RunID) (list []ledger.ModelCallRow, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		list = nil
		rows, err := tx.Query(ctx, `SELECT `+modelColumns+` FROM model_calls m WHERE m.run_id = $1 ORDER BY m.seq`, run)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			m, err := scanModelCall(rows)
			if err != nil {
				return err
			}
			list = append(list, m)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list model calls of run %s: %w", run, err)
	}
	return list, nil
}

// Waiting implements ledger.Queries.
func (s *Store) Waiting(ctx context.Context, opKey events.Hash) ([]ledger.Run, error) {
	return s.listRuns(ctx, fmt.Sprintf("runs that wait for effect %s", opKey),
		`SELECT `+runColumns+` FROM runs r WHERE r.state = 'parked' AND r.park_key = $1 AND r.park_key IS NOT NULL ORDER BY r.id`, opKey)
}

// Pending implements ledger.Queries.
func (s *Store) Pending(ctx context.Context, run events.RunID) (fs []events.Fact, err error) {
	err = s.db.Read(ctx, func(ctx context.Context, tx Tx) error {
		fs, err = pendingFacts(ctx, tx, run)
		return err
	})
	return fs, err
}

// foldState reads where the fold of a run stands and what is wrong with it.
func foldState(ctx context.Context, tx Tx, run events.RunID) (text string, folded, top uint64, topAt time.Time, err error) {
	err = tx.QueryRow(ctx, `SELECT incomplete, folded_seq, top_seq, top_at FROM run_folds WHERE run_id = $1`, run).Scan(&text, &folded, &top, &topAt)
	if errors.Is(err, ErrNoRows) {
		err = nil
	}
	return text, folded, top, topAt, err
}
