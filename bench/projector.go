package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// projectorPart projects journal messages of readonly calls of 1 KB, from their
// bytes to the commit, and then copies the very rows that came of them into
// empty tables of the same shape, by COPY and with as many commits.
func projectorPart(ctx context.Context, b *bench) (err error) {
	s, err := b.site(ctx, interval)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	sys, err := s.open(ctx, interval)
	if err != nil {
		return err
	}
	pool, err := s.pool(ctx, 1)
	if err != nil {
		return err
	}
	ts, err := claim(ctx, sys.Store, sys.Redactor, agentName, "projected", 50, time.Hour)
	if err != nil {
		return err
	}
	const batches, calls = 40, 5
	all := make([][]ledger.Incoming, batches)
	for i := range all {
		if all[i], err = batchOf(ts, i+1, calls); err != nil {
			return err
		}
	}
	n := 0
	start, cpu := time.Now(), b.cpu.used()
	for _, in := range all {
		in[0].Events, in[0].Rejected, in[0].Err = events.ParseMessage(in[0].Message.Data)
		p, err := sys.Store.Project(ctx, in)
		if err != nil {
			return err
		}
		if p.Quarantined > 0 || p.Folded != p.Events {
			return fmt.Errorf("projected %+v", p)
		}
		n += p.Events
	}
	took, used := time.Since(start), b.cpu.used()-cpu
	copied, err := b.copyAgain(ctx, pool, batches)
	if err != nil {
		return err
	}
	const name = "raw COPY of the same rows"
	const synced = "database: a commit per batch"
	rows := copied.n
	raw := rate("projector", name, copied, synced)
	f := rate("projector", "projector", taken{n: rows, wall: took, cpu: used}, synced)
	raw.Unit, f.Unit = "rows/s", "rows/s"
	b.report.add(raw)
	f.Note = fmt.Sprintf("%d batches, %.0f events/s, %.2f rows an event; with parsing, decoding, redaction check and fold", batches, float64(n)/took.Seconds(), float64(rows)/float64(n))
	b.report.add(b.report.over(f, name).atLeast(0.5))
	return nil
}

// projected are the tables that a projector fills.
var projected = []string{"events", "tool_call_records", "model_calls"}

// copyAgain copies the rows of the projector's tables into fresh ones with the
// same indexes, in n transactions.
func (b *bench) copyAgain(ctx context.Context, pool *pgxpool.Pool, n int) (t taken, err error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return t, err
	}
	defer conn.Release()
	columns, rows := map[string][]string{}, map[string][][]any{}
	for _, table := range projected {
		if _, err := conn.Exec(ctx, `CREATE TABLE copy_of_`+table+` (LIKE `+table+` INCLUDING ALL)`); err != nil {
			return t, err
		}
		if columns[table], rows[table], err = readTable(ctx, conn.Conn(), table); err != nil {
			return t, err
		}
		t.n += len(rows[table])
	}
	start, cpu := time.Now(), b.cpu.used()
	for i := range n {
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			for _, table := range projected {
				all := rows[table]
				part := all[len(all)*i/n : len(all)*(i+1)/n]
				if _, err := tx.CopyFrom(ctx, pgx.Identifier{"copy_of_" + table}, columns[table], pgx.CopyFromRows(part)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return t, err
		}
	}
	t.wall, t.cpu = time.Since(start), b.cpu.used()-cpu
	return t, nil
}

func readTable(ctx context.Context, conn *pgx.Conn, table string) (columns []string, rows [][]any, err error) {
	rs, err := conn.Query(ctx, `SELECT * FROM `+table+` ORDER BY seq, run_id`)
	if err != nil {
		return nil, nil, err
	}
	defer rs.Close()
	for _, f := range rs.FieldDescriptions() {
		columns = append(columns, f.Name)
	}
	for rs.Next() {
		v, err := rs.Values()
		if err != nil {
			return nil, nil, err
		}
		for i, f := range rs.FieldDescriptions() {
			if f.DataTypeOID == pgtype.JSONOID && v[i] != nil { // as the bytes that were stored
				v[i] = bytes.Clone(rs.RawValues()[i])
			}
		}
		rows = append(rows, v)
	}
	return columns, rows, rs.Err()
}
