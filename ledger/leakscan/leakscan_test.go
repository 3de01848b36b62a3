package leakscan

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// bare are statements that leave every table with its columns alone, so that a row
// with one value goes into each.
const barePostgres = `DO $$
DECLARE r record;
BEGIN
	FOR r IN SELECT c.oid::regclass AS t, k.conname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
		WHERE c.relnamespace = 'public'::regnamespace AND k.contype IN ('c', 'f', 'p', 'u') AND NOT c.relispartition LOOP
		EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I CASCADE', r.t, r.conname);
	END LOOP;
	FOR r IN SELECT c.oid::regclass AS t, a.attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND a.attnotnull AND a.attidentity = '' LOOP
		EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', r.t, r.attname);
	END LOOP;
END $$`

const postgresColumns = `SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
	WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, a.attnum`

const sqliteColumns = `SELECT m.name, c.name, lower(c.type) FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite%' ORDER BY 1, c.cid`

// column is one that takes a text in some form.
type column struct{ table, name, typ string }

func columns(t *testing.T, db sqlstore.DB, q string) (all []column) {
	t.Helper()
	err := db.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		rows, err := tx.Query(ctx, q)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var c column
			if err := rows.Scan(&c.table, &c.name, &c.typ); err != nil {
				return err
			}
			all = append(all, c)
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func exec(t *testing.T, db sqlstore.DB, q string, args ...any) {
	t.Helper()
	err := db.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.Exec(ctx, q, args...)
		return err
	})
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
}

// testTables plants a canary in every column of every table that takes one, and one in
// a table that no version knows, and finds each.
func testTables(t *testing.T, db sqlstore.DB, columnsOf, planting string, values map[string]string) {
	exec(t, db, `CREATE TABLE brand_new (note text)`)
	r := redact.New(redact.Config{})
	want := map[string]column{}
	tables := map[string]bool{}
	for i, c := range columns(t, db, columnsOf) {
		value, ok := values[c.typ]
		if !ok {
			continue
		}
		name, canary := fmt.Sprintf("canary-%d", i), "c4nary/"+rand.Text()
		if err := r.Register(name, canary); err != nil {
			t.Fatal(err)
		}
		exec(t, db, fmt.Sprintf(planting, c.table, c.name, value), "before "+canary+" after")
		want[name] = c
		tables[c.table] = true
	}
	if len(tables) < 30 || len(want) < 150 {
		t.Fatalf("void: %d columns in %d tables", len(want), len(tables))
	}
	s := &Scanner{Redactor: r, Found: func(f Finding) error {
		c := want[f.Secret]
		if f.How != Given || f.Store != "table" || f.Name != c.table || f.Column != c.name || f.Row == "" || len(f.Fingerprint) != 8 {
			t.Errorf("%s was planted in %v and found in %+v", f.Secret, c, f)
		}
		delete(want, f.Secret)
		return nil
	}}
	if err := s.Tables(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	for name, c := range want {
		t.Errorf("%s in %v was not found", name, c)
	}
}

func TestEveryTable(t *testing.T) {
	cfg := sqlstore.Config{Redactor: redact.New(redact.Config{})}
	t.Run("sqlite", func(t *testing.T) {
		st, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Store: cfg})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if _, err := st.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, c := range columns(t, st.DB(), sqliteColumns) {
			if !names[c.table] {
				names[c.table] = true
				exec(t, st.DB(), "CREATE TABLE bare AS SELECT * FROM "+c.table+" WHERE false")
				exec(t, st.DB(), "DROP TABLE "+c.table)
				exec(t, st.DB(), "ALTER TABLE bare RENAME TO "+c.table)
			}
		}
		testTables(t, st.DB(), sqliteColumns, "INSERT INTO %s (%s) VALUES (%s)", map[string]string{"text": "$1", "blob": "CAST($1 AS blob)"})
	})
	t.Run("postgres", func(t *testing.T) {
		st, err := postgres.Open(t.Context(), postgres.Config{DSN: testenv.Postgres(t), Store: cfg})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if _, err := st.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		exec(t, st.DB(), barePostgres)
		testTables(t, st.DB(), postgresColumns, "INSERT INTO %s (%s) VALUES (%s)", map[string]string{
			"text": "$1::text", "bytea": "convert_to($1::text, 'UTF8')", "json": "to_json($1::text)", "text[]": "ARRAY[$1::text]",
		})
	})
}

// Files are searched byte by byte, also where two pieces meet, in every encoding.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	canary := "c4nary/" + rand.Text()
	r := redact.New(redact.Config{})
	if err := r.Register("canary", canary); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]string{
		"clean":               strings.Repeat("nothing ", 1<<18),
		"sub/small":           "\x00" + canary + "\xff",
		"first piece":         strings.Repeat("\xfe", 100) + canary + strings.Repeat("x", 3<<20),
		"where two meet":      strings.Repeat("x", 1<<20-10) + canary + strings.Repeat("y", 1<<20),
		"where others meet":   strings.Repeat("x", 2<<20-overlap-5) + canary + strings.Repeat("y", 1<<20),
		"encoded at the end":  strings.Repeat("z", 3<<20+17) + " " + base64.StdEncoding.EncodeToString([]byte("a"+canary)),
		"percent and escapes": strings.Repeat("%41&amp;\\u0041", 1000) + strings.ReplaceAll(canary, "/", "%2F"),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var found []string
	s := &Scanner{Redactor: r, Rules: true, Found: func(f Finding) error {
		found = append(found, f.Name)
		return nil
	}}
	if err := s.Dir(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	if got := strings.Join(found, ","); got != "encoded at the end,first piece,percent and escapes,sub/small,where others meet,where two meet" {
		t.Errorf("found in %s", got)
	}
	if s.Bytes != DirSize(dir) {
		t.Errorf("read %d bytes of %d", s.Bytes, DirSize(dir))
	}
}
