package main

import (
	"context"
	"database/sql"
	"flag"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write the outputs that scripts compare with")

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		// The program as it is, but for the clock that ages are counted on and the
		// account that runs it.
		"ledgerctl": func() {
			a := newApp(os.Stdin, os.Stdout, os.Stderr, func() time.Time { return asked })
			if by := os.Getenv("TEST_CALLER"); by != "" {
				a.caller = func() string { return by }
			}
			os.Exit(a.run(context.Background(), os.Args[1:]))
		},
	})
}

// TestScripts runs testdata/*.txtar, each on its own copy of one small ledger in
// $WORK/ledger.
func TestScripts(t *testing.T) {
	filled := sync.OnceValues(func() ([]byte, error) {
		dir := t.TempDir()
		if err := fill(dir); err != nil {
			return nil, err
		}
		return os.ReadFile(filepath.Join(dir, "ledger.db"))
	})
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Cmds:          map[string]func(*testscript.TestScript, bool, []string){"sql": execSQL},
		Setup: func(e *testscript.Env) error {
			b, err := filled()
			if err != nil {
				return err
			}
			dir := filepath.Join(e.WorkDir, "ledger")
			if err := os.Mkdir(dir, 0o700); err != nil {
				return err
			}
			e.Setenv("DAYBOOK_DIR", "ledger")
			e.Setenv("TEST_CALLER", "ada")
			return os.WriteFile(filepath.Join(dir, "ledger.db"), b, 0o600)
		},
	})
}

// execSQL changes the ledger behind the store's back: sql STATEMENT.
func execSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sql STATEMENT")
	}
	db, err := sql.Open("sqlite", ts.MkAbs("ledger/ledger.db"))
	ts.Check(err)
	_, err = db.Exec(args[0])
	ts.Check(err)
	ts.Check(db.Close())
}
