package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/redact"
)

// explained is a database that explains every statement it is asked to read.
type explained struct {
	*database
	mu    sync.Mutex
	plans []string
}

func (d *explained) Read(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.database.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, explainedTx{tx, d}) })
}

type explainedTx struct {
	sqlstore.Tx
	d *explained
}

func (t explainedTx) Query(ctx context.Context, q string, args ...any) (sqlstore.Rows, error) {
	rows, err := t.Tx.Query(ctx, "EXPLAIN "+q, args...)
	if err != nil {
		return nil, err
	}
	plan := []string{q}
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		plan = append(plan, s)
	}
	rows.Close()
	t.d.mu.Lock()
	t.d.plans = append(t.d.plans, strings.Join(plan, "\n"))
	t.d.mu.Unlock()
	return t.Tx.Query(ctx, q, args...)
}

func (t explainedTx) QueryRow(ctx context.Context, q string, args ...any) sqlstore.Row {
	r, err := t.Query(ctx, q, args...)
	return sqlstore.First(r, err)
}

// fill is fillRows, with statistics.
func fill(ctx context.Context, tx sqlstore.Tx) error {
	if err := fillRows(ctx, tx); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, `ANALYZE`)
	return err
}

// fillRows makes 20,000 runs over two months, 2,000 of them with 20 events each.
func fillRows(ctx context.Context, tx sqlstore.Tx) error {
	id := func(n string) string {
		return `(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint + (` + n + ` % 2) * 2000000000 + ` + n + `), 12, '0') || lpad(to_hex(` + n + `), 20, '0'))::uuid`
	}
	for _, q := range []string{
		`CREATE TEMP TABLE made AS SELECT n, ` + id("n") + ` AS id FROM generate_series(1, 20000) n`,
		`INSERT INTO runs (id, tenant, queue, agent, owner, root_id, client_key, input_mac, input, created_at, due_at, state, park_reason, park_key)
			SELECT id, 't' || n % 10, 'q', 'a', 'o' || n % 50, id, 'k' || n, '', '{}', now(), now(), CASE WHEN n % 300 = 0 THEN 'parked' ELSE 'running' END,
			CASE WHEN n % 300 = 0 THEN 'effect_busy' ELSE '' END, CASE WHEN n % 300 = 0 THEN decode(lpad(to_hex(n), 64, '0'), 'hex') END FROM made`,
		`INSERT INTO run_folds (run_id, top_seq, folded_seq, fed_seq, top_at, open)
			SELECT id, 20, CASE WHEN n % 100 = 0 THEN 19 ELSE 20 END, CASE WHEN n % 100 = 1 THEN 18 ELSE CASE WHEN n % 100 = 0 THEN 19 ELSE 20 END END, now() - interval '1 hour',
			CASE WHEN n % 50 = 0 THEN convert_to('{"calls":[{"t":1,"i":1,"s":[1]}]}', 'UTF8') ELSE '' END FROM made`,
		`INSERT INTO events (run_id, seq, epoch, event_id, type, version, time, tenant, prev, hash, bytes)
			SELECT id, s, 1, gen_random_uuid(), 'turn_started', 1, now(), 't' || n % 10, sha256('a'), sha256('b'), '{}' FROM made, generate_series(1, 20) s WHERE n <= 2000`,
		`INSERT INTO tool_call_records (run_id, seq, tenant, owner, turn, call_index, attempt, status, terminal, tool, op_key, at)
			SELECT id, s, 't' || n % 10, 'o' || n % 50, 1, s, 1, CASE s % 2 WHEN 0 THEN 'finished' ELSE 'started' END, s % 2 = 0, 'tool' || s % 3,
			CASE WHEN s % 7 = 0 THEN sha256((n || ':' || s)::bytea) END, now() FROM made, generate_series(1, 20) s WHERE n <= 2000`,
		`INSERT INTO model_calls (run_id, seq, tenant, owner, turn, attempt, epoch, state, model, at)
			SELECT id, s, 't' || n % 10, 'o' || n % 50, s, 1, 1, 'finished', 'm', now() FROM made, generate_series(1, 20) s WHERE n <= 2000`,
		`INSERT INTO artifact_versions (run_id, seq, tenant, name, revision, turn, verdict, validator, issues, bytes, at)
			SELECT id, 9, 't' || n % 500, 'n' || n % 500, 0, 1, CASE n % 500 WHEN 0 THEN 'refused' ELSE 'accepted' END, '', '[]', 0, now() FROM made`,
		`INSERT INTO run_summaries (run_id, tenant, agent, first_at, last_at) SELECT id, 't' || n % 10, 'a', now(), now() FROM made`,
		`INSERT INTO facts (run_id, event_id, type, version, data, created_at) SELECT id, gen_random_uuid(), 'x', 1, '{}', now() FROM made`,
		`INSERT INTO run_epochs (run_id, epoch, base_seq, base_hash, worker, created_at) SELECT id, 1, 0, sha256('a'), 'w', now() FROM made`,
	} {
		if _, err := tx.Exec(ctx, q); err != nil {
			return fmt.Errorf("%.60s: %w", q, err)
		}
	}
	return nil
}

// scanOf finds sequential scans, but not those of empty tables, which cost nothing.
var scanOf = regexp.MustCompile(`Seq Scan on (\w+)[^(]*\(cost=0\.00\.\.(?:[1-9]|0\.[1-9]|0\.0[1-9])`)

