package memorytest

import (
	"cmp"
	"context"
	"slices"

	"github.com/daybookhq/daybook/tools/memory"
)

// Score is how well a note matches, 0 to 1; it is 0 without any overlap.
func Score(query string, n Note) float64 {
	asked, has := memory.Tokens(query), memory.NoteTokens(n.Text, n.ContextID)
	shared := 0
	for t := range asked {
		if has[t] {
			shared++
		}
	}
	return memory.Score(shared, len(asked), n.Source)
}

type hit struct {
	Note
	score     float64
	preferred bool
}

// matches are the notes that match, the best first. s.mu is held.
func (s *Store) matches(q memory.Question) []hit {
	var hits []hit
	for _, n := range filtered(s.within(q.Scope), q.ContextIDs) {
		if score := Score(q.Text, n); score > 0 {
			hits = append(hits, hit{n, score, slices.ContainsFunc(q.Prefer, func(id string) bool {
				return n.ContextID == id || slices.ContainsFunc(links(n), func(l link) bool { return l.to == id })
			})})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int {
		if a.preferred != b.preferred {
			if a.preferred {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.score, a.score)
	})
	return hits
}

// filtered keeps the notes from where one of ids can be reached.
func filtered(notes []Note, ids []string) []Note {
	if len(ids) == 0 {
		return notes
	}
	backward := map[string][]string{}
	for _, n := range notes {
		for _, l := range links(n) {
			backward[l.to] = append(backward[l.to], n.ContextID)
		}
	}
	opens := reached(ids, backward, -1)
	var kept []Note
	for _, n := range notes {
		if opens[n.ContextID] || slices.ContainsFunc(links(n), func(l link) bool { return opens[l.to] }) {
			kept = append(kept, n)
		}
	}
	return kept
}

// Retrieve implements [memory.Recaller].
func (s *Store) Retrieve(ctx context.Context, q memory.Query) (memory.Found, error) {
	if ctx.Err() != nil {
		return memory.Found{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := []memory.Row{}
	for _, h := range s.matches(memory.Question{Scope: q.Scope, Text: q.Text, ContextIDs: q.ContextIDs, Prefer: q.Prefer}) {
		if len(q.Sources) > 0 && !slices.Contains(q.Sources, h.Source) {
			continue
		}
		ids := slices.Concat([]string{h.ContextID}, h.Extends, h.RelatedTo, h.Reinforces)
		slices.SortFunc(ids, byCodeUnit)
		rows = append(rows, memory.Row{LocusID: h.ID, ContextIDs: ids, Text: h.Text, Score: h.score, Source: h.Source, Kind: h.Kind})
	}
	rows = first(rows, q.Limit, 10)
	return memory.Found{Items: rows, ItemsFound: len(rows)}, nil
}

// DeepRecall implements [memory.Recaller]. It calls no model.
func (s *Store) DeepRecall(ctx context.Context, q memory.Question) (memory.Evidence, error) {
	if ctx.Err() != nil {
		return memory.Evidence{}, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cost := s.CostUSD
	e := memory.Evidence{Facts: []memory.Fact{}, ContextsWalked: []string{}, Coverage: memory.CoveragePartial, Usage: memory.Usage{CostUSD: &cost}}
	for _, h := range s.matches(q) {
		e.Facts = append(e.Facts, memory.Fact{Text: h.Text, Source: h.Source, Locus: h.ID, Contexts: []string{h.ContextID}, Score: h.score})
		if !slices.Contains(e.ContextsWalked, h.ContextID) {
			e.ContextsWalked = append(e.ContextsWalked, h.ContextID)
		}
	}
	if len(e.Facts) > 0 {
		e.Summary, e.Coverage = e.Facts[0].Text, memory.CoverageFull
	}
	return e, nil
}
