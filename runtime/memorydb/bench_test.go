package memorydb_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/tools/memory"
)

// vocabulary is what the notes of a crowd are made of: 2,000 words, the first of
// which are much more frequent than the last.
func sentence(rnd *rand.Rand) string {
	ws := make([]string, 12)
	for i := range ws {
		f := rnd.Float64()
		ws[i] = fmt.Sprintf("word%d", int(f*f*f*2000))
	}
	return strings.Join(ws, " ")
}

// crowd keeps n notes of a tenant, those of each root in contexts of their own
// and in one that all roots have; the host has a note for each root, which
// extends the team.
func crowd(tb testing.TB, m *memorydb.Store, tenant string, roots, each int) {
	tb.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	note := func(context string, extends ...string) memory.Event {
		payload, err := json.Marshal(map[string]string{"data": "everybody " + sentence(rnd)})
		if err != nil {
			tb.Fatal(err)
		}
		return memory.Event{ContextID: context, Payload: payload, Source: []string{"assistant", "user", "tool"}[rnd.IntN(3)], Links: memory.Links{Extends: extends, RelatedTo: []string{fmt.Sprintf("topic:%d", rnd.IntN(50))}}}
	}
	store := func(root string, batch []memory.Event) {
		if len(batch) == 0 {
			return
		}
		if _, err := m.StoreEvents(tb.Context(), memory.Scope{Tenant: tenant, Root: root}, batch); err != nil {
			tb.Fatal(err)
		}
	}
	for r := range roots {
		root := fmt.Sprintf("user:%d", r)
		store("", []memory.Event{note(root, "team:all")})
		var batch []memory.Event
		for i := range each {
			context := fmt.Sprintf("topic:%d", i%50)
			if i%3 == 0 {
				context = "preference:shared"
			}
			if batch = append(batch, note(context, root)); len(batch) == 1000 {
				store(root, batch)
				batch = batch[:0]
			}
		}
		store(root, batch)
	}
}

// asks are the requests that are measured, each in a scope.
func asks(m *memorydb.Store, s memory.Scope) []struct {
	name string
	ask  func(tb testing.TB) error
} {
	type asked = struct {
		name string
		ask  func(tb testing.TB) error
	}
	retrieve := func(q memory.Query) func(testing.TB) error {
		q.Scope = s
		return func(tb testing.TB) error {
			f, err := m.Retrieve(tb.Context(), q)
			if err == nil && len(f.Items) == 0 {
				err = fmt.Errorf("nothing was found by %q", q.Text)
			}
			return err
		}
	}
	return []asked{
		{"recall, a rare word", retrieve(memory.Query{Text: "word1999 word1998 word1997 word1996 word1 word1990 word1989"})},
		{"recall, a word in every note", retrieve(memory.Query{Text: "everybody"})},
		{"recall, nine words", retrieve(memory.Query{Text: "everybody word0 word1 word2 word3 word10 word100 word500 word1500"})},
		{"recall, a context named", retrieve(memory.Query{Text: "everybody word1", Prefer: []string{"topic:7"}})},
		{"recall, of sources", retrieve(memory.Query{Text: "everybody word1", Sources: []string{"user"}})},
		{"recall, filtered by reach", retrieve(memory.Query{Text: "everybody word1", ContextIDs: []string{"topic:7"}})},
		{"deep_recall", func(tb testing.TB) error {
			_, err := m.DeepRecall(tb.Context(), memory.Question{Scope: s, Text: "everybody word1 word2"})
			return err
		}},
		{"types of contexts", func(tb testing.TB) error { _, err := m.ContextTypes(tb.Context(), s); return err }},
		{"search of contexts", func(tb testing.TB) error {
			_, err := m.SearchContexts(tb.Context(), memory.ContextQuery{Scope: s, Text: "topic", Relationships: true})
			return err
		}},
		{"graph around a context", func(tb testing.TB) error {
			_, err := m.ContextGraph(tb.Context(), memory.GraphQuery{Scope: s, Type: "topic", Name: "7"})
			return err
		}},
		{"graph around the root", func(tb testing.TB) error {
			kind, name, _ := strings.Cut(s.Root, ":")
			_, err := m.ContextGraph(tb.Context(), memory.GraphQuery{Scope: s, Type: kind, Name: name})
			return err
		}},
	}
}

// BenchmarkMemory measures a tenant with 1,000 roots of 100 notes, seen from one
// root and from the team, which has all of them, and a root with 100,000 notes.
//
//	go test ./runtime/memorydb -run '^$' -bench Memory -benchtime 20x -timeout 30m
func BenchmarkMemory(b *testing.B) {
	for _, d := range databases {
		b.Run(d.name, func(b *testing.B) {
			r := redact.New(redact.Config{})
			st := d.open(b, r)
			m := memoryIn(b, st, r)
			start := time.Now()
			crowd(b, m, "many", 1000, 100)
			b.Logf("101,000 notes of 1,000 roots: %v", time.Since(start).Round(time.Millisecond))
			start = time.Now()
			crowd(b, m, "one", 1, 100_000)
			b.Logf("100,001 notes of one root: %v", time.Since(start).Round(time.Millisecond))
			if d.name == "PostgreSQL" {
				statistics(b, st)
			}
			for _, s := range []struct {
				name  string
				scope memory.Scope
			}{
				{"a root of 100 among 1,000", memory.Scope{Tenant: "many", Root: "user:3"}},
				{"the team of all 1,000", memory.Scope{Tenant: "many", Root: "team:all"}},
				{"a root of 100,000", memory.Scope{Tenant: "one", Root: "user:0"}},
			} {
				b.Run(s.name, func(b *testing.B) {
					for _, a := range asks(m, s.scope) {
						b.Run(a.name, func(b *testing.B) {
							for b.Loop() {
								if err := a.ask(b); err != nil {
									b.Fatal(err)
								}
							}
						})
					}
				})
			}
			b.Run("remember", func(b *testing.B) {
				rnd := rand.New(rand.NewPCG(3, 4))
				for i := 0; b.Loop(); i++ {
					payload, _ := json.Marshal(map[string]string{"data": sentence(rnd)})
					_, err := m.StoreEvents(b.Context(), memory.Scope{Tenant: "many", Root: "user:3", Owner: "o"}, []memory.Event{{Key: fmt.Sprint(i), Payload: payload}})
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// statistics are made by autovacuum, some time after a table has grown.
func statistics(tb testing.TB, st *sqlstore.Store) {
	tb.Helper()
	exec(tb, st, `ANALYZE`)
}
