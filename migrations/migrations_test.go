package migrations

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"
)

func TestSQLite(t *testing.T) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	upDownUp(t, SQLite3, db)
}

// upDownUp checks that every step can be taken, taken back and taken again, and
// that taking it back leaves nothing behind.
func upDownUp(t *testing.T, d Dialect, db *sql.DB) {
	ctx := t.Context()
	version := func(want int64) {
		t.Helper()
		if v, err := Version(ctx, d, db); err != nil || v != want {
			t.Fatalf("Version = %d, %v; want %d", v, err, want)
		}
	}
	version(0)
	for _, want := range [][]string{{"00001_ledger.sql", "00002_promises.sql", "00003_memory.sql", "00004_artifacts.sql", "00005_forget.sql", "00006_rules.sql", "00007_team.sql", "00008_prompt.sql", "00009_artifact_lists.sql", "00010_sessions.sql", "00011_cost_days.sql", "00012_lists_of_large_ledgers.sql", "00013_turns_and_owners.sql"}, nil} { // the second time there is nothing to do
		names, err := up(ctx, d, db)
		if err != nil || !cmp.Equal(names, append([]string{}, want...)) {
			t.Fatalf("up = %v, %v; want %v", names, err, want)
		}
		version(Target(d))
	}
	if err := Down(ctx, d, db); err != nil {
		t.Fatal(err)
	}
	version(0)
	if _, err := up(ctx, d, db); err != nil {
		t.Fatal(err)
	}
	version(Target(d))
}

func TestBothDialectsHaveTheSameSteps(t *testing.T) {
	names := func(d Dialect) (out []string) {
		es, err := files.ReadDir(string(d))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range es {
			out = append(out, e.Name())
		}
		return out
	}
	if d := cmp.Diff(names(PostgreSQL), names(SQLite3)); d != "" {
		t.Error(d)
	}
}
