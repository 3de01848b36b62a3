package memorydb_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// keep stores a note under its text as key, and returns what it is known by.
func keep(t *testing.T, m *memorydb.Store, s memory.Scope, text string, change ...func(*memory.Event)) events.ID {
	t.Helper()
	e := event(text, s.Root)
	e.Key = text + " in " + s.Root
	for _, c := range change {
		c(&e)
	}
	out, err := m.StoreEvents(t.Context(), s, []memory.Event{e})
	if err != nil {
		t.Fatal(err)
	}
	id, err := events.ParseID(out.Results[0].EventID)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func textsOf(all []memorydb.Note) []string {
	out := []string{}
	for _, n := range all {
		out = append(out, n.Text)
	}
	return out
}

// TestNotes: people see notes with where they came from, filtered and in pages,
// and never those of another tenant.
func TestNotes(t *testing.T) {
	both(t, func(t *testing.T, _ *sqlstore.Store, m *memorydb.Store) {
		run := events.NewIDs(nil, nil).Run()
		s := memory.Scope{Tenant: "a", Root: "user:ada", Owner: "ada", Run: run, Call: events.CallID{Turn: 3, Index: 1}}
		id := keep(t, m, s, "berry one", func(e *memory.Event) {
			e.Source, e.RelatedTo, e.Contradicts = "tool", []string{"topic:x"}, []string{"topic:y"}
			e.Payload = []byte(`{"data":"berry one","since":2020}`)
		})
		again := s
		again.Owner, again.Run = "bob", events.NewIDs(nil, nil).Run()
		if other := keep(t, m, again, "berry one"); other != id {
			t.Fatalf("the same note is %s and %s", id, other)
		}
		keep(t, m, memory.Scope{Tenant: "a", Root: "user:bob", Owner: "bob"}, "berry two", func(e *memory.Event) { e.ContextID = "topic:two" })
		keep(t, m, memory.Scope{Tenant: "a"}, "berry of the host")
		keep(t, m, memory.Scope{Tenant: "b", Root: "user:ada", Owner: "ada"}, "berry of another tenant")

		n, err := m.Note(t.Context(), "a", id)
		if err != nil {
			t.Fatal(err)
		}
		want := memorydb.Note{
			ID: n.ID, Locus: id, Root: "user:ada", Context: "topic:t", Kind: "fact", Source: "tool", Text: "berry one", Details: []byte(`{"since":2020}`),
			Links: memory.Links{Extends: []string{"user:ada"}, RelatedTo: []string{"topic:x"}, Reinforces: []string{}, Contradicts: []string{"topic:y"}},
			// Who wrote it first, and not who remembered the same later.
			Owners: []string{"ada", "bob"}, Run: run, Call: events.CallID{Turn: 3, Index: 1}, At: n.At,
		}
		if d := cmp.Diff(want, n); d != "" || n.At.IsZero() || n.Weight() != 80 {
			t.Errorf("weight %d, at %s, -want +got:\n%s", n.Weight(), n.At, d)
		}
		if _, err := m.Note(t.Context(), "b", id); !errors.Is(err, memorydb.ErrNotFound) {
			t.Errorf("through another tenant: %v", err)
		}

		for _, tt := range []struct {
			name string
			f    memorydb.NoteFilter
			want []string
		}{
			{"all, newest first", memorydb.NoteFilter{}, []string{"berry of the host", "berry two", "berry one"}},
			{"a root", memorydb.NoteFilter{Root: new("user:bob")}, []string{"berry two"}},
			{"the host's own", memorydb.NoteFilter{Root: new("")}, []string{"berry of the host"}},
			{"an owner", memorydb.NoteFilter{Owner: "bob"}, []string{"berry two", "berry one"}},
			{"a context", memorydb.NoteFilter{Context: "topic:two"}, []string{"berry two"}},
			{"a source", memorydb.NoteFilter{Source: "tool"}, []string{"berry one"}},
			{"a run", memorydb.NoteFilter{Run: run}, []string{"berry one"}},
			{"a run that wrote nothing first", memorydb.NoteFilter{Run: again.Run}, []string{}},
			{"a page", memorydb.NoteFilter{Limit: 2}, []string{"berry of the host", "berry two"}},
			{"the next", memorydb.NoteFilter{Limit: 2, Before: n.ID + 1}, []string{"berry one"}},
			{"what no note has", memorydb.NoteFilter{Context: "\xff"}, []string{}},
		} {
			tt.f.Tenant = "a"
			all, err := m.Notes(t.Context(), tt.f)
			if got := textsOf(all); err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("%s: %q, %v; want %q", tt.name, got, err, tt.want)
			}
		}
	})
}

