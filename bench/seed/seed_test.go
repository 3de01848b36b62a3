package main

import (
	"context"
	"crypto/sha256"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

var lastDay = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func seeded(t *testing.T, runs int) (path string, st *sqlstore.Store) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "ledger.db")
	if _, err := fill(t.Context(), path, plan{runs: runs, seed: 1, until: lastDay, days: 20}, func(tally) {}); err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Store: sqlstore.Config{Redactor: redact.New(redact.Config{})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return path, st
}

// digest is over every event of a ledger, in order.
func digest(t *testing.T, st *sqlstore.Store) (sum [32]byte) {
	t.Helper()
	h := sha256.New()
	err := st.DB().Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		rows, err := tx.Query(ctx, `SELECT hash FROM events ORDER BY run_id, seq`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var e events.Hash
			if err := rows.Scan(&e); err != nil {
				return err
			}
			h.Write(e[:])
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return [32]byte(h.Sum(nil))
}

func TestTheSameSeedMakesTheSameLedger(t *testing.T) {
	_, a := seeded(t, 60)
	_, b := seeded(t, 60)
	if digest(t, a) != digest(t, b) {
		t.Error("two ledgers of one seed differ")
	}
}

// TestSeededLedger: what fill makes is whole, has a run in every state that the
// measurements ask for, and is the same in PostgreSQL.
func TestSeededLedger(t *testing.T) {
	path, st := seeded(t, 1500)
	whole(t, st)
	states(t, st)
	dsn := testenv.Postgres(t)
	if _, err := copyLedger(t.Context(), path, dsn, func(string, int64) {}); err != nil {
		t.Fatal(err)
	}
	pg, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Store: sqlstore.Config{Redactor: redact.New(redact.Config{})}})
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	whole(t, pg)
	if digest(t, st) != digest(t, pg) {
		t.Error("the copy in PostgreSQL has other events")
	}
	for _, by := range []string{"", "day", "tool", "owner"} {
		lite, lerr := st.Costs(t.Context(), ledger.CostFilter{By: by})
		copied, perr := pg.Costs(t.Context(), ledger.CostFilter{By: by})
		if lerr != nil || perr != nil {
			t.Fatal(lerr, perr)
		}
		if d := cmp.Diff(amounts(lite), amounts(copied)); d != "" {
			t.Errorf("costs by %q differ: in SQLite -, in PostgreSQL +\n%s", by, d)
		}
	}
	// A run that is submitted to the copy gets on: sequences stand where they should.
	if _, err := pg.Cancel(t.Context(), queued(t, pg), "ada", "only to see"); err != nil {
		t.Error(err)
	}
	for name, args := range map[string][]string{"SQLite": {"-ledger", path}, "PostgreSQL": {"-ledger", dsn}} {
		if err := measureCommand(t.Context(), append(args, "-n", "1"), io.Discard, t.Output()); err != nil {
			t.Errorf("measure in %s: %v", name, err)
		}
	}
}

func amounts(rows []ledger.CostRow) map[string]string {
	m := map[string]string{}
	for _, r := range rows {
		m[r.Key] = r.ModelCost.String() + " " + r.ToolCost.String()
	}
	return m
}

func whole(t *testing.T, st ledger.Store) {
	t.Helper()
	r, err := st.Verify(t.Context(), events.RunID{}, func(f ledger.Finding) error {
		if f.Kind != ledger.Note {
			t.Errorf("%s: run %s seq %d: %s", f.Kind, f.Run, f.Seq, f.Text)
		}
		return nil
	})
	if err != nil || r.Runs < 1000 || r.Events < 30*r.Runs {
		t.Errorf("verified %+v, %v", r, err)
	}
}

func queued(t *testing.T, st ledger.Store) events.RunID {
	t.Helper()
	list, err := st.Summaries(t.Context(), ledger.RunFilter{States: []ledger.State{ledger.Queued}, Limit: 1})
	if err != nil || len(list) == 0 {
		t.Fatalf("queued: %v, %v", list, err)
	}
	return list[0].ID
}

func states(t *testing.T, st *sqlstore.Store) {
	t.Helper()
	for what, q := range map[string]string{
		"run that finished":         `SELECT count(*) FROM runs WHERE state = 'finished'`,
		"dead run":                  `SELECT count(*) FROM runs WHERE dead_at IS NOT NULL`,
		"cancelled run":             `SELECT count(*) FROM runs WHERE state = 'cancelled'`,
		"run that is held":          `SELECT count(*) FROM runs WHERE state = 'running'`,
		"run parked for a signal":   `SELECT count(*) FROM runs WHERE state = 'parked' AND park_reason = 'signal'`,
		"run parked for an answer":  `SELECT count(*) FROM runs WHERE state = 'parked' AND park_reason = 'approval'`,
		"child":                     `SELECT count(*) FROM runs WHERE parent_id IS NOT NULL AND state = 'finished'`,
		"fork":                      `SELECT count(*) FROM runs WHERE fork_of IS NOT NULL AND state = 'finished'`,
		"retry":                     `SELECT count(*) FROM runs WHERE retry_of IS NOT NULL AND state = 'finished'`,
		"takeover":                  `SELECT count(*) FROM runs WHERE epoch = 2 AND state = 'finished' AND crashes = 0`,
		"effect that was applied":   `SELECT count(*) FROM effects WHERE state = 'applied'`,
		"effect that was resolved":  `SELECT count(*) FROM effects WHERE settled_by = 'ada'`,
		"open approval":             `SELECT count(*) FROM approvals WHERE state = 'requested'`,
		"denied approval":           `SELECT count(*) FROM approvals WHERE state = 'denied'`,
		"refused artifact":          `SELECT count(*) FROM artifact_versions WHERE verdict = 'refused'`,
		"model call without price":  `SELECT count(*) FROM model_calls WHERE state = 'finished' AND cost_pico IS NULL`,
		"model call without answer": `SELECT count(*) FROM model_calls WHERE state = 'error'`,
		"blocked call":              `SELECT count(*) FROM tool_call_records WHERE status = 'blocked'`,
		"failed call":               `SELECT count(*) FROM tool_call_records WHERE status = 'error'`,
		"call still open":           `SELECT count(*) FROM run_folds WHERE length(open) > 0`,
	} {
		var n int
		err := st.DB().Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error { return tx.QueryRow(ctx, q).Scan(&n) })
		if err != nil || n == 0 {
			t.Errorf("no %s: %v", what, err)
		}
	}
}
