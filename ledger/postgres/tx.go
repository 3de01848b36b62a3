package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// tx implements sqlstore.Tx. It begins with its first statement, in the same
// round trip, and sends what can wait together with the next one.
type tx struct {
	conn  *pgxpool.Conn
	db    *database
	opts  pgx.TxOptions
	begun bool
	later []statement
	clock time.Time // read right behind the last statement, which locked rows; zero = not known
}

// incarnation is where a connection keeps the moment at which its server started:
// it is the same for the connection's whole life.
const incarnation = "daybook incarnation"

// Incarnation implements sqlstore.Incarnated.
func (t *tx) Incarnation(ctx context.Context) (string, error) {
	known := t.conn.Conn().PgConn().CustomData()
	if at, ok := known[incarnation].(string); ok {
		return at, nil
	}
	var at string
	if err := t.QueryRow(ctx, `SELECT extract(epoch FROM pg_postmaster_start_time())::text`).Scan(&at); err != nil {
		return "", fmt.Errorf("ask when the server was started: %w", err)
	}
	known[incarnation] = at
	return at, nil
}

// statement is one that was put off.
type statement struct {
	what   string
	sql    string
	values []any
}

// readClock is the body of daybook_now(), of which the server would make a plan
// at every call: a function with a query in it is not inlined.
const readClock = `SELECT clock_timestamp() + coalesce((SELECT amount FROM clock_offset), interval '0')`

func (t *tx) translate(err error) error {
	return translate(err, err != nil && t.conn.Conn().IsClosed())
}

// send sends a statement behind what has to go before it, in one round trip,
// and returns the results from there on; with clock also the time behind it.
func (t *tx) send(ctx context.Context, q string, values []any, clock bool) (pgx.BatchResults, error) {
	var b pgx.Batch
	if !t.begun {
		b.BeginTx(t.opts)
	}
	for _, s := range t.later {
		b.Queue(s.sql, s.values...)
	}
	if q != "" {
		b.Queue(q, values...)
	}
	if clock {
		b.Queue(readClock)
	}
	br := t.conn.SendBatch(ctx, &b)
	if !t.begun {
		if _, err := br.Exec(); err != nil {
			_ = br.Close()
			if !serverError(err) {
				err = unavailable(err)
			}
			return nil, fmt.Errorf("begin transaction: %w", t.translate(err))
		}
		t.begun = true
	}
	later := t.later
	t.later = nil
	for _, s := range later {
		if _, err := br.Exec(); err != nil {
			_ = br.Close()
			return nil, fmt.Errorf("%s: %w", s.what, t.translate(err))
		}
	}
	return br, nil
}

// flush sends what had to wait.
func (t *tx) flush(ctx context.Context) error {
	t.clock = time.Time{}
	if t.begun && len(t.later) == 0 {
		return nil
	}
	br, err := t.send(ctx, "", nil, false)
	if err != nil {
		return err
	}
	return t.translate(br.Close())
}

// commit ends the transaction. A transaction without a statement is none.
func (t *tx) commit(ctx context.Context) error {
	if !t.begun && len(t.later) == 0 {
		return nil
	}
	br, err := t.send(ctx, "commit", nil, false)
	if err != nil {
		if errors.Is(err, ledger.ErrUnavailable) || serverError(err) {
			return err
		}
		return fmt.Errorf("commit: its answer is lost: %w", unavailable(err))
	}
	tag, err := br.Exec()
	err = errors.Join(err, br.Close())
	switch {
	case err == nil && tag.String() == "ROLLBACK":
		return fmt.Errorf("commit: an earlier statement had failed: %w", pgx.ErrTxCommitRollback)
	case err == nil:
		return nil
	case serverError(err):
		return fmt.Errorf("commit: %w", translate(err, false))
	}
	return fmt.Errorf("commit: its answer is lost: %w", unavailable(err))
}

