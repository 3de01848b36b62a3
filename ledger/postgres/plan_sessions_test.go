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

// TestSessionPlans: whose turn it is in a long session is looked up, and the runs that
// have ended are not read; nor are those of others for the list of one owner.
func TestSessionPlans(t *testing.T) {
	d := explainedWrites{&explained{database: openTest(t, testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), migrate))}}
	err := d.database.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		for _, q := range []string{
			`INSERT INTO sessions (tenant, session_id, places, created_at, last_at) VALUES ('acme', 'long', 10000, now(), now())`,
			`INSERT INTO runs (id, tenant, queue, agent, owner, root_id, client_key, input_mac, input, created_at, due_at, state, ended_at, session_id, session_place)
				SELECT u, 'acme', 'q', 'a', 'o' || n % 1000, u, 'e' || n, '', '{}', now(), now(), 'finished', now(), 'long', n
				FROM (SELECT n, gen_random_uuid() u FROM generate_series(1, 10000) n) x`,
			`ANALYZE`,
		} {
			if _, err := tx.Exec(ctx, q); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := sqlstore.New(d, sqlstore.Config{Redactor: redact.New(redact.Config{})})
	input, err := redact.New(redact.Config{}).JSON("hello")
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := s.Submit(t.Context(), ledger.Submission{Tenant: "acme", Queue: "q", Agent: "a", ClientKey: "k", SessionID: "long", Continue: true, Input: input, InputMAC: []byte("mac")})
	if err != nil || run.SessionPlace != 10_001 || !run.BehindAt.IsZero() {
		t.Fatalf("%+v, %v", run, err)
	}
	looked := 0
	for _, p := range d.plans {
		if strings.Contains(p, "min(r.session_place)") {
			looked++
			if !strings.Contains(p, "runs_session_turn") {
				t.Errorf("whose turn it is says\n%s", p)
			}
		}
	}
	if looked == 0 {
		t.Error("nobody looked whose turn it is")
	}
	d.plans = nil
	if list, err := s.Summaries(t.Context(), ledger.RunFilter{Tenant: "acme", Owner: "o7"}); err != nil || len(list) != 10 {
		t.Fatalf("%d runs, %v", len(list), err)
	}
	if plan := strings.Join(d.plans, "\n"); !strings.Contains(plan, "runs_owner") {
		t.Errorf("the runs of an owner are listed by\n%s", plan)
	}
}

// TestRebuildWaitsForNobody: the costs of a day that are right are compared without the
// lock that keeps every projector from counting.
func TestRebuildWaitsForNobody(t *testing.T) {
	d := openTest(t, testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), migrate))
	s := sqlstore.New(d, sqlstore.Config{Redactor: redact.New(redact.Config{})})
	input, err := redact.New(redact.Config{}).JSON("hello")
	if err != nil {
		t.Fatal(err)
	}
	run, _, err := s.Submit(t.Context(), ledger.Submission{Tenant: "acme", Queue: "q", Agent: "a", ClientKey: "k", Input: input, InputMAC: []byte("mac")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // only if it waits
	defer cancel()
	// A projector that is counting has its rows, and holds off whoever wants the table.
	err = d.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		if _, err := tx.Exec(ctx, `UPDATE cost_days SET day = day`); err != nil {
			return err
		}
		return s.Rebuild(ctx, run.ID)
	})
	if err != nil {
		t.Error(err)
	}
}
