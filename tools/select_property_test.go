package tools_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/tools"
)

// someBus draws a bus with pins and needs of every kind: chains, cycles, a tool
// that needs itself, one that isn't there.
func someBus(t *rapid.T, tb testing.TB) *tools.Bus {
	n := rapid.IntRange(0, 14).Draw(t, "tools")
	words := []string{"pay", "letter", "room", "rain", "the", "find"}
	var ts []tools.Tool
	for i := range n {
		description := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 4).Draw(t, "words"), " ")
		var partners []string
		for _, j := range rapid.SliceOfN(rapid.IntRange(0, n), 0, 3).Draw(t, "needs") {
			partners = append(partners, fmt.Sprintf("t%d", j)) // tn isn't there
		}
		ts = append(ts, declare(tb, fmt.Sprintf("t%d", i), description, func(d *tools.Definition) {
			d.Pinned = rapid.IntRange(0, 9).Draw(t, "pin") == 0
			d.Needs = partners
		}))
	}
	return bus(tb, tools.BusConfig{AllowOverlap: true}, ts...)
}

// needed is how many tools are pinned, or needed by one that is.
func needed(b *tools.Bus) int {
	seen := map[string]bool{}
	var walk func(name string)
	walk = func(name string) {
		tool, ok := b.Lookup(name)
		if !ok || seen[name] {
			return
		}
		seen[name] = true
		for _, partner := range tool.Definition().Needs {
			walk(partner)
		}
	}
	for _, tool := range b.All() {
		if d := tool.Definition(); d.Pinned {
			walk(d.Name)
		}
	}
	return len(seen)
}

// SG-23, SG-24, SG-146: whatever the bus, the query and the limit: pinned tools
// are offered; so is what an offered one needs, if it exists; never more than
// limit, unless pinned ones alone are more; the same each time.
func TestNeedsAreAGuarantee(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := someBus(rt, t)
		query := rapid.SampledFrom([]string{"", "pay", "a letter in the rain", "find the room", "zzz", "t3", "\xff\xfe"}).Draw(rt, "query")
		limit := rapid.SampledFrom([]int{math.MinInt, -1, 1, 2, 3, 5, 8, 14, 99, math.MaxInt}).Draw(rt, "limit")
		got := b.Select(query, limit)
		for _, name := range got {
			tool, ok := b.Lookup(name)
			if !ok {
				rt.Fatalf("%q is offered and not there", name)
			}
			for _, partner := range tool.Definition().Needs {
				if _, exists := b.Lookup(partner); exists && !slices.Contains(got, partner) {
					rt.Fatalf("%q: %s is offered without %s, which it needs", got, name, partner)
				}
			}
		}
		for _, tool := range b.All() {
			if d := tool.Definition(); d.Pinned && !slices.Contains(got, d.Name) {
				rt.Fatalf("%q lacks %s, which is pinned", got, d.Name)
			}
		}
		if most := max(limit, needed(b)); len(got) > most {
			rt.Fatalf("%d tools for limit %d: %q", len(got), limit, got)
		}
		if sorted := slices.Compact(slices.Sorted(slices.Values(got))); len(sorted) != len(got) {
			rt.Fatalf("%q has one twice", got)
		}
		if again := b.Select(query, limit); !slices.Equal(got, again) {
			rt.Fatalf("%q, then %q", got, again)
		}
		if limit >= len(b.Names()) && len(got) != len(b.Names()) {
			rt.Fatalf("%q is not all although there is room", got)
		}
		// A place is left only if nothing fits it any more.
		if tr := b.Trace(query, limit); len(got) < limit && len(got) < len(b.Names()) {
			for _, name := range b.Names() {
				i := slices.IndexFunc(tr.Picks, func(p tools.Pick) bool { return p.Tool == name })
				if i < 0 {
					rt.Fatalf("%q leaves a place free, and %s was not tried", got, name)
				}
			}
		}
	})
}

