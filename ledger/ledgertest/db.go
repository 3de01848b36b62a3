package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// TestDB checks an adapter by itself: open returns an empty database.
func TestDB(t *testing.T, open func(t *testing.T) sqlstore.DB) {
	migrated := func(t *testing.T) sqlstore.DB {
		db := open(t)
		if err := db.Check(t.Context()); err == nil {
			t.Error("Check accepts an empty database")
		}
		if _, err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := db.Check(t.Context()); err != nil {
			t.Error(err)
		}
		return db
	}
	t.Run("values come back as they went in", func(t *testing.T) { testValues(t, migrated(t)) })
	t.Run("zero values are null both ways", func(t *testing.T) { testZeros(t, migrated(t)) })
	t.Run("an error rolls back", func(t *testing.T) { testRollback(t, migrated(t)) })
	t.Run("a panic rolls back", func(t *testing.T) { testPanic(t, migrated(t)) })
	t.Run("sets", func(t *testing.T) { testSets(t, migrated(t)) })
	t.Run("many rows go in in order and once", func(t *testing.T) { testMany(t, migrated(t)) })
	t.Run("the clock is in UTC and microseconds", func(t *testing.T) { testClock(t, migrated(t)) })
}

func write(t *testing.T, db sqlstore.DB, f func(ctx context.Context, tx sqlstore.Tx) error) {
	t.Helper()
	if err := db.Write(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

func insertRun(ctx context.Context, tx sqlstore.Tx, id events.RunID, key string, requires []string) error {
	at := time.Unix(1, 0)
	_, err := tx.Exec(ctx, `
		INSERT INTO runs (id, tenant, queue, agent, root_id, client_key, input_mac, input, requires, created_at, due_at, state)
		VALUES ($1, 't', 'q', 'a', $1, $2, $3, $4, $5, $6, $6, 'queued')`,
		id, key, []byte{}, json.RawMessage(`{"a": 1}`), requires, at)
	return err
}

func testValues(t *testing.T, db sqlstore.DB) {
	id, event := events.RunID{1, 2}, events.ID{3, 4}
	at := time.Date(2026, 2, 3, 4, 5, 6, 789_000, time.FixedZone("x", 3600))
	cost := events.PicoUSD(-7)
	write(t, db, func(ctx context.Context, tx sqlstore.Tx) error {
		if err := insertRun(ctx, tx, id, "k", []string{"b", `c"d`}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO facts (run_id, event_id, type, version, data, created_at) VALUES ($1, $2, $3, $4, $5, $6)`,
			id, event, events.Type("x"), 1, []byte{0, 255}, at)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO tool_call_records (run_id, seq, tenant, turn, call_index, attempt, status, terminal, tool, op_key, arguments, cost_pico, latency_ms, at)
			VALUES ($1, $2, '', 1, 0, 1, 'finished', $3, '', $4, $5, $6, $7, $8)`,
			id, uint64(9), true, events.Hash{5}, json.RawMessage(`{"n": 9007199254740993,"u":"\u0000"}`), &cost, (*int64)(nil), at)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `
			INSERT INTO run_summaries (run_id, tenant, agent, cost_pico, first_at, last_at) VALUES ($1, 't', 'a', $2, $3, $3)`,
			id, new(big.Int).Lsh(big.NewInt(7), 80), at)
		return err
	})
	type row struct {
		ID       events.RunID
		Requires []string
		State    events.EffectState // any string kind
		MAC      []byte
		Event    events.ID
		Data     []byte
		At       time.Time
		Seq      uint64
		Terminal bool
		OpKey    events.Hash
		Args     json.RawMessage
		Cost     *events.PicoUSD
		Latency  *int64
		Sum      *big.Int
	}
	got := row{Sum: new(big.Int), Latency: new(int64)}
	err := db.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT r.id, r.requires, r.state, r.input_mac, f.event_id, f.data, f.created_at, c.seq, c.terminal, c.op_key, c.arguments, c.cost_pico, c.latency_ms, s.cost_pico
			FROM runs r JOIN facts f ON f.run_id = r.id JOIN tool_call_records c ON c.run_id = r.id JOIN run_summaries s ON s.run_id = r.id WHERE r.id = $1`, id).
			Scan(&got.ID, &got.Requires, &got.State, &got.MAC, &got.Event, &got.Data, &got.At, &got.Seq, &got.Terminal, &got.OpKey, &got.Args, &got.Cost, &got.Latency, got.Sum)
	})
	if err != nil {
		t.Fatal(err)
	}
	want := row{
		id,
		[]string{"b", `c"d`},
		"queued",
		[]byte{},
		event,
		[]byte{0, 255},
		events.Timestamp(at), 9, true,
		events.Hash{5},
		json.RawMessage(`{"n": 9007199254740993,"u":"\u0000"}`), &cost, nil, new(big.Int).Lsh(big.NewInt(7), 80),
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b *big.Int) bool { return a.Cmp(b) == 0 })); d != "" {
		t.Error(d)
	}
}