// rollback gives up. The server does it if this fails: the connection is closed then.
func (t *tx) rollback(ctx context.Context) {
	if t.conn.Conn().IsClosed() || t.conn.Conn().PgConn().TxStatus() == 'I' {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_, _ = t.conn.Exec(ctx, "rollback")
}

// Later implements sqlstore.Tx.
func (t *tx) Later(_ context.Context, what, q string, args ...any) error {
	values, err := arguments(args)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	t.clock = time.Time{}
	t.later = append(t.later, statement{what, q, values})
	return nil
}

// Exec implements sqlstore.Tx.
func (t *tx) Exec(ctx context.Context, q string, args ...any) (int64, error) {
	values, err := arguments(args)
	if err != nil {
		return 0, err
	}
	return t.exec(ctx, q, values)
}

func (t *tx) exec(ctx context.Context, q string, values []any) (int64, error) {
	t.clock = time.Time{}
	if t.begun && len(t.later) == 0 {
		tag, err := t.conn.Exec(ctx, q, values...)
		return tag.RowsAffected(), t.translate(err)
	}
	br, err := t.send(ctx, q, values, false)
	if err != nil {
		return 0, err
	}
	tag, err := br.Exec()
	if cerr := br.Close(); err == nil {
		err = cerr
	}
	return tag.RowsAffected(), t.translate(err)
}

// Query implements sqlstore.Tx.
func (t *tx) Query(ctx context.Context, q string, args ...any) (sqlstore.Rows, error) {
	values, err := arguments(args)
	if err != nil {
		return nil, err
	}
	t.clock = time.Time{}
	locks := strings.Contains(q, " FOR UPDATE") || strings.Contains(q, " FOR NO KEY UPDATE")
	if t.begun && len(t.later) == 0 && !locks {
		r, err := t.conn.Query(ctx, q, values...)
		if err != nil {
			return nil, t.translate(err)
		}
		return &rows{Rows: r, tx: t}, nil
	}
	br, err := t.send(ctx, q, values, locks)
	if err != nil {
		return nil, err
	}
	r, err := br.Query()
	if err != nil {
		_ = br.Close()
		return nil, t.translate(err)
	}
	return &rows{Rows: r, tx: t, batch: br, clock: locks}, nil
}

// QueryRow implements sqlstore.Tx.
func (t *tx) QueryRow(ctx context.Context, q string, args ...any) sqlstore.Row {
	r, err := t.Query(ctx, q, args...)
	return sqlstore.First(r, err)
}

// Now implements sqlstore.Tx. Behind a statement that locked rows it is known:
// it was read there, in the same round trip.
func (t *tx) Now(ctx context.Context) (time.Time, error) {
	if !t.clock.IsZero() {
		return t.clock, nil
	}
	var now time.Time
	if err := t.QueryRow(ctx, readClock).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return events.Timestamp(now), nil
}

// copyFrom is how many rows make COPY, which asks for the columns first, faster
// than a statement.
const copyFrom = 32

// InsertMany implements sqlstore.Tx: COPY where nothing can conflict, else one
// statement over one array per column.
func (t *tx) InsertMany(ctx context.Context, table string, columns []string, rows [][]any, conflict string) (int64, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	if conflict == "" && len(rows) >= copyFrom {
		if err := t.flush(ctx); err != nil {
			return 0, err
		}
		n, err := t.conn.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) { return arguments(rows[i]) }))
		return n, t.translate(err)
	}
	types, err := t.columnTypes(ctx, table)
	if err != nil {
		return 0, err
	}
	args := make([]any, len(columns))
	unnest, selected := make([]string, len(columns)), make([]string, len(columns))
	for i, c := range columns {
		typ, ok := types[c]
		if !ok {
			return 0, fmt.Errorf("insert into %s: no column %q: migrate the schema", table, c)
		}
		k := kindOf(typ)
		unnest[i] = fmt.Sprintf("$%d::%s[]", i+1, k.array)
		selected[i] = "u." + c + k.cast
		if args[i], err = k.column(rows, i); err != nil {
			return 0, fmt.Errorf("insert into %s: column %q: %w", table, c, err)
		}
	}
	names := strings.Join(columns, ", ")
	q := "INSERT INTO " + table + " (" + names + ") SELECT " + strings.Join(selected, ", ") +
		" FROM unnest(" + strings.Join(unnest, ", ") + ") AS u (" + names + ") " + conflict
	return t.exec(ctx, q, args)
}

// columnTypes returns the types of a table's columns, asked for once.
func (t *tx) columnTypes(ctx context.Context, table string) (map[string]string, error) {
	if m, ok := t.db.columns.Load(table); ok {
		return m.(map[string]string), nil
	}
	if err := t.flush(ctx); err != nil {
		return nil, err
	}
	rs, err := t.conn.Query(ctx, `
		SELECT attname::text, format_type(atttypid, NULL) FROM pg_attribute
		WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`, table)
	if err != nil {
		return nil, t.translate(err)
	}
	types := map[string]string{}
	var name, typ string
	if _, err := pgx.ForEachRow(rs, []any{&name, &typ}, func() error { types[name] = typ; return nil }); err != nil {
		return nil, fmt.Errorf("read columns of %s: %w", table, t.translate(err))
	}
	if len(types) > 0 {
		t.db.columns.Store(table, types)
	}
	return types, nil
}

// Role is who the server has authenticated, whatever role acts for them now.
func (t *tx) Role(ctx context.Context) (role string, err error) {
	err = t.QueryRow(ctx, `SELECT session_user::text`).Scan(&role)
	return role, err
}

// In implements sqlstore.Tx.
func (*tx) In(column string, n int) string { return fmt.Sprintf("%s = ANY($%d)", column, n) }

// InIDs implements sqlstore.Tx.
func (t *tx) InIDs(column string, n int) string { return t.In(column, n) }

// Subset implements sqlstore.Tx.
func (*tx) Subset(column string, n int) string { return fmt.Sprintf("%s <@ $%d", column, n) }

// Day implements sqlstore.Tx.
func (*tx) Day(column string) string {
	return "to_char(" + column + " AT TIME ZONE 'UTC', 'YYYY-MM-DD')"
}

type rows struct {
	pgx.Rows
	tx    *tx
	batch pgx.BatchResults // that the rows are part of; nil for none
	clock bool             // the time comes behind them
}

// Next implements sqlstore.Rows.
func (r *rows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close() // the connection is free again for the next statement
	return false
}

// Close implements sqlstore.Rows.
func (r *rows) Close() {
	r.Rows.Close()
	br := r.batch
	if br == nil {
		return
	}
	r.batch = nil
	if r.clock && r.Rows.Err() == nil {
		var now time.Time
		if br.QueryRow().Scan(&now) == nil { // else Now asks for it
			r.tx.clock = events.Timestamp(now)
		}
	}
	_ = br.Close() // what went wrong shows in the rows, or at the next statement
}

// Scan implements sqlstore.Rows.
func (r *rows) Scan(dest ...any) error {
	cells := make([]cell, len(dest))
	targets := make([]any, len(dest))
	for i, d := range dest {
		cells[i] = cellOf(d)
		targets[i] = cells[i].target
	}
	if err := r.Rows.Scan(targets...); err != nil {
		return r.tx.translate(err)
	}
	for i, c := range cells {
		if c.store == nil {
			continue
		}
		if err := c.store(); err != nil {
			return fmt.Errorf("column %d: %w", i+1, err)
		}
	}
	return nil
}

// Err implements sqlstore.Rows.
func (r *rows) Err() error { return r.tx.translate(r.Rows.Err()) }
