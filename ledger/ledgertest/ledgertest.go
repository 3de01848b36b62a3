// Package ledgertest holds the promises that every ledger database keeps, as
// tests: an adapter's own test is one call.
package ledgertest

import (
	"context"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// Store is what the suite tests.
type Store interface {
	ledger.Runs
	ledger.Forks
	ledger.Queues
	ledger.Schedules
	ledger.Holds
	ledger.DeadLetters
	ledger.Barriers
	ledger.Effects
	ledger.Approvals
	ledger.Switches
	ledger.Handoffs
	ledger.Children
	ledger.Signals
	ledger.Budgets
	ledger.Seals
	ledger.Archive
	ledger.Queries
	ledger.Artifacts
	ledger.ToolUses
	ledger.Projection
	ledger.Verifier
	ledger.Rollbacks
	ledger.Reconciliation
	ledger.Watchdog
	ledger.Vital
	ledger.Maintenance
	ledger.Unreadables
	ledger.Relations
	ledger.Sessions
	ledger.Snapshots
}

// Harness is a migrated, empty ledger and what a test may do behind its back.
type Harness struct {
	Store Store
	// DB is the same database, for SQL that no store would do.
	DB sqlstore.DB
	// Advance moves the database's clock forward.
	Advance func(d time.Duration)
	// Again takes one step of the schema back and forward again.
	Again func(version int64) error
}

// Test runs the suite; open makes a ledger of its own for each test.
func Test(t *testing.T, open func(t *testing.T) Harness) {
	for _, g := range []struct {
		name  string
		tests []conformance
	}{
		{"runs", runTests},
		{"claims", claimTests},
		{"takeover", takeoverTests},
		{"barriers", barrierTests},
		{"runs", runTests},
		{"claims", claimTests},
		{"takeover", takeoverTests},
		{"barriers", barrierTests},
		{"approvals", approvalTests},
		{"switches", switchTests},
		{"gates", gateTests},
		{"handoffs", handoffTests},
		{"signals", signalTests},
		{"children", childTests},
		{"forks", forkTests},
		{"budgets", budgetTests},
		{"queue", queueTests},
		{"schedules", scheduleTests},
		{"pause", pauseTests},
		{"retry", retryTests},
		{"seals", sealTests},
		{"reconcile", reconcileTests},
		{"watchdog", watchdogTests},
		{"relations", relationTests},
		{"sessions", sessionTests},
	} {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.tests {
				t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
			}
		})
	}
	t.Run("runs against a model", func(t *testing.T) { testRunsProperty(t, open(t)) })
	t.Run("effects", func(t *testing.T) { TestEffects(t, open) })
	t.Run("linear", func(t *testing.T) { testLinear(t, open(t)) })
}

type conformance struct {
	name string
	test func(t *testing.T, h Harness)
}

// sql runs one statement, in PostgreSQL's dialect.
func (h Harness) sql(t tb, q string, args ...any) int64 {
	t.Helper()
	var n int64
	err := h.DB.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) (err error) {
		n, err = tx.Exec(ctx, q, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return n
}

// count runs a query that returns one number.
func (h Harness) count(t tb, q string, args ...any) (n int) {
	t.Helper()
	err := h.DB.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		return tx.QueryRow(ctx, q, args...).Scan(&n)
	})
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return n
}

// archived is how many events of a run the archive has.
func (h Harness) archived(t tb, run events.RunID) int {
	t.Helper()
	return h.count(t, `SELECT count(*) FROM events WHERE run_id = $1`, run)
}

// arrive puts events into the archive as the projector would.
func (h Harness) arrive(t tb, es ...events.Sealed) {
	t.Helper()
	for _, e := range es {
		v := e.Envelope()
		h.sql(t, `INSERT INTO run_folds (run_id) VALUES ($1) ON CONFLICT DO NOTHING`, v.RunID)
		h.sql(t, `
			INSERT INTO events (run_id, seq, epoch, event_id, type, version, time, tenant, session_id, trace, prev, hash, bytes)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
			v.RunID, v.Seq, v.Epoch, v.ID, v.Type, v.Version, v.Time, v.Tenant, v.SessionID, v.Trace, v.Prev, e.Hash(), e.Bytes())
		h.sql(t, `UPDATE run_folds SET top_seq = $2 WHERE run_id = $1 AND top_seq < $2`, v.RunID, v.Seq)
	}
}

// state reads a run.
func (h Harness) state(t tb, run events.RunID) ledger.Run {
	t.Helper()
	r, err := h.Store.Run(t.Context(), run)
	if err != nil {
		t.Fatalf("read run: %v", err)
	}
	return r
}
