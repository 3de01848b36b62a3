package memorytest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/daybookhq/daybook/tools/memory"
)

// TestClient runs the promises of [memory.Client], each on what open returns,
// which is empty. They are those of [Store], row by row: a memory that scores
// in another way needs a kit of its own, except for [TestFence].
func TestClient(t *testing.T, open func(*testing.T) memory.Client) {
	for _, c := range []struct {
		name string
		test func(*testing.T, memory.Client)
	}{
		{"SG-96 SG-104 a batch of events", testBatch},
		{"SG-84 a key is stored once", testKeys},
		{"SG-97 tokens", testTokens},
		{"SG-98 SG-99 SG-100 scores and their order", testScores},
		{"SG-101 what a filter reaches", testFilter},
		{"SG-102 retrieval", testRetrieve},
		{"SG-103 deep recall", testDeepRecall},
		{"SG-105 SG-106 list and search of contexts", testContexts},
		{"SG-107 relationships as text", testRelationships},
		{"SG-108 types of contexts", testTypes},
		{"SG-109 the graph around a context", testGraph},
		{"SG-110 a moment is no note", testObserve},
		{"SG-88 SG-91 inside the root at one link or more", testRoot},
		{"SG-88 naming a context raises and opens nothing", testPrefer},
		{"tenants do not meet", testTenants},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
	t.Run("SG-88 SG-89 SG-90 SG-91 nothing from outside the root is ever returned", func(t *testing.T) { TestFence(t, open) })
}

// put stores notes as the host of a scope.
func put(t *testing.T, c memory.Client, s memory.Scope, notes ...Note) []memory.StoredEvent {
	t.Helper()
	var events []memory.Event
	for _, n := range notes {
		payload := must(json.Marshal(map[string]any{"data": n.Text}))
		events = append(events, memory.Event{ContextID: n.ContextID, Kind: n.Kind, Source: n.Source, Payload: payload, Links: n.Links})
	}
	stored, err := c.StoreEvents(t.Context(), s, events)
	if err != nil || stored.Stored != len(notes) || len(stored.Results) != len(notes) {
		t.Fatalf("stored %+v, %v", stored, err)
	}
	return stored.Results
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// equal compares what was got with what JSON says that it is.
func equal(t *testing.T, what string, got any, want string) {
	t.Helper()
	var w any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	var g any
	raw := must(json.Marshal(got))
	if err := json.Unmarshal(raw, &g); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("%s:\n got %s\nwant %s", what, raw, want)
	}
}

func retrieve(t *testing.T, c memory.Client, q memory.Query) []memory.Row {
	t.Helper()
	found, err := c.Retrieve(t.Context(), q)
	if err != nil || found.ItemsFound != len(found.Items) {
		t.Fatalf("retrieve %+v: %d of %d, %v", q, len(found.Items), found.ItemsFound, err)
	}
	return found.Items
}

// texts are those of the notes found.
func texts(t *testing.T, c memory.Client, q memory.Query) string {
	t.Helper()
	var all []string
	for _, r := range retrieve(t, c, q) {
		all = append(all, r.Text)
	}
	return strings.Join(all, "|")
}

func testBatch(t *testing.T, c memory.Client) {
	stored, err := c.StoreEvents(t.Context(), memory.Scope{}, []memory.Event{
		{Payload: json.RawMessage(`{"data":"alpha one","size":12345678901234567890}`)},
		{ContextID: "x:y", Kind: "note", Source: "tool", Payload: json.RawMessage(`{ "data": 7, "b": "alpha", "a": "<two>" }`)},
		{ContextID: "x:z", Payload: json.RawMessage(`"alpha three"`), Links: memory.Links{Extends: []string{"Not: Normal"}}},
	})
	if err != nil || stored.Stored != 3 || stored.Filtered != 0 || stored.Failed != 0 || len(stored.Results) != 3 {
		t.Fatalf("%+v, %v", stored, err)
	}
	ids := map[string]bool{}
	for _, r := range stored.Results {
		ids[r.EventID] = true
		if r.Status != "recorded" || r.Relevance != "high" {
			t.Errorf("%+v", r)
		}
	}
	if len(ids) != 3 {
		t.Errorf("ids %v", ids)
	}
	rows := retrieve(t, c, memory.Query{Text: "alpha"})
	slices.SortFunc(rows, func(a, b memory.Row) int {
		return strings.Compare(a.ContextIDs[len(a.ContextIDs)-1], b.ContextIDs[len(b.ContextIDs)-1])
	})
	for i := range rows {
		rows[i].LocusID, rows[i].Score = "", 0
	}
	equal(t, "rows", rows, `[
		{"locus_id":"","context_ids":["topic:untitled"],"text":"alpha one","score":0,"source":"assistant","kind":"fact"},
		{"locus_id":"","context_ids":["x:y"],"text":"{\"data\":7,\"b\":\"alpha\",\"a\":\"<two>\"}","score":0,"source":"tool","kind":"note"},
		{"locus_id":"","context_ids":["Not: Normal","x:z"],"text":"\"alpha three\"","score":0,"source":"assistant","kind":"fact"}]`)
	if _, err := c.StoreEvents(t.Context(), memory.Scope{}, []memory.Event{{Payload: json.RawMessage(`"alpha"`)}, {Payload: json.RawMessage(`{`)}}); err == nil {
		t.Error("stored a payload that is no JSON")
	}
	if n := len(retrieve(t, c, memory.Query{Text: "alpha"})); n != 3 {
		t.Errorf("%d notes after a batch that failed, want none of it", n)
	}
}

func testKeys(t *testing.T, c memory.Client) {
	store := func(tenant, text string) string {
		s, err := c.StoreEvents(t.Context(), memory.Scope{Tenant: tenant, Root: "r:r"}, []memory.Event{{
			Key: "k", Payload: must(json.Marshal(text)), Links: memory.Links{Extends: []string{"r:r"}},
		}})
		if err != nil || s.Stored != 1 {
			t.Errorf("%+v, %v", s, err)
			return ""
		}
		return s.Results[0].EventID
	}
	var all sync.WaitGroup
	ids := make([]string, 8)
	for i := range ids {
		all.Go(func() { ids[i] = store("a", "apple") })
	}
	all.Wait()
	if slices.Sort(ids); ids[0] == "" || ids[0] != ids[7] {
		t.Errorf("ids %v, want one", ids)
	}
	store("b", "apple")
	for _, tenant := range []string{"a", "b"} {
		if got := texts(t, c, memory.Query{Scope: memory.Scope{Tenant: tenant}, Text: "apple"}); got != `"apple"` {
			t.Errorf("tenant %s has %s", tenant, got)
		}
	}
}

func testTokens(t *testing.T, c memory.Client) {
	put(t, c, memory.Scope{}, Note{ContextID: "t:a", Text: "It is a CAFÉ-bar99, naïvely so"})
	for query, want := range map[string]float64{
		"it is": 0, "": 0, "é": 0, "caf": 1, "café": 1, "BAR99": 1, "bar bar99": .5, "caf caf caf zzz": .5, "vely": 1, "naively": 0, "is it so bar99": 1,
	} {
		rows := retrieve(t, c, memory.Query{Text: query})
		switch {
		case want == 0 && len(rows) != 0, want != 0 && (len(rows) != 1 || rows[0].Score != .75*want+.25*.6):
			t.Errorf("query %q: %+v, want an overlap of %v", query, rows, want)
		}
	}
}

func testScores(t *testing.T, c memory.Client) {
	var weighted []Note
	for _, s := range []string{"system", "derived", "assistant", "user", "document", "tool", "verified", "policy", "stranger"} {
		weighted = append(weighted, Note{ContextID: "w:w", Text: "banana", Source: s})
	}
	put(t, c, memory.Scope{}, weighted...)
	var order []string
	for _, r := range retrieve(t, c, memory.Query{Text: "banana"}) {
		order = append(order, fmt.Sprintf("%s %.4f", r.Source, r.Score))
	}
	// Ties keep the order of insertion: system before the stranger.
	want := "policy 0.9875|verified 0.9750|tool 0.9500|document 0.9375|user 0.9250|assistant 0.9000|derived 0.8875|system 0.8750|stranger 0.8750"
	if got := strings.Join(order, "|"); got != want {
		t.Errorf("weights:\n got %s\nwant %s", got, want)
	}
	put(t, c, memory.Scope{}, Note{ContextID: "preference:dark_mode", Text: "They prefer dark mode."},
		Note{ContextID: "a:b", Text: "The dark side", Source: "policy"}, Note{ContextID: "a:b", Text: "a la mode", Source: "nobody"},
		Note{ContextID: "a:b", Text: "no match at all", Source: "policy"})
	var got []string
	for _, r := range retrieve(t, c, memory.Query{Text: "dark mode"}) {
		got = append(got, fmt.Sprintf("%s %.4f", r.Text, r.Score))
	}
	if s := strings.Join(got, "|"); s != "They prefer dark mode. 0.9000|The dark side 0.6125|a la mode 0.5000" {
		t.Errorf("worked example: %s", s)
	}
	var ties []Note
	var inOrder [2][]string
	for i := range 60 {
		n := Note{ContextID: "t:t", Text: fmt.Sprintf("cherry %d", i), Source: []string{"system", "policy"}[i%3%2]}
		ties, inOrder[1-i%3%2] = append(ties, n), append(inOrder[1-i%3%2], n.Text)
	}
	put(t, c, memory.Scope{}, ties...)
	if s := texts(t, c, memory.Query{Text: "cherry", Limit: new(100)}); s != strings.Join(slices.Concat(inOrder[0], inOrder[1]), "|") {
		t.Errorf("ties: %s", s)
	}
	// The context counts, its first colon as a space.
	if got := texts(t, c, memory.Query{Text: "preference"}); got != "They prefer dark mode." {
		t.Errorf("by the context: %s", got)
	}
}

func testFilter(t *testing.T, c memory.Client) {
	link := func(to ...string) memory.Links { return memory.Links{Extends: to} }
	put(t, c, memory.Scope{},
		Note{ContextID: "a:1", Text: "plum 1", Links: link("b:1")},
		Note{ContextID: "b:1", Text: "plum 2", Links: memory.Links{RelatedTo: []string{"c:1"}}},
		Note{ContextID: "c:1", Text: "plum 3", Links: memory.Links{Reinforces: []string{"a:1"}, Contradicts: []string{"gone:1"}}}, // a cycle, and a way out
		Note{ContextID: "a:1", Text: "plum 4"},                                                                                    // a sibling of plum 1
		Note{ContextID: "d:1", Text: "plum 5"},
		Note{ContextID: "gone:2", Text: "plum 6"})
	for _, tt := range []struct{ ids, want string }{
		{"", "plum 1|plum 2|plum 3|plum 4|plum 5|plum 6"},
		{"gone:1", "plum 1|plum 2|plum 3|plum 4"}, // over all four kinds; it has no notes itself
		{"a:1", "plum 1|plum 2|plum 3|plum 4"},
		{"d:1", "plum 5"}, // equal counts
		{"d:1 gone:2", "plum 5|plum 6"},
		{"nowhere:1", ""},
	} {
		if got := texts(t, c, memory.Query{Text: "plum", ContextIDs: strings.Fields(tt.ids)}); got != tt.want {
			t.Errorf("from %q: %s, want %s", tt.ids, got, tt.want)
		}
	}
	// Against the direction nothing is reached.
	put(t, c, memory.Scope{}, Note{ContextID: "e:1", Text: "kiwi", Links: link("d:1")})
	if got := texts(t, c, memory.Query{Text: "plum kiwi", ContextIDs: []string{"e:1"}}); got != "kiwi" {
		t.Errorf("backwards: %s", got)
	}
}

func testRetrieve(t *testing.T, c memory.Client) {
	var notes []Note
	for i := range 12 {
		notes = append(notes, Note{ContextID: "n:n", Text: fmt.Sprintf("pear %d", i), Source: []string{"user", "tool"}[i%2]})
	}
	put(t, c, memory.Scope{}, notes...)
	for limit, want := range map[int]int{-3: 9, -20: 0, 0: 0, 5: 5, 100: 12} {
		if got := len(retrieve(t, c, memory.Query{Text: "pear", Limit: &limit})); got != want {
			t.Errorf("limit %d gives %d, want %d", limit, got, want)
		}
	}
	if got := len(retrieve(t, c, memory.Query{Text: "pear"})); got != 10 {
		t.Errorf("no limit gives %d, want 10", got)
	}
	two := 2
	if got := texts(t, c, memory.Query{Text: "pear", Sources: []string{"user"}, Limit: &two}); got != "pear 0|pear 2" {
		t.Errorf("of users: %s", got)
	}
	ids := put(t, c, memory.Scope{}, Note{ContextID: "m:m", Text: "quince", Kind: "event", Source: "policy", Links: memory.Links{
		Extends: []string{"z:1", "m:m"}, RelatedTo: []string{"\U0001F600:1"}, Reinforces: []string{"\uff5a:1"}, Contradicts: []string{"not:shown"},
	}})
	rows := retrieve(t, c, memory.Query{Text: "quince"})
	equal(t, "row", rows, fmt.Sprintf(`[{"locus_id":%q,"context_ids":["m:m","m:m","z:1","\ud83d\ude00:1","\uff5a:1"],"text":"quince","score":0.9875,"source":"policy","kind":"event"}]`, ids[0].EventID))
}

func testDeepRecall(t *testing.T, c memory.Client) {
	var notes []Note
	for i := range 12 {
		notes = append(notes, Note{ContextID: fmt.Sprintf("n:%d", i%2), Text: "grape"})
	}
	ids := put(t, c, memory.Scope{}, append(notes, Note{ContextID: "v:v", Text: "grape juice", Source: "verified"})...)
	e, err := c.DeepRecall(t.Context(), memory.Question{Text: "grape"})
	if err != nil || len(e.Facts) != 13 || e.Coverage != memory.CoverageFull || e.Summary != "grape juice" || e.Fallback {
		t.Fatalf("%+v, %v", e, err)
	}
	equal(t, "walked", e.ContextsWalked, `["v:v","n:0","n:1"]`)
	equal(t, "first fact", e.Facts[0], fmt.Sprintf(`{"text":"grape juice","source":"verified","locus":%q,"contexts":["v:v"],"score":0.975}`, ids[12].EventID))
	e, err = c.DeepRecall(t.Context(), memory.Question{Text: "grape", ContextIDs: []string{"n:1"}})
	if err != nil || len(e.Facts) != 6 {
		t.Errorf("filtered: %+v, %v", e, err)
	}
	e, err = c.DeepRecall(t.Context(), memory.Question{Text: "nothing like it"})
	if err != nil {
		t.Fatal(err)
	}
	e.Usage = memory.Usage{}
	equal(t, "nothing", e, `{"facts":[],"contexts_walked":[],"coverage":"partial","fallback":false,"usage":{}}`)
}

func testObserve(t *testing.T, c memory.Client) {
	if err := c.Observe(t.Context(), memory.Scope{Tenant: "a", Root: "r:r"}, memory.Moment{Source: "s", Payload: json.RawMessage(`{"data":"lemon"}`)}); err != nil {
		t.Fatal(err)
	}
	for _, s := range []memory.Scope{{}, {Tenant: "a"}, {Tenant: "a", Root: "r:r"}} {
		if got := texts(t, c, memory.Query{Scope: s, Text: "lemon"}); got != "" {
			t.Errorf("%+v: a moment became a note: %s", s, got)
		}
	}
}
