package memorydb_test

import (
	"slices"
	"testing"

	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools/memory"
)

// TestEraseMeanwhile: in the middle of an erasure, other owners' runs remember
// what they and the erased owner have in common; and two owners who are erased at
// once do not leave a common note to each other.
func TestEraseMeanwhile(t *testing.T) {
	for _, what := range []string{"another remembers", "another is erased"} {
		t.Run(what, func(t *testing.T) {
			r := redact.New(redact.Config{})
			st := openPostgres(t, r)
			m := memoryIn(t, st, r)
			write := func(owner, text string) error {
				e := event(text)
				e.Key = text
				_, err := m.StoreEvents(t.Context(), memory.Scope{Tenant: "a", Root: "r:r", Owner: owner}, []memory.Event{e})
				return err
			}
			for _, w := range [][2]string{{"gone", "berry alone"}, {"gone", "berry of both"}, {"bob", "berry of both"}} {
				if err := write(w[0], w[1]); err != nil {
					t.Fatal(err)
				}
			}
			var meanwhile error
			done := make(chan struct{})
			d := &hooked{DB: st.DB(), text: "DELETE FROM memory_words", after: func() {
				go func() {
					defer close(done)
					if what == "another remembers" {
						meanwhile = write("bob", "berry of both")
						return
					}
					_, meanwhile = st.Erase(t.Context(), "a", "bob", "dpo")
				}()
				if ended := waits(t, st, done); ended != (what == "another remembers") {
					t.Errorf("ended in the middle of the erasure: %v", ended)
				}
			}}
			e, err := sqlstore.New(d, sqlstore.Config{Redactor: r}).Erase(t.Context(), "a", "gone", "dpo")
			<-done
			if err != nil || meanwhile != nil {
				t.Fatal(err, meanwhile)
			}
			if e.Notes != 1 || e.StayOthers != 1 || e.StayNobody != 0 {
				t.Errorf("%+v", e)
			}
			want := []string{"berry of both"}
			if what == "another is erased" {
				want = []string{}
			}
			if got := found(t, m, memory.Scope{Tenant: "a", Root: "r:r"}, "berry"); !slices.Equal(got, want) {
				t.Errorf("left: %q, want %q", got, want)
			}
		})
	}
}
