package shareddb_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/shareddb"
	"github.com/daybookhq/daybook/tools/sharedmemory"
	"github.com/daybookhq/daybook/tools/sharedmemory/sharedmemorytest"
)

var databases = []struct {
	name string
	open func(*testing.T, *redact.Redactor) *sqlstore.Store
}{
	{"SQLite", openSQLite},
	{"PostgreSQL", openPostgres},
}

func openSQLite(t *testing.T, r *redact.Redactor) *sqlstore.Store {
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

func openPostgres(t *testing.T, r *redact.Redactor) *sqlstore.Store {
	t.Helper()
	dsn := testenv.MigratedPostgres(t, migrations.Digest(migrations.PostgreSQL), func(dsn string) error {
		st, err := postgres.Open(context.Background(), postgres.Config{DSN: dsn, Store: sqlstore.Config{Redactor: r}})
		if err != nil {
			return err
		}
		defer func() { _ = st.Close() }()
		_, err = st.Migrate(context.Background())
		return err
	})
	st, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn, Store: sqlstore.Config{Redactor: r}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func provider(t *testing.T, st *sqlstore.Store, c shareddb.Config) *shareddb.Provider {
	t.Helper()
	p, err := shareddb.New(st.DB(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fill makes stores with documents.
func fill(t *testing.T, p *shareddb.Provider, tenant string, stores map[string]map[string]string) {
	t.Helper()
	for id, docs := range stores {
		if _, err := p.PutStore(t.Context(), tenant, sharedmemory.Info{ID: id, Description: "of " + tenant}, "ann"); err != nil {
			t.Fatal(err)
		}
		for path, content := range docs {
			if k, err := p.Put(t.Context(), tenant, id, path, content, "ann"); err != nil || k.Redacted {
				t.Fatalf("%+v, %v", k, err)
			}
		}
	}
}

func TestConformance(t *testing.T) {
	for _, d := range databases {
		t.Run(d.name, func(t *testing.T) {
			r := redact.New(redact.Config{})
			p := provider(t, d.open(t, r), shareddb.Config{
				Redactor: r,
				Allow:    func(c sharedmemory.Context, store string) bool { return store != "secret" || c.Owner == "ada" },
			})
			stores := map[string]map[string]string{
				"team": {
					"/style.md": "Write plainly.", "/guides/go/errors.md": "Errors are values.", "/guides/empty.md": "", "/guides-old/x.md": "old",
					"/bytes.bin": "\xff\x00\xfe", "/big/edge.txt": strings.Repeat("x", sharedmemory.MaxRead), "/data.json": `{ "b": 1.0, "a": [2] }`,
					"/ümläut/ｆull 𝒰.md": "names", "/100%_sure.md": "no wildcards",
				},
				"other": {"/a.md": "other"},
				"empty": {},
			}
			fill(t, p, "acme", stores)
			fill(t, p, "acme", map[string]map[string]string{"secret": {"/a.md": "other"}})
			fill(t, p, "umbrella", map[string]map[string]string{"team": {"/style.md": "of another tenant", "/more.md": "x"}, "own": {"/a.md": "own"}})
			t.Run("SE-53 everybody of a tenant", func(t *testing.T) {
				sharedmemorytest.TestProvider(t, sharedmemorytest.Case{Provider: p, Context: sharedmemory.Context{Tenant: "acme"}, Stores: stores})
			})
			t.Run("SE-07 ada sees a store more", func(t *testing.T) {
				stores["secret"] = map[string]string{"/a.md": "other"}
				sharedmemorytest.TestProvider(t, sharedmemorytest.Case{Provider: p, Context: sharedmemory.Context{Tenant: "acme", Owner: "ada"}, Stores: stores})
			})
		})
	}
}
