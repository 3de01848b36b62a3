package memorydb_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/toolstest"
)

func event(text string, extends ...string) memory.Event {
	payload, err := json.Marshal(map[string]string{"data": text})
	if err != nil {
		panic(err)
	}
	return memory.Event{ContextID: "topic:t", Payload: payload, Links: memory.Links{Extends: extends}}
}

func found(t *testing.T, m *memorydb.Store, s memory.Scope, text string) []string {
	t.Helper()
	f, err := m.Retrieve(t.Context(), memory.Query{Scope: s, Text: text, Limit: new(1000)})
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{}
	for _, r := range f.Items {
		texts = append(texts, r.Text)
	}
	return texts
}

// both runs a test on each of the databases.
func both(t *testing.T, test func(t *testing.T, st *sqlstore.Store, m *memorydb.Store)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			r := redact.New(redact.Config{})
			st := d.open(t, r)
			test(t, st, memoryIn(t, st, r))
		})
	}
}

func TestNew(t *testing.T) {
	r := redact.New(redact.Config{})
	st := openSQLite(t, r)
	if _, err := memorydb.New(nil, memorydb.Config{Redactor: r}); err == nil {
		t.Error("a memory without a database")
	}
	if _, err := memorydb.New(st.DB(), memorydb.Config{}); err == nil || !strings.Contains(err.Error(), "Redactor") {
		t.Errorf("a memory without a redactor: %v", err)
	}
}

// TestConcurrentWriters: many write the same and their own at once, through two
// processes' worth of stores; the same is there once, and nothing is lost.
func TestConcurrentWriters(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, m *memorydb.Store) {
		other := memoryIn(t, st, redact.New(redact.Config{}))
		const writers, each = 8, 12
		ids := make([][]string, writers)
		var all sync.WaitGroup
		for w := range writers {
			all.Go(func() {
				c := []*memorydb.Store{m, other}[w%2]
				for i := range each {
					same, own := event(fmt.Sprintf("apple same%d", i)), event(fmt.Sprintf("apple own%dof%d", i, w))
					same.Key, own.Key = fmt.Sprintf("same %d", i), fmt.Sprintf("own %d of %d", i, w)
					batch := []memory.Event{same, own}
					if w%3 == 0 {
						slices.Reverse(batch) // locks are taken in another order
					}
					out, err := c.StoreEvents(t.Context(), memory.Scope{Tenant: "a", Root: "r:r", Owner: fmt.Sprintf("o%d", w%4)}, batch)
					if err != nil {
						t.Error(err)
						return
					}
					ids[w] = append(ids[w], out.Results[slices.IndexFunc(batch, func(e memory.Event) bool { return e.Key == same.Key })].EventID)
				}
			})
		}
		all.Wait()
		for w := range writers {
			if !slices.Equal(ids[w], ids[0]) {
				t.Errorf("writer %d was told %v, another %v", w, ids[w], ids[0])
			}
		}
		if got := len(found(t, m, memory.Scope{Tenant: "a", Root: "r:r"}, "apple")); got != each+writers*each {
			t.Errorf("%d notes, want %d", got, each+writers*each)
		}
	})
}

// TestRememberTwiceIsOnce: a call that is made again after a crash, by another
// worker, a retry of the run or a model that asks twice all find the one note
// (SG-84).
func TestRememberTwiceIsOnce(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, m *memorydb.Store) {
		r := redact.New(redact.Config{})
		remember := func() string {
			mem, err := memory.New(memory.Options{Client: memoryIn(t, st, r), Root: memory.FixedRoot("user:ada"), Redactor: r})
			if err != nil {
				t.Fatal(err)
			}
			var reg tools.Registry
			for _, tool := range mem.Tools() {
				if err := reg.Add(tool); err != nil {
					t.Fatal(err)
				}
			}
			run := toolstest.NewLedger().Run()
			d, err := tools.NewDispatcher(&reg, tools.Config{}).Dispatch(t.Context(), run.Env(), tools.Call{Name: "remember", Arguments: json.RawMessage(
				`{"context":"Preference: Drink","text":"Ada drinks oolong.","details":{"since":2020}}`)})
			if err != nil || d.Result.Status != tools.Completed {
				t.Fatalf("%+v, %v", d.Result, err)
			}
			return d.Result.Output
		}
		if a, b := remember(), remember(); a != b {
			t.Errorf("told %q, then %q", a, b)
		}
		if n := count(t, st, `SELECT count(*) FROM memory_notes`); n != 1 {
			t.Errorf("%d notes", n)
		}
	})
}

