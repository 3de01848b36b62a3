package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// A Cell is one value of one row of any table, as bytes.
type Cell struct {
	Table, Column string
	// Row is where it lies: the rowid, or in PostgreSQL the partition and the ctid.
	Row   string
	Run   events.RunID // zero if the row has none
	Seq   int64        // 0 if the row has none
	Value []byte       // not to be kept
}

// Cells calls f with every value of every table of a database, also of tables that
// this build does not know: they are taken from the catalogue, all in one snapshot. rows
// is told how many rows were read. Memory grows with the largest row.
func Cells(ctx context.Context, db DB, rows func(n int64), f func(Cell) error) error {
	return db.Read(ctx, func(ctx context.Context, tx Tx) error {
		tables, err := catalogue(ctx, tx)
		if err != nil {
			return fmt.Errorf("read the catalogue: %w", err)
		}
		n := int64(0)
		for _, t := range tables {
			if err := t.each(ctx, tx, func() { n++; rows(n) }, f); err != nil {
				return fmt.Errorf("read table %s: %w", t.name, err)
			}
		}
		return nil
	})
}

type table struct {
	name     string // as statements name it
	columns  []string
	selected []string // as bytes
	place    string
}

const postgresCatalogue = `
	SELECT n.nspname, c.relname, a.attname, a.atttypid = 'bytea'::regtype
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
	WHERE c.relkind IN ('r', 'p', 'm') AND NOT c.relispartition AND c.relpersistence <> 't' AND a.attnum > 0 AND NOT a.attisdropped
		AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
	ORDER BY n.nspname, c.relname, a.attnum`

const sqliteCatalogue = `
	SELECT '', m.name, c.name, false FROM sqlite_schema m JOIN pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY m.name, c.cid`

// Dialect says which database a transaction is of: "postgres" or "sqlite".
func Dialect(ctx context.Context, tx Tx) (string, error) {
	var v string
	// Both know the function's name at least: one answers, in the other it is no function.
	err := tx.QueryRow(ctx, `SELECT CASE WHEN length(CAST(1.50 AS text)) = 4 THEN 'postgres' ELSE 'sqlite' END`).Scan(&v)
	return v, err
}

func catalogue(ctx context.Context, tx Tx) (tables []table, err error) {
	dialect, err := Dialect(ctx, tx)
	if err != nil {
		return nil, err
	}
	q := sqliteCatalogue
	if dialect == "postgres" {
		q = postgresCatalogue
	}
	rows, err := tx.Query(ctx, q)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var schema, name, column string
		var bytes bool
		if err := rows.Scan(&schema, &name, &column, &bytes); err != nil {
			return nil, err
		}
		full := ident(name)
		if schema != "" {
			full = ident(schema) + "." + full
		}
		if len(tables) == 0 || tables[len(tables)-1].name != full {
			place := "CAST(rowid AS text)"
			if dialect == "postgres" {
				place = "tableoid::regclass::text || ctid::text"
			}
			tables = append(tables, table{name: full, place: place})
		}
		t := &tables[len(tables)-1]
		t.columns = append(t.columns, column)
		switch {
		case dialect == "sqlite":
			t.selected = append(t.selected, "CAST("+ident(column)+" AS blob)")
		case bytes:
			t.selected = append(t.selected, ident(column))
		default:
			t.selected = append(t.selected, "convert_to("+ident(column)+"::text, 'UTF8')")
		}
	}
	return tables, rows.Err()
}

func ident(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// each goes through the rows of a table.
func (t table) each(ctx context.Context, tx Tx, row func(), f func(Cell) error) error {
	short := strings.ReplaceAll(strings.TrimPrefix(t.name, `"public".`), `"`, "")
	cols := append([]string{}, t.selected...)
	var run events.RunID
	var seq *int64
	place := ""
	values := make([][]byte, len(cols))
	dest := make([]any, len(cols))
	for i := range values {
		dest[i] = &values[i]
	}
	for i, c := range t.columns {
		switch {
		case c == "run_id" || c == "id" && short == "runs":
			cols, dest = append(cols, ident(t.columns[i])), append(dest, &run)
		case c == "seq":
			cols, dest = append(cols, ident(c)), append(dest, &seq)
		}
	}
	cols, dest = append(cols, t.place), append(dest, &place)
	rows, err := tx.Query(ctx, "SELECT "+strings.Join(cols, ", ")+" FROM "+t.name)
	if err != nil && t.place == "CAST(rowid AS text)" && !errors.Is(err, ledger.ErrUnavailable) {
		// A table WITHOUT ROWID.
		cols[len(cols)-1] = "''"
		rows, err = tx.Query(ctx, "SELECT "+strings.Join(cols, ", ")+" FROM "+t.name)
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		seq = nil
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		row()
		c := Cell{Table: short, Row: place, Run: run}
		if seq != nil {
			c.Seq = *seq
		}
		for i, v := range values {
			if v == nil {
				continue
			}
			c.Column, c.Value = t.columns[i], v
			if err := f(c); err != nil {
				return err
			}
		}
	}
	return rows.Err()
}
