package shareddb_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/shareddb"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/sharedmemory"
	"github.com/daybookhq/daybook/tools/toolstest"
)

const canary = "canary-registered-7f3a"

// both runs a test on each of the databases, with a redactor that knows canary.
func both(t *testing.T, test func(t *testing.T, st *sqlstore.Store, p *shareddb.Provider)) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			r := redact.New(redact.Config{})
			if err := r.Register("canary", canary); err != nil {
				t.Fatal(err)
			}
			st := d.open(t, r)
			test(t, st, provider(t, st, shareddb.Config{Redactor: r}))
		})
	}
}

// TestPeopleFillIt: who put, changed and removed what is recorded, in order; what
// was there already is no change.
func TestPeopleFillIt(t *testing.T) {
	both(t, func(t *testing.T, _ *sqlstore.Store, p *shareddb.Provider) {
		ctx := t.Context()
		if _, err := p.Put(ctx, "acme", "team", "/a.md", "x", "ann"); !errors.Is(err, shareddb.ErrNotFound) {
			t.Errorf("put into no store: %v", err)
		}
		must := func(k shareddb.Kept, err error) shareddb.Kept {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		if k := must(p.PutStore(ctx, "acme", sharedmemory.Info{ID: "team", Description: "how we work"}, "ann")); !k.Changed {
			t.Errorf("a new store: %+v", k)
		}
		if k := must(p.PutStore(ctx, "acme", sharedmemory.Info{ID: "team", Description: "how we work"}, "eve")); k.Changed {
			t.Errorf("the same store: %+v", k)
		}
		must(p.PutStore(ctx, "acme", sharedmemory.Info{ID: "team", Description: "how we work now", Writable: true}, "bob"))
		if k := must(p.Put(ctx, "acme", "team", "/a.md", "first", "ann")); !k.Changed || k.Bytes != 5 {
			t.Errorf("a new document: %+v", k)
		}
		if k := must(p.Put(ctx, "acme", "team", "/a.md", "first", "eve")); k.Changed {
			t.Errorf("the same document: %+v", k)
		}
		must(p.Put(ctx, "acme", "team", "/a.md", "second", "bob"))
		must(p.Put(ctx, "acme", "team", "/b/c.md", "", "bob"))
		d, err := p.Document(ctx, "acme", "team", "/a.md")
		if err != nil || d.Content != "second" || d.By != "bob" || d.Bytes != 6 || d.At.IsZero() {
			t.Errorf("%+v, %v", d, err)
		}
		stores, err := p.Stores(ctx, "acme")
		if err != nil || len(stores) != 1 || stores[0].Description != "how we work now" || !stores[0].Writable || stores[0].By != "bob" || stores[0].Documents != 2 || stores[0].Bytes != 6 {
			t.Errorf("%+v, %v", stores, err)
		}
		if page, err := p.Documents(ctx, "acme", "team", "/b", ""); err != nil || len(page) != 1 || page[0].Path != "/b/c.md" {
			t.Errorf("%+v, %v", page, err)
		}
		if err := p.Remove(ctx, "acme", "team", "/a.md", "cid"); err != nil {
			t.Error(err)
		}
		if err := p.Remove(ctx, "acme", "team", "/a.md", "cid"); !errors.Is(err, shareddb.ErrNotFound) {
			t.Errorf("removed again: %v", err)
		}
		if n, err := p.RemoveStore(ctx, "acme", "team", "dan"); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		if _, err := p.RemoveStore(ctx, "acme", "team", "dan"); !errors.Is(err, shareddb.ErrNotFound) {
			t.Errorf("removed again: %v", err)
		}
		if _, err := p.Document(ctx, "acme", "team", "/b/c.md"); !errors.Is(err, shareddb.ErrNotFound) {
			t.Errorf("of a store that is gone: %v", err)
		}
		log, err := p.Changes(ctx, "acme", "team", 0)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, c := range log {
			said = append(said, c.By+" "+c.Verb+" "+c.Path)
			if c.At.IsZero() {
				t.Errorf("%+v has no time", c)
			}
		}
		if got := strings.Join(said, "|"); got != "dan remove |cid remove /a.md|bob put /b/c.md|bob put /a.md|ann put /a.md|bob put |ann put " {
			t.Errorf("recorded: %s", got)
		}
		if sum := sha256.Sum256([]byte("second")); !bytes.Equal(log[3].Digest, sum[:]) || log[3].Bytes != 6 {
			t.Errorf("%+v", log[3])
		}
		if page, err := p.Changes(ctx, "acme", "team", log[4].ID); err != nil || len(page) != 2 {
			t.Errorf("before: %+v, %v", page, err)
		}
		if page, err := p.Changes(ctx, "other", "team", 0); err != nil || len(page) != 0 {
			t.Errorf("of another tenant: %+v, %v", page, err)
		}
	})
}

// TestRefused: what no agent could read, and what nobody stands for, is not kept.
func TestRefused(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, p *shareddb.Provider) {
		fill(t, p, "acme", map[string]map[string]string{"team": {"/a.md": "x"}})
		for what, put := range map[string]func() error{
			"a tenant": func() error { _, err := p.Put(t.Context(), "", "team", "/b.md", "x", "ann"); return err },
			"a store": func() error {
				_, err := p.PutStore(t.Context(), "acme", sharedmemory.Info{ID: "a__b"}, "ann")
				return err
			},
			"a description": func() error {
				_, err := p.PutStore(t.Context(), "acme", sharedmemory.Info{ID: "b", Description: strings.Repeat("x", 2000)}, "ann")
				return err
			},
			"a path":               func() error { _, err := p.Put(t.Context(), "acme", "team", "/../b.md", "x", "ann"); return err },
			"no document":          func() error { _, err := p.Put(t.Context(), "acme", "team", "/b", "x", "ann"); return err },
			"a path with a secret": func() error { _, err := p.Put(t.Context(), "acme", "team", "/"+canary+".md", "x", "ann"); return err },
			"nobody":               func() error { _, err := p.Put(t.Context(), "acme", "team", "/b.md", "x", ""); return err },
			"too much": func() error {
				_, err := p.Put(t.Context(), "acme", "team", "/b.md", strings.Repeat("x", sharedmemory.MaxRead+1), "ann")
				return err
			},
			"removed by nobody": func() error { return p.Remove(t.Context(), "acme", "team", "/a.md", "") },
		} {
			if err := put(); err == nil || strings.Contains(err.Error(), canary) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if n := count(t, st, `SELECT count(*) FROM shared_changes`); n != 2 {
			t.Errorf("%d changes, want those of the store and its document", n)
		}
	})
}

