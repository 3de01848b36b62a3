// Package postgres is the ledger in a PostgreSQL database, for production: any
// number of workers and projectors share it.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
)

const (
	defaultMaxConns = 16
	// attempts bounds the tries of a transaction that deadlocks.
	attempts = 10
	// idleInTransaction bounds how long a stopped process can hold its locks, in milliseconds.
	idleInTransaction = "15000"
	rollbackTimeout   = 5 * time.Second
)

// Config says where the ledger is. DSN and Store.Redactor are required.
type Config struct {
	// DSN is a connection string, as URL or as key=value pairs. It never shows
	// up in an error.
	DSN string
	// MaxConns bounds the connections of this process. Zero means 16.
	MaxConns int
	Store    sqlstore.Config
}

// Open connects to the ledger at cfg.DSN. It does not migrate it. Connections
// are made as they are needed, so a database that is away shows at the first
// use. Close the store to give them back.
func Open(ctx context.Context, cfg Config) (*sqlstore.Store, error) {
	db, err := open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return sqlstore.New(db, cfg.Store), nil
}

// database implements sqlstore.DB.
type database struct {
	pool    *pgxpool.Pool
	columns sync.Map // table → map of column to type
}

func open(ctx context.Context, cfg Config) (*database, error) {
	pc, err := pgxpool.ParseConfig(cfg.DSN)
	if err != nil {
		// The parser's own error quotes what it could not read, which may be a password.
		return nil, errors.New("open ledger: the PostgreSQL connection string cannot be read: want postgres://user:password@host:port/database or key=value pairs")
	}
	pc.MaxConns = defaultMaxConns
	if cfg.MaxConns > 0 {
		pc.MaxConns = int32(min(cfg.MaxConns, 10_000)) //nolint:gosec // bounded
	}
	params := pc.ConnConfig.RuntimeParams
	params["timezone"] = "UTC"
	params["synchronous_commit"] = "on" // whatever the server, the role or the DSN says: an effect rests on it
	params["default_transaction_isolation"] = "read committed"
	// Our statements touch few rows; compiling one would take longer than all of them.
	for k, v := range map[string]string{"application_name": "daybook", "idle_in_transaction_session_timeout": idleInTransaction, "jit": "off"} {
		if params[k] == "" {
			params[k] = v
		}
	}
	pool, err := pgxpool.NewWithConfig(ctx, pc)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", unavailable(err))
	}
	return &database{pool: pool}, nil
}

// Migrate implements sqlstore.DB.
func (d *database) Migrate(ctx context.Context) ([]string, error) {
	db := stdlib.OpenDBFromPool(d.pool)
	names, err := migrations.Postgres(ctx, db)
	d.columns.Clear()
	if err != nil {
		err = translate(err, false)
	}
	return names, errors.Join(err, db.Close())
}

// Pending implements sqlstore.Pender.
func (d *database) Pending(ctx context.Context) ([]string, error) {
	db := stdlib.OpenDBFromPool(d.pool)
	v, err := migrations.Version(ctx, migrations.PostgreSQL, db)
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, fmt.Errorf("read the ledger's version: %w", unavailable(err))
	}
	return migrations.After(migrations.PostgreSQL, v), nil
}

// Check implements sqlstore.DB.
func (d *database) Check(ctx context.Context) error {
	db := stdlib.OpenDBFromPool(d.pool)
	v, err := migrations.Version(ctx, migrations.PostgreSQL, db)
	if err = errors.Join(err, db.Close()); err != nil {
		// Nothing was asked for that a database in order could refuse.
		return fmt.Errorf("check ledger: %w", unavailable(err))
	}
	if want := migrations.Target(migrations.PostgreSQL); v != want {
		return fmt.Errorf("check ledger: schema version %d, want %d: %w", v, want, ledger.ErrSchema)
	}
	return nil
}

// Close implements sqlstore.DB.
func (d *database) Close() error {
	d.pool.Close()
	return nil
}

// Write implements sqlstore.DB.
func (d *database) Write(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	opts := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
	for n := 1; ; n++ {
		err := d.transact(ctx, opts, f)
		if err == nil || !conflict(err) {
			return err
		}
		if n == attempts {
			return fmt.Errorf("after %d tries: %w", n, unavailable(err))
		}
		pause := time.NewTimer(rand.N(time.Duration(1<<n) * time.Millisecond)) //nolint:gosec // jitter
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// Read implements sqlstore.DB.
func (d *database) Read(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.transact(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, f)
}

func (d *database) transact(ctx context.Context, opts pgx.TxOptions, f func(context.Context, sqlstore.Tx) error) error {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("begin transaction: %w", unavailable(err))
	}
	t := &tx{conn: conn, db: d, opts: opts}
	defer conn.Release() // closes it unless the transaction has ended
	done := false
	defer func() { // also when f panics
		if !done {
			t.rollback(ctx)
		}
	}()
	if err := f(ctx, t); err != nil {
		return err
	}
	if err := t.commit(ctx); err != nil {
		return err
	}
	done = true
	return nil
}