// TestForgetNote: a note goes with everything that it was found by, whoever it is
// kept for; nobody's owner is erased; and the record has who, why and a digest,
// and nothing of what it said.
func TestForgetNote(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			r := redact.New(redact.Config{})
			if err := r.Register("canary", "canary-registered-7f3a"); err != nil {
				t.Fatal(err)
			}
			st := d.open(t, r)
			m := memoryIn(t, st, r)
			ada := memory.Scope{Tenant: "a", Root: "user:ada", Owner: "ada"}
			bob := ada
			bob.Owner = "bob"
			id := keep(t, m, ada, "berry poisoned")
			keep(t, m, bob, "berry poisoned")
			keep(t, m, ada, "berry sound")
			if _, err := m.ForgetNote(t.Context(), "b", id, "dpo", "why"); !errors.Is(err, memorydb.ErrNotFound) {
				t.Fatalf("through another tenant: %v", err)
			}
			for _, bad := range [][2]string{{"", "why"}, {"dpo", ""}, {"dpo", "\xff"}} {
				if _, err := m.ForgetNote(t.Context(), "a", id, bad[0], bad[1]); err == nil || errors.Is(err, memorydb.ErrNotFound) {
					t.Errorf("by %q because %q: %v", bad[0], bad[1], err)
				}
			}
			n, err := m.Note(t.Context(), "a", id)
			if err != nil {
				t.Fatal(err)
			}
			digest, err := n.Digest()
			if err != nil {
				t.Fatal(err)
			}
			got, err := m.ForgetNote(t.Context(), "a", id, "dpo", "planted; it had canary-registered-7f3a")
			if err != nil || got.Digest != digest || got.Notes != 1 || got.Locus != id || got.Root != "user:ada" || got.By != "dpo" || got.At.IsZero() {
				t.Fatalf("%+v, %v", got, err)
			}
			if strings.Contains(got.Reason, "canary-registered-7f3a") || !strings.HasPrefix(got.Reason, "planted") {
				t.Errorf("reason %q", got.Reason)
			}
			if _, err := m.ForgetNote(t.Context(), "a", id, "dpo", "again"); !errors.Is(err, memorydb.ErrNotFound) {
				t.Errorf("again: %v", err)
			}
			if left := found(t, m, ada, "berry"); !slices.Equal(left, []string{"berry sound"}) {
				t.Errorf("left: %q", left)
			}
			if n := count(t, st, `SELECT count(*) FROM memory_words WHERE word = 'poisoned'`); n != 0 {
				t.Error("its words are left")
			}
			orphans(t, st)
			log, err := m.Removals(t.Context(), "a", 0, 10)
			if err != nil || len(log) != 1 || log[0] != got {
				t.Errorf("log %+v, %v; want %+v", log, err, got)
			}
			if log, err := m.Removals(t.Context(), "b", 0, 10); err != nil || len(log) != 0 {
				t.Errorf("log of another tenant: %+v, %v", log, err)
			}
			// Nobody is erased, and the same can be remembered anew.
			if now := keep(t, m, ada, "berry poisoned"); now == id {
				t.Error("it came back")
			}
		})
	}
}

func orphans(t *testing.T, st *sqlstore.Store) {
	t.Helper()
	for _, table := range []string{"memory_gates", "memory_words", "memory_links", "memory_holders"} {
		if n := count(t, st, `SELECT count(*) FROM `+table+` WHERE note_id NOT IN (SELECT id FROM memory_notes)`); n != 0 {
			t.Errorf("%s has %d rows of notes that are gone", table, n)
		}
	}
}

