package memorydb_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/tools/memory"
)

// TestMomentsAreInOrder: a reader that comes while a moment is written, and
// another after it, goes on behind what it saw and misses none; and what it
// forgets is what it read.
func TestMomentsAreInOrder(t *testing.T) {
	r := redact.New(redact.Config{})
	st := openPostgres(t, r)
	plain := memoryIn(t, st, r)
	s := memory.Scope{Tenant: "a", Root: "r:r", Owner: "ada"}
	moment := func(n string) memory.Moment {
		return memory.Moment{Source: "s", Payload: json.RawMessage(n)}
	}
	read := func(after int64) (all []string, ids []int64) {
		t.Helper()
		page, err := plain.Moments(t.Context(), "a", after, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			all, ids = append(all, string(m.Moment.Payload)), append(ids, m.ID)
		}
		return all, ids
	}
	if err := plain.Observe(t.Context(), s, moment("0")); err != nil { // so that its owner is known, and nobody waits for that
		t.Fatal(err)
	}
	var early []string
	var ids []int64
	var second error
	done := make(chan struct{})
	d := &hooked{DB: st.DB(), text: "INSERT INTO memory_moments", after: func() {
		go func() {
			defer close(done)
			second = plain.Observe(t.Context(), s, moment("2"))
		}()
		waits(t, st, done)
		early, ids = read(0)
	}}
	m, err := memorydb.New(d, memorydb.Config{Redactor: r})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Observe(t.Context(), s, moment("1")); err != nil {
		t.Fatal(err)
	}
	<-done
	if second != nil {
		t.Fatal(second)
	}
	var cursor int64
	if len(ids) > 0 {
		cursor = ids[len(ids)-1]
	}
	if n, err := plain.Forget(t.Context(), "a", ids); n != int64(len(ids)) || err != nil {
		t.Errorf("forgot %d of %d, %v", n, len(ids), err)
	}
	late, _ := read(cursor)
	if all := append(early, late...); !slices.Equal(all, []string{"0", "1", "2"}) {
		t.Errorf("read %q, then %q: want 0, 1 and 2", early, late)
	}
}
