package sqlite

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/redact"
)

func TestLedger(t *testing.T) { ledgertest.Test(t, harness) }

// harness opens a migrated ledger whose clock can be moved.
func harness(t *testing.T) ledgertest.Harness {
	t.Helper()
	var offset atomic.Int64
	d, err := open(t.Context(), Config{
		Path: filepath.Join(t.TempDir(), "ledger.db"),
		Now:  func() time.Time { return time.Now().Add(time.Duration(offset.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	if _, err := d.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ledgertest.Harness{
		Store:   sqlstore.New(d, sqlstore.Config{Redactor: redact.New(redact.Config{})}),
		DB:      d,
		Advance: func(by time.Duration) { offset.Add(int64(by)) },
		Again: func(version int64) error {
			db, err := openDB(d.path, writing)
			if err != nil {
				return err
			}
			return errors.Join(migrations.Again(t.Context(), migrations.SQLite3, db, version), db.Close())
		},
	}
}
