package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
)

// Of the ledger of the scripts.
const (
	finishedRun = "01KF0HKTV01S1D9JQ8GS4GHR5R"
	failedRun   = "01KF0HP42RMWKCWYW33X9XHSTF"
	runningRun  = "01KF0HX8K8ZNMB8TQ2G31W3HP3"
	queuedRun   = "01KF0J315G7CD03HQK145M3AT9"
	aToken      = "01K3R0T0000000000000000001"
	anApproval  = "01K80000000000000000000001"
	anAttempt   = "01KF0HKTV01S1D9JQ8GS4GHR5S"
	aBudget     = "01KF0HKTV01S1D9JQ8GS4GHR5T"
	aNote       = "01K6Z3R0010000000000000051"
)

// change is a command that changes state, and what must be there before.
type change struct {
	args   []string
	before [][]string // commands
	rows   func(context.Context, sqlstore.Tx) error
	says   string // of the dry run, in what it prints
	again  bool   // done for real it leaves the same rows
}

// changes are all commands that change the ledger, by their paths.
func stateChanges(t *testing.T) map[string]change {
	t.Helper()
	run := func(s string) events.RunID {
		id, err := events.ParseRunID(s)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	id := func(s string) (id events.ID) {
		if err := id.UnmarshalText([]byte(s)); err != nil {
			t.Fatal(err)
		}
		return id
	}
	insert := func(table string, columns string, row ...any) func(context.Context, sqlstore.Tx) error {
		return func(ctx context.Context, tx sqlstore.Tx) error {
			_, err := tx.InsertMany(ctx, table, strings.Fields(columns), [][]any{row}, "")
			return err
		}
	}
	approval := insert("approvals", "id run_id tenant turn call_index tool arguments digest tool_hash policy why state expires_at created_at",
		id(anApproval), run(runningRun), "acme", 1, 0, "refund", json.RawMessage(`{"amount":"50.00","order":9}`), events.Hash{1}, events.Hash{2}, events.Hash{3},
		"policy", "requested", time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), asked)
	handoff := insert("handoffs", "token run_id turn call_index call_attempt tool reason trust until state created_at",
		id(aToken), run(queuedRun), 1, 0, 1, "survey", "async_tool", "own", time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), "open", asked)
	reservation := func(ctx context.Context, tx sqlstore.Tx) error {
		err := insert("budgets", "id tenant kind name period set_by set_at", id(aBudget), "acme", "owner", "u-17", "total", "ada", asked)(ctx, tx)
		if err == nil {
			err = insert("budget_periods", "budget_id day spent_pico held_pico", id(aBudget), "", 0, 300)(ctx, tx)
		}
		if err == nil {
			err = insert("budget_reservations", "attempt_id budget_id day run_id epoch what amount_pico state created_at",
				id(anAttempt), id(aBudget), "", run(finishedRun), 1, "model x", 300, "unsettled", asked)(ctx, tx)
		}
		return err
	}
	note := insert("memory_notes", "locus tenant root context_id kind source text details links created_at",
		id(aNote), "acme", "user:u-17", "topic:tea", "fact", "user", "Ada drinks oolong.", json.RawMessage(`{}`), json.RawMessage(`{}`), asked)
	sealed := insert("memory_moments", "tenant root owner source stream payload created_at", "acme", "user:u-17", "u-17", "", "", json.RawMessage(`1`), asked)
	schedule := []string{"schedules", "put", "nightly", "--tenant", "acme", "--cron", "@daily", "--agent", "reports", "--input", `""`}
	store := []string{"shared", "put", "team", "--tenant", "acme", "--description", "how we work"}
	return map[string]change{
		"approve":          {args: []string{"approve", anApproval, "--reason", "x"}, rows: approval, says: "dry run: approved: refund"},
		"deny":             {args: []string{"deny", anApproval, "--reason", "x"}, rows: approval, says: "dry run: denied: refund"},
		"resolve":          {args: []string{"resolve", "e059d1fb", "--applied", "--note", "seen"}, says: "is applied"},
		"complete":         {args: []string{"complete", aToken, "--result", "42"}, rows: handoff, says: "it is recorded as done"},
		"signal":           {args: []string{"signal", queuedRun, "go"}, says: "has the signal"},
		"cancel":           {args: []string{"cancel", queuedRun, "--reason", "x"}, says: "was queued and is cancelling now"},
		"runs cancel":      {args: []string{"runs", "cancel", queuedRun, "--reason", "x"}, says: "was queued and is cancelling now"},
		"pause":            {args: []string{"pause", queuedRun, "--reason", "x"}, says: "no worker takes it"},
		"resume":           {args: []string{"resume", queuedRun, "--reason", "x"}, before: [][]string{{"pause", queuedRun, "--reason", "y"}}, says: "not paused any more"},
		"runs requeue":     {args: []string{"runs", "requeue", failedRun, "--reason", "x"}, says: "is tried again as run"},
		"fork":             {args: []string{"fork", finishedRun, "--from", "3", "--effects", "simulate"}, says: "is queued: it begins with run " + finishedRun},
		"queues limit":     {args: []string{"queues", "limit", "default", "--max-running", "3"}, says: "3 at once"},
		"queues pause":     {args: []string{"queues", "pause", "default", "--reason", "x"}, says: "starts nothing any more"},
		"queues resume":    {args: []string{"queues", "resume", "default", "--reason", "x"}, before: [][]string{{"queues", "pause", "default", "--reason", "y"}}, says: "starts runs again"},
		"schedules put":    {args: schedule, says: "fires next at"},
		"schedules pause":  {args: []string{"schedules", "pause", "nightly", "--tenant", "acme", "--reason", "x"}, before: [][]string{schedule}, says: "fires nothing any more"},
		"schedules resume": {args: []string{"schedules", "resume", "nightly", "--tenant", "acme", "--reason", "x"}, before: [][]string{schedule, {"schedules", "pause", "nightly", "--tenant", "acme", "--reason", "x"}}, says: "fires next at"},
		"schedules delete": {args: []string{"schedules", "delete", "nightly", "--tenant", "acme", "--reason", "x"}, before: [][]string{schedule}, says: "is gone"},
		"budgets set":      {args: []string{"budgets", "set", "--owner", "u-17", "--tenant", "acme", "--limit", "10"}, says: "may spend 10 USD"},
		"budgets settle":   {args: []string{"budgets", "settle", anAttempt, "--cost", "0.01"}, rows: reservation, says: "cost 0.01 USD"},
		"erase":            {args: []string{"erase", "u-17", "--tenant", "acme", "--yes"}, rows: sealed, says: "is erased"},
		"memory forget":    {args: []string{"memory", "forget", aNote, "--tenant", "acme", "--reason", "x", "--yes"}, rows: note, says: "would be forgotten"},
		"shared put":       {args: store, says: `store "team" is kept`},
		"shared rm":        {args: []string{"shared", "rm", "team", "--tenant", "acme", "--yes"}, before: [][]string{store}, says: "is removed with its 0 documents"},
		"tools pause":      {args: []string{"tools", "pause", "refund", "--tenant", "acme", "--reason", "x"}, says: "is paused"},
		"tools off":        {args: []string{"tools", "off", "refund", "--tenant", "acme", "--reason", "x"}, says: "is off"},
		"tools on":         {args: []string{"tools", "on", "refund", "--tenant", "acme", "--reason", "x"}, before: [][]string{{"tools", "off", "refund", "--tenant", "acme", "--reason", "x"}}, says: "is on"},
		"migrate":          {args: []string{"migrate"}, says: "up to date, nothing applied", again: true},
		"rebuild":          {args: []string{"rebuild", "--archive-only"}, says: "would be dropped and made again", again: true},
	}
}

