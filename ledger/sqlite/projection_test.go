package sqlite

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

func TestProjection(t *testing.T) {
	ledgertest.TestProjection(t, func(t *testing.T) ledgertest.Harness {
		var mu sync.Mutex
		var offset time.Duration
		d, err := open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return time.Now().Add(offset)
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		if _, err := d.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		return ledgertest.Harness{
			Store: sqlstore.New(d, sqlstore.Config{Redactor: redact.New(redact.Config{})}),
			DB:    d,
			Advance: func(by time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				offset += by
			},
		}
	})
}