func testZeros(t *testing.T, db sqlstore.DB) {
	write(t, db, func(ctx context.Context, tx sqlstore.Tx) error {
		if err := insertRun(ctx, tx, events.RunID{1}, "k", nil); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE runs SET parent_id = $1, park_key = $2, wake_at = $3, result = $4 WHERE id = $5`,
			events.RunID{}, events.Hash{}, time.Time{}, json.RawMessage(nil), events.RunID{1}); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM runs WHERE parent_id IS NULL AND park_key IS NULL AND wake_at IS NULL AND result IS NULL AND input_mac IS NOT NULL AND trace = ''`).Scan(&n); err != nil || n != 1 {
			t.Errorf("rows with nulls: %d, %v", n, err)
		}
		parent, key, wake, result, requires := events.RunID{9}, events.Hash{9}, time.Now(), json.RawMessage("9"), []string{"x"}
		if err := tx.QueryRow(ctx, `SELECT parent_id, park_key, wake_at, result, requires FROM runs`).Scan(&parent, &key, &wake, &result, &requires); err != nil {
			return err
		}
		if !parent.IsZero() || !key.IsZero() || !wake.IsZero() || result != nil || len(requires) != 0 {
			t.Errorf("read %v %v %v %v %v, want zeros", parent, key, wake, result, requires)
		}
		var s string
		if err := tx.QueryRow(ctx, `SELECT trace FROM runs WHERE tenant = $1`, "nobody").Scan(&s); !errors.Is(err, sqlstore.ErrNoRows) {
			t.Errorf("no row: %v", err)
		}
		return nil
	})
}