func count(t *testing.T, st *sqlstore.Store, q string) (n int) {
	t.Helper()
	err := st.DB().Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error { return tx.QueryRow(ctx, q).Scan(&n) })
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return n
}

// TestCanary: secrets are taken out of documents, descriptions and names before
// they are written, and whoever put them is told.
func TestCanary(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, p *shareddb.Provider) {
		k, err := p.PutStore(t.Context(), "acme", sharedmemory.Info{ID: "team", Description: "of " + canary}, "ann "+canary)
		if err != nil || !k.Redacted {
			t.Fatalf("%+v, %v", k, err)
		}
		k, err = p.Put(t.Context(), "acme", "team", "/a.md", "the password is "+canary+", again "+canary, "ann "+canary)
		if err != nil || !k.Redacted {
			t.Fatalf("%+v, %v", k, err)
		}
		d, err := p.Document(t.Context(), "acme", "team", "/a.md")
		if err != nil || strings.Contains(d.Content, canary) || !strings.Contains(d.Content, "the password is ") || strings.Contains(d.By, canary) {
			t.Errorf("%+v, %v", d, err)
		}
		for _, column := range []string{"put_by FROM shared_stores", "description FROM shared_stores", "put_by FROM shared_documents", "by_whom FROM shared_changes"} {
			if n := count(t, st, `SELECT count(*) FROM (SELECT `+column+`) AS c WHERE `+strings.Fields(column)[0]+` LIKE '%' || '`+canary+`' || '%'`); n != 0 {
				t.Errorf("%s has it %d times", column, n)
			}
		}
	})
}

