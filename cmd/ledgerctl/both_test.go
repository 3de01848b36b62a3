package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/redact"
)

// TestScriptsOnBoth runs testdata/both/*.txtar on each database, over the ledger of
// TestScripts. [postgres] tells a script which it is.
func TestScriptsOnBoth(t *testing.T) {
	filled := sync.OnceValues(func() ([]byte, error) {
		dir := t.TempDir()
		if err := fill(dir); err != nil {
			return nil, err
		}
		return os.ReadFile(filepath.Join(dir, "ledger.db"))
	})
	source, err := os.ReadFile("fill_test.go") // what the copy of a filled database depends on
	if err != nil {
		t.Fatal(err)
	}
	for _, db := range []string{"sqlite", "postgres"} {
		t.Run(db, func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir:           "testdata/both",
				UpdateScripts: *update,
				Condition:     func(c string) (bool, error) { return c == db, nil },
				Cmds:          map[string]func(*testscript.TestScript, bool, []string){"sql": execOnBoth},
				Setup: func(e *testscript.Env) error {
					e.Setenv("TEST_CALLER", "ada")
					if db == "postgres" {
						dsn := testenv.MigratedPostgres(e.T().(testing.TB), migrations.Digest(migrations.PostgreSQL)+string(source), func(dsn string) error {
							return fillPostgres(dsn, (*filler).fill)
						})
						e.Setenv("DAYBOOK_POSTGRES_URL", dsn)
						return nil
					}
					b, err := filled()
					if err != nil {
						return err
					}
					dir := filepath.Join(e.WorkDir, "ledger")
					if err := os.Mkdir(dir, 0o700); err != nil {
						return err
					}
					e.Setenv("DAYBOOK_DIR", "ledger")
					return os.WriteFile(filepath.Join(dir, "ledger.db"), b, 0o600)
				},
			})
		})
	}
}

// openRaw opens the database of a script for what no command would do.
func openRaw(ctx context.Context, dsn, dir string) (*sqlstore.Store, error) {
	cfg := sqlstore.Config{Redactor: redact.New(redact.Config{})}
	if dsn != "" {
		return postgres.Open(ctx, postgres.Config{DSN: dsn, Store: cfg})
	}
	return sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "ledger.db"), Store: cfg})
}

// execOnBoth changes the ledger behind the store's back: sql STATEMENT.
func execOnBoth(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sql STATEMENT")
	}
	st, err := openRaw(context.Background(), ts.Getenv("DAYBOOK_POSTGRES_URL"), ts.MkAbs("ledger"))
	ts.Check(err)
	defer func() { ts.Check(st.Close()) }()
	ts.Check(st.DB().Write(context.Background(), func(ctx context.Context, tx sqlstore.Tx) error {
		for q := range strings.SplitSeq(args[0], ";") {
			if _, err := tx.Exec(ctx, q); err != nil {
				return err
			}
		}
		return nil
	}))
}

// execDSN runs a statement outside of what a ledger would do.
func execDSN(t *testing.T, dsn, q string) error {
	t.Helper()
	st, err := openRaw(t.Context(), dsn, "")
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }() // of a test
	return st.DB().Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.Exec(ctx, q)
		return err
	})
}