func runCount(t *testing.T, db sqlstore.DB) (n int) {
	t.Helper()
	err := db.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*) FROM runs`).Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func testRollback(t *testing.T, db sqlstore.DB) {
	boom := errors.New("boom")
	err := db.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		return errors.Join(insertRun(ctx, tx, events.RunID{1}, "k", nil), boom)
	})
	if !errors.Is(err, boom) || runCount(t, db) != 0 {
		t.Errorf("error %v, %d runs", err, runCount(t, db))
	}
}

func testPanic(t *testing.T, db sqlstore.DB) {
	func() {
		defer func() { _ = recover() }()
		_ = db.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
			if err := insertRun(ctx, tx, events.RunID{1}, "k", nil); err != nil {
				t.Error(err)
			}
			panic("boom")
		})
	}()
	if runCount(t, db) != 0 {
		t.Error("the panicking transaction was committed")
	}
	write(t, db, func(ctx context.Context, tx sqlstore.Tx) error { return insertRun(ctx, tx, events.RunID{2}, "k", nil) })
}

func testSets(t *testing.T, db sqlstore.DB) {
	write(t, db, func(ctx context.Context, tx sqlstore.Tx) error {
		for i, requires := range [][]string{nil, {"a"}, {"a", "b"}} {
			if err := insertRun(ctx, tx, events.RunID{byte(i + 1)}, string(rune('x'+i)), requires); err != nil {
				return err
			}
		}
		count := func(where string, arg any, want int) {
			t.Helper()
			var n int
			if err := tx.QueryRow(ctx, `SELECT count(*) FROM runs WHERE `+where, arg).Scan(&n); err != nil || n != want {
				t.Errorf("%s with %v: %d rows, %v; want %d", where, arg, n, err, want)
			}
		}
		count(tx.In("client_key", 1), []string{"x", "z", "no"}, 2)
		count(tx.In("client_key", 1), []string(nil), 0)
		count(tx.InIDs("id", 1), []events.RunID{{1}, {3}, {7}}, 2)
		count(tx.InIDs("id", 1), []events.RunID{}, 0)
		count(tx.InIDs("input_mac", 1), []events.Hash{{1}}, 0)
		count(tx.InIDs("id", 1), []events.ID{{1}}, 1)
		count(tx.Subset("requires", 1), []string{}, 1)
		count(tx.Subset("requires", 1), []string{"a", "c"}, 2)
		count(tx.Subset("requires", 1), []string{"b", "a"}, 3)
		return nil
	})
}

func testMany(t *testing.T, db sqlstore.DB) {
	columns := []string{"run_id", "event_id", "type", "version", "trace", "data", "created_at"}
	var rows [][]any
	for i := range 300 {
		rows = append(rows, []any{events.RunID{1}, events.ID{1, byte(i), byte(i >> 8)}, events.Type("x"), i + 1, "", []byte{byte(i)}, time.Unix(int64(i+1), 0)})
	}
	write(t, db, func(ctx context.Context, tx sqlstore.Tx) error {
		if err := insertRun(ctx, tx, events.RunID{1}, "k", nil); err != nil {
			return err
		}
		for _, want := range []int64{300, 0} {
			if n, err := tx.InsertMany(ctx, "facts", columns, rows, "ON CONFLICT DO NOTHING"); err != nil || n != want {
				t.Errorf("InsertMany = %d, %v; want %d", n, err, want)
			}
		}
		rs, err := tx.Query(ctx, `SELECT version, data, created_at FROM facts ORDER BY id`)
		if err != nil {
			return err
		}
		defer rs.Close()
		i := 0
		for ; rs.Next(); i++ {
			var version int
			var data []byte
			var at time.Time
			if err := rs.Scan(&version, &data, &at); err != nil {
				return err
			}
			if version != i+1 || data[0] != byte(i) || !at.Equal(time.Unix(int64(i+1), 0)) {
				t.Fatalf("row %d is version %d, data %v, at %v", i, version, data, at)
			}
		}
		if i != 300 {
			t.Errorf("%d rows", i)
		}
		return rs.Err()
	})
	write(t, db, func(ctx context.Context, tx sqlstore.Tx) error {
		records := [][]any{
			{events.RunID{1}, 1, "t", 1, 0, 1, "started", false, "tool", events.Hash{}, json.RawMessage(nil), (*int64)(nil), time.Unix(1, 0)},
			{events.RunID{1}, 2, "t", 1, 0, 1, "finished", true, "tool", events.Hash{1}, json.RawMessage(`{}`), new(int64), time.Unix(1, 0)},
		}
		n, err := tx.InsertMany(ctx, "tool_call_records",
			[]string{"run_id", "seq", "tenant", "turn", "call_index", "attempt", "status", "terminal", "tool", "op_key", "arguments", "cost_pico", "at"}, records, "")
		if err != nil || n != 2 {
			t.Errorf("InsertMany with nulls = %d, %v", n, err)
		}
		if err := tx.QueryRow(ctx, `SELECT count(*) FROM tool_call_records WHERE op_key IS NULL AND arguments IS NULL AND cost_pico IS NULL`).Scan(&n); err != nil || n != 1 {
			t.Errorf("rows with nulls: %d, %v", n, err)
		}
		return nil
	})
}

func testClock(t *testing.T, db sqlstore.DB) {
	write(t, db, func(ctx context.Context, tx sqlstore.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		if now != events.Timestamp(now) || now.IsZero() {
			t.Errorf("now is %v", now)
		}
		return nil
	})
}
