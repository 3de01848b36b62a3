package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
)

func openTest(t *testing.T, dsn string) *database {
	t.Helper()
	d, err := open(t.Context(), Config{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func TestDB(t *testing.T) {
	ledgertest.TestDB(t, func(t *testing.T) sqlstore.DB { return openTest(t, testenv.Postgres(t)) })
}

func TestMigrateUpDownUp(t *testing.T) {
	d := openTest(t, testenv.Postgres(t))
	if _, err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDBFromPool(d.pool)
	if err := migrations.Down(t.Context(), migrations.PostgreSQL, db); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context()); !errors.Is(err, ledger.ErrSchema) {
		t.Errorf("Check after down: %v", err)
	}
	if _, err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestSettingsAreForced(t *testing.T) {
	dsn := testenv.Postgres(t)
	dsn += map[bool]string{true: "&", false: "?"}[strings.Contains(dsn, "?")] + "synchronous_commit=off&timezone=Asia/Tokyo&default_transaction_isolation=serializable"
	d := openTest(t, dsn)
	for name, want := range map[string]string{
		"synchronous_commit": "on", "TimeZone": "UTC", "transaction_isolation": "read committed", "idle_in_transaction_session_timeout": "15s",
	} {
		err := d.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
			var got string
			if err := tx.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&got); err != nil {
				return err
			}
			if got != want {
				t.Errorf("%s = %s, want %s", name, got, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestDatabaseAwayIsUnavailableAndKeepsThePassword(t *testing.T) {
	d := openTest(t, "postgres://alice:hunter2hunter2@127.0.0.1:1/x")
	for name, err := range map[string]error{
		"Check": d.Check(t.Context()),
		"Write": d.Write(t.Context(), func(context.Context, sqlstore.Tx) error { return nil }),
		"Read":  d.Read(t.Context(), func(context.Context, sqlstore.Tx) error { return nil }),
	} {
		if !errors.Is(err, ledger.ErrUnavailable) || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, dsn := range []string{"postgres://alice:hunter2hunter2@127.0.0.1:x/x", "host=a password=hunter2hunter2 port=x", "hunter2hunter2"} {
		if _, err := Open(t.Context(), Config{DSN: dsn}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("Open: %v", err)
		}
	}
}

func TestLostConnectionIsUnavailable(t *testing.T) {
	d := openTest(t, testenv.Postgres(t))
	kill := func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.Exec(ctx, `SELECT pg_terminate_backend(pg_backend_pid())`)
		return err
	}
	if err := d.Write(t.Context(), kill); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("in a statement: %v", err)
	}
	lostCommit := func(ctx context.Context, t sqlstore.Tx) error {
		if _, err := t.Exec(ctx, `CREATE TABLE IF NOT EXISTS written (n int)`); err != nil {
			return err
		}
		return t.(*tx).conn.Conn().PgConn().Conn().Close()
	}
	if err := d.Write(t.Context(), lostCommit); !errors.Is(err, ledger.ErrUnavailable) {
		t.Errorf("at commit: %v", err)
	}
	if err := d.Write(t.Context(), func(context.Context, sqlstore.Tx) error { return nil }); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestDeadlockIsRetried(t *testing.T) {
	d := openTest(t, testenv.Postgres(t))
	write := func(f func(ctx context.Context, tx sqlstore.Tx) error) error { return d.Write(t.Context(), f) }
	err := write(func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.Exec(ctx, `CREATE TABLE pair (id int PRIMARY KEY, n int NOT NULL)`)
		if err == nil {
			_, err = tx.Exec(ctx, `INSERT INTO pair VALUES (1, 0), (2, 0)`)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The first try of each locks its first row, waits for the other, and then wants the other's.
	ready := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	errs := make(chan error, 2)
	for i := range 2 {
		go func() {
			tries := 0
			errs <- write(func(ctx context.Context, tx sqlstore.Tx) error {
				tries++
				if _, err := tx.Exec(ctx, `UPDATE pair SET n = n + 1 WHERE id = $1`, i+1); err != nil {
					return err
				}
				if tries == 1 {
					close(ready[i])
					<-ready[1-i]
				}
				_, err := tx.Exec(ctx, `UPDATE pair SET n = n + 1 WHERE id = $1`, 2-i)
				return err
			})
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	var sum int
	err = d.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		return tx.QueryRow(ctx, `SELECT sum(n) FROM pair`).Scan(&sum)
	})
	if err != nil || sum != 4 {
		t.Errorf("sum = %d, %v; want 4", sum, err)
	}
}
