package memorydb_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/memory/memorytest"
)

// TestWideFence: a root that sees through so many gates that they are looked at
// one by one answers as the memory in the process does, and shows nothing of the
// roots beside it, which use the same contexts.
func TestWideFence(t *testing.T) {
	both(t, func(t *testing.T, _ *sqlstore.Store, m *memorydb.Store) {
		reference := memorytest.NewStore()
		keep := func(root string, e memory.Event) {
			t.Helper()
			for _, c := range []memory.Client{m, reference} {
				if _, err := c.StoreEvents(t.Context(), memory.Scope{Tenant: "a", Root: root}, []memory.Event{e}); err != nil {
					t.Fatal(err)
				}
			}
		}
		const roots = 120
		for i := range roots {
			root, outside := fmt.Sprintf("user:%d", i), fmt.Sprintf("stranger:%d", i)
			host := event("berry host", "team:all")
			host.ContextID = root
			if i%10 == 0 {
				host.Extends = append(host.Extends, "user:0") // seen through two gates
			}
			keep("", host)
			for _, in := range []string{root, outside} {
				e := event(fmt.Sprintf("berry %d of %s", i, in), in)
				e.ContextID = fmt.Sprintf("topic:%d", i%110)
				e.RelatedTo = []string{fmt.Sprintf("topic:%d", (i+1)%110), "of:" + in}
				keep(in, e)
			}
		}
		s := memory.Scope{Tenant: "a", Root: "team:all"}
		for _, ask := range []struct {
			name string
			of   func(c memory.Client) (any, error)
		}{
			{"graph", func(c memory.Client) (any, error) {
				return c.ContextGraph(t.Context(), memory.GraphQuery{Scope: s, Type: "team", Name: "all", Depth: new(3)})
			}},
			{"contexts", func(c memory.Client) (any, error) {
				return c.SearchContexts(t.Context(), memory.ContextQuery{Scope: s, Relationships: true, PageSize: new(500)})
			}},
			{"reach", func(c memory.Client) (any, error) {
				return texts(c.Retrieve(t.Context(), memory.Query{Scope: s, Text: "berry", ContextIDs: []string{"topic:5", "user:0"}, Limit: new(500)}))
			}},
			{"many words", func(c memory.Client) (any, error) {
				var words strings.Builder
				for i := range 150 {
					fmt.Fprintf(&words, "berry word%d ", i)
				}
				return texts(c.Retrieve(t.Context(), memory.Query{Scope: s, Text: words.String(), Prefer: []string{"topic:7"}, Limit: new(500)}))
			}},
		} {
			got, err := ask.of(m)
			if err != nil {
				t.Fatalf("%s: %v", ask.name, err)
			}
			want, err := ask.of(reference)
			if err != nil {
				t.Fatal(err)
			}
			g, _ := json.Marshal(got)
			w, _ := json.Marshal(want)
			if string(g) != string(w) {
				t.Errorf("%s:\n got %s\nwant %s", ask.name, g, w)
			}
			if strings.Contains(string(g), "stranger") || len(g) < 2000 {
				t.Errorf("%s, %d bytes: %s", ask.name, len(g), g)
			}
		}
	})
}

func texts(f memory.Found, err error) ([]string, error) {
	all := []string{}
	for _, r := range f.Items {
		all = append(all, fmt.Sprintf("%s %.4f %v", r.Text, r.Score, r.ContextIDs))
	}
	return all, err
}
