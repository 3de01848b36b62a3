package memory

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/tools"
)

func (m *Memory) explore() (tools.Tool, error) {
	return tools.New(tools.Definition{
		Name: "explore_memory",
		Description: "Shows what the memory is about. Without query it lists the types of contexts in use; " +
			"with a query the contexts whose names contain it and how they link; with a whole context, type:name, what is around it.",
		Aliases: []string{"memory", "contexts", "what do you remember"},
		Effect:  tools.Readonly, Trust: m.options.Trust, Timeout: patience,
	}, func(ctx context.Context, inv *tools.Invocation, in struct {
		Query string `json:"query,omitempty" jsonschema:"part of a context's name, or a whole context"`
	},
	) (string, error) {
		s, err := m.scope(inv)
		if err != nil {
			return "", err
		}
		query := strings.TrimSpace(in.Query)
		if query == "" {
			types, err := m.options.Client.ContextTypes(ctx, s)
			if err != nil {
				return "", fmt.Errorf("explore_memory: %w", err)
			}
			return typesShown(types), nil
		}
		if err := problems("explore_memory", question("query", query)); err != nil {
			return "", err
		}
		if !strings.Contains(query, ":") {
			return m.search(ctx, s, normal(query))
		}
		id, err := NormalizeContextID(query)
		if err != nil {
			return "", problems("explore_memory", []string{"query: " + err.Error()})
		}
		return m.around(ctx, s, id)
	})
}

func typesShown(types TypeList) string {
	var b strings.Builder
	cells := make([][]string, len(types.Types))
	for i, t := range types.Types {
		cells[i] = []string{toonText(t.Type), strconv.Itoa(t.Count)}
	}
	toonTable(&b, "types", []string{"type", "notes"}, cells)
	return strings.TrimSuffix(b.String(), "\n")
}

// search shows the contexts that a word is in.
func (m *Memory) search(ctx context.Context, s Scope, word string) (string, error) {
	list, err := m.options.Client.SearchContexts(ctx, ContextQuery{Scope: s, Text: word, Relationships: true})
	if err != nil {
		return "", fmt.Errorf("explore_memory: %w", err)
	}
	var b strings.Builder
	b.WriteString("query: " + toonText(word) + "\n")
	contextsShown(&b, list.Contexts)
	b.WriteString(strings.TrimSpace(list.Relationships))
	return strings.TrimSpace(b.String()), nil
}

// around shows a context and what it is linked with.
func (m *Memory) around(ctx context.Context, s Scope, id string) (string, error) {
	kind, name, _ := strings.Cut(id, ":")
	g, err := m.options.Client.ContextGraph(ctx, GraphQuery{Scope: s, Type: kind, Name: name})
	if err != nil {
		return "", fmt.Errorf("explore_memory: %w", err)
	}
	var b strings.Builder
	b.WriteString("around: " + toonText(id) + "\n")
	contextsShown(&b, g.Nodes)
	cells := make([][]string, len(g.Edges))
	for i, e := range g.Edges {
		cells[i] = []string{toonText(e.From), toonText(e.Kind), toonText(e.To)}
	}
	toonTable(&b, "links", []string{"from", "link", "to"}, cells)
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func contextsShown(b *strings.Builder, rows []ContextRow) {
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = []string{toonText(r.ID), strconv.Itoa(r.References)}
	}
	toonTable(b, "contexts", []string{"context", "notes"}, cells)
}
