// Package sqlstore is the ledger's protocol in SQL, written once: the two
// databases differ in their driver, their types and their locks, and those
// stay behind [DB]. ledger/postgres and ledger/sqlite are the two.
package sqlstore

import (
	"context"
	"time"
)

// DB is one database. Implementations turn "cannot be asked" into an error that
// wraps ledger.ErrUnavailable, and nothing else.
type DB interface {
	// Write runs f in one read-write transaction and returns nil once it is
	// durable (fsynced). An error of f rolls back and is returned as it is. f may
	// run again after a deadlock or serialization failure, so it must not keep
	// state from an attempt that failed. When the answer to COMMIT is lost the
	// error wraps ledger.ErrUnavailable: the transaction may have been committed.
	Write(ctx context.Context, f func(ctx context.Context, tx Tx) error) error
	// Read runs f on one consistent snapshot.
	Read(ctx context.Context, f func(ctx context.Context, tx Tx) error) error
	Migrate(ctx context.Context) ([]string, error)
	Check(ctx context.Context) error
	Close() error
}

// Tx is a transaction. Statements are written for PostgreSQL with $1
// parameters; the SQLite adapter renames the parameters and drops the lock
// clauses (FOR NO KEY UPDATE, FOR UPDATE, FOR SHARE, SKIP LOCKED) and LOCK TABLE,
// which its single writer makes needless.
//
// Arguments and scan destinations are Go values in both databases: time.Time,
// events.ID, events.RunID, events.Hash, []byte, json.RawMessage, string and
// string kinds, bool, ints, pointers to them for nullable numbers, and the
// slices []string, []int64, []events.RunID, []events.ID, []events.Hash as one
// parameter. The zero time, id and hash, and empty json.RawMessage, are NULL,
// both ways; an empty []byte or string is not.
type Tx interface {
	Exec(ctx context.Context, q string, args ...any) (rows int64, err error)
	// Later runs a statement before the next one, or before the commit, in the
	// same round trip. Whoever runs the next one gets its error, with what was to
	// be done. It is for statements whose answer decides nothing.
	Later(ctx context.Context, what, q string, args ...any) error
	Query(ctx context.Context, q string, args ...any) (Rows, error)
	// QueryRow's Scan returns ErrNoRows when there is none.
	QueryRow(ctx context.Context, q string, args ...any) Row
	// Now is the database's clock at this moment, or if the last statement locked
	// rows, right after it had them (PostgreSQL: daybook_now(); SQLite: the
	// injected clock), cut to microseconds in UTC.
	Now(ctx context.Context) (time.Time, error)
	// InsertMany inserts rows into columns of table, in order, with an ON
	// CONFLICT clause (empty for none), and returns how many went in. It is the
	// batch path: one round trip however many rows.
	InsertMany(ctx context.Context, table string, columns []string, rows [][]any, conflict string) (int64, error)
	// In is the SQL for "column is one of the slice passed as parameter n".
	In(column string, n int) string
	// InIDs is In for a slice of ids or hashes.
	InIDs(column string, n int) string
	// Subset is the SQL for "every element of the text-array column is in the
	// []string passed as parameter n".
	Subset(column string, n int) string
	// Day is the SQL for the day of a moment, in UTC: 2026-01-31.
	Day(column string) string
}

// Row is one row to scan.
type Row interface{ Scan(dest ...any) error }

// Rows is a result set. Close is called by its user.
type Rows interface {
	Row
	Next() bool
	Err() error
	Close()
}

// First is the first row of a query, for an adapter's QueryRow: err is the
// query's own. Scanning it closes rows.
func First(rows Rows, err error) Row { return first{rows, err} }

type first struct {
	rows Rows
	err  error
}

func (r first) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	// An error that ends the result set may show only now.
	r.rows.Close()
	return r.rows.Err()
}