// TestThroughTheTools (SE-01, SE-06): an agent of a tenant lists and reads what people put, and
// sees what they change at its next call; it has no tool that writes.
func TestThroughTheTools(t *testing.T) {
	both(t, func(t *testing.T, _ *sqlstore.Store, p *shareddb.Provider) {
		fill(t, p, "acme", map[string]map[string]string{"team": {"/guides/style.md": "Write plainly."}})
		fill(t, p, "umbrella", map[string]map[string]string{"team": {"/guides/style.md": "of another tenant"}})
		pair, err := sharedmemory.Tools(p)
		if err != nil {
			t.Fatal(err)
		}
		var reg tools.Registry
		for _, tool := range pair {
			if err := reg.Add(tool); err != nil {
				t.Fatal(err)
			}
		}
		call := func(name, args string) string {
			t.Helper()
			run := toolstest.NewLedger().Run()
			run.Tenant = "acme"
			d, err := tools.NewDispatcher(&reg, tools.Config{}).Dispatch(t.Context(), run.Env(), tools.Call{ID: events.CallID{Turn: 1}, Name: name, Arguments: json.RawMessage(args)})
			if err != nil {
				t.Fatal(err)
			}
			return d.Result.Output
		}
		if out := call("memory_list", `{"store":"team"}`); !strings.Contains(out, "/guides/style.md") {
			t.Errorf("listed: %s", out)
		}
		if out := call("memory_read", `{"store":"team","path":"/guides/style.md"}`); !strings.Contains(out, "Write plainly.") || strings.Contains(out, "another") {
			t.Errorf("read: %s", out)
		}
		if _, err := p.Put(t.Context(), "acme", "team", "/guides/style.md", "Write more plainly.", "ann"); err != nil {
			t.Fatal(err)
		}
		if out := call("memory_read", `{"store":"team","path":"/guides/style.md"}`); !strings.Contains(out, "Write more plainly.") {
			t.Errorf("read after a change: %s", out)
		}
	})
}

// TestConcurrentPeople: many put into the same store while it is removed; what is
// told is put is there, or went with the store after it.
func TestConcurrentPeople(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, p *shareddb.Provider) {
		fill(t, p, "acme", map[string]map[string]string{"team": {}})
		var all sync.WaitGroup
		for w := range 6 {
			all.Go(func() {
				for i := range 6 {
					for _, path := range []string{"/same.md", fmt.Sprintf("/own%d.md", w)} {
						if _, err := p.Put(t.Context(), "acme", "team", path, fmt.Sprintf("%d of %d", i, w), "ann"); err != nil && !errors.Is(err, shareddb.ErrNotFound) {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Go(func() {
			for range 3 {
				if _, err := p.RemoveStore(t.Context(), "acme", "team", "bob"); err != nil {
					t.Error(err)
				}
				if _, err := p.PutStore(t.Context(), "acme", sharedmemory.Info{ID: "team"}, "bob"); err != nil {
					t.Error(err)
				}
			}
		})
		all.Wait()
		put := count(t, st, `SELECT count(*) FROM shared_documents`)
		last := count(t, st, `SELECT count(DISTINCT path) FROM shared_changes WHERE path <> '' AND id > (SELECT max(id) FROM shared_changes WHERE verb = 'remove')`)
		if put != last {
			t.Errorf("%d documents are there, %d were put since the store was removed", put, last)
		}
	})
}

// broken is a database that is away.
type broken struct{ sqlstore.DB }

func (broken) Read(context.Context, func(context.Context, sqlstore.Tx) error) error {
	return fmt.Errorf("dial: %w", ledger.ErrUnavailable)
}

// TestDatabaseAway: SE-10, a database that is away.
func TestDatabaseAway(t *testing.T) {
	r := redact.New(redact.Config{})
	p, err := shareddb.New(broken{openSQLite(t, r).DB()}, shareddb.Config{Redactor: r})
	if err != nil {
		t.Fatal(err)
	}
	if snap, err := p.Snapshot(t.Context(), sharedmemory.Context{Tenant: "acme"}); err != nil || snap.State != sharedmemory.Unavailable {
		t.Errorf("%+v, %v", snap, err)
	}
}

// TestStoreGoesAway (SE-06, SE-43): a store that is removed between a snapshot and a read is not
// found, which is something else than an absent document.
func TestStoreGoesAway(t *testing.T) {
	both(t, func(t *testing.T, _ *sqlstore.Store, p *shareddb.Provider) {
		fill(t, p, "acme", map[string]map[string]string{"team": {"/a.md": "x"}})
		snap, err := p.Snapshot(t.Context(), sharedmemory.Context{Tenant: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.RemoveStore(t.Context(), "acme", "team", "ann"); err != nil {
			t.Fatal(err)
		}
		for s := range snap.Stores {
			var gone *sharedmemory.StoreError
			if _, err := s.Read(t.Context(), "/a.md"); !errors.As(err, &gone) || gone.Kind != sharedmemory.StoreNotFound {
				t.Errorf("read: %v", err)
			}
			for _, err := range s.List(t.Context(), "") {
				if !errors.As(err, &gone) || gone.Kind != sharedmemory.StoreNotFound {
					t.Errorf("list: %v", err)
				}
			}
		}
	})
}

// recorded notes every statement; see TestEveryStatementNamesTheTenant.
type recorded struct {
	sqlstore.DB
	all *[]string
}

func (d recorded) Write(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.DB.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, recordedTx{tx, d.all}) })
}

func (d recorded) Read(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.DB.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, recordedTx{tx, d.all}) })
}

