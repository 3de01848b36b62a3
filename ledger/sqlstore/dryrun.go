package sqlstore

import (
	"context"
	"errors"
	"sync/atomic"
)

// dryRun is a database in which nothing is kept: every transaction is done, with all
// its checks, and rolled back. What a call returns is what it would have done; a
// later call does not see it.
type dryRun struct {
	DB
	writes atomic.Int64
}

// mostDryWrites ends what would go on until nothing is left to do.
const mostDryWrites = 100

var errDryRun = errors.New("dry run: rolled back")

// Write implements DB.
func (d *dryRun) Write(ctx context.Context, f func(ctx context.Context, tx Tx) error) error {
	if d.writes.Add(1) > mostDryWrites {
		return errors.New("dry run: this takes many transactions, each of which needs what the last one did: it cannot be tried out")
	}
	err := d.DB.Write(ctx, func(ctx context.Context, tx Tx) error {
		if err := f(ctx, tx); err != nil {
			return err
		}
		var one int
		if err := tx.QueryRow(ctx, `SELECT 1`).Scan(&one); err != nil { // runs what was put off
			return err
		}
		return errDryRun
	})
	if errors.Is(err, errDryRun) {
		return nil
	}
	return err
}

// Pender is a [DB] that can say what Migrate would apply.
type Pender interface {
	Pending(ctx context.Context) ([]string, error)
}

// Migrate implements DB: it says what would be applied.
func (d *dryRun) Migrate(ctx context.Context) ([]string, error) {
	p, ok := d.DB.(Pender)
	if !ok {
		return nil, errors.New("dry run: this database cannot say what would be applied")
	}
	return p.Pending(ctx)
}