// TestForgetRoot: all that belongs to a root goes, over more transactions than
// one, each with its record; other roots, the host's notes about this one and
// other tenants stay.
func TestForgetRoot(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, m *memorydb.Store) {
		ada := memory.Scope{Tenant: "a", Root: "user:ada", Owner: "ada"}
		host := keep(t, m, memory.Scope{Tenant: "a"}, "berry of the host", func(e *memory.Event) { e.Extends = []string{"user:ada"} })
		keep(t, m, ada, "berry of ada")
		keep(t, m, memory.Scope{Tenant: "a", Root: "user:bob"}, "berry of bob")
		keep(t, m, memory.Scope{Tenant: "b", Root: "user:ada"}, "berry of another tenant")
		for _, s := range []memory.Scope{ada, {Tenant: "a", Root: "user:bob"}, {Tenant: "b", Root: "user:ada"}} {
			if err := m.Observe(t.Context(), s, memory.Moment{Source: "s", Payload: []byte(`"berry"`)}); err != nil {
				t.Fatal(err)
			}
		}
		const many = 5003
		batch := make([]memory.Event, 0, many)
		for i := range many {
			batch = append(batch, event(fmt.Sprintf("cherry%d", i), "user:ada"))
		}
		for b := range slices.Chunk(batch, 1000) {
			if _, err := m.StoreEvents(t.Context(), ada, b); err != nil {
				t.Fatal(err)
			}
		}
		if notes, moments, err := m.Held(t.Context(), "a", "user:ada"); err != nil || notes != many+1 || moments != 1 {
			t.Fatalf("holds %d notes and %d moments, %v", notes, moments, err)
		}
		if _, err := m.ForgetRoot(t.Context(), "a", "", "dpo", "why"); err == nil {
			t.Fatal("the host's own notes were forgotten")
		}
		sum, err := m.ForgetRoot(t.Context(), "a", "user:ada", "dpo", "why")
		if err != nil || sum.Notes != many+1 || sum.Moments != 1 || sum.By != "dpo" {
			t.Fatalf("%+v, %v", sum, err)
		}
		if all, err := m.Notes(t.Context(), memorydb.NoteFilter{Tenant: "a"}); err != nil || !slices.Equal(textsOf(all), []string{"berry of bob", "berry of the host"}) {
			t.Errorf("left: %q, %v", textsOf(all), err)
		}
		if left := found(t, m, memory.Scope{Tenant: "b", Root: "user:ada"}, "berry"); len(left) != 1 {
			t.Errorf("of another tenant: %q", left)
		}
		if n := count(t, st, `SELECT count(*) FROM memory_moments`); n != 2 {
			t.Errorf("%d moments are left, want 2", n)
		}
		orphans(t, st)
		log, err := m.Removals(t.Context(), "a", 0, 10)
		if err != nil || len(log) != 2 || log[0].Notes+log[1].Notes != many+1 || log[1].Notes != 5000 || log[0].Moments != 1 || log[0].Digest == log[1].Digest {
			t.Errorf("log %+v, %v", log, err)
		}
		if page, err := m.Removals(t.Context(), "a", log[0].ID, 10); err != nil || len(page) != 1 || page[0] != log[1] {
			t.Errorf("the next page: %+v, %v", page, err)
		}
		if _, err := m.ForgetRoot(t.Context(), "a", "user:ada", "dpo", "why"); !errors.Is(err, memorydb.ErrNotFound) {
			t.Errorf("again: %v", err)
		}
		if _, err := m.Note(t.Context(), "a", host); err != nil {
			t.Errorf("the host's note: %v", err)
		}
	})
}

// TestForgetRaces: who remembers what is being forgotten either keeps it anew or
// loses it as a whole; nothing is left that belongs to no note.
func TestForgetRaces(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, m *memorydb.Store) {
		for i := range 8 {
			ada := memory.Scope{Tenant: "a", Root: "user:ada", Owner: "ada"}
			text := fmt.Sprintf("berry%d", i)
			id := keep(t, m, ada, text)
			var all sync.WaitGroup
			for w := range 3 {
				all.Go(func() {
					e := event(text, "user:ada")
					e.Key = text + " in user:ada"
					if _, err := m.StoreEvents(t.Context(), memory.Scope{Tenant: "a", Root: "user:ada", Owner: fmt.Sprint("o", w)}, []memory.Event{e}); err != nil {
						t.Errorf("remember: %v", err)
					}
				})
			}
			all.Go(func() {
				if _, err := m.ForgetNote(t.Context(), "a", id, "dpo", "why"); err != nil {
					t.Errorf("forget: %v", err)
				}
			})
			all.Wait()
			orphans(t, st)
			if n := count(t, st, `SELECT count(*) FROM memory_notes n WHERE NOT EXISTS (SELECT 1 FROM memory_words w WHERE w.note_id = n.id)`); n != 0 {
				t.Fatalf("round %d: %d notes cannot be found", i, n)
			}
		}
	})
}

