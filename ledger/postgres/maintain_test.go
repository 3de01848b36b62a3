package postgres

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
)

// TestStatisticsOfPartitionedTables: autovacuum never analyzes a partitioned
// table itself, so maintenance does, also when one has grown since it was
// analyzed while it was empty; and plans are made from it.
// hatchet-dev/hatchet#5005
func TestStatisticsOfPartitionedTables(t *testing.T) {
	d := openTest(t, testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), migrate))
	all := []string{"analyzed events", "analyzed tool_call_records", "analyzed model_calls"}
	maintain := func(want ...string) {
		t.Helper()
		done, err := d.Maintain(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range all {
			if slices.Contains(done, what) != slices.Contains(want, what) {
				t.Errorf("maintenance did %q, want %q", done, want)
			}
		}
	}
	maintain(all...)
	maintain() // a moment ago
	if err := d.Write(t.Context(), fillRows); err != nil {
		t.Fatal(err)
	}
	if n := d.groups(t); n != 200 {
		t.Fatalf("void: without statistics of the parent the planner expects %v tools, not its default of 200", n)
	}
	waitCounted(t, d)
	maintain(all...)
	for _, parent := range []string{"events", "tool_call_records", "model_calls"} {
		var n int
		err := d.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
			return tx.QueryRow(ctx, `SELECT count(*) FROM pg_stats WHERE tablename = $1 AND inherited`, parent).Scan(&n)
		})
		if err != nil || n == 0 {
			t.Errorf("%s has statistics of %d columns, %v", parent, n, err)
		}
	}
	if n := d.groups(t); n != 3 {
		t.Errorf("the planner expects %v tools, want 3", n)
	}
	maintain()
}

// waitCounted waits until the server has counted the rows: a session tells of
// them about a second after it has committed.
func waitCounted(t *testing.T, d *database) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		var n int64
		err := d.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
			return tx.QueryRow(ctx, `SELECT min(n) FROM (SELECT sum(n_live_tup) AS n FROM pg_stat_user_tables
				WHERE relname ~ '^(events|tool_call_records|model_calls)_' GROUP BY left(relname, 5)) c`).Scan(&n)
		})
		switch {
		case err != nil:
			t.Fatal(err)
		case n >= 40_000:
			return
		case time.Now().After(deadline):
			t.Fatalf("the server has counted %d rows", n)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// groups is how many different tools the planner expects among all calls.
func (d *database) groups(t *testing.T) float64 {
	t.Helper()
	var b []byte
	err := d.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		return tx.QueryRow(ctx, `EXPLAIN (FORMAT JSON) SELECT tool FROM tool_call_records GROUP BY tool`).Scan(&b)
	})
	if err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan struct {
			Rows float64 `json:"Plan Rows"`
		} `json:"Plan"`
	}
	if err := json.Unmarshal(b, &plans); err != nil || len(plans) != 1 {
		t.Fatalf("%v: %s", err, b)
	}
	return plans[0].Plan.Rows
}
