package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

func copyCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("seed copy", flag.ContinueOnError)
	from := flags.String("from", "", "the SQLite file that fill made")
	to := flags.String("to", "", "a PostgreSQL database that is empty, or has an empty ledger")
	if err := parse(flags, args, stderr); err != nil {
		return err
	}
	if *from == "" || *to == "" {
		return usagef("copy wants -from FILE and -to URL")
	}
	began := time.Now()
	n, err := copyLedger(ctx, *from, *to, func(table string, rows int64) {
		fmt.Fprintf(stderr, "%s: %d rows, after %s\n", table, rows, time.Since(began).Round(time.Second))
	})
	if err != nil {
		return fmt.Errorf("copy %s: %w; drop that database before you try again", *from, err)
	}
	_, err = fmt.Fprintf(stdout, "%d rows in %s\n", n, time.Since(began).Round(time.Second))
	return err
}

// copyLedger copies every row of a ledger in SQLite into one in PostgreSQL: the two
// have the same tables and columns, so nothing here knows what is in them.
func copyLedger(ctx context.Context, from, to string, report func(table string, rows int64)) (all int64, err error) {
	if err := migrateTo(ctx, to); err != nil {
		return 0, err
	}
	lite, err := sql.Open("sqlite", // the driver that ledger/sqlite brings
		"file:"+(&url.URL{Path: from}).EscapedPath()+"?mode=ro")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, lite.Close()) }()
	conn, err := pgx.Connect(ctx, to)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if err := partitions(ctx, lite, conn); err != nil {
		return 0, err
	}
	tables, err := tablesOf(ctx, lite)
	if err != nil {
		return 0, err
	}
	// Rows come in the order of the tables' names, not of their references.
	if _, err := conn.Exec(ctx, `SET session_replication_role = replica`); err != nil {
		return 0, err
	}
	// What is there already the migrations made.
	if _, err := conn.Exec(ctx, `TRUNCATE `+strings.Join(tables, ", ")); err != nil {
		return 0, err
	}
	for _, table := range tables {
		n, err := copyTable(ctx, lite, conn, table)
		if err != nil {
			return all, fmt.Errorf("table %s: %w", table, err)
		}
		all += n
		report(table, n)
	}
	_, err = conn.Exec(ctx, `VACUUM (ANALYZE)`)
	return all, err
}

func migrateTo(ctx context.Context, to string) error {
	st, err := postgres.Open(ctx, postgres.Config{DSN: to, Store: sqlstore.Config{Redactor: redact.New(redact.Config{})}})
	if err != nil {
		return err
	}
	_, err = st.Migrate(ctx)
	return errors.Join(err, st.Close())
}

func tablesOf(ctx context.Context, lite *sql.DB) (names []string, err error) {
	rows, err := lite.QueryContext(ctx, `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE 'goose%' ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// partitions makes those of the months in which the ledger was used, as the ledger
// itself would have made them in these months.
func partitions(ctx context.Context, lite *sql.DB, conn *pgx.Conn) error {
	var first int64
	if err := lite.QueryRowContext(ctx, `SELECT coalesce(min(created_at), 0) FROM runs`).Scan(&first); err != nil || first == 0 {
		return err
	}
	at := time.UnixMicro(first).UTC()
	for month := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC); month.Before(time.Now()); month = month.AddDate(0, 1, 0) {
		for _, parent := range []string{"events", "tool_call_records", "model_calls"} {
			bound := func(t time.Time) string { return fmt.Sprintf("%012x%020d", t.UnixMilli(), 0) }
			_, err := conn.Exec(ctx, fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s_%s PARTITION OF %s FOR VALUES FROM ('%s') TO ('%s')`,
				parent, month.Format("200601"), parent, bound(month), bound(month.AddDate(0, 1, 0))))
			if err != nil {
				return fmt.Errorf("make a partition of %s: %w", parent, err)
			}
		}
	}
	return nil
}