func count(t *testing.T, st *sqlstore.Store, q string, args ...any) (n int) {
	t.Helper()
	err := st.DB().Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error { return tx.QueryRow(ctx, q, args...).Scan(&n) })
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return n
}

// dump is all that the tables of a memory hold, as text.
func dump(t *testing.T, st *sqlstore.Store) string {
	t.Helper()
	var b strings.Builder
	err := st.DB().Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		for _, q := range []string{
			`SELECT tenant || ' ' || root || ' ' || context_id || ' ' || kind || ' ' || source || ' ' || text || ' ' || CAST(details AS text) || ' ' || CAST(links AS text) FROM memory_notes`,
			`SELECT tenant || ' ' || gate || ' ' || context_id FROM memory_gates`,
			`SELECT tenant || ' ' || gate || ' ' || word FROM memory_words`,
			`SELECT tenant || ' ' || gate || ' ' || from_context || ' ' || root || ' ' || kind || ' ' || to_context FROM memory_links`,
			`SELECT tenant || ' ' || owner FROM memory_owners`,
			`SELECT tenant || ' ' || owner FROM memory_holders`,
			`SELECT tenant || ' ' || root || ' ' || owner || ' ' || source || ' ' || stream || ' ' || CAST(payload AS text) FROM memory_moments`,
		} {
			rows, err := tx.Query(ctx, q)
			if err != nil {
				return err
			}
			n := 0
			for ; rows.Next(); n++ {
				var line string
				if err := rows.Scan(&line); err != nil {
					return err
				}
				b.WriteString(line + "\n")
			}
			rows.Close()
			if err := rows.Err(); err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("nothing was looked at: %s", q)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCanary: secrets that are registered, look like keys or stand under a name
// such as password are in no table, wherever they were put.
func TestCanary(t *testing.T) {
	canaries := []string{"canary-registered-7f3a", "sk-proj-Ab3dE5gH7jK9mN1pQ3sT5vW7xY9zB2cD4fG6hJ8kL", "hunter2-under-a-name"}
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			r := redact.New(redact.Config{})
			if err := r.Register("canary", canaries[0]); err != nil {
				t.Fatal(err)
			}
			st := d.open(t, r)
			m := memoryIn(t, st, r)
			s := memory.Scope{Tenant: "a", Root: "r:r", Owner: "ada"}
			for i, payload := range []string{
				`{"data":"it is canary-registered-7f3a and sk-proj-Ab3dE5gH7jK9mN1pQ3sT5vW7xY9zB2cD4fG6hJ8kL","password":"hunter2-under-a-name","list":["canary-registered-7f3a"]}`,
				`{"password":"hunter2-under-a-name","data":7}`,
				`"canary-registered-7f3a"`,
			} {
				e := memory.Event{ContextID: "c:c", Kind: "of canary-registered-7f3a", Source: "canary-registered-7f3a", Payload: json.RawMessage(payload), Links: memory.Links{RelatedTo: []string{"o:o"}}}
				if _, err := m.StoreEvents(t.Context(), s, []memory.Event{e}); err != nil {
					t.Fatalf("payload %d: %v", i, err)
				}
				if err := m.Observe(t.Context(), s, memory.Moment{Source: "canary-registered-7f3a", Stream: "canary-registered-7f3a", Payload: json.RawMessage(payload)}); err != nil {
					t.Fatalf("moment %d: %v", i, err)
				}
			}
			for _, e := range []memory.Event{
				{ContextID: "c:canary-registered-7f3a", Payload: json.RawMessage(`"x"`)},
				{Payload: json.RawMessage(`"x"`), Links: memory.Links{Contradicts: []string{"canary-registered-7f3a"}}},
			} {
				if _, err := m.StoreEvents(t.Context(), s, []memory.Event{e}); err == nil || strings.Contains(err.Error(), canaries[0]) {
					t.Errorf("an id with a secret: %v", err)
				}
			}
			if _, err := m.StoreEvents(t.Context(), memory.Scope{Tenant: "a", Root: "r:canary-registered-7f3a"}, []memory.Event{event("x")}); err == nil {
				t.Error("a root with a secret was kept")
			}
			all := dump(t, st)
			for _, c := range canaries {
				if strings.Contains(strings.ToLower(all), strings.ToLower(c)) {
					t.Errorf("%s is in the tables:\n%s", c, all)
				}
			}
			if !strings.Contains(all, "it is ") {
				t.Errorf("nothing was kept:\n%s", all)
			}
		})
	}
}

