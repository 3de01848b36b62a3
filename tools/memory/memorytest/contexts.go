package memorytest

import (
	"context"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/tools/memory"
)

// contexts are those that hold notes, in order of first use.
func contexts(notes []Note) []memory.ContextRow {
	rows := []memory.ContextRow{}
	for _, n := range notes {
		i := slices.IndexFunc(rows, func(r memory.ContextRow) bool { return r.ID == n.ContextID })
		if i < 0 {
			i, rows = len(rows), append(rows, contextRow(n.ContextID, 0))
		}
		rows[i].References++
	}
	return rows
}

// ContextTypes implements [memory.Explorer].
func (s *Store) ContextTypes(ctx context.Context, scope memory.Scope) (memory.TypeList, error) {
	if ctx.Err() != nil {
		return memory.TypeList{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := memory.TypeList{Types: []memory.TypeCount{}}
	for _, r := range contexts(s.within(scope)) {
		i := slices.IndexFunc(list.Types, func(t memory.TypeCount) bool { return t.Type == r.Type })
		if i < 0 {
			i, list.Types = len(list.Types), append(list.Types, memory.TypeCount{Type: r.Type})
		}
		list.Types[i].Count += r.References
	}
	list.Total = len(list.Types)
	return list, nil
}

// SearchContexts implements [memory.Explorer].
func (s *Store) SearchContexts(ctx context.Context, q memory.ContextQuery) (memory.ContextList, error) {
	if ctx.Err() != nil {
		return memory.ContextList{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := s.within(q.Scope)
	rows := slices.DeleteFunc(contexts(notes), func(r memory.ContextRow) bool {
		return q.Type != "" && r.Type != q.Type || !strings.Contains(strings.ToLower(r.ID), strings.ToLower(q.Text))
	})
	rows = first(rows, q.PageSize, 20)
	list := memory.ContextList{Contexts: rows, Total: len(rows)}
	if q.Relationships {
		list.Relationships = relationships(notes, rows)
	}
	return list, nil
}

// relationships draws the links of contexts.
func relationships(notes []Note, rows []memory.ContextRow) string {
	var lines []string
	for _, r := range rows {
		lines = append(lines, r.ID)
		drawn := drawnLinks(notes, r.ID)
		for i, l := range drawn {
			branch := "├─ "
			if i == len(drawn)-1 {
				branch = "└─ "
			}
			lines = append(lines, "  "+branch+l)
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// incoming names a link seen from where it points to.
var incoming = map[string]string{
	memory.Extends: "extended_by", memory.RelatedTo: "related_to", memory.Reinforces: "reinforced_by", memory.Contradicts: "contradicted_by",
}

func drawnLinks(notes []Note, id string) []string {
	var drawn []string
	draw := func(l string) {
		if !slices.Contains(drawn, l) {
			drawn = append(drawn, l)
		}
	}
	for _, n := range notes {
		if n.ContextID == id {
			for _, l := range links(n) {
				draw(l.kind + " → " + l.to)
			}
		}
	}
	for _, n := range notes {
		for _, l := range links(n) {
			if l.to == id {
				draw(incoming[l.kind] + " ← " + n.ContextID)
			}
		}
	}
	return drawn
}

// ContextGraph implements [memory.Explorer].
func (s *Store) ContextGraph(ctx context.Context, q memory.GraphQuery) (memory.Graph, error) {
	if ctx.Err() != nil {
		return memory.Graph{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	notes := s.within(q.Scope)
	both := map[string][]string{}
	for _, n := range notes {
		for _, l := range links(n) {
			both[n.ContextID] = append(both[n.ContextID], l.to)
			both[l.to] = append(both[l.to], n.ContextID)
		}
	}
	start := q.Type + ":" + q.Name
	if q.Name == "" {
		start = q.Type // an id without a colon
	}
	depth := 1
	if q.Depth != nil {
		depth = max(0, *q.Depth)
	}
	in := reached([]string{start}, both, depth)
	g := memory.Graph{
		Nodes: slices.DeleteFunc(contexts(notes), func(r memory.ContextRow) bool { return !in[r.ID] }),
		Edges: []memory.Edge{},
	}
	for _, n := range notes {
		for _, l := range links(n) {
			if in[n.ContextID] && in[l.to] {
				g.Edges = append(g.Edges, memory.Edge{From: n.ContextID, To: l.to, Kind: l.kind})
			}
		}
	}
	return g, nil
}
