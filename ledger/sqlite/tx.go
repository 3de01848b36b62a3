package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// writer is the one connection that writes, with its prepared statements.
// Whoever holds the token in free uses it.
type writer struct {
	db    *sql.DB
	free  chan struct{}
	conn  *sql.Conn // nil until the first use and after trouble
	stmts map[string]*sql.Stmt
}

func (w *writer) connect(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return err
	}
	w.conn, w.stmts = conn, map[string]*sql.Stmt{}
	return nil
}

// drop closes the connection, whatever transaction is open on it.
func (w *writer) drop() error {
	if w.conn == nil {
		return nil
	}
	var errs []error
	for _, s := range w.stmts {
		errs = append(errs, s.Close())
	}
	// A connection reported as bad is closed and not put back.
	_ = w.conn.Raw(func(any) error { return errBad })
	errs = append(errs, w.conn.Close())
	w.conn, w.stmts = nil, nil
	return errors.Join(errs...)
}

func (w *writer) close() error {
	if _, open := <-w.free; !open { // the transaction that runs ends first
		return nil
	}
	err := w.drop()
	close(w.free)
	if errors.Is(err, sql.ErrConnDone) {
		err = nil
	}
	return err
}

func (w *writer) prepare(ctx context.Context, q string) (*sql.Stmt, error) {
	if s, ok := w.stmts[q]; ok {
		return s, nil
	}
	s, err := w.conn.PrepareContext(ctx, q)
	if err != nil {
		return nil, err
	}
	w.stmts[q] = s
	return s, nil
}

// Write implements sqlstore.DB.
func (d *database) Write(ctx context.Context, f func(context.Context, sqlstore.Tx) error) (err error) {
	w := &d.writer
	select {
	case _, open := <-w.free:
		if !open {
			return fmt.Errorf("write to ledger: it is closed: %w", ledger.ErrUnavailable)
		}
	case <-ctx.Done():
		return fmt.Errorf("wait for the ledger's writer: %w", context.Cause(ctx))
	}
	defer func() { w.free <- struct{}{} }()
	if err := w.connect(ctx); err != nil {
		return fmt.Errorf("open ledger %q: %w", d.path, translate(err))
	}
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return fmt.Errorf("begin transaction: %w", errors.Join(translate(err), d.rollback(ctx)))
	}
	committed := false
	defer func() { // also when f panics
		if !committed {
			err = errors.Join(err, d.rollback(ctx))
		}
	}()
	if err := f(ctx, tx{now: d.now, prepare: w.prepare}); err != nil {
		return err
	}
	// A commit is not interrupted half-way: its answer is wanted.
	if _, err := w.conn.ExecContext(context.WithoutCancel(ctx), "COMMIT"); err != nil {
		return fmt.Errorf("commit: %w: %w", ledger.ErrUnavailable, err)
	}
	committed = true
	return nil
}

// rollback ends what is open on the writer, if need be with its connection. It
// returns nil: an error of the transaction itself is what the caller wants.
func (d *database) rollback(ctx context.Context) error {
	if _, err := d.writer.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK"); err != nil &&
		!strings.Contains(err.Error(), "no transaction is active") {
		_ = d.writer.drop()
	}
	return nil
}

// Read implements sqlstore.DB.
func (d *database) Read(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	t, err := d.read.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin snapshot: %w", translate(err))
	}
	defer func() { _ = t.Rollback() }() // nothing was written
	return f(ctx, tx{now: d.now, temporary: true, prepare: t.PrepareContext})
}

// tx implements sqlstore.Tx.
type tx struct {
	now       func() time.Time
	temporary bool // statements are closed by the transaction
	prepare   func(ctx context.Context, q string) (*sql.Stmt, error)
}

// Exec implements sqlstore.Tx.
func (t tx) Exec(ctx context.Context, q string, args ...any) (int64, error) {
	values, err := arguments(args)
	if err != nil {
		return 0, err
	}
	s, err := t.prepare(ctx, rewrite(q))
	if err != nil {
		return 0, translate(err)
	}
	r, err := s.ExecContext(ctx, values...)
	if err != nil {
		return 0, translate(err)
	}
	return r.RowsAffected()
}

// Later implements sqlstore.Tx: there is no round trip to save.
func (t tx) Later(ctx context.Context, what, q string, args ...any) error {
	if _, err := t.Exec(ctx, q, args...); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Query implements sqlstore.Tx.
func (t tx) Query(ctx context.Context, q string, args ...any) (sqlstore.Rows, error) {
	values, err := arguments(args)
	if err != nil {
		return nil, err
	}
	s, err := t.prepare(ctx, rewrite(q))
	if err != nil {
		return nil, translate(err)
	}
	r, err := s.QueryContext(ctx, values...)
	if err != nil {
		return nil, translate(err)
	}
	return &rows{Rows: r}, nil
}

// QueryRow implements sqlstore.Tx.
func (t tx) QueryRow(ctx context.Context, q string, args ...any) sqlstore.Row {
	r, err := t.Query(ctx, q, args...)
	return sqlstore.First(r, err)
}

// Now implements sqlstore.Tx.
func (t tx) Now(context.Context) (time.Time, error) { return events.Timestamp(t.now()), nil }

// InsertMany implements sqlstore.Tx. There is no network to save: it runs one
// prepared statement per row.
func (t tx) InsertMany(ctx context.Context, table string, columns []string, rows [][]any, conflict string) (int64, error) {
	marks := make([]string, len(columns))
	for i := range marks {
		marks[i] = fmt.Sprintf("$%d", i+1)
	}
	q := "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ") VALUES (" + strings.Join(marks, ", ") + ") " + conflict
	var n int64
	for _, r := range rows {
		m, err := t.Exec(ctx, q, r...)
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

// In implements sqlstore.Tx.
func (tx) In(column string, n int) string {
	return fmt.Sprintf("%s IN (SELECT value FROM json_each($%d))", column, n)
}

// InIDs implements sqlstore.Tx.
func (tx) InIDs(column string, n int) string {
	return fmt.Sprintf("%s IN (SELECT unhex(value) FROM json_each($%d))", column, n)
}

// Subset implements sqlstore.Tx.
func (tx) Subset(column string, n int) string {
	return fmt.Sprintf("NOT EXISTS (SELECT 1 FROM json_each(%s) AS want WHERE want.value NOT IN (SELECT have.value FROM json_each($%d) AS have))", column, n)
}

// Day implements sqlstore.Tx.
func (tx) Day(column string) string { return "date(" + column + " / 1000000, 'unixepoch')" }

type rows struct{ *sql.Rows }

// Scan implements sqlstore.Rows.
func (r *rows) Scan(dest ...any) error {
	values := make([]any, len(dest))
	ptrs := make([]any, len(dest))
	for i := range values {
		ptrs[i] = &values[i]
	}
	if err := r.Rows.Scan(ptrs...); err != nil {
		return translate(err)
	}
	for i, d := range dest {
		if err := assign(d, values[i]); err != nil {
			return fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return nil
}

// Err implements sqlstore.Rows.
func (r *rows) Err() error { return translate(r.Rows.Err()) }

// Close implements sqlstore.Rows.
func (r *rows) Close() { _ = r.Rows.Close() }