// TestWhatIsNoText: NUL, broken UTF-8 and words and texts without end are refused
// or kept, and never an error of the database.
func TestWhatIsNoText(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, m *memorydb.Store) {
		s := memory.Scope{Tenant: "a", Root: "r:r"}
		long := strings.Repeat("abcdefgh", 4000)
		for _, e := range []memory.Event{
			{Payload: json.RawMessage(`"plum \u0000 end"`)},
			{Payload: json.RawMessage(`{"data":"plum","n":"\u0000","deep":{"\u0000":1}}`)},
			{Payload: json.RawMessage(`"plum ` + long + `"`)},
		} {
			if _, err := m.StoreEvents(t.Context(), s, []memory.Event{e}); err != nil {
				t.Errorf("%.60s: %v", e.Payload, err)
			}
		}
		if n := len(found(t, m, s, "plum")); n != 3 {
			t.Errorf("%d notes, want 3", n)
		}
		if n := len(found(t, m, s, long)); n != 1 {
			t.Errorf("a long word finds %d notes, want 1", n)
		}
		bad := []string{"c:\x00", "c:\xff", "c:" + strings.Repeat("x", 600)}
		for _, id := range bad {
			for _, e := range []memory.Event{{ContextID: id, Payload: json.RawMessage(`"x"`)}, {Payload: json.RawMessage(`"x"`), Links: memory.Links{RelatedTo: []string{id}}}} {
				if _, err := m.StoreEvents(t.Context(), s, []memory.Event{e}); err == nil {
					t.Errorf("kept %.20q", id)
				}
			}
			if _, err := m.StoreEvents(t.Context(), memory.Scope{Tenant: "a", Root: id}, []memory.Event{event("x")}); err == nil {
				t.Errorf("kept under root %.20q", id)
			}
			q := memory.Query{Scope: s, Text: "plum", Prefer: []string{id}, Sources: []string{id, "assistant"}}
			if f, err := m.Retrieve(t.Context(), q); err != nil || len(f.Items) != 3 {
				t.Errorf("%.20q preferred: %d notes, %v", id, len(f.Items), err)
			}
			if f, err := m.Retrieve(t.Context(), memory.Query{Scope: s, Text: "plum", ContextIDs: []string{id}}); err != nil || len(f.Items) != 0 {
				t.Errorf("%.20q as filter: %d notes, %v", id, len(f.Items), err)
			}
			for _, scope := range []memory.Scope{{Tenant: id, Root: "r:r"}, {Tenant: "a", Root: id}} {
				if f, err := m.Retrieve(t.Context(), memory.Query{Scope: scope, Text: "plum"}); err != nil || len(f.Items) != 0 {
					t.Errorf("scope %.20q: %d notes, %v", id, len(f.Items), err)
				}
				if l, err := m.ContextTypes(t.Context(), scope); err != nil || l.Total != 0 {
					t.Errorf("scope %.20q: %+v, %v", id, l, err)
				}
			}
			if l, err := m.SearchContexts(t.Context(), memory.ContextQuery{Scope: s, Text: id}); err != nil || l.Total != 0 {
				t.Errorf("search for %.20q: %+v, %v", id, l, err)
			}
			if g, err := m.ContextGraph(t.Context(), memory.GraphQuery{Scope: s, Type: "c", Name: id}); err != nil || len(g.Nodes) != 0 {
				t.Errorf("around %.20q: %+v, %v", id, g, err)
			}
		}
		large := make([]memory.Event, 1001)
		for i := range large {
			large[i] = event("x")
		}
		words := make([]string, 5000)
		for i := range words {
			words[i] = fmt.Sprintf("w%03d", i)
		}
		extends := make([]string, 200)
		for i := range extends {
			extends[i] = fmt.Sprintf("e:%d", i)
		}
		for what, batch := range map[string][]memory.Event{
			"a batch": large, "a text": {event(strings.Repeat("x ", 40<<10))}, "links": {event("x", make([]string, 300)...)},
			"words times contexts": {event(strings.Join(words, " "), extends...)},
		} {
			if _, err := m.StoreEvents(t.Context(), memory.Scope{Tenant: "a"}, batch); err == nil {
				t.Errorf("%s without bound was kept", what)
			}
		}
	})
}

