package memorydb_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/tools/memory"
)

// explained explains every statement that is read.
type explained struct {
	sqlstore.DB
	how     string
	columns int // of a plan; the last is its text
	plans   []string
}

func (d *explained) Read(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.DB.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, explainedTx{tx, d}) })
}

type explainedTx struct {
	sqlstore.Tx
	d *explained
}

func (t explainedTx) Query(ctx context.Context, q string, args ...any) (sqlstore.Rows, error) {
	rows, err := t.Tx.Query(ctx, t.d.how+" "+q, args...)
	if err != nil {
		return nil, err
	}
	plan := []string{q}
	for rows.Next() {
		line := make([]any, t.d.columns)
		to := make([]any, len(line))
		for i := range line {
			to[i] = &line[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		plan = append(plan, fmt.Sprint(line[len(line)-1]))
	}
	rows.Close()
	t.d.plans = append(t.d.plans, strings.Join(plan, "\n"))
	return t.Tx.Query(ctx, q, args...)
}

func (t explainedTx) QueryRow(ctx context.Context, q string, args ...any) sqlstore.Row {
	r, err := t.Query(ctx, q, args...)
	return sqlstore.First(r, err)
}

// TestPlans: what a root asks for is found through indexes that begin with the
// tenant and hold the gate; no table is read from end to end.
func TestPlans(t *testing.T) {
	r := redact.New(redact.Config{})
	st := openPostgres(t, r)
	for _, q := range []string{
		`INSERT INTO memory_notes (locus, tenant, root, context_id, kind, source, text, details, links, created_at)
			SELECT gen_random_uuid(), CASE WHEN n % 10 = 0 THEN 'b' ELSE 'a' END, 'user:' || n % 501, 'topic:' || n % 50, 'fact', 'user', repeat('x', 200), '{}', '{}', now()
			FROM generate_series(1, 30000) n`,
		`INSERT INTO memory_gates (tenant, gate, context_id, note_id) SELECT tenant, root, context_id, id FROM memory_notes`,
		`INSERT INTO memory_words (tenant, word, gate, note_id, believed) SELECT tenant, 'everybody', root, id, 70 FROM memory_notes
			UNION ALL SELECT tenant, 'word' || w * 250 + id * w % 250, root, id, 70 FROM memory_notes, generate_series(1, 8) w`,
		`INSERT INTO memory_links (tenant, from_context, gate, note_id, position, root, kind, to_context)
			SELECT tenant, context_id, root, id, 0, root, 'extends', root FROM memory_notes
			UNION ALL SELECT tenant, context_id, root, id, 1, root, 'related_to', 'topic:' || id % 7 FROM memory_notes
			UNION ALL SELECT tenant, root, 'team:all', -id, 0, '', 'extends', 'team:all' FROM memory_notes WHERE id <= 501`,
		`INSERT INTO memory_holders (tenant, owner, note_id) SELECT tenant, 'o' || id % 100, id FROM memory_notes`,
		`ANALYZE`,
	} {
		exec(t, st, q)
	}
	planned(t, &explained{DB: st.DB(), how: "EXPLAIN", columns: 1}, regexp.MustCompile(`Seq Scan on memory_`))
}

// TestPlansSQLite: the same, without statistics, which nobody makes there.
func TestPlansSQLite(t *testing.T) {
	r := redact.New(redact.Config{})
	st := openSQLite(t, r)
	crowd(t, memoryIn(t, st, r), "a", 10, 30)
	planned(t, &explained{DB: st.DB(), how: "EXPLAIN QUERY PLAN", columns: 4}, regexp.MustCompile(`SCAN (?:memory_|[glnw] )|SEARCH (?:memory_\w+|[glnw]) .*\(tenant=\?\)`))
}

// planned fails if one of the plans is as bad says.
func planned(t *testing.T, d *explained, bad *regexp.Regexp) {
	t.Helper()
	m, err := memorydb.New(d, memorydb.Config{Redactor: redact.New(redact.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range asks(m, memory.Scope{Tenant: "a", Root: "user:3"}) {
		t.Run(a.name, func(t *testing.T) {
			d.plans = nil
			_ = a.ask(t) // what it finds is another test's
			if len(d.plans) < 2 {
				t.Fatalf("%d plans", len(d.plans))
			}
			for _, p := range d.plans {
				if bad.MatchString(p) {
					t.Errorf("reads what is not its root's:\n%s", p)
				}
			}
		})
	}
}
