package memorydb_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/tools/memory"
)

// TestBatchBounds: what each note may have, a whole batch may not: its words, its
// links and its bytes are bounded together, and nothing of it is kept.
func TestBatchBounds(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, m *memorydb.Store) {
		ids := func(what string, n int) (all []string) {
			for i := range n {
				all = append(all, fmt.Sprintf("%s:%d", what, i))
			}
			return all
		}
		words := event(strings.Join(ids("w", 600), " "), ids("e", 60)...)
		links := event("x", ids("e", 100)...)
		links.RelatedTo, links.Reinforces = ids("r", 250), ids("s", 250)
		for what, tt := range map[string]struct {
			e memory.Event
			n int
		}{"words": {words, 8}, "links": {links, 4}, "bytes": {event(strings.Repeat("x ", 30<<10)), 300}, "events": {event("x"), 1001}} {
			batch := make([]memory.Event, tt.n)
			for i := range batch {
				batch[i] = tt.e
			}
			if _, err := m.StoreEvents(t.Context(), memory.Scope{Tenant: "a"}, batch); !errors.Is(err, memorydb.ErrBatch) {
				t.Errorf("%d events with many %s: %v", tt.n, what, err)
			}
		}
		if _, err := m.StoreEvents(t.Context(), memory.Scope{Tenant: "b"}, []memory.Event{words}); err != nil {
			t.Errorf("one event with many words: %v", err)
		}
		links.Extends, links.Contradicts = ids("e", 256), ids("c", 256)
		if _, err := m.StoreEvents(t.Context(), memory.Scope{Tenant: "a"}, []memory.Event{links}); err == nil || !strings.Contains(err.Error(), "write several notes") {
			t.Errorf("one note with more links than a batch may have: %v", err)
		}
		if n := count(t, st, `SELECT count(*) FROM memory_notes WHERE tenant = 'a'`); n != 0 {
			t.Errorf("%d notes of batches that were refused", n)
		}
	})
}

// counted counts the rows that readers fetch.
type counted struct {
	sqlstore.DB
	rows atomic.Int64
}

func (d *counted) Read(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.DB.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, countedTx{tx, d}) })
}

type countedTx struct {
	sqlstore.Tx
	d *counted
}

func (t countedTx) Query(ctx context.Context, q string, args ...any) (sqlstore.Rows, error) {
	rows, err := t.Tx.Query(ctx, q, args...)
	if err != nil {
		return nil, err
	}
	return countedRows{rows, t.d}, nil
}

type countedRows struct {
	sqlstore.Rows
	d *counted
}

func (r countedRows) Next() bool {
	if !r.Rows.Next() {
		return false
	}
	r.d.rows.Add(1)
	return true
}

// TestLinksAreReadOnce: a link that many notes have is fetched once, whoever asks
// for what leads to its end.
func TestLinksAreReadOnce(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, _ *memorydb.Store) {
		r := redact.New(redact.Config{})
		d := &counted{DB: st.DB()}
		m, err := memorydb.New(d, memorydb.Config{Redactor: r})
		if err != nil {
			t.Fatal(err)
		}
		for _, root := range []string{"", "user:1"} {
			batch := make([]memory.Event, 500)
			for i := range batch {
				batch[i] = event("berry", "user:1", "team:all")
				batch[i].ContextID = "user:2"
			}
			if _, err := m.StoreEvents(t.Context(), memory.Scope{Tenant: "a", Root: root}, batch); err != nil {
				t.Fatal(err)
			}
		}
		f, err := m.Retrieve(t.Context(), memory.Query{Scope: memory.Scope{Tenant: "a", Root: "user:1"}, Text: "berry", ContextIDs: []string{"team:all"}, Limit: new(3)})
		if err != nil || len(f.Items) != 3 {
			t.Fatalf("%+v, %v", f, err)
		}
		if n := d.rows.Load(); n > 20 {
			t.Errorf("%d rows were fetched for three notes and two links", n)
		}
	})
}

// TestReachIsBounded: from a root that more contexts lead to than are followed,
// one more is fetched than allowed, and the error says what to do.
func TestReachIsBounded(t *testing.T) {
	r := redact.New(redact.Config{})
	st := openPostgres(t, r)
	exec(t, st, `INSERT INTO memory_links (tenant, from_context, gate, note_id, position, root, kind, to_context)
		SELECT 'a', 'user:' || n % 100100, 'team:all', n, 0, '', 'extends', 'team:all' FROM generate_series(1, 150000) n`)
	d := &counted{DB: st.DB()}
	m, err := memorydb.New(d, memorydb.Config{Redactor: r})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Retrieve(t.Context(), memory.Query{Scope: memory.Scope{Tenant: "a", Root: "team:all"}, Text: "berry"})
	if err == nil || !strings.Contains(err.Error(), "ask for a part of them") {
		t.Errorf("error: %v", err)
	}
	if n := d.rows.Load(); n != 100_001 {
		t.Errorf("%d rows were fetched", n)
	}
}
