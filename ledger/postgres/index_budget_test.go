package postgres

import (
	"context"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
)

// indexBudget is how many indexes a big table may have, its key among them, and
// how large they may be together, in percent of the table: who adds one raises it
// here, on purpose. (Partial indexes of what is open hold nearly nothing.)
var indexBudget = map[string]struct{ count, percent int }{
	"events":            {2, 15},
	"tool_call_records": {4, 30},
	"model_calls":       {1, 35},
	"run_summaries":     {1, 20},
	"runs":              {22, 15},
}

// TestIndexBudget: temporalio/temporal#10145, a table of 463 MB with 8,282 MB of indexes.
// Rows are as long as those of short calls; longer ones make the share smaller.
func TestIndexBudget(t *testing.T) {
	d := openTest(t, testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), migrate))
	const kilobyte = `repeat(md5(n::text), 32)`
	const id = `(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint + n), 12, '0') || lpad(to_hex(n), 20, '0'))::uuid`
	err := d.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		for _, q := range []string{
			`CREATE TEMP TABLE made AS SELECT n, ` + id + ` AS id FROM generate_series(1, 20000) n`,
			`INSERT INTO runs (id, tenant, queue, agent, owner, session_id, root_id, client_key, input_mac, input, created_at, due_at, state, started_at, ended_at, worker, trace)
				SELECT id, 't' || n % 10, 'q', 'refunds', 'o' || n % 50, 's' || n % 500, id, 'order-' || n, sha256('a'), to_json(` + kilobyte + `), now(), now(),
				CASE WHEN n % 100 = 0 THEN 'queued' ELSE 'finished' END, now(), CASE WHEN n % 100 <> 0 THEN now() END, 'worker-1', repeat('0', 55) FROM made`,
			`INSERT INTO run_summaries (run_id, tenant, agent, owner, state, first_at, last_at) SELECT id, 't' || n % 10, 'refunds', 'o' || n % 50, 'finished', now(), now() FROM made`,
			`INSERT INTO events (run_id, seq, epoch, event_id, type, version, time, tenant, session_id, trace, prev, hash, bytes)
				SELECT id, s, 1, gen_random_uuid(), 'tool_execution_finished', 1, now(), 't' || n % 10, 's' || n % 500, repeat('0', 55), sha256('a'), sha256('b'),
				convert_to(` + kilobyte + `, 'UTF8') FROM made, generate_series(1, 20) s WHERE n <= 2000`,
			`INSERT INTO tool_call_records (run_id, seq, tenant, owner, session_id, turn, call_index, attempt, status, terminal, tool, op_key, at, started_at, arguments, result, trace)
				SELECT id, s, 't' || n % 10, 'o' || n % 50, 's' || n % 500, 1, s, 1, CASE s % 2 WHEN 0 THEN 'finished' ELSE 'started' END, s % 2 = 0, 'refund',
				CASE WHEN s % 4 = 0 THEN sha256((n || ':' || s)::bytea) END, now(), now(), to_json(left(` + kilobyte + `, 100)), to_json(left(` + kilobyte + `, 300)), repeat('0', 55)
				FROM made, generate_series(1, 20) s WHERE n <= 2000`,
			`INSERT INTO model_calls (run_id, seq, tenant, owner, turn, attempt, epoch, state, model, served_model, input_tokens, output_tokens, cost_pico, at)
				SELECT id, s, 't' || n % 10, 'o' || n % 50, s, 1, 1, 'finished', 'a-model-of-a-provider', 'a-model-of-a-provider', 1200, 80, 12300000000, now()
				FROM made, generate_series(1, 20) s WHERE n <= 2000`,
			`ANALYZE`,
		} {
			if _, err := tx.Exec(ctx, q); err != nil {
				t.Errorf("%.70s: %v", q, err)
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for table, most := range indexBudget {
		var count int
		var size, indexes int64
		var names string
		err := d.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
			if err := tx.QueryRow(ctx, `SELECT count(*), string_agg(indexname, ', ' ORDER BY indexname) FROM pg_indexes WHERE schemaname = 'public' AND tablename = $1`, table).Scan(&count, &names); err != nil {
				return err
			}
			return tx.QueryRow(ctx, `SELECT coalesce(sum(pg_table_size(t.relid)), 0)::bigint, coalesce(sum(pg_indexes_size(t.relid)), 0)::bigint FROM pg_partition_tree($1::regclass) t`, table).Scan(&size, &indexes)
		})
		if err != nil {
			t.Fatal(err)
		}
		if size == 0 { // not partitioned
			err := d.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
				return tx.QueryRow(ctx, `SELECT pg_table_size($1::regclass), pg_indexes_size($1::regclass)`, table).Scan(&size, &indexes)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		percent := int(indexes * 100 / max(size, 1))
		t.Logf("%s: %d indexes, %d %% of %d kB", table, count, percent, size/1024)
		if size < 1<<20 {
			t.Errorf("%s has %d bytes: nothing was measured", table, size)
		}
		if count > most.count {
			t.Errorf("%s has %d indexes, at most %d are budgeted: %s", table, count, most.count, strings.ReplaceAll(names, "\n", " "))
		}
		if percent > most.percent {
			t.Errorf("the indexes of %s are %d %% of it, at most %d are budgeted", table, percent, most.percent)
		}
	}
}
