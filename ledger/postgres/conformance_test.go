package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/redact"
)

func TestLedger(t *testing.T) { ledgertest.Test(t, harness) }

func migrate(dsn string) error {
	d, err := open(context.Background(), Config{DSN: dsn})
	if err != nil {
		return err
	}
	defer d.pool.Close()
	_, err = d.Migrate(context.Background())
	return err
}

// harness opens a migrated ledger whose clock can be moved.
func harness(t *testing.T) ledgertest.Harness {
	t.Helper()
	d := openTest(t, testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), migrate))
	advance := func(by time.Duration) {
		err := d.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
			_, err := tx.Exec(ctx, `
				INSERT INTO clock_offset (amount) VALUES ($1::bigint * interval '1 microsecond')
				ON CONFLICT (one) DO UPDATE SET amount = clock_offset.amount + excluded.amount`, by.Microseconds())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return ledgertest.Harness{
		Store: sqlstore.New(d, sqlstore.Config{Redactor: redact.New(redact.Config{})}), DB: d, Advance: advance,
		Again: func(version int64) error {
			db := stdlib.OpenDBFromPool(d.pool)
			return errors.Join(migrations.Again(t.Context(), migrations.PostgreSQL, db, version), db.Close())
		},
	}
}