// recorded notes every statement.
type recorded struct {
	sqlstore.DB
	mu  sync.Mutex
	all map[string]bool
}

func (d *recorded) Write(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.DB.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, recordedTx{tx, d}) })
}

func (d *recorded) Read(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.DB.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, recordedTx{tx, d}) })
}

type recordedTx struct {
	sqlstore.Tx
	d *recorded
}

func (t recordedTx) note(q string) {
	t.d.mu.Lock()
	defer t.d.mu.Unlock()
	t.d.all[q] = true
}

func (t recordedTx) Exec(ctx context.Context, q string, args ...any) (int64, error) {
	t.note(q)
	return t.Tx.Exec(ctx, q, args...)
}

func (t recordedTx) Later(ctx context.Context, what, q string, args ...any) error {
	t.note(q)
	return t.Tx.Later(ctx, what, q, args...)
}

func (t recordedTx) Query(ctx context.Context, q string, args ...any) (sqlstore.Rows, error) {
	t.note(q)
	return t.Tx.Query(ctx, q, args...)
}

func (t recordedTx) QueryRow(ctx context.Context, q string, args ...any) sqlstore.Row {
	t.note(q)
	return t.Tx.QueryRow(ctx, q, args...)
}

func (t recordedTx) InsertMany(ctx context.Context, table string, columns []string, rows [][]any, conflict string) (int64, error) {
	t.note("INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ")")
	return t.Tx.InsertMany(ctx, table, columns, rows, conflict)
}

