package memorydb

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/tools/memory"
)

// contexts ranges over those that hold notes, in order of first use, until each
// returns false. With ids, only over these.
func (f fence) contexts(ctx context.Context, tx sqlstore.Tx, ids []string, each func(memory.ContextRow) bool) error {
	s := f.statement()
	q := `SELECT context_id, ` + f.distinct("note_id") + `, min(note_id) AS first FROM memory_gates WHERE tenant = $1` + f.within(tx, s, "gate", len(ids))
	if ids != nil {
		q += ` AND ` + tx.In("context_id", s.add(ids))
	}
	rows, err := tx.Query(ctx, q+` GROUP BY context_id ORDER BY first`, s.args...)
	if err != nil {
		return fmt.Errorf("list contexts: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r memory.ContextRow
		var first int64
		if err := rows.Scan(&r.ID, &r.References, &first); err != nil {
			return fmt.Errorf("read context: %w", err)
		}
		r.Type, r.Name, _ = strings.Cut(r.ID, ":")
		if !each(r) {
			return nil
		}
	}
	return rows.Err()
}

// read runs f on one snapshot, inside the fence of a scope.
func (s *Store) read(ctx context.Context, scope memory.Scope, do func(context.Context, sqlstore.Tx, fence) error) error {
	if !storable(scope.Tenant) || !storable(scope.Root) {
		return ctx.Err() // nothing can be there
	}
	return s.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		f, err := open(ctx, tx, scope)
		if err != nil {
			return err
		}
		return do(ctx, tx, f)
	})
}

// ContextTypes implements [memory.Explorer]. It lists at most 1,000 types.
func (s *Store) ContextTypes(ctx context.Context, scope memory.Scope) (memory.TypeList, error) {
	list := memory.TypeList{Types: []memory.TypeCount{}}
	err := s.read(ctx, scope, func(ctx context.Context, tx sqlstore.Tx, f fence) error {
		list.Types = list.Types[:0]
		at := map[string]int{}
		return f.contexts(ctx, tx, nil, func(r memory.ContextRow) bool {
			i, known := at[r.Type]
			if !known {
				if len(list.Types) == maxRows {
					return true
				}
				i = len(list.Types)
				at[r.Type], list.Types = i, append(list.Types, memory.TypeCount{Type: r.Type})
			}
			list.Types[i].Count += r.References
			return true
		})
	})
	if err != nil {
		return memory.TypeList{}, fmt.Errorf("types of contexts: %w", err)
	}
	list.Total = len(list.Types)
	return list, nil
}

// SearchContexts implements [memory.Explorer]. It looks at no more than the first
// 1,000 contexts that match.
func (s *Store) SearchContexts(ctx context.Context, q memory.ContextQuery) (memory.ContextList, error) {
	size := 20
	if q.PageSize != nil {
		size = *q.PageSize
	}
	list := memory.ContextList{Contexts: []memory.ContextRow{}}
	err := s.read(ctx, q.Scope, func(ctx context.Context, tx sqlstore.Tx, f fence) error {
		part := strings.ToLower(q.Text)
		rows := []memory.ContextRow{}
		most := maxRows
		if size >= 0 {
			most = min(size, maxRows)
		}
		err := f.contexts(ctx, tx, nil, func(r memory.ContextRow) bool {
			if len(rows) < most && (q.Type == "" || r.Type == q.Type) && strings.Contains(strings.ToLower(r.ID), part) {
				rows = append(rows, r)
			}
			return len(rows) < most
		})
		if err != nil {
			return err
		}
		if size < 0 {
			rows = rows[:max(0, len(rows)+size)]
		}
		list.Contexts, list.Total = rows, len(rows)
		if q.Relationships {
			list.Relationships, err = f.relationships(ctx, tx, rows)
		}
		return err
	})
	if err != nil {
		return memory.ContextList{}, fmt.Errorf("search contexts: %w", err)
	}
	return list, nil
}