// TestFull: a root that holds as many notes as it may refuses more, as a whole
// batch, and says what to do; what it has is still found and kept, and other
// roots and the host are not concerned.
func TestFull(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			r := redact.New(redact.Config{})
			st := d.open(t, r)
			m, err := memorydb.New(st.DB(), memorydb.Config{Redactor: r, MaxNotes: 3})
			if err != nil {
				t.Fatal(err)
			}
			ada := memory.Scope{Tenant: "a", Root: "user:ada"}
			keep(t, m, ada, "berry one")
			first := keep(t, m, ada, "berry two")
			_, err = m.StoreEvents(t.Context(), ada, []memory.Event{event("berry three", "user:ada"), event("berry four", "user:ada")})
			if !errors.Is(err, memorydb.ErrFull) || !strings.Contains(err.Error(), "do not try again") {
				t.Errorf("a batch that is too large: %v", err)
			}
			keep(t, m, ada, "berry three")
			if _, err := m.StoreEvents(t.Context(), ada, []memory.Event{event("berry four", "user:ada")}); !errors.Is(err, memorydb.ErrFull) {
				t.Errorf("one more: %v", err)
			}
			if again := keep(t, m, ada, "berry two"); again != first {
				t.Error("the same note is another")
			}
			if got := found(t, m, ada, "berry"); len(got) != 3 {
				t.Errorf("holds %q", got)
			}
			keep(t, m, memory.Scope{Tenant: "a", Root: "user:bob"}, "berry of bob")
			for i := range 4 {
				keep(t, m, memory.Scope{Tenant: "a"}, fmt.Sprintf("berry %d of the host", i))
			}
			if _, err := m.ForgetNote(t.Context(), "a", first, "dpo", "room"); err != nil {
				t.Fatal(err)
			}
			keep(t, m, ada, "berry four")
		})
	}
}

// TestNotePlans: a list reads no more than its filter has, through an index.
func TestNotePlans(t *testing.T) {
	r := redact.New(redact.Config{})
	st := openPostgres(t, r)
	for _, q := range []string{
		`INSERT INTO memory_notes (locus, tenant, root, context_id, kind, source, text, details, links, created_at)
			SELECT gen_random_uuid(), 't' || n % 10, 'user:' || n % 501, 'topic:' || n % 50, 'fact', 'user', repeat('x', 200), '{}', '{}', now()
			FROM generate_series(1, 30000) n`,
		`INSERT INTO memory_holders (tenant, owner, note_id) SELECT tenant, 'o' || id % 100, id FROM memory_notes`,
		`ANALYZE`,
	} {
		exec(t, st, q)
	}
	d := &explained{DB: st.DB(), how: "EXPLAIN", columns: 1}
	m, err := memorydb.New(d, memorydb.Config{Redactor: r})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []memorydb.NoteFilter{{}, {Before: 1000}, {Root: new("user:3")}, {Owner: "o3"}} {
		f.Tenant, f.Limit = "t3", 51
		_, _ = m.Notes(t.Context(), f) // the links of these rows are no links
	}
	_, _ = m.Note(t.Context(), "t3", events.NewIDs(nil, nil).Event())
	if len(d.plans) < 5 {
		t.Fatalf("%d plans", len(d.plans))
	}
	for _, p := range d.plans {
		if regexp.MustCompile(`Seq Scan on memory_`).MatchString(p) {
			t.Errorf("reads what is not asked for:\n%s", p)
		}
	}
}

// TestRememberedBy: a note says which call remembered it; and in a root that is
// full the model gets a failed result that says so.
func TestRememberedBy(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, _ *memorydb.Store) {
		r := redact.New(redact.Config{})
		m, err := memorydb.New(st.DB(), memorydb.Config{Redactor: r, MaxNotes: 1})
		if err != nil {
			t.Fatal(err)
		}
		mem, err := memory.New(memory.Options{Client: m, Root: memory.FixedRoot("user:ada"), Redactor: r})
		if err != nil {
			t.Fatal(err)
		}
		var reg tools.Registry
		for _, tool := range mem.Tools() {
			if err := reg.Add(tool); err != nil {
				t.Fatal(err)
			}
		}
		env := toolstest.NewLedger().Run().Env()
		remember := func(id events.CallID, text string) events.ToolResult {
			d, err := tools.NewDispatcher(&reg, tools.Config{}).Dispatch(t.Context(), env, tools.Call{ID: id, Name: "remember", Arguments: []byte(`{"context":"topic:tea","text":"` + text + `"}`)})
			if err != nil {
				t.Fatal(err)
			}
			return d.Result
		}
		call := events.CallID{Turn: 2, Index: 1}
		if res := remember(call, "Ada drinks oolong."); res.Status != tools.Completed {
			t.Fatalf("%+v", res)
		}
		all, err := m.Notes(t.Context(), memorydb.NoteFilter{Tenant: env.Tenant, Run: env.Run})
		if err != nil || len(all) != 1 || all[0].Run != env.Run || all[0].Run == (events.RunID{}) || all[0].Call != call {
			t.Errorf("%+v, %v; want call %s of run %s", all, err, call, env.Run)
		}
		if res := remember(events.CallID{Turn: 3}, "Ada drinks sencha."); res.Status != tools.Failed || !strings.Contains(res.Error, "memory is full") {
			t.Errorf("in a full root: %+v", res)
		}
	})
}