// dryElsewhere are commands that change state whose dry runs have tests of their own.
var dryElsewhere = map[string]string{
	"prices import": "writes a file: testdata/prices.txtar",
	"reconcile":     "reads a journal: testdata/reconcile.txtar",
	"tokens new":    "writes a file: testdata/dryrun.txtar",
	"tokens revoke": "writes a file: testdata/dryrun.txtar",
}

// TestDryRunChangesNothing: of each command that changes state, a dry run says what the
// command would do and leaves every row of every table as it was; without --dry-run
// the command changes rows.
func TestDryRunChangesNothing(t *testing.T) {
	all := stateChanges(t)
	commands(newApp(nil, nil, nil, time.Now).root(), func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "ledgerctl ")
		if _, ok := all[path]; !ok && c.Annotations[annChanges] != "" && dryElsewhere[path] == "" {
			t.Errorf("%s changes state, and no dry run of it is tested: add it to stateChanges", path)
		}
	})
	dir := t.TempDir()
	if err := fill(dir); err != nil {
		t.Fatal(err)
	}
	filled, err := os.ReadFile(filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("fill_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, db := range []string{"sqlite", "postgres"} {
		for path, ch := range all {
			t.Run(db+"/"+path, func(t *testing.T) {
				t.Parallel()
				dir, dsn := t.TempDir(), ""
				where := []string{"--dir", dir}
				if db == "postgres" {
					dsn = testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL)+string(source), func(dsn string) error {
						return fillPostgres(dsn, (*filler).fill)
					})
					where = []string{"--postgres", dsn}
				} else if err := os.WriteFile(filepath.Join(dir, "ledger.db"), filled, 0o600); err != nil {
					t.Fatal(err)
				}
				run := func(args ...string) string {
					t.Helper()
					var out, stderr strings.Builder
					a := newApp(strings.NewReader(""), &out, &stderr, func() time.Time { return asked })
					a.caller = func() string { return "ada" }
					if code := a.run(t.Context(), append(slices.Clone(args), where...)); code != 0 {
						t.Fatalf("%q: exit code %d: %s", args, code, &stderr)
					}
					return out.String()
				}
				if ch.rows != nil {
					raw(t, dsn, dir, ch.rows)
				}
				run("runs", "list") // whoever opens a ledger first makes its key
				for _, args := range ch.before {
					run(args...)
				}
				before := dump(t, dsn, dir)
				said := run(append(slices.Clone(ch.args), "--dry-run")...)
				if after := dump(t, dsn, dir); after != before {
					t.Errorf("a dry run changed rows:\n%s", firstDifference(before, after))
				}
				if !strings.Contains(said, ch.says) || !strings.Contains(said, "would") && !strings.HasPrefix(said, "dry run: ") {
					t.Errorf("the dry run says %q, want %q", said, ch.says)
				}
				run(ch.args...)
				if changed := dump(t, dsn, dir) != before; changed == ch.again {
					t.Errorf("done for real it changes rows: %v", changed)
				}
			})
		}
	}
}