// relationships draws the links of contexts.
func (f fence) relationships(ctx context.Context, tx sqlstore.Tx, rows []memory.ContextRow) (string, error) {
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = r.ID
	}
	out, err := f.drawn(ctx, tx, "from_context", ids)
	if err != nil {
		return "", err
	}
	in, err := f.drawn(ctx, tx, "to_context", ids)
	if err != nil {
		return "", err
	}
	var lines []string
	for _, id := range ids {
		lines = append(lines, id)
		all := slices.Concat(out[id], in[id])
		for i, l := range all {
			branch := "├─ "
			if i == len(all)-1 {
				branch = "└─ "
			}
			lines = append(lines, "  "+branch+l)
		}
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// incoming names a link seen from where it points to.
func incoming(kind string) string {
	switch kind {
	case memory.Extends:
		return "extended_by"
	case memory.Reinforces:
		return "reinforced_by"
	case memory.Contradicts:
		return "contradicted_by"
	}
	return kind // related_to
}

// drawn are the links that have one of ids in column, drawn, by that id, each
// once and in the order in which they were kept.
func (f fence) drawn(ctx context.Context, tx sqlstore.Tx, column string, ids []string) (map[string][]string, error) {
	all := map[string][]string{}
	if len(ids) == 0 {
		return all, nil
	}
	other := "to_context"
	if column == other {
		other = "from_context"
	}
	s := f.statement()
	// A note has at most 4 times maxLinks links. Groups begin with the column that is
	// searched: SQLite would read the tenant's whole table for any other order.
	rows, err := tx.Query(ctx, `SELECT from_context, kind, to_context, min(note_id * 1024 + position) AS first FROM memory_links
		WHERE tenant = $1 AND `+tx.In(column, s.add(ids))+f.within(tx, s, "gate", len(ids))+`
		GROUP BY `+column+`, `+other+`, kind ORDER BY first LIMIT `+s.param(maxEdges), s.args...)
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e memory.Edge
		var first int64
		if err := rows.Scan(&e.From, &e.Kind, &e.To, &first); err != nil {
			return nil, fmt.Errorf("read link: %w", err)
		}
		if column == "from_context" {
			all[e.From] = append(all[e.From], e.Kind+" → "+e.To)
		} else {
			all[e.To] = append(all[e.To], incoming(e.Kind)+" ← "+e.From)
		}
	}
	return all, rows.Err()
}

// ContextGraph implements [memory.Explorer]. It goes no further once it has
// reached 1,000 contexts, and returns the first 2,000 links among them.
func (s *Store) ContextGraph(ctx context.Context, q memory.GraphQuery) (memory.Graph, error) {
	start := q.Type + ":" + q.Name
	if q.Name == "" {
		start = q.Type // an id without a colon
	}
	depth := 1
	if q.Depth != nil {
		depth = max(0, *q.Depth)
	}
	g := memory.Graph{Nodes: []memory.ContextRow{}, Edges: []memory.Edge{}}
	if !storable(start) {
		return g, ctx.Err()
	}
	err := s.read(ctx, q.Scope, func(ctx context.Context, tx sqlstore.Tx, f fence) error {
		n := 1
		reached, err := follow(ctx, []string{start}, func(ctx context.Context, from []string) ([]string, error) {
			next, err := f.neighbours(ctx, tx, from, maxRows-n)
			n += len(next)
			return next, err
		}, depth)
		if err != nil {
			return fmt.Errorf("follow links: %w", err)
		}
		g.Nodes = g.Nodes[:0]
		if err := f.contexts(ctx, tx, reached, func(r memory.ContextRow) bool { g.Nodes = append(g.Nodes, r); return true }); err != nil {
			return err
		}
		g.Edges, err = f.edges(ctx, tx, reached)
		return err
	})
	if err != nil {
		return memory.Graph{}, fmt.Errorf("around %q: %w", start, err)
	}
	return g, nil
}

// neighbours are the contexts one link away in either direction, at most so
// many, those that were linked first.
func (f fence) neighbours(ctx context.Context, tx sqlstore.Tx, from []string, most int) ([]string, error) {
	if most <= 0 {
		return nil, nil
	}
	s := f.statement()
	n := s.add(from)
	within := f.within(tx, s, "gate", len(from))
	return texts(ctx, tx, `SELECT id FROM (
			SELECT to_context AS id, note_id FROM memory_links WHERE tenant = $1 AND `+tx.In("from_context", n)+within+`
			UNION ALL SELECT from_context, note_id FROM memory_links WHERE tenant = $1 AND `+tx.In("to_context", n)+within+`
		) AS l WHERE NOT `+tx.In("id", n)+` GROUP BY id ORDER BY min(note_id), id LIMIT `+s.param(most), s)
}

// edges are the links among contexts, in the order in which they were kept, with
// repetitions.
func (f fence) edges(ctx context.Context, tx sqlstore.Tx, among []string) ([]memory.Edge, error) {
	s := f.statement()
	n := s.add(among)
	rows, err := tx.Query(ctx, `SELECT DISTINCT note_id, position, from_context, kind, to_context FROM memory_links
		WHERE tenant = $1 AND `+tx.In("from_context", n)+` AND `+tx.In("to_context", n)+f.within(tx, s, "gate", len(among))+`
		ORDER BY note_id, position LIMIT `+s.param(maxEdges), s.args...)
	if err != nil {
		return nil, fmt.Errorf("read links: %w", err)
	}
	defer rows.Close()
	edges := []memory.Edge{}
	for rows.Next() {
		var e memory.Edge
		var id, position int64
		if err := rows.Scan(&id, &position, &e.From, &e.Kind, &e.To); err != nil {
			return nil, fmt.Errorf("read link: %w", err)
		}
		edges = append(edges, e)
	}
	return edges, rows.Err()
}