type recordedTx struct {
	sqlstore.Tx
	all *[]string
}

func (t recordedTx) Exec(ctx context.Context, q string, args ...any) (int64, error) {
	*t.all = append(*t.all, q)
	return t.Tx.Exec(ctx, q, args...)
}

func (t recordedTx) Query(ctx context.Context, q string, args ...any) (sqlstore.Rows, error) {
	*t.all = append(*t.all, q)
	return t.Tx.Query(ctx, q, args...)
}

func (t recordedTx) QueryRow(ctx context.Context, q string, args ...any) sqlstore.Row {
	*t.all = append(*t.all, q)
	return t.Tx.QueryRow(ctx, q, args...)
}

// TestEveryStatementNamesTheTenant: every mention of a table has the tenant
// beside it.
func TestEveryStatementNamesTheTenant(t *testing.T) {
	r := redact.New(redact.Config{})
	var all []string
	p, err := shareddb.New(recorded{openSQLite(t, r).DB(), &all}, shareddb.Config{Redactor: r})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, p, "acme", map[string]map[string]string{"team": {"/a.md": "x", "/b.md": "y"}})
	_, e1 := p.Stores(t.Context(), "acme")
	_, e2 := p.Documents(t.Context(), "acme", "team", "/", "")
	_, e3 := p.Document(t.Context(), "acme", "team", "/a.md")
	e4 := p.Remove(t.Context(), "acme", "team", "/a.md", "ann")
	_, e5 := p.Snapshot(t.Context(), sharedmemory.Context{Tenant: "acme"})
	_, e6 := p.RemoveStore(t.Context(), "acme", "team", "ann")
	_, e7 := p.Changes(t.Context(), "acme", "team", 0)
	if err := errors.Join(e1, e2, e3, e4, e5, e6, e7); err != nil {
		t.Fatal(err)
	}
	table, fenced := regexp.MustCompile(`(?:FROM|JOIN) shared_\w+`), regexp.MustCompile(`tenant = \$1`)
	for _, q := range all {
		tables := len(table.FindAllString(q, -1))
		if strings.HasPrefix(strings.TrimSpace(q), "INSERT INTO") && strings.Contains(q, "(tenant, ") {
			continue
		}
		if tables == 0 || len(fenced.FindAllString(q, -1)) < tables {
			t.Errorf("%d tables: %s", tables, q)
		}
	}
	if len(all) < 15 {
		t.Errorf("%d statements were looked at", len(all))
	}
}
