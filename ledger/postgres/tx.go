package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// tx implements sqlstore.Tx.
type tx struct {
	t  pgx.Tx
	db *database
}

func (t tx) translate(err error) error {
	return translate(err, err != nil && t.t.Conn().IsClosed())
}

// Exec implements sqlstore.Tx.
func (t tx) Exec(ctx context.Context, q string, args ...any) (int64, error) {
	values, err := arguments(args)
	if err != nil {
		return 0, err
	}
	tag, err := t.t.Exec(ctx, q, values...)
	return tag.RowsAffected(), t.translate(err)
}

// Query implements sqlstore.Tx.
func (t tx) Query(ctx context.Context, q string, args ...any) (sqlstore.Rows, error) {
	values, err := arguments(args)
	if err != nil {
		return nil, err
	}
	r, err := t.t.Query(ctx, q, values...)
	if err != nil {
		return nil, t.translate(err)
	}
	return &rows{Rows: r, tx: t}, nil
}

// QueryRow implements sqlstore.Tx.
func (t tx) QueryRow(ctx context.Context, q string, args ...any) sqlstore.Row {
	r, err := t.Query(ctx, q, args...)
	return row{r, err}
}

// Now implements sqlstore.Tx.
func (t tx) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	if err := t.QueryRow(ctx, `SELECT daybook_now()`).Scan(&now); err != nil {
		return time.Time{}, fmt.Errorf("read the database's clock: %w", err)
	}
	return events.Timestamp(now), nil
}

// copyFrom is how many rows make COPY, which asks for the columns first, faster
// than a statement.
const copyFrom = 32

// InsertMany implements sqlstore.Tx: COPY where nothing can conflict, else one
// statement over one array per column.
func (t tx) InsertMany(ctx context.Context, table string, columns []string, rows [][]any, conflict string) (int64, error) {
	if len(rows) == 0 {
		return 0, nil
	}
	if conflict == "" && len(rows) >= copyFrom {
		n, err := t.t.CopyFrom(ctx, pgx.Identifier{table}, columns, pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) { return arguments(rows[i]) }))
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
	tag, err := t.t.Exec(ctx, q, args...)
	return tag.RowsAffected(), t.translate(err)
}

// columnTypes returns the types of a table's columns, asked for once.
func (t tx) columnTypes(ctx context.Context, table string) (map[string]string, error) {
	if m, ok := t.db.columns.Load(table); ok {
		return m.(map[string]string), nil
	}
	rs, err := t.t.Query(ctx, `
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

// In implements sqlstore.Tx.
func (tx) In(column string, n int) string { return fmt.Sprintf("%s = ANY($%d)", column, n) }

// InIDs implements sqlstore.Tx.
func (t tx) InIDs(column string, n int) string { return t.In(column, n) }

// Subset implements sqlstore.Tx.
func (tx) Subset(column string, n int) string { return fmt.Sprintf("%s <@ $%d", column, n) }

type rows struct {
	pgx.Rows
	tx tx
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

type row struct {
	rows sqlstore.Rows
	err  error
}

// Scan implements sqlstore.Row.
func (r row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return sqlstore.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}
