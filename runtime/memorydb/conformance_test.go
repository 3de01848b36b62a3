package memorydb_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/memory/memorytest"
)

// databases are the ledgers that a memory may stand in, each new and empty.
var databases = []struct {
	name string
	open func(testing.TB, *redact.Redactor) *sqlstore.Store
}{
	{"SQLite", openSQLite},
	{"PostgreSQL", openPostgres},
}

func openSQLite(t testing.TB, r *redact.Redactor) *sqlstore.Store {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Store: sqlstore.Config{Redactor: r}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return st
}

func openPostgres(t testing.TB, r *redact.Redactor) *sqlstore.Store {
	t.Helper()
	return connect(t, testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), migrate), r)
}

func migrate(dsn string) error {
	st, err := postgres.Open(context.Background(), postgres.Config{DSN: dsn, Store: sqlstore.Config{Redactor: redact.New(redact.Config{})}})
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	_, err = st.Migrate(context.Background())
	return err
}

func connect(t testing.TB, dsn string, r *redact.Redactor) *sqlstore.Store {
	t.Helper()
	st, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Store: sqlstore.Config{Redactor: r}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func memoryIn(t testing.TB, st *sqlstore.Store, r *redact.Redactor) *memorydb.Store {
	t.Helper()
	m, err := memorydb.New(st.DB(), memorydb.Config{Redactor: r})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestConformance: SG-81 to SG-110, as far as they are a client's, on both
// databases (SG-94).
func TestConformance(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			r := redact.New(redact.Config{})
			st := d.open(t, r)
			m := memoryIn(t, st, r)
			memorytest.TestClient(t, func(t *testing.T) memory.Client {
				empty(t, st)
				return m
			})
		})
	}
}

// empty deletes all that is remembered: a new database takes a second to make,
// and the kit wants many.
func empty(t testing.TB, st *sqlstore.Store) {
	t.Helper()
	for _, table := range tables {
		exec(t, st, `DELETE FROM `+table)
	}
}

func exec(tb testing.TB, st *sqlstore.Store, q string, args ...any) {
	tb.Helper()
	err := st.DB().Write(tb.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.Exec(ctx, q, args...)
		return err
	})
	if err != nil {
		tb.Fatalf("%s: %v", q, err)
	}
}

// tables are those of this package.
var tables = []string{"memory_words", "memory_links", "memory_gates", "memory_holders", "memory_notes", "memory_moments", "memory_owners", "memory_removals"}