// copyTable copies one table, each column as PostgreSQL has its type.
func copyTable(ctx context.Context, lite *sql.DB, conn *pgx.Conn, table string) (int64, error) {
	types, identity, err := columnsOf(ctx, conn, table)
	if err != nil {
		return 0, err
	}
	rows, err := lite.QueryContext(ctx, `SELECT * FROM `+table)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	for _, c := range columns {
		if types[c] == "" {
			return 0, fmt.Errorf("PostgreSQL has no column %s", c)
		}
	}
	n, err := conn.CopyFrom(ctx, pgx.Identifier{table}, columns, &source{rows: rows, columns: columns, types: types})
	if err != nil || identity == "" {
		return n, err
	}
	_, err = conn.Exec(ctx, fmt.Sprintf(`SELECT setval(pg_get_serial_sequence('%s', '%s'), (SELECT coalesce(max(%s), 0) + 1 FROM %s))`, table, identity, identity, table))
	return n, err
}

func columnsOf(ctx context.Context, conn *pgx.Conn, table string) (types map[string]string, identity string, err error) {
	rows, err := conn.Query(ctx, `SELECT attname::text, format_type(atttypid, NULL), attidentity::text FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`, table)
	if err != nil {
		return nil, "", err
	}
	types = map[string]string{}
	var name, typ, id string
	_, err = pgx.ForEachRow(rows, []any{&name, &typ, &id}, func() error {
		types[name] = typ
		if strings.TrimSpace(strings.Trim(id, "\x00")) != "" {
			identity = name
		}
		return nil
	})
	if err == nil && len(types) == 0 {
		err = errors.New("PostgreSQL has no such table")
	}
	return types, identity, err
}

// source hands rows of SQLite to COPY.
type source struct {
	rows    *sql.Rows
	columns []string
	types   map[string]string
	err     error
}

// Next implements pgx.CopyFromSource.
func (s *source) Next() bool { return s.rows.Next() }

// Err implements pgx.CopyFromSource.
func (s *source) Err() error { return errors.Join(s.err, s.rows.Err()) }

// Values implements pgx.CopyFromSource.
func (s *source) Values() ([]any, error) {
	values, dest := make([]any, len(s.columns)), make([]any, len(s.columns))
	for i := range dest {
		dest[i] = &values[i]
	}
	if err := s.rows.Scan(dest...); err != nil {
		return nil, err
	}
	for i, c := range s.columns {
		v, err := convert(s.types[c], values[i])
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c, err)
		}
		values[i] = v
	}
	return values, nil
}

// convert makes of a value of SQLite what a column of PostgreSQL takes; see the head
// of migrations/sqlite/00001_ledger.sql.
func convert(typ string, v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	switch n := v.(type) {
	case int64:
		switch typ {
		case "timestamp with time zone":
			return time.UnixMicro(n).UTC(), nil
		case "boolean":
			return n != 0, nil
		case "numeric":
			return numeric(fmt.Sprint(n))
		}
		return n, nil
	case string:
		switch typ {
		case "numeric":
			return numeric(n)
		case "json":
			return []byte(n), nil
		case "text[]":
			return texts(n)
		}
		return n, nil
	case []byte:
		if typ == "uuid" {
			if len(n) != 16 {
				return nil, fmt.Errorf("%d bytes are no uuid", len(n))
			}
			return [16]byte(n), nil
		}
		return append([]byte{}, n...), nil // never nil, which would be NULL
	}
	return nil, fmt.Errorf("%T into %s", v, typ)
}

func numeric(s string) (any, error) {
	n, ok := new(big.Int).SetString(s, 10)
	if !ok {
		return nil, fmt.Errorf("%q is no whole number", s)
	}
	return pgtype.Numeric{Int: n, Valid: true}, nil
}

func texts(s string) (list []string, err error) {
	err = json.Unmarshal([]byte(s), &list)
	return list, err
}
