// Package migrations is the ledger's schema: one numbered SQL file per step and
// database, built into the program and applied with goose. A file that has
// landed is never edited.
package migrations

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed postgres/*.sql sqlite/*.sql
var files embed.FS

// A Dialect is one of the two databases; its value is the folder of its files.
type Dialect string

// Dialects.
const (
	PostgreSQL Dialect = "postgres"
	SQLite3    Dialect = "sqlite"
)

// versionTable is where goose keeps what was applied.
const versionTable = "goose_db_version"

// Postgres brings a PostgreSQL database up to this build's schema and returns
// the names of the files it applied. Processes that do so at the same time wait
// for each other.
func Postgres(ctx context.Context, db *sql.DB) ([]string, error) { return up(ctx, PostgreSQL, db) }

// SQLite brings a SQLite database up to this build's schema and returns the
// names of the files it applied.
func SQLite(ctx context.Context, db *sql.DB) ([]string, error) { return up(ctx, SQLite3, db) }

func up(ctx context.Context, d Dialect, db *sql.DB) ([]string, error) {
	p, err := provider(d, db)
	if err != nil {
		return nil, err
	}
	done, err := p.Up(ctx)
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		done = partial.Applied
	}
	names := make([]string, 0, len(done))
	for _, r := range done {
		names = append(names, path.Base(r.Source.Path))
	}
	if err != nil {
		return names, fmt.Errorf("migrate %s: %w", d, err)
	}
	return names, nil
}

// To brings a database to an earlier schema. It is for tests of what an earlier
// version left behind.
func To(ctx context.Context, d Dialect, db *sql.DB, version int64) error {
	p, err := provider(d, db)
	if err != nil {
		return err
	}
	if _, err := p.UpTo(ctx, version); err != nil {
		return fmt.Errorf("migrate %s to version %d: %w", d, version, err)
	}
	return nil
}

// Again takes one step back and forward again, whatever came after it. It is for
// tests of what a step makes of a ledger that is in use.
func Again(ctx context.Context, d Dialect, db *sql.DB, version int64) error {
	p, err := provider(d, db)
	if err != nil {
		return err
	}
	for _, forward := range []bool{false, true} {
		if _, err := p.ApplyVersion(ctx, version, forward); err != nil {
			return fmt.Errorf("take step %d of %s again: %w", version, d, err)
		}
	}
	return nil
}

// Down takes every step back, and all data with it. It is for tests.
func Down(ctx context.Context, d Dialect, db *sql.DB) error {
	p, err := provider(d, db)
	if err != nil {
		return err
	}
	if _, err := p.DownTo(ctx, 0); err != nil {
		return fmt.Errorf("migrate %s down: %w", d, err)
	}
	return nil
}

func provider(d Dialect, db *sql.DB) (*goose.Provider, error) {
	sub, err := fs.Sub(files, string(d))
	if err != nil {
		return nil, fmt.Errorf("open migrations of %s: %w", d, err)
	}
	dialect, opts := goose.DialectSQLite3, []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	if d == PostgreSQL {
		l, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return nil, fmt.Errorf("make migration lock: %w", err)
		}
		dialect, opts = goose.DialectPostgres, append(opts, goose.WithSessionLocker(l))
	}
	p, err := goose.NewProvider(dialect, db, sub, opts...)
	if err != nil {
		return nil, fmt.Errorf("read migrations of %s: %w", d, err)
	}
	return p, nil
}

// Target is the version that this build wants: the number of its last file.
func Target(d Dialect) int64 {
	names, err := fs.Glob(files, string(d)+"/*.sql")
	if err != nil || len(names) == 0 {
		panic("migrations: no files of " + string(d)) // they are built in
	}
	var last int64
	for _, n := range names {
		number, _, _ := strings.Cut(path.Base(n), "_")
		if v, err := strconv.ParseInt(number, 10, 64); err == nil && v > last {
			last = v
		}
	}
	return last
}

// After are the names of the files that bring a database up from a version; from zero
// it is all of them.
func After(d Dialect, version int64) []string {
	all, err := fs.Glob(files, string(d)+"/*.sql")
	if err != nil {
		panic("migrations: " + err.Error()) // the pattern is a constant
	}
	var names []string
	for _, n := range all { // sorted
		number, _, _ := strings.Cut(path.Base(n), "_")
		if v, err := strconv.ParseInt(number, 10, 64); err == nil && v > version {
			names = append(names, path.Base(n))
		}
	}
	return names
}

// Version is the version that a database is at; zero when it was never
// migrated. It writes nothing.
func Version(ctx context.Context, d Dialect, db *sql.DB) (int64, error) {
	exists := `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = '` + versionTable + `'`
	if d == PostgreSQL {
		exists = `SELECT CASE WHEN to_regclass('` + versionTable + `') IS NULL THEN 0 ELSE 1 END`
	}
	var n int
	if err := db.QueryRowContext(ctx, exists).Scan(&n); err != nil {
		return 0, fmt.Errorf("look for table %s: %w", versionTable, err)
	}
	if n == 0 {
		return 0, nil
	}
	// Goose deletes the row of a version that is taken back.
	var v sql.NullInt64
	if err := db.QueryRowContext(ctx, `SELECT max(version_id) FROM `+versionTable+` WHERE is_applied`).Scan(&v); err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return v.Int64, nil
}

// Digest names the schema that this build makes: it changes with every byte of
// a database's files.
func Digest(d Dialect) string {
	names, err := fs.Glob(files, string(d)+"/*.sql")
	if err != nil {
		panic(err) // a bad pattern
	}
	h := sha256.New()
	for _, n := range names { // in lexical order
		b, err := files.ReadFile(n)
		if err != nil {
			panic(err) // they are built in
		}
		fmt.Fprintf(h, "%s %d\n", n, len(b))
		h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil))
}
