package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/migrations"
	"github.com/daybookhq/daybook/redact"
)

// benchRuns is how many runs move at the same time, benchCalls how many
// readonly calls each batch has of each of them: 500 events a batch.
const (
	benchRuns  = 50
	benchCalls = 5
)

// teller makes the history of one run.
type teller struct {
	run  events.RunID
	seq  uint64
	prev events.Hash
	ids  *events.IDs
	r    *redact.Redactor
}

func (w *teller) tell(b *testing.B, p events.Payload) events.Sealed {
	data, err := w.r.JSON(p)
	if err != nil {
		b.Fatal(err)
	}
	s, err := events.Seal(events.Envelope{
		ID: w.ids.Event(), RunID: w.run, Seq: w.seq + 1, Epoch: 1, Type: events.TypeOf(p), Version: 1, Time: time.Now(), Tenant: "acme", Prev: w.prev,
	}, data)
	if err != nil {
		b.Fatal(err)
	}
	w.seq, w.prev = w.seq+1, s.Hash()
	return s
}

// BenchmarkProject projects batches of 500 events of readonly calls of 1 KB and
// then copies the very rows it made, by COPY and one commit per batch, into
// tables of the same shape: "copy-ratio" is the speed against that.
func BenchmarkProject(b *testing.B) {
	d, err := open(b.Context(), Config{DSN: testenv.MigratedPostgres(b, migrations.Digest(migrations.PostgreSQL), migrate)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.Close() })
	r := redact.New(redact.Config{})
	s := sqlstore.New(d, sqlstore.Config{Redactor: r})
	ids := events.NewIDs(nil, nil)
	input, err := r.JSON(map[string]int{"n": 1})
	if err != nil {
		b.Fatal(err)
	}
	ws := make([]*teller, benchRuns)
	for i := range ws {
		run, _, err := s.Submit(b.Context(), ledger.Submission{Tenant: "acme", Queue: "q", Agent: "a", ClientKey: fmt.Sprint(i), Input: input, InputMAC: []byte("m")})
		if err != nil {
			b.Fatal(err)
		}
		ws[i] = &teller{run: run.ID, prev: events.Genesis(run.ID), ids: ids, r: r}
	}
	if cs, err := s.Claim(b.Context(), ledger.ClaimRequest{Worker: "w", Limit: benchRuns, TTL: time.Minute}); err != nil || len(cs) != benchRuns {
		b.Fatalf("%d claims, %v", len(cs), err)
	}
	args, out := filler(300), string(filler(600))
	batches := make([][]ledger.Incoming, b.N)
	turn := 0
	for i := range batches {
		var es []events.Sealed
		turn++
		for _, w := range ws {
			if i == 0 {
				es = append(es, w.tell(b, events.RunQueued{Agent: "a", Root: w.run}))
			}
			es = append(es, w.tell(b, events.TurnStarted{Turn: turn}))
			for c := range benchCalls {
				id := events.CallID{Turn: turn, Index: c}
				es = append(es, w.tell(b, events.ToolExecutionStarted{Call: id, Attempt: 1, Tool: "search", Effect: "readonly", Arguments: args, At: time.Now()}))
				es = append(es, w.tell(b, events.ToolExecutionFinished{Call: id, Attempt: 1, Tool: "search", Result: events.ToolResult{Status: "completed", Output: out}, At: time.Now()}))
			}
		}
		m := events.Message{Worker: "w", Sequence: uint64(i + 1), Data: events.AppendMessage(nil, es)}
		batches[i] = []ledger.Incoming{{Message: m}}
	}
	rows := 0
	b.ResetTimer()
	start := time.Now()
	for _, batch := range batches {
		in := &batch[0]
		in.Events, in.Rejected, in.Err = events.ParseMessage(in.Message.Data)
		p, err := s.Project(b.Context(), batch)
		if err != nil || p.Quarantined > 0 || p.Folded != p.Events {
			b.Fatalf("%+v, %v", p, err)
		}
		rows += p.Events + 2*benchRuns*benchCalls
	}
	took := time.Since(start)
	b.StopTimer()
	copied := copyAgain(b, d, b.N)
	b.ReportMetric(float64(rows)/took.Seconds(), "rows/s")
	b.ReportMetric(float64(rows)/copied.Seconds(), "copy-rows/s")
	b.ReportMetric(copied.Seconds()/took.Seconds(), "copy-ratio")
}

func filler(n int) json.RawMessage {
	b := []byte(`"`)
	for len(b) < n {
		b = append(b, "lorem ipsum dolor sit amet "...)
	}
	return append(b, '"')
}

// copyAgain copies the rows of events and tool_call_records into fresh tables
// with the same indexes, n transactions long.
func copyAgain(b *testing.B, d *database, n int) time.Duration {
	b.Helper()
	ctx := context.Background()
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Release()
	var took time.Duration
	for _, table := range []string{"events", "tool_call_records"} {
		if _, err := conn.Exec(ctx, `CREATE TABLE copy_of_`+table+` (LIKE `+table+` INCLUDING ALL)`); err != nil {
			b.Fatal(err)
		}
	}
	read := func(table string) (columns []string, rows [][]any) {
		rs, err := conn.Query(ctx, `SELECT * FROM `+table+` ORDER BY seq, run_id`)
		if err != nil {
			b.Fatal(err)
		}
		for _, f := range rs.FieldDescriptions() {
			columns = append(columns, f.Name)
		}
		for rs.Next() {
			v, err := rs.Values()
			if err != nil {
				b.Fatal(err)
			}
			for i, f := range rs.FieldDescriptions() {
				if f.DataTypeOID == pgtype.JSONOID && v[i] != nil {
					v[i] = bytes.Clone(rs.RawValues()[i])
				}
			}
			rows = append(rows, v)
		}
		if rs.Err() != nil {
			b.Fatal(rs.Err())
		}
		return columns, rows
	}
	eventColumns, eventRows := read("events")
	callColumns, callRows := read("tool_call_records")
	part := func(rows [][]any, i int) pgx.CopyFromSource {
		return pgx.CopyFromRows(rows[len(rows)*i/n : len(rows)*(i+1)/n])
	}
	start := time.Now()
	for i := range n {
		tx, err := conn.Begin(ctx)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"copy_of_events"}, eventColumns, part(eventRows, i)); err != nil {
			b.Fatal(err)
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"copy_of_tool_call_records"}, callColumns, part(callRows, i)); err != nil {
			b.Fatal(err)
		}
		if err := tx.Commit(ctx); err != nil {
			b.Fatal(err)
		}
	}
	took = time.Since(start)
	return took
}
