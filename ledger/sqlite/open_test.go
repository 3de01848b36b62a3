package sqlite_test

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// A new ledger is opened by its first worker and looked at by whoever waits for
// it. Turning the write-ahead log on is the one thing SQLite does not wait for.
func TestManyOpenANewLedgerAtOnce(t *testing.T) {
	for range 5 {
		path := filepath.Join(t.TempDir(), "ledger.db")
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() {
				for range 5 {
					st, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Store: sqlstore.Config{Redactor: redact.New(redact.Config{})}})
					if err != nil {
						t.Error(err)
						return
					}
					if n == 0 {
						if _, err := st.Migrate(t.Context()); err != nil {
							t.Error(err)
						}
					}
					if err := st.Check(t.Context()); err != nil && !errors.Is(err, ledger.ErrSchema) {
						t.Error(err)
					}
					if err := st.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
}
