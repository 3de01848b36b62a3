package memorytest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools/memory"
)

func search(t *testing.T, c memory.Client, q memory.ContextQuery) memory.ContextList {
	t.Helper()
	list, err := c.SearchContexts(t.Context(), q)
	if err != nil || list.Total != len(list.Contexts) {
		t.Fatalf("search %+v: %+v, %v", q, list, err)
	}
	return list
}

func listed(t *testing.T, c memory.Client, q memory.ContextQuery) string {
	t.Helper()
	var all []string
	for _, r := range search(t, c, q).Contexts {
		all = append(all, r.ID)
	}
	return strings.Join(all, "|")
}

func testContexts(t *testing.T, c memory.Client) {
	put(t, c, memory.Scope{}, Note{ContextID: "b:x"}, Note{ContextID: "a:b:c"}, Note{ContextID: "nocolon"}, Note{ContextID: "b:x"},
		Note{ContextID: "a:Big", Links: memory.Links{Extends: []string{"only:linked"}}})
	equal(t, "all", search(t, c, memory.ContextQuery{}), `{"contexts":[
		{"context_id":"b:x","context_type":"b","context_name":"x","reference_count":2},
		{"context_id":"a:b:c","context_type":"a","context_name":"b:c","reference_count":1},
		{"context_id":"nocolon","context_type":"nocolon","context_name":"","reference_count":1},
		{"context_id":"a:Big","context_type":"a","context_name":"Big","reference_count":1}],"total":4}`)
	for _, tt := range []struct {
		name string
		q    memory.ContextQuery
		want string
	}{
		{"in any case", memory.ContextQuery{Text: "BIG"}, "a:Big"},
		{"part of the id", memory.ContextQuery{Text: "b:"}, "b:x|a:b:c"},
		{"of a type", memory.ContextQuery{Text: "b", Type: "a"}, "a:b:c|a:Big"},
		{"a type is exact", memory.ContextQuery{Type: "A"}, ""},
		{"no wildcards", memory.ContextQuery{Text: "%"}, ""},
		{"a page", memory.ContextQuery{PageSize: new(2)}, "b:x|a:b:c"},
		{"an empty page", memory.ContextQuery{PageSize: new(0)}, ""},
	} {
		if got := listed(t, c, tt.q); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	var many []Note
	for i := range 25 {
		many = append(many, Note{ContextID: fmt.Sprintf("many:%d", i)})
	}
	put(t, c, memory.Scope{}, many...)
	if n := search(t, c, memory.ContextQuery{}).Total; n != 20 {
		t.Errorf("a page has %d, want 20", n)
	}
}

func testRelationships(t *testing.T, c memory.Client) {
	text := func(q string) string {
		return search(t, c, memory.ContextQuery{Text: q, Relationships: true}).Relationships
	}
	if got := text(""); got != "\n" {
		t.Errorf("of nothing: %q", got)
	}
	all := memory.Links{Extends: []string{"a:2"}, RelatedTo: []string{"b:1"}, Reinforces: []string{"b:1"}, Contradicts: []string{"b:1"}}
	put(t, c, memory.Scope{}, Note{ContextID: "a:1", Links: all}, Note{ContextID: "a:1", Links: all}, Note{ContextID: "a:2"},
		Note{ContextID: "b:1", Links: memory.Links{Extends: []string{"a:1"}}}, Note{ContextID: "c:1"})
	if got := search(t, c, memory.ContextQuery{}).Relationships; got != "" {
		t.Errorf("not asked for: %q", got)
	}
	want := `a:1
  ├─ extends → a:2
  ├─ related_to → b:1
  ├─ reinforces → b:1
  ├─ contradicts → b:1
  └─ extended_by ← b:1
a:2
  └─ extended_by ← a:1
b:1
  ├─ extends → a:1
  ├─ related_to ← a:1
  ├─ reinforced_by ← a:1
  └─ contradicted_by ← a:1
c:1
`
	if got := text(""); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := text("c:"); got != "c:1\n" {
		t.Errorf("without links: %q", got)
	}
}

func testTypes(t *testing.T, c memory.Client) {
	put(t, c, memory.Scope{}, Note{ContextID: "b:1"}, Note{ContextID: "a:1"}, Note{ContextID: "b:2"}, Note{ContextID: "b:1"})
	list, err := c.ContextTypes(t.Context(), memory.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "types", list, `{"context_types":[{"context_type":"b","count":3},{"context_type":"a","count":1}],"total":2}`)
}

func testGraph(t *testing.T, c memory.Client) {
	put(t, c, memory.Scope{},
		Note{ContextID: "a:1", Links: memory.Links{Extends: []string{"b:1", "b:1"}, Contradicts: []string{"ghost:1"}}},
		Note{ContextID: "b:1", Links: memory.Links{RelatedTo: []string{"c:1"}}},
		Note{ContextID: "c:1"},
		Note{ContextID: "d:1", Links: memory.Links{Reinforces: []string{"a:1"}}},
		Note{ContextID: "e:1"})
	for _, tt := range []struct {
		name  string
		depth *int
		nodes string
		edges string
	}{
		{"b:1", nil, "a:1|b:1|c:1", "a:1 extends b:1|a:1 extends b:1|b:1 related_to c:1"},
		{"b:1", new(0), "b:1", ""},
		{"b:1", new(2), "a:1|b:1|c:1|d:1", "a:1 extends b:1|a:1 extends b:1|a:1 contradicts ghost:1|b:1 related_to c:1|d:1 reinforces a:1"},
		{"ghost:1", nil, "a:1", "a:1 contradicts ghost:1"},
		{"none:1", nil, "", ""},
	} {
		kind, name, _ := strings.Cut(tt.name, ":")
		g, err := c.ContextGraph(t.Context(), memory.GraphQuery{Type: kind, Name: name, Depth: tt.depth})
		if err != nil {
			t.Fatal(err)
		}
		var nodes, edges []string
		for _, n := range g.Nodes {
			nodes = append(nodes, n.ID)
		}
		for _, e := range g.Edges {
			edges = append(edges, e.From+" "+e.Kind+" "+e.To)
		}
		if strings.Join(nodes, "|") != tt.nodes || strings.Join(edges, "|") != tt.edges {
			t.Errorf("around %s: %v, %v; want %s, %s", tt.name, nodes, edges, tt.nodes, tt.edges)
		}
	}
}

func testRoot(t *testing.T, c memory.Client) {
	team, ada, bob := memory.Scope{Root: "team:x"}, memory.Scope{Root: "person:ada"}, memory.Scope{Root: "person:bob"}
	ext := func(to ...string) memory.Links { return memory.Links{Extends: to} }
	put(t, c, memory.Scope{},
		Note{ContextID: "person:ada", Text: "melon ada", Links: ext("team:x")},
		Note{ContextID: "project:p", Text: "melon project", Links: ext("person:ada")},
		Note{ContextID: "task:t", Text: "melon task", Links: ext("project:p")},
		Note{ContextID: "task:t", Text: "melon related", Links: memory.Links{RelatedTo: []string{"person:ada"}, Reinforces: []string{"person:ada"}, Contradicts: []string{"person:ada"}}},
		Note{ContextID: "team:x", Text: "melon team"})
	put(t, c, ada, Note{ContextID: "food:f", Text: "melon of ada", Links: ext("person:ada")})
	// Bob writes into the context that Ada uses, and points at her and at the team.
	put(t, c, bob, Note{ContextID: "food:f", Text: "melon of bob", Links: ext("person:bob", "person:ada", "team:x")},
		Note{ContextID: "project:p", Text: "melon lure", Links: ext("person:bob")})
	for _, tt := range []struct {
		scope memory.Scope
		want  string
	}{
		{memory.Scope{}, "melon ada|melon project|melon task|melon related|melon team|melon of ada|melon of bob|melon lure"},
		{ada, "melon project|melon task|melon of ada"},
		{team, "melon ada|melon project|melon task|melon of ada"},
		{bob, "melon of bob|melon lure"},
		{memory.Scope{Root: "person:eve"}, ""},
		{memory.Scope{Root: " "}, ""},
	} {
		if got := texts(t, c, memory.Query{Scope: tt.scope, Text: "melon"}); got != tt.want {
			t.Errorf("root %q: %s, want %s", tt.scope.Root, got, tt.want)
		}
		e, err := c.DeepRecall(t.Context(), memory.Question{Scope: tt.scope, Text: "melon"})
		if err != nil {
			t.Fatal(err)
		}
		var facts []string
		for _, f := range e.Facts {
			facts = append(facts, f.Text)
		}
		if got := strings.Join(facts, "|"); got != tt.want {
			t.Errorf("root %q, deep: %s, want %s", tt.scope.Root, got, tt.want)
		}
	}
}

func testPrefer(t *testing.T, c memory.Client) {
	ada := memory.Scope{Root: "person:ada"}
	put(t, c, ada, Note{ContextID: "a:1", Text: "fig best", Source: "policy"}, Note{ContextID: "a:2", Text: "fig named", Source: "system"},
		Note{ContextID: "a:3", Text: "fig linked", Source: "user", Links: memory.Links{RelatedTo: []string{"a:2"}}})
	put(t, c, memory.Scope{Root: "person:bob"}, Note{ContextID: "a:2", Text: "fig of bob", Source: "policy"})
	one := 1
	for _, tt := range []struct {
		prefer string
		limit  *int
		want   string
	}{
		{"", nil, "fig best|fig linked|fig named"},
		{"a:2", nil, "fig linked|fig named|fig best"},
		{"a:2", &one, "fig linked"},
		{"person:bob", nil, "fig best|fig linked|fig named"},
	} {
		if got := texts(t, c, memory.Query{Scope: ada, Text: "fig", Prefer: strings.Fields(tt.prefer), Limit: tt.limit}); got != tt.want {
			t.Errorf("prefer %q: %s, want %s", tt.prefer, got, tt.want)
		}
	}
}

func testTenants(t *testing.T, c memory.Client) {
	a, b := memory.Scope{Tenant: "a"}, memory.Scope{Tenant: "b"}
	put(t, c, a, Note{ContextID: "x:a", Text: "date", Links: memory.Links{Extends: []string{"r:r"}}})
	put(t, c, memory.Scope{Tenant: "a", Root: "r:r"}, Note{ContextID: "y:a", Text: "date"})
	// A link of one tenant's opens nothing for the other.
	put(t, c, b, Note{ContextID: "r:r", Text: "lure", Links: memory.Links{Extends: []string{"s:s"}}})
	for _, s := range []memory.Scope{b, {Tenant: "b", Root: "r:r"}, {Tenant: "b", Root: "s:s"}, {Tenant: "a", Root: "s:s"}, {}} {
		if got := texts(t, c, memory.Query{Scope: s, Text: "date"}); got != "" {
			t.Errorf("%+v sees %s", s, got)
		}
		if got := listed(t, c, memory.ContextQuery{Scope: s, Text: "a"}); got != "" {
			t.Errorf("%+v lists %s", s, got)
		}
	}
	if got := texts(t, c, memory.Query{Scope: memory.Scope{Tenant: "a", Root: "r:r"}, Text: "date"}); got != "date|date" {
		t.Errorf("its own: %s", got)
	}
}