// TestPlans: no listing reads a big table from end to end.
// PrefectHQ/prefect#22876
func TestPlans(t *testing.T) {
	d := &explained{database: openTest(t, testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), migrate))}
	if err := d.Write(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	s := sqlstore.New(d, sqlstore.Config{Redactor: redact.New(redact.Config{})})
	var run events.RunID
	var key events.Hash
	err := d.database.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		return tx.QueryRow(ctx, `SELECT run_id, op_key FROM tool_call_records WHERE op_key IS NOT NULL ORDER BY run_id DESC OFFSET 3000 LIMIT 1`).Scan(&run, &key)
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, ask := range map[string]func() error{
		"runs":             func() error { _, err := s.Summaries(ctx, ledger.RunFilter{}); return err },
		"runs of a tenant": func() error { _, err := s.Summaries(ctx, ledger.RunFilter{Tenant: "t3", Before: run}); return err },
		"runs in a state": func() error {
			_, err := s.Summaries(ctx, ledger.RunFilter{States: []ledger.State{ledger.Running}})
			return err
		},
		"calls":            func() error { _, err := s.Calls(ctx, ledger.CallFilter{}); return err },
		"calls, next page": func() error { _, err := s.Calls(ctx, ledger.CallFilter{BeforeRun: run, BeforeSeq: 9}); return err },
		"calls of a tenant": func() error {
			_, err := s.Calls(ctx, ledger.CallFilter{Tenant: "t3", BeforeRun: run, BeforeSeq: 9})
			return err
		},
		"calls of a run":     func() error { _, err := s.Calls(ctx, ledger.CallFilter{Run: run, All: true}); return err },
		"calls of an effect": func() error { _, err := s.Calls(ctx, ledger.CallFilter{OpKey: key}); return err },
		"calls of a tool":    func() error { _, err := s.Calls(ctx, ledger.CallFilter{Tenant: "t3", Tool: "tool2"}); return err },
		"open calls":         func() error { _, err := s.Calls(ctx, ledger.CallFilter{Tenant: "t3", Status: "started"}); return err },
		"model calls":        func() error { _, err := s.ModelCalls(ctx, run); return err },
		"descendants":        func() error { _, err := s.Descendants(ctx, run, 0); return err },
		"costs of a run":     func() error { _, err := s.Costs(ctx, ledger.CostFilter{Run: run}); return err },
		"costs of a lineage": func() error { _, err := s.Costs(ctx, ledger.CostFilter{Run: run, Lineage: true}); return err },
		"waiting":            func() error { _, err := s.Waiting(ctx, events.Hash{31: 1}); return err },
		"pending":            func() error { _, err := s.Pending(ctx, run); return err },
		"unfed":              func() error { _, _ = s.Unfed(ctx, 100); return nil },
		"behind":             func() error { _, _ = s.FoldBehind(ctx, time.Second, 10); return nil },
		"verify":             func() error { _, err := s.Verify(ctx, run, func(ledger.Finding) error { return nil }); return err },
	} {
		t.Run(name, func(t *testing.T) { d.bounded(t, ask) })
	}
	t.Run("artifacts", func(t *testing.T) { d.artifacts(t, s) })
	t.Run("costs", func(t *testing.T) { d.costs(t, s) })
	t.Run("calls of a tool that is seldom called", func(t *testing.T) {
		d.bounded(t, func() error { _, err := s.Calls(ctx, ledger.CallFilter{Tool: "tool9", Status: "finished"}); return err })
		if plan := strings.Join(d.plans, "\n"); !strings.Contains(plan, "tool_run_id_seq_idx") {
			t.Errorf("it is answered by\n%s", plan)
		}
	})
}

// Sums over all runs, or over whole days, read no calls.
func (d *explained) costs(t *testing.T, s *sqlstore.Store) {
	day := time.Now().UTC().Truncate(24 * time.Hour)
	for _, by := range []string{"", "day", "agent", "queue", "owner", "model", "tool"} {
		for _, f := range []ledger.CostFilter{{By: by}, {By: by, Tenant: "t3"}, {By: by, Since: day}, {By: by, Since: day.AddDate(0, 0, -30), Until: day}, {By: by, Owner: "o3"}} {
			if f.Owner != "" && (by == "model" || by == "tool") {
				continue // these are read from the calls of the owner's runs
			}
			d.plans = nil
			if _, err := s.Costs(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			if plan := strings.Join(d.plans, "\n"); len(d.plans) != 1 || !strings.Contains(plan, "cost_days") || strings.Contains(plan, "_calls ") || strings.Contains(plan, "call_records") {
				t.Errorf("%+v is answered by\n%s", f, plan)
			}
		}
	}
}

// A list of artifacts by tenant, name or verdict reads the rows of its index alone.
func (d *explained) artifacts(t *testing.T, s *sqlstore.Store) {
	for index, f := range map[string]ledger.ArtifactFilter{
		"artifact_versions_tenant": {Tenant: "t7"}, "artifact_versions_name": {Name: "n7"}, "artifact_versions_verdict": {Verdict: ledger.VersionRefused},
	} {
		d.bounded(t, func() error { _, err := s.Artifacts(t.Context(), f); return err })
		if plan := strings.Join(d.plans, "\n"); !strings.Contains(plan, "using "+index) && !strings.Contains(plan, "on "+index) {
			t.Errorf("%+v is answered by\n%s", f, plan)
		}
	}
}

// bounded fails if what ask reads is read from end to end.
func (d *explained) bounded(t *testing.T, ask func() error) {
	t.Helper()
	d.plans = nil
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	if len(d.plans) == 0 {
		t.Fatal("nothing was explained")
	}
	for _, p := range d.plans {
		for _, m := range scanOf.FindAllStringSubmatch(p, -1) {
			t.Errorf("reads %s from end to end:\n%s", m[1], p)
		}
	}
}