// What needs do, case by case.
func TestNeeds(t *testing.T) {
	b := bus(
		t, tools.BusConfig{AllowOverlap: true},
		declare(t, "lone", "Zebra."), declare(t, "gone", "Yak.", needs("nobody")), declare(t, "self", "Xerus.", needs("self")),
		declare(t, "left", "Wolf.", needs("right")), declare(t, "right", "Vole.", needs("left")),
		declare(t, "c1", "Urchin.", needs("c2")), declare(t, "c2", "Toad.", needs("c3")), declare(t, "c3", "Stoat."),
		declare(t, "wide", "Rook.", needs("c3", "lone")),
	)
	tests := []struct {
		name, query string
		limit       int
		want        []string
	}{
		{"SG-24 a need that isn't there", "yak", 1, []string{"gone"}},
		{"a tool that needs itself", "xerus", 1, []string{"self"}},
		{"SG-23 a cycle comes whole", "wolf", 2, []string{"left", "right"}},
		{"SG-23 a cycle that has no room is left out", "wolf", 1, []string{"lone"}},
		{"SG-23 a chain comes whole", "urchin", 3, []string{"c1", "c2", "c3"}},
		{"SG-23 of a chain what has room", "urchin", 2, []string{"c2", "c3"}},
		{"SG-23 the end of a chain", "urchin", 1, []string{"c3"}},
		{"SG-23 what two need is there once", "toad rook", 4, []string{"c2", "c3", "wide", "lone"}},
		{"SG-23 the partner stays", "rook", 1, []string{"c3"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := b.Select(tt.query, tt.limit); !slices.Equal(got, tt.want) {
				t.Errorf("select %q, %d = %q, want %q", tt.query, tt.limit, got, tt.want)
			}
		})
	}
	t.Run("SG-20 pins and what they need come first, over any limit", func(t *testing.T) {
		b := bus(t, tools.BusConfig{}, declare(t, "a", "A."), declare(t, "p", "P.", pinned, needs("q")), declare(t, "q", "Q.", needs("r", "p")), declare(t, "r", "R."))
		for limit, want := range map[int][]string{-1: {"p", "q", "r"}, 1: {"p", "q", "r"}, 3: {"p", "q", "r"}, 4: {"p", "q", "r", "a"}} {
			if got := b.Select("a", limit); !slices.Equal(got, want) {
				t.Errorf("limit %d: %q, want %q", limit, got, want)
			}
		}
	})
	t.Run("ten thousand in one chain", func(t *testing.T) {
		var ts []tools.Tool
		for i := range 10_000 {
			ts = append(ts, declare(t, fmt.Sprintf("t%d", i), "Links.", needs(fmt.Sprintf("t%d", i+1))))
		}
		b := bus(t, tools.BusConfig{AllowOverlap: true}, ts...)
		if got, want := b.Select("link", 3), []string{"t9997", "t9998", "t9999"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// FuzzSelect: no query and no limit breaks a selection.
func FuzzSelect(f *testing.F) {
	b := office(f, tools.BusConfig{})
	for _, query := range []string{"", " ", "rain", "天", "天气预报", "\xff", "a\xffb", "camelCaseWord", "İstanbul ǅ", strings.Repeat("long ", 5000), strings.Repeat("x", 1<<16), "e\u0301tude", "ß", "\u0301"} {
		f.Add(query, 3)
	}
	f.Add("rain", math.MinInt)
	f.Fuzz(func(t *testing.T, query string, limit int) {
		got := b.Select(query, limit)
		if !slices.Contains(got, "escalate") || len(got) > max(limit, 1) && limit != 0 {
			t.Errorf("%q, %d: %q", query, limit, got)
		}
		if !slices.Equal(got, b.Select(query, limit)) {
			t.Errorf("%q, %d: not the same twice", query, limit)
		}
		if tr := b.Trace(query, limit); !slices.Equal(tr.Offered, got) {
			t.Errorf("%q, %d: trace %q, select %q", query, limit, tr.Offered, got)
		}
	})
}

// Declarations that are no text, or far too much of it, are found by what can
// be read of them.
func TestOddDeclarations(t *testing.T) {
	long := strings.Repeat("n", 1<<20)
	b := bus(
		t, tools.BusConfig{},
		declare(t, long, "Long."), declare(t, "raw", "\xff\xfe broken \xf0\x9f text", aliases("\xff")), declare(t, "big", strings.Repeat("word ", 1<<18)+"needle"),
		declare(t, "blank", "\u200b."),
	)
	for query, want := range map[string]string{long: "raw", "broken text": "raw", "needle": "big", long[:4<<10]: "raw", "long": long} {
		got := b.Select(query, 1)
		if len(got) != 1 {
			t.Fatalf("%d tools", len(got))
		}
		if utf8.RuneCountInString(query) > 1000 {
			continue // cut, it matches nothing in particular
		}
		if got[0] != want {
			t.Errorf("%.20q: %.20q, want %.20q", query, got[0], want)
		}
	}
	if got := bus(t, tools.BusConfig{}).Select("anything", 5); got == nil || len(got) != 0 {
		t.Errorf("an empty bus offers %q; an empty list is not nil, which would declare all", got)
	}
}

// benchBus is n tools of the kind that people have: a verb, a thing, a system.
func benchBus(b testing.TB, n int) *tools.Bus {
	verbs := []string{"create", "find", "update", "delete", "list", "export", "approve", "cancel", "send", "merge"}
	things := []string{"invoice", "customer", "order", "refund", "ticket", "contract", "employee", "payment", "report", "calendar", "message", "device"}
	systems := []string{"billing", "support", "warehouse", "payroll", "website", "archive", "sales", "security", "travel", "legal"}
	ts := make([]tools.Tool, n)
	for i := range ts {
		verb, thing, system := verbs[i%len(verbs)], things[i/10%len(things)], systems[i/120%len(systems)]
		ts[i] = declare(b, fmt.Sprintf("%s_%s_%s_%d", verb, thing, system, i), fmt.Sprintf("%ss one %s in the %s system by its number, for region %d.", verb, thing, system, i/1200),
			takes("number", thing, "region"), aliases(thing+" number"))
	}
	return bus(b, tools.BusConfig{AllowOverlap: true}, ts...)
}

// SG-140: BenchmarkSelect measures a selection among 10, 100 and 10,000 tools.
func BenchmarkSelect(b *testing.B) {
	for _, n := range []int{10, 100, 10_000} {
		shelf := benchBus(b, n)
		for _, q := range []struct{ name, query string }{
			{"question", "please cancel the refund of invoice 4711 in the billing system"}, {"word", "payroll"}, {"nothing", "hello there"},
		} {
			b.Run(fmt.Sprintf("%d/%s", n, q.name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if len(shelf.Select(q.query, 8)) != 8 {
						b.Fatal("want 8")
					}
				}
			})
		}
	}
}

// BenchmarkNewBus measures making the index of 10,000 tools.
func BenchmarkNewBus(b *testing.B) {
	all := benchBus(b, 10_000).All()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tools.NewBus(all, tools.BusConfig{}); err != nil {
			b.Fatal(err)
		}
	}
}
