package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/redact"
)

// explainedWrites also explains what is read in order to write.
type explainedWrites struct{ *explained }

func (d explainedWrites) Write(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.database.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, explainedTx{tx, d.explained}) })
}

// fillQueue makes 40,000 queued runs of 20 tenants in 5 queues, some with
// priorities, beside 10,000 that have ended; a third of them is not due.
func fillQueue(ctx context.Context, tx sqlstore.Tx) error {
	for _, q := range []string{
		`INSERT INTO runs (id, tenant, queue, agent, root_id, client_key, input_mac, input, created_at, due_at, state, priority)
			SELECT u, 't' || n % 20, 'q' || n % 5, 'a', u, 'k' || n, '', '{}', now(), now() + CASE WHEN n % 3 = 0 THEN interval '1 day' ELSE interval '-1 hour' END, 'queued', n % 4
			FROM (SELECT n, gen_random_uuid() u FROM generate_series(1, 40000) n) x`,
		`INSERT INTO runs (id, tenant, queue, agent, root_id, client_key, input_mac, input, created_at, due_at, state, ended_at)
			SELECT u, 't' || n % 20, 'q' || n % 5, 'a', u, 'e' || n, '', '{}', now(), now(), 'finished', now()
			FROM (SELECT n, gen_random_uuid() u FROM generate_series(1, 10000) n) x`,
		`ANALYZE`,
	} {
		if _, err := tx.Exec(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

// TestClaimPlans: with 40,000 runs queued a claim looks things up, and reads
// neither the queue nor the runs that have ended.
func TestClaimPlans(t *testing.T) {
	d := explainedWrites{&explained{database: openTest(t, testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), migrate))}}
	if err := d.database.Write(t.Context(), fillQueue); err != nil {
		t.Fatal(err)
	}
	s := sqlstore.New(d, sqlstore.Config{Redactor: redact.New(redact.Config{})})
	ctx := t.Context()
	if err := s.LimitQueue(ctx, "q1", ledger.QueueLimit{MaxRunning: 1000, MaxPerKey: 5, Rate: 1000, Per: time.Minute}, "ann"); err != nil {
		t.Fatal(err)
	}
	for name, queues := range map[string][]string{"every queue": nil, "one queue": {"q3"}, "a limited queue": {"q1"}} {
		d.plans = nil
		cs, err := s.Claim(ctx, ledger.ClaimRequest{Worker: "w", Queues: queues, Limit: 16, TTL: time.Minute})
		if err != nil || len(cs) != 16 {
			t.Fatalf("%s: %d claims, %v", name, len(cs), err)
		}
		if len(d.plans) < 3 {
			t.Fatalf("%s: %d statements were explained", name, len(d.plans))
		}
		for _, p := range d.plans {
			if strings.Contains(p, "Seq Scan on runs") || strings.Contains(p, "JIT:") {
				t.Errorf("%s:\n%s", name, p)
			}
		}
	}
	if _, err := s.QueueStats(ctx, ""); err != nil {
		t.Error(err)
	}
}