func raw(t *testing.T, dsn, dir string, f func(context.Context, sqlstore.Tx) error) {
	t.Helper()
	st, err := openRaw(t.Context(), dsn, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if err := st.DB().Write(t.Context(), f); err != nil {
		t.Fatal(err)
	}
}

// dump is every row of every table, in an order that is always the same.
func dump(t *testing.T, dsn, dir string) string {
	t.Helper()
	var out strings.Builder
	raw(t, dsn, dir, func(ctx context.Context, tx sqlstore.Tx) error {
		out.Reset()
		texts := func(q string, args ...any) (all []string, err error) {
			rows, err := tx.Query(ctx, q, args...)
			if err != nil {
				return nil, err
			}
			defer rows.Close()
			for rows.Next() {
				var s string
				if err := rows.Scan(&s); err != nil {
					return nil, err
				}
				all = append(all, s)
			}
			return all, rows.Err()
		}
		list := `SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name`
		if dsn != "" {
			list = `SELECT CAST(relname AS text) FROM pg_class WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY relname`
		}
		tables, err := texts(list)
		if err != nil {
			return err
		}
		for _, table := range tables {
			q := `SELECT CAST(t AS text) FROM "` + table + `" t ORDER BY 1`
			if dsn == "" {
				columns, err := texts(`SELECT 'quote("' || name || '")' FROM pragma_table_info('` + table + `')`)
				if err != nil {
					return err
				}
				q = `SELECT ` + strings.Join(columns, " || ',' || ") + ` FROM "` + table + `" ORDER BY 1`
			}
			rows, err := texts(q)
			if err != nil {
				return err
			}
			for _, r := range rows {
				out.WriteString(table + ": " + r + "\n")
			}
		}
		return nil
	})
	if strings.Count(out.String(), "\n") < 50 {
		t.Fatalf("the dump is too short: %s", &out)
	}
	return out.String()
}

func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(as), len(bs)) {
		if as[i] != bs[i] {
			return "- " + as[i] + "\n+ " + bs[i]
		}
	}
	return "one has more rows"
}
