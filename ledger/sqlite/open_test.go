package sqlite_test

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// Turning the write-ahead log on is the one thing SQLite does not wait for.
func TestManyOpenANewFileAtOnce(t *testing.T) {
	for range 5 {
		path := filepath.Join(t.TempDir(), "ledger.db")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				st, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Store: sqlstore.Config{Redactor: redact.New(redact.Config{})}})
				if err != nil {
					t.Error(err)
					return
				}
				if err := st.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}
