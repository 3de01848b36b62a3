package memorydb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/tools/memory"
)

// TestEraseOwner: what was remembered in an owner's runs goes, with everything
// that it was found by; what another owner remembers too stays; and nothing more
// is kept for the owner.
func TestEraseOwner(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, m *memorydb.Store) {
		scope := func(tenant, owner string) memory.Scope {
			return memory.Scope{Tenant: tenant, Root: "team:x", Owner: owner}
		}
		keep := func(s memory.Scope, text string) {
			t.Helper()
			e := event(text, "team:x")
			e.Key = text
			if _, err := m.StoreEvents(t.Context(), s, []memory.Event{e}); err != nil {
				t.Fatal(err)
			}
		}
		keep(scope("a", "ada"), "berry of ada alone")
		keep(scope("a", "ada"), "berry of both")
		keep(scope("a", "bob"), "berry of both")
		keep(scope("a", "bob"), "berry of bob alone")
		keep(scope("a", ""), "berry of nobody and ada")
		keep(scope("a", "ada"), "berry of nobody and ada")
		keep(scope("b", "ada"), "berry of another tenant")
		for _, o := range []string{"ada", "bob"} {
			if err := m.Observe(t.Context(), scope("a", o), memory.Moment{Source: "s", Payload: []byte(`"berry"`)}); err != nil {
				t.Fatal(err)
			}
		}
		e, err := st.Erase(t.Context(), "a", "ada", "dpo")
		if err != nil || e.Notes != 1 || e.Moments != 1 || e.StayNobody != 1 || e.StayOthers != 1 {
			t.Fatalf("%+v, %v", e, err)
		}
		want := []string{"berry of both", "berry of bob alone", "berry of nobody and ada"}
		if got := found(t, m, scope("a", ""), "berry"); !slices.Equal(got, want) {
			t.Errorf("left: %q, want %q", got, want)
		}
		if got := found(t, m, scope("b", ""), "berry"); len(got) != 1 {
			t.Errorf("of the other tenant: %q", got)
		}
		if all := dump(t, st); strings.Contains(all, "alone of ada") || strings.Contains(all, "of ada alone") {
			t.Errorf("traces are left:\n%s", all)
		}
		for _, table := range []string{"memory_gates", "memory_words", "memory_links", "memory_holders"} {
			if n := count(t, st, `SELECT count(*) FROM `+table+` WHERE note_id NOT IN (SELECT id FROM memory_notes)`); n != 0 {
				t.Errorf("%s has %d rows of notes that are gone", table, n)
			}
		}
		if _, err := m.StoreEvents(t.Context(), scope("a", "ada"), []memory.Event{event("more")}); !errors.Is(err, memorydb.ErrErased) {
			t.Errorf("kept for an erased owner: %v", err)
		}
		if err := m.Observe(t.Context(), scope("a", "ada"), memory.Moment{Payload: []byte(`1`)}); !errors.Is(err, memorydb.ErrErased) {
			t.Errorf("a moment for an erased owner: %v", err)
		}
		again, err := st.Erase(t.Context(), "a", "ada", "somebody else")
		if err != nil || again.Notes != 0 || again.StayNobody+again.StayOthers != 0 || again.By != "dpo" || !again.At.Equal(e.At) {
			t.Errorf("again: %+v, %v", again, err)
		}
		if _, err := st.Erase(t.Context(), "a", "stranger", "dpo"); !errors.Is(err, ledger.ErrNotFound) {
			t.Errorf("a stranger: %v", err)
		}
	})
}

// TestEraseRaces: while owners are erased, their runs and others' write the same
// notes. In the end no note is there for those who were erased alone, and none
// that another was told is kept is lost.
func TestEraseRaces(t *testing.T) {
	both(t, func(t *testing.T, st *sqlstore.Store, m *memorydb.Store) {
		const rounds = 12
		for i := range rounds {
			text, own := fmt.Sprintf("berry same%d", i), fmt.Sprintf("berry own%d", i)
			gone, stays := fmt.Sprintf("gone%d", i), fmt.Sprintf("stays%d", i)
			write := func(owner, text string) error {
				e := event(text)
				e.Key = text
				_, err := m.StoreEvents(t.Context(), memory.Scope{Tenant: "a", Root: "r:r", Owner: owner}, []memory.Event{e})
				return err
			}
			if err := write(gone, text); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for range 2 {
				all.Go(func() {
					if err := write(stays, text); err != nil {
						t.Errorf("another's: %v", err)
					}
				})
				all.Go(func() {
					if err := write(gone, own); err != nil && !errors.Is(err, memorydb.ErrErased) {
						t.Errorf("its own: %v", err)
					}
				})
			}
			all.Go(func() {
				if _, err := st.Erase(t.Context(), "a", gone, "dpo"); err != nil {
					t.Errorf("erase: %v", err)
				}
			})
			all.Wait()
			if got := found(t, m, memory.Scope{Tenant: "a", Root: "r:r"}, fmt.Sprintf("same%d", i)); !slices.Equal(got, []string{text}) {
				t.Errorf("round %d: %q, and another was told that it is kept", i, got)
			}
			if got := found(t, m, memory.Scope{Tenant: "a", Root: "r:r"}, fmt.Sprintf("own%d", i)); len(got) != 0 {
				t.Errorf("round %d: %q is kept for an owner that was erased", i, got)
			}
		}
	})
}

