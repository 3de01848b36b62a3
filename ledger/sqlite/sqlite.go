// Package sqlite is the ledger in one SQLite file, for embedded mode: one
// writer, write-ahead log, every commit synced to the disk.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	_ "modernc.org/sqlite" // the database/sql driver

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
)

// busyTimeout is how long a statement waits for another process's write.
const busyTimeout = 10 * time.Second

// readers is how many snapshots can be read at the same time.
const readers = 4

// Config says where the ledger is. Path and Store.Redactor are required.
type Config struct {
	// Path of the database file; it is made, readable by its owner only, if it
	// is not there. The write-ahead log lies beside it.
	Path string
	// AsIs: the file is looked at as it is: it is not made, its mode and the way it keeps
	// its log stay as they are, and nothing can be written.
	AsIs bool
	// Now is the database's clock; nil is time.Now.
	Now   func() time.Time
	Store sqlstore.Config
}

// Open opens the ledger at cfg.Path. It does not migrate it. Close the store to
// release the file.
func Open(ctx context.Context, cfg Config) (*sqlstore.Store, error) {
	db, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return sqlstore.New(db, cfg.Store), nil
}

// database implements sqlstore.DB.
type database struct {
	path   string
	now    func() time.Time
	writer writer
	write  *sql.DB // holds the writer's one connection
	read   *sql.DB
}

func open(ctx context.Context, cfg Config) (*database, error) {
	if cfg.Path == "" {
		return nil, errors.New("open ledger: no path: name the file of the SQLite database")
	}
	path, err := filepath.Abs(cfg.Path)
	if err != nil {
		return nil, fmt.Errorf("open ledger %q: %w", cfg.Path, err)
	}
	writes, reads := writing, reading
	if cfg.AsIs {
		writes, reads = asIs, asIs
	} else if err := makeFile(path); err != nil {
		return nil, err
	}
	d := &database{path: path, now: cfg.Now}
	if d.now == nil {
		d.now = time.Now
	}
	if d.write, err = openDB(path, writes); err != nil {
		return nil, err
	}
	d.write.SetMaxOpenConns(1)
	d.writer = writer{db: d.write, free: make(chan struct{}, 1)}
	d.writer.free <- struct{}{}
	// The first connection turns the write-ahead log on, before any reader.
	if err := connect(ctx, d.write); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %q: %w", path, translate(err)), d.write.Close())
	}
	if d.read, err = openDB(path, reads); err != nil {
		return nil, errors.Join(err, d.write.Close())
	}
	d.read.SetMaxOpenConns(readers)
	d.read.SetMaxIdleConns(readers)
	return d, nil
}

// makeFile: SQLite would make the file with the mode of the umask; the log files beside
// it get the mode of this one.
func makeFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("open ledger: check that its directory exists and can be written: %w", err)
	}
	if err := errors.Join(f.Chmod(0o600), f.Close()); err != nil {
		return fmt.Errorf("open ledger: %w", err)
	}
	return nil
}

// connect makes the first connection. SQLite does not wait for its lock when it
// turns the write-ahead log on, so a second process that opens a new file at the
// same moment is waited for here.
func connect(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := db.PingContext(ctx)
		if err == nil || !errors.Is(translate(err), ledger.ErrUnavailable) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// access is what a connection may do.
type access int

const (
	writing access = iota
	reading
	asIs // it does not even turn the write-ahead log on
)

func openDB(path string, may access) (*sql.DB, error) {
	query := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
		"synchronous(FULL)",
		"foreign_keys(on)",
	}}
	if may != writing {
		query.Add("_pragma", "query_only(on)")
	}
	if may == asIs {
		query.Set("mode", "ro")
	} else {
		query["_pragma"] = slices.Insert(query["_pragma"], 1, "journal_mode(WAL)")
	}
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + query.Encode()
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, fmt.Errorf("open ledger %q: %w", path, err)
	}
	return db, nil
}

// Migrate implements sqlstore.DB.
func (d *database) Migrate(ctx context.Context) ([]string, error) {
	// A connection of its own: the writer's has transactions of ours on it.
	db, err := openDB(d.path, writing)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	names, err := migrations.SQLite(ctx, db)
	if err != nil {
		err = translate(err)
	}
	return names, errors.Join(err, db.Close())
}

// Pending implements sqlstore.Pender.
func (d *database) Pending(ctx context.Context) ([]string, error) {
	v, err := migrations.Version(ctx, migrations.SQLite3, d.read)
	if err != nil {
		return nil, fmt.Errorf("read the version of ledger %q: %w", d.path, translate(err))
	}
	return migrations.After(migrations.SQLite3, v), nil
}

// Steps are the names of the files that make a new ledger.
func Steps() []string { return migrations.After(migrations.SQLite3, 0) }

// Check implements sqlstore.DB.
func (d *database) Check(ctx context.Context) error {
	v, err := migrations.Version(ctx, migrations.SQLite3, d.read)
	if err != nil {
		return fmt.Errorf("check ledger %q: %w", d.path, translate(err))
	}
	if want := migrations.Target(migrations.SQLite3); v != want {
		return fmt.Errorf("check ledger %q: schema version %d, want %d: %w", d.path, v, want, ledger.ErrSchema)
	}
	return nil
}

// Close implements sqlstore.DB.
func (d *database) Close() error {
	return errors.Join(d.read.Close(), d.writer.close(), d.write.Close())
}
