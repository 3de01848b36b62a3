package runtime_test

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime"
)

// TestRecord records runs for the versions to come, into a new directory of
// testdata: see docs/compatibility.md. It does nothing unless told where.
func TestRecord(t *testing.T) {
	out := os.Getenv("DAYBOOK_RECORD")
	if out == "" {
		t.Skip("set DAYBOOK_RECORD to the directory to record into")
	}
	if err := os.MkdirAll(filepath.Join(out, "histories"), 0o750); err != nil {
		t.Fatal(err)
	}
	s := &site{}
	s.stuck.Store(true)
	s.hung.Add(3)
	path := filepath.Join(t.TempDir(), "ledger.db")
	w := worldOn(t, path, plan{}, s.tools()...)
	w.compatAgents()
	w.start()
	p := func(tool, text string) string { return fmt.Sprintf(`%s {"text":%q}`, tool, text) }
	fin := `finish {"answer":"done"}`
	names := map[events.RunID]string{}
	as := func(agent, name string, parked bool, turns ...[]string) ledger.Run {
		r, _, err := w.client().Submit(t.Context(), runtime.Submit{Agent: agent, Input: turns, ClientKey: name})
		if err != nil {
			t.Fatal(err)
		}
		names[r.ID] = name
		return w.wait(r.ID, parked)
	}
	sub := func(name string, parked bool, turns ...[]string) ledger.Run {
		return as("tester", name, parked, turns...)
	}
	T := func(c ...string) []string { return c }
	sub("says_at_once", false)
	sub("finishes_at_once", false, T(fin))
	sub("looks", false, T(p("look", "a")), T(fin))
	sub("looks_in_parallel", false, T(p("look", "a"), p("look", "b"), p("look", "c")), T(fin))
	sub("pays", false, T(p("pay", "one")), T(fin))
	sub("pays_twice_the_same", false, T(p("pay", "two")), T(p("pay", "two")), T(fin))
	sub("pays_two_at_once", false, T(p("pay", "x"), p("pay", "y")), T(fin))
	sub("looks_and_pays", false, T(p("look", "a"), p("pay", "z"), p("look", "b")), T(fin))
	sub("is_refused", false, T(p("pay", "no")), T(fin))
	sub("asks_for_an_unknown_tool", false, T("nothing {}"), T(fin))
	sub("has_bad_arguments", false, T(`pay {"amount":1}`), T(fin))
	sub("has_no_json", false, T(`look {"text":5}`), T(fin))
	sub("declines", false, T(`decline {"because":"not my job"}`))
	sub("says_after_a_call", false, T(p("look", "a")))
	sub("uses_all_turns", false, T(p("look", "1")), T(p("look", "2")), T(p("look", "3")), T(p("look", "4")), T(p("look", "5")), T(p("look", "6")), T(p("look", "7")), T(p("look", "8")), T(p("look", "9")))
	sub("model_fails", false, T("overloaded"))
	sub("goes_on_in_doubt", false, T(p("loose", "lost 1")), T(p("look", "a")), T(fin))
	sub("keyed_pays", false, T(p("keyed", "k")), T(fin))
	sub("shared_first", false, T(p("shared", "s")), T(fin))
	sub("shared_second", false, T(p("shared", "s")), T(fin))
	sub("finish_beside_calls", false, T(p("look", "a"), fin))
	resolve := func(r ledger.Run, state events.EffectState) {
		w.until("quiet", func() bool {
			_, err := w.store.Resolve(t.Context(), ledger.Resolution{OpKey: r.ParkKey, State: state, By: "ann", Note: "asked the provider"})
			return err == nil
		})
	}
	var err error
	r := sub("doubt_resolved_applied", true, T(p("pay", "lost 2")), T(fin))
	resolve(r, events.EffectApplied)
	w.wait(r.ID, false)
	r = sub("doubt_abandoned", true, T(p("pay", "lost 3")), T(fin))
	resolve(r, events.EffectAbandoned)
	w.wait(r.ID, false)
	r = sub("doubt_cancelled", true, T(p("pay", "lost 4")), T(fin))
	if _, err := w.client().Cancel(t.Context(), r.ID, "ann", "enough"); err != nil {
		t.Fatal(err)
	}
	w.wait(r.ID, false)
	as("lead", "has_a_team", false, T(p("look", "a"), task(T(p("pay", "team")), T(fin))), T(fin))
	as("careful", "breaks_a_rule", false, T(p("look", "secret"), p("look", "b")), T(fin))
	as("chained", "falls_back", false, T(p("look", "a")), T(fin))
	as("short", "is_compacted", false)
	as("writer", "makes_an_artifact", false)
	r = as("again", "fails_twice", false, T("overloaded"))
	names[w.waitRetries(r.ID, false).ID] = "fails_twice_retry"
	r = as("tester", "was_forked", false, T(p("pay", "of the first")), T(p("pay", "of both")), T(fin))
	f := w.fork(r.ID, seqOf[events.ModelCallFinished](w, r.ID), "go on")
	names[f.ID] = "fork"
	w.wait(f.ID, false)
	// These are not at their end.
	r = as("careful", "parked_approval", true, T(p("pay", "much")), T(fin))
	if f, _, err = w.client().Fork(t.Context(), runtime.Fork{Run: r.ID, Seq: 2, Effects: ledger.ForkAsk, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	names[f.ID] = "parked_fork"
	w.wait(f.ID, true)
	as("careful", "parked_rule", true, T(p("loose", "far")), T(fin))
	r = as("lead", "parked_team", true, T(task(T(p("pay", "lost 7")), T(fin))), T(fin))
	w.until("the child is in doubt", func() bool {
		for _, id := range children(w, r.ID) {
			names[id] = "parked_child"
			c, err := w.store.Run(t.Context(), id)
			return err == nil && c.ParkReason == events.ParkInDoubt
		}
		return false
	})
	sub("parked_in_doubt", true, T(p("pay", "lost 5")), T(p("look", "a")), T(fin))
	sub("parked_shared_in_doubt", true, T(p("shared", "lost 6")), T(fin))
	sub("parked_busy", true, T(p("shared", "lost 6")), T(fin))
	for name, tool := range map[string]string{"running_look": "look", "running_opaque": "payhang", "running_keyed": "keyed"} {
		x := w.submit([][]string{{p(tool, "hang "+name)}, {fin}})
		names[x.ID] = name
	}
	s.hung.Wait()
	x, _, err := w.store.Submit(t.Context(), later(t, w))
	if err != nil {
		t.Fatal(err)
	}
	names[x.ID] = "queued"
	w.until("projection caught up", func() bool {
		n, err := w.store.FoldBehind(t.Context(), 0, 100)
		return err == nil && n == 0
	})
	for id, name := range names {
		if name == "queued" || strings.Contains(name, "fork") && name != "was_forked" {
			continue // no history yet, or one that begins with another's
		}
		f, err := os.Create(filepath.Join(out, "histories", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		b := bufio.NewWriter(f)
		err = w.store.Events(t.Context(), id, 1, func(e events.Sealed) error {
			_, err := fmt.Fprintf(b, "{\"hash\":%q,\"event\":%s}\n", e.Hash(), e.Bytes())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.Flush(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	dump(t, path, filepath.Join(out, "ledger.sql"), names)
}

// kept are the runs that the dumped ledger has: some that have ended, and all
// that have not.
const kept = "has_a_team falls_back is_compacted makes_an_artifact was_forked fork parked_fork parked_approval parked_rule parked_team parked_child pays doubt_cancelled goes_on_in_doubt shared_first model_fails queued parked_in_doubt parked_shared_in_doubt parked_busy running_look running_opaque running_keyed"

// dump writes the ledger at path as SQL that a person can read.
func dump(t *testing.T, path, to string, names map[events.RunID]string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprintln(f, "-- A ledger as this version left it. See docs/compatibility.md.")
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	rows, err := tx.Query(`SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'goose%' ORDER BY rootpage`)
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var n string
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, n)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		t.Fatal(err)
	}
	for id, name := range names {
		if slices.Contains(strings.Fields(kept), name) {
			fmt.Fprintf(f, "-- run %s %s\n", id, name)
			continue
		}
		for _, table := range tables {
			var of bool
			if err := tx.QueryRow(`SELECT EXISTS (SELECT 1 FROM pragma_table_info(?) WHERE name = 'run_id')`, table).Scan(&of); err != nil {
				t.Fatal(err)
			}
			if !of {
				continue
			}
			if _, err := tx.Exec("DELETE FROM "+table+" WHERE run_id = ?", id[:]); err != nil {
				t.Fatal(table, err)
			}
		}
		if _, err := tx.Exec("DELETE FROM runs WHERE id = ?", id[:]); err != nil {
			t.Fatal(err)
		}
	}
	for _, table := range tables {
		cols, err := tx.Query(`SELECT name FROM pragma_table_info('` + table + `')`)
		if err != nil {
			t.Fatal(err)
		}
		var list, quoted string
		for cols.Next() {
			var n string
			if err := cols.Scan(&n); err != nil {
				t.Fatal(err)
			}
			if list != "" {
				list += ", "
				quoted += ` || ', ' || `
			}
			list += n
			quoted += "quote(" + n + ")"
		}
		if err := errors.Join(cols.Err(), cols.Close()); err != nil {
			t.Fatal(err)
		}
		vs, err := tx.Query(`SELECT ` + quoted + ` FROM ` + table)
		if err != nil {
			t.Fatal(err)
		}
		for vs.Next() {
			var v string
			if err := vs.Scan(&v); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(f, "INSERT INTO %s (%s) VALUES (%s);\n", table, list, v)
		}
		if err := errors.Join(vs.Err(), vs.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// task is a call of the agent "tester" by another one.
func task(turns ...[]string) string {
	b, err := json.Marshal(turns)
	if err == nil {
		b, err = json.Marshal(map[string]string{"input": string(b)})
	}
	if err != nil {
		panic(err)
	}
	return "tester " + string(b)
}

// children are the runs that a run has started.
func children(w *world, id events.RunID) (ids []events.RunID) {
	for _, e := range w.history(id) {
		if c, ok := e.Data.(events.ChildStarted); ok {
			ids = append(ids, c.Child)
		}
	}
	return ids
}

// later is a run that no worker takes while the others are recorded.
func later(t *testing.T, w *world) ledger.Submission {
	in, err := w.red.JSON([][]string{{`finish {"answer":"queued"}`}})
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Submission{Tenant: "default", Queue: "later", Agent: "tester", ClientKey: "queued", Input: in, InputMAC: []byte("mac"), Requires: []string{runtime.Capability("tester")}, DueAt: time.Now().AddDate(100, 0, 0)}
}
