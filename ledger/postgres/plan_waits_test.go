package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/redact"
)

// fillWaiting makes 20,000 runs, of which 100 are held, and for each an approval,
// a hand-off and a budget with settled reservations; a few of all are open.
func fillWaiting(ctx context.Context, tx sqlstore.Tx) error {
	const id = `(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint + n), 12, '0') || lpad(to_hex(n), 20, '0'))::uuid`
	for _, q := range []string{
		`CREATE TEMP TABLE made AS SELECT n, ` + id + ` AS id FROM generate_series(1, 20000) n`,
		`INSERT INTO runs (id, tenant, queue, agent, owner, root_id, client_key, input_mac, input, created_at, due_at, state, lease_until, started_at, ended_at, dead_at)
			SELECT id, 't' || n % 10, 'q' || n % 5, 'a', 'o' || n % 50, id, 'k' || n, '', '{}', now(), now(), CASE WHEN n % 200 = 0 THEN 'running' ELSE 'failed' END,
			CASE WHEN n % 200 = 0 THEN now() + interval '1 hour' END, now(), CASE WHEN n % 200 <> 0 THEN now() END, CASE WHEN n % 300 = 1 THEN now() END FROM made`,
		`INSERT INTO approvals (id, run_id, turn, call_index, digest, state, expires_at, created_at, tenant, tool, arguments, tool_hash, policy)
			SELECT gen_random_uuid(), id, 1, 0, sha256('a'), CASE WHEN n % 200 = 0 THEN 'requested' ELSE 'consumed' END, now() + interval '1 day', now(), 't' || n % 10, 'refund', '{}', sha256('a'), sha256('a') FROM made`,
		`INSERT INTO handoffs (token, run_id, turn, call_index, call_attempt, tool, reason, state, created_at, completed_at)
			SELECT id, id, 1, 0, 1, 'survey', 'async_tool', CASE WHEN n % 200 = 0 THEN 'open' ELSE 'completed' END, now(), CASE WHEN n % 200 <> 0 THEN now() END FROM made`,
		`INSERT INTO signals (run_id, event_id, name, received_at) SELECT id, gen_random_uuid(), 'go', now() FROM made`,
		`INSERT INTO budgets (id, tenant, kind, name, period, limit_pico, set_by, set_at) SELECT id, 't' || n % 10, 'owner', 'o' || n, 'total', 1, 'ada', now() FROM made`,
		`INSERT INTO budget_periods (budget_id, day) SELECT id, '' FROM made`,
		`INSERT INTO budget_reservations (attempt_id, budget_id, day, run_id, epoch, what, amount_pico, actual_pico, state, created_at)
			SELECT gen_random_uuid(), id, '', id, 1, 'model', 1, CASE WHEN n % 1000 <> 0 THEN 1 END, CASE WHEN n % 1000 = 0 THEN 'unsettled' ELSE 'settled' END, now() FROM made`,
		`INSERT INTO operator_acts (kind, name, verb, by_whom, at) SELECT 'queue', 'q' || n % 50, 'limit', 'ada', now() FROM made`,
		`INSERT INTO switches (seq, tenant, tool, mode, set_by, reason, set_at) SELECT n, 't' || n % 10, 'tool' || n % 100, CASE WHEN n > 19995 THEN 'off' ELSE 'on' END, 'ada', 'x', now() FROM made`,
		`INSERT INTO queue_limits (queue, rate_count, rate_micros) VALUES ('q1', 100, 60000000)`,
		`INSERT INTO queue_starts (queue, started_at, run_id) SELECT 'q1', now() - make_interval(secs => n), id FROM made`,
		`ANALYZE`,
	} {
		if _, err := tx.Exec(ctx, q); err != nil {
			return fmt.Errorf("%.60s: %w", q, err)
		}
	}
	return nil
}

// TestPlansOfWhatWaits: nothing that ledgerctl lists of what waits, or asks to
// explain a run, reads a table from end to end, however much has been decided before;
// nor do costs since a time. hatchet-dev/hatchet#4930: a statistic that counted rows
// saturated the database.
func TestPlansOfWhatWaits(t *testing.T) {
	d := &explained{database: openTest(t, testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), migrate))}
	if err := d.Write(t.Context(), fillWaiting); err != nil {
		t.Fatal(err)
	}
	s := sqlstore.New(d, sqlstore.Config{Redactor: redact.New(redact.Config{})})
	var run events.RunID
	err := d.database.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		return tx.QueryRow(ctx, `SELECT id FROM runs WHERE client_key = 'k10000'`).Scan(&run)
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	open := []ledger.HandoffState{ledger.HandoffOpen}
	for name, ask := range map[string]func() error{
		"open approvals":        func() error { _, err := s.Approvals(ctx, ledger.ApprovalFilter{Open: true}); return err },
		"how many wait":         func() error { _, err := s.Vitals(ctx); return err },
		"open, of a tenant":     func() error { _, err := s.Approvals(ctx, ledger.ApprovalFilter{Open: true, Tenant: "t3"}); return err },
		"approvals of a run":    func() error { _, err := s.Approvals(ctx, ledger.ApprovalFilter{Run: run}); return err },
		"all approvals":         func() error { _, err := s.Approvals(ctx, ledger.ApprovalFilter{Limit: 50}); return err },
		"every change of tools": func() error { _, err := s.Switches(ctx, ledger.SwitchFilter{All: true, After: 10_000}); return err },
		"open hand-offs":        func() error { _, err := s.Handoffs(ctx, ledger.HandoffFilter{States: open}); return err },
		"hand-offs of a run":    func() error { _, err := s.Handoffs(ctx, ledger.HandoffFilter{Run: run}); return err },
		"all hand-offs":         func() error { _, err := s.Handoffs(ctx, ledger.HandoffFilter{After: events.ID(run)}); return err },
		"budgets":               func() error { _, err := s.Budgets(ctx, ledger.BudgetFilter{Limit: 50}); return err },
		"budget of an owner": func() error {
			_, err := s.Budgets(ctx, ledger.BudgetFilter{Tenant: "t3", Kind: ledger.BudgetOwner, Name: "o3"})
			return err
		},
		"budgets, next page": func() error {
			_, err := s.Budgets(ctx, ledger.BudgetFilter{Limit: 50, After: ledger.BudgetKey{Tenant: "t3", Kind: ledger.BudgetOwner, Name: "o3", Period: ledger.PerTotal}})
			return err
		},
		"open reservations": func() error { _, err := s.OpenReservations(ctx, ledger.BudgetFilter{Limit: 50}); return err },
		"acts on a queue":   func() error { _, err := s.Acts(ctx, "queue", "q1", 100); return err },
		"holders":           func() error { _, err := s.Holders(ctx, "q1", 100); return err },
		"dead runs":         func() error { _, err := s.Dead(ctx, ledger.DeadFilter{Limit: 50}); return err },
		"costs since a day": func() error {
			_, err := s.Costs(ctx, ledger.CostFilter{Since: time.Now().Add(time.Hour), Tenant: "t3"})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) { d.bounded(t, ask) })
	}
	t.Run("runs without a lease", func(t *testing.T) {
		d.plans = nil
		if _, err := s.Stuck(ctx, ledger.StuckFilter{}); err != nil {
			t.Fatal(err)
		}
		for _, p := range d.plans {
			if strings.Contains(p, "r.lease_until IS NULL") && !strings.Contains(p, "runs_leaseless") {
				t.Errorf("they are looked for by\n%s", p)
			}
		}
	})
}
