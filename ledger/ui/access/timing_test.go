package access_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/ledger/ui/access"
	"github.com/daybookhq/daybook/redact"
)

// noting notes each statement that a database is asked.
type noting struct {
	sqlstore.DB
	mu    sync.Mutex
	asked []string
}

func (n *noting) Read(ctx context.Context, f func(context.Context, sqlstore.Tx) error) error {
	return n.DB.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error { return f(ctx, notingTx{tx, n}) })
}

func (n *noting) note(q string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, q)
}

func (n *noting) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	asked := n.asked
	n.asked = nil
	return asked
}

type notingTx struct {
	sqlstore.Tx
	n *noting
}

func (t notingTx) Query(ctx context.Context, q string, args ...any) (sqlstore.Rows, error) {
	t.n.note(q)
	return t.Tx.Query(ctx, q, args...)
}

func (t notingTx) QueryRow(ctx context.Context, q string, args ...any) sqlstore.Row {
	t.n.note(q)
	return t.Tx.QueryRow(ctx, q, args...)
}

// TestAnothersTakesAsLongAsNothing: what is another's and what is not there are
// told apart by neither answer nor effort: the same statements in the same order.
func TestAnothersTakesAsLongAsNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, st ledger.Store) {
		db := &noting{DB: st.(interface{ DB() sqlstore.DB }).DB()}
		noted := sqlstore.New(db, sqlstore.Config{Redactor: redact.New(redact.Config{})})
		s := ledgertest.FillSample(t, st, "acme", "ann")
		for _, p := range []access.Principal{{Tenant: "acme", Owner: "bob", Scopes: readAll.Scopes}, {Tenant: "other", Scopes: readAll.Scopes}, {Owner: "bob", Scopes: readAll.Scopes}} {
			r := access.Scoped(noted, p)
			for name, look := range looks {
				if look.byOwner {
					continue // it names the owner, so it asks for nothing
				}
				db.take()
				_, _ = look.one(t.Context(), r, s)
				others := db.take()
				_, _ = look.one(t.Context(), r, missing())
				if none := db.take(); !slices.Equal(others, none) {
					t.Errorf("%s by %+v asks %d times for what is another's, %d times for what is not there:\n%q\n%q", name, p, len(others), len(none), others, none)
				}
			}
			// Calls that are open are read one by one.
			db.take()
			_, _ = r.Calls(t.Context(), ledger.CallFilter{Run: s.Run.ID})
			others := db.take()
			_, _ = r.Calls(t.Context(), ledger.CallFilter{Run: missing().Run.ID})
			if none := db.take(); !slices.Equal(others, none) {
				t.Errorf("open calls by %+v: %q, %q", p, others, none)
			}
			_, _ = r.Run(t.Context(), s.Run.ID)
			if len(db.take()) == 0 {
				t.Fatal("nothing was noted")
			}
		}
	})
}