// TestEveryStatementNamesTheTenant: every mention of a table in a statement has
// the tenant beside it.
func TestEveryStatementNamesTheTenant(t *testing.T) {
	r := redact.New(redact.Config{})
	d := &recorded{DB: openSQLite(t, r).DB(), all: map[string]bool{}}
	m, err := memorydb.New(d, memorydb.Config{Redactor: r})
	if err != nil {
		t.Fatal(err)
	}
	crowd(t, m, "a", 2, 20)
	for _, s := range []memory.Scope{{Tenant: "a"}, {Tenant: "a", Root: "user:1", Owner: "o"}, {Tenant: "a", Root: "team:all"}} {
		for _, a := range asks(m, s) {
			_ = a.ask(t) // some find nothing in so few
		}
		if _, err := m.StoreEvents(t.Context(), s, []memory.Event{{Key: "k", Payload: json.RawMessage(`"x"`)}, {Key: "k", Payload: json.RawMessage(`"x"`)}}); err != nil {
			t.Fatal(err)
		}
		if err := m.Observe(t.Context(), s, memory.Moment{Payload: json.RawMessage(`1`)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Moments(t.Context(), "a", 0, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Forget(t.Context(), "a", []int64{1}); err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?:FROM|JOIN|UPDATE) memory_\w+`)
	fenced := regexp.MustCompile(`tenant = \$1`)
	for q := range d.all {
		switch tables := len(table.FindAllString(q, -1)); {
		case strings.HasPrefix(strings.TrimSpace(q), "INSERT INTO"):
			if !strings.Contains(q, "tenant") {
				t.Errorf("writes without the tenant: %s", q)
			}
		case tables == 0 || len(fenced.FindAllString(q, -1)) < tables:
			t.Errorf("%d tables, and the tenant %d times: %s", tables, len(fenced.FindAllString(q, -1)), q)
		}
	}
	if len(d.all) < 15 {
		t.Errorf("%d statements were looked at", len(d.all))
	}
}

// TestEnds: a request whose context has ended fails, and writes nothing.
func TestEnds(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, m *memorydb.Store) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		s := memory.Scope{Tenant: "a", Root: "r:r"}
		_, e1 := m.StoreEvents(ctx, s, []memory.Event{event("x")})
		_, e2 := m.Retrieve(ctx, memory.Query{Scope: s, Text: "fig"})
		_, e3 := m.DeepRecall(ctx, memory.Question{Scope: s, Text: "fig"})
		_, e4 := m.ContextTypes(ctx, s)
		_, e5 := m.ContextGraph(ctx, memory.GraphQuery{Scope: s, Type: "a", Name: "b"})
		for i, err := range []error{e1, e2, e3, e4, e5, m.Observe(ctx, s, memory.Moment{Payload: json.RawMessage(`1`)})} {
			if err == nil || !errors.Is(err, context.Canceled) {
				t.Errorf("request %d: %v", i+1, err)
			}
		}
		if n := count(t, st, `SELECT count(*) FROM memory_notes`); n != 0 {
			t.Errorf("%d notes", n)
		}
	})
}

// SG-93 SG-110: moments are kept, and no notes.
func TestMoments(t *testing.T) {
	both(t, func(t *testing.T, _ *sqlstore.Store, m *memorydb.Store) {
		for i := range 5 {
			s := memory.Scope{Tenant: []string{"a", "b"}[i%2], Root: "r:r", Owner: "ada"}
			if err := m.Observe(t.Context(), s, memory.Moment{Source: "s", Stream: "chat", Payload: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}); err != nil {
				t.Fatal(err)
			}
		}
		page, err := m.Moments(t.Context(), "a", 0, 2)
		if err != nil || len(page) != 2 || string(page[1].Moment.Payload) != `{"n":2}` || page[1].Owner != "ada" || page[1].Root != "r:r" || page[1].Moment.Stream != "chat" || page[1].At.IsZero() {
			t.Fatalf("%+v, %v", page, err)
		}
		if n, err := m.Forget(t.Context(), "a", []int64{page[0].ID, page[1].ID, page[1].ID + 1}); n != 2 || err != nil {
			t.Errorf("forgot %d, %v", n, err)
		}
		if page, err = m.Moments(t.Context(), "a", 0, 10); err != nil || len(page) != 1 || string(page[0].Moment.Payload) != `{"n":4}` {
			t.Errorf("%+v, %v", page, err)
		}
		if page, err = m.Moments(t.Context(), "b", 0, 10); err != nil || len(page) != 2 {
			t.Errorf("of the other tenant: %+v, %v", page, err)
		}
	})
}
