package sqlstore_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// asked counts how often a journal is asked where it stands.
type asked struct {
	events.Reader
	n atomic.Int64
}

func (a *asked) Position(context.Context) (events.Position, error) {
	a.n.Add(1)
	return events.Position{}, nil
}

// TestCompareFirst: a worker and a projector of one process compare the database
// once between them.
func TestCompareFirst(t *testing.T) {
	st, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "l.db"), Store: sqlstore.Config{Redactor: redact.New(redact.Config{})}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	j := &asked{}
	for want := range int64(2) { // without a guard each compares
		if err := st.CompareFirst(t.Context(), j); err != nil || j.n.Load() != want+1 {
			t.Fatalf("asked %d times, %v", j.n.Load(), err)
		}
	}
	guarded := &asked{}
	st.Guard(guarded)
	for range 3 {
		if err := st.CompareFirst(t.Context(), guarded); err != nil {
			t.Fatal(err)
		}
	}
	if n := guarded.n.Load(); n != 1 {
		t.Errorf("compared %d times", n)
	}
}