// hooked calls after behind each statement of a writer that contains text, once.
type hooked struct {
	sqlstore.DB
	text  string
	after func()
	once  sync.Once
}

func (d *hooked) Write(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return d.DB.Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, hookedTx{tx, d}) })
}

type hookedTx struct {
	sqlstore.Tx
	d *hooked
}

func (t hookedTx) QueryRow(ctx context.Context, q string, args ...any) sqlstore.Row {
	r := t.Tx.QueryRow(ctx, q, args...)
	if strings.Contains(q, t.d.text) {
		return hookedRow{r, t.d}
	}
	return r
}

func (t hookedTx) Exec(ctx context.Context, q string, args ...any) (int64, error) {
	n, err := t.Tx.Exec(ctx, q, args...)
	if err == nil && strings.Contains(q, t.d.text) {
		t.d.once.Do(t.d.after)
	}
	return n, err
}

type hookedRow struct {
	sqlstore.Row
	d *hooked
}

func (r hookedRow) Scan(dest ...any) error {
	err := r.Row.Scan(dest...)
	if err == nil {
		r.d.once.Do(r.d.after)
	}
	return err
}

// waits returns when somebody waits for a lock, or true once done is closed.
func waits(t *testing.T, st *sqlstore.Store, done <-chan struct{}) (ended bool) {
	for count(t, st, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.datname = current_database()
		JOIN pg_stat_activity a ON a.pid = l.pid AND a.datid = d.oid WHERE NOT l.granted`) == 0 {
		select {
		case <-done: // it did not wait
			return true
		default:
		}
	}
	return false
}

// TestEraseWaits: an erasure that comes in the middle of a writer waits for it:
// of what the owner's own run was writing nothing is left, and what another's
// was told is kept is there.
func TestEraseWaits(t *testing.T) {
	for _, tt := range []struct {
		name, behind, owner string
		want                []string
	}{
		{"for the owner's own run", "SELECT erased_at", "gone", []string{}},
		{"for another's that remembers the same", "SELECT id, locus", "stays", []string{"berry"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := redact.New(redact.Config{})
			st := openPostgres(t, r)
			e := event("berry")
			e.Key = "k"
			s := func(owner string) memory.Scope { return memory.Scope{Tenant: "a", Root: "r:r", Owner: owner} }
			if tt.owner == "stays" {
				if _, err := memoryIn(t, st, r).StoreEvents(t.Context(), s("gone"), []memory.Event{e}); err != nil {
					t.Fatal(err)
				}
			}
			var erased error
			done := make(chan struct{})
			d := &hooked{DB: st.DB(), text: tt.behind, after: func() {
				go func() {
					defer close(done)
					_, erased = st.Erase(t.Context(), "a", "gone", "dpo")
				}()
				waits(t, st, done)
			}}
			m, err := memorydb.New(d, memorydb.Config{Redactor: r})
			if err != nil {
				t.Fatal(err)
			}
			if tt.owner == "gone" { // so that there is an owner to erase
				if _, err := memoryIn(t, st, r).StoreEvents(t.Context(), s("gone"), []memory.Event{event("before")}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := m.StoreEvents(t.Context(), s(tt.owner), []memory.Event{e}); err != nil {
				t.Fatal(err)
			}
			<-done
			if erased != nil {
				t.Fatal(erased)
			}
			if got := found(t, memoryIn(t, st, r), memory.Scope{Tenant: "a", Root: "r:r"}, "berry"); !slices.Equal(got, tt.want) {
				t.Errorf("left: %q, want %q", got, tt.want)
			}
		})
	}
}
