package memorydb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/sharedmemory"
)

// hit is a note that was found.
type hit struct {
	note
	score float64
}

// search is what notes are looked for by.
type search struct {
	memory.Question
	sources []string
	limit   int // negative drops so many from the end
}

// Retrieve implements [memory.Recaller]. It returns at most 1,000 notes.
func (s *Store) Retrieve(ctx context.Context, q memory.Query) (memory.Found, error) {
	limit := 10
	if q.Limit != nil {
		limit = *q.Limit
	}
	hits, _, err := s.find(ctx, search{memory.Question{Scope: q.Scope, Text: q.Text, ContextIDs: q.ContextIDs, Prefer: q.Prefer}, q.Sources, limit}, maxFound)
	if err != nil {
		return memory.Found{}, fmt.Errorf("retrieve: %w", err)
	}
	rows := []memory.Row{}
	for _, h := range hits {
		ids := slices.Concat([]string{h.context}, h.links.Extends, h.links.RelatedTo, h.links.Reinforces)
		slices.SortFunc(ids, sharedmemory.CompareUTF16)
		rows = append(rows, memory.Row{LocusID: h.locus.String(), ContextIDs: ids, Text: h.text, Score: h.score, Source: h.source, Kind: h.kind})
	}
	return memory.Found{Items: rows, ItemsFound: len(rows)}, nil
}

// DeepRecall implements [memory.Recaller]. It calls no model, and costs nothing.
// It returns the best 200 facts, and says that its coverage is partial if there
// are more.
func (s *Store) DeepRecall(ctx context.Context, q memory.Question) (memory.Evidence, error) {
	hits, more, err := s.find(ctx, search{Question: q, limit: maxFacts}, maxFacts)
	if err != nil {
		return memory.Evidence{}, fmt.Errorf("deep recall: %w", err)
	}
	var free float64
	e := memory.Evidence{Facts: []memory.Fact{}, ContextsWalked: []string{}, Coverage: memory.CoveragePartial, Usage: memory.Usage{CostUSD: &free}}
	for _, h := range hits {
		e.Facts = append(e.Facts, memory.Fact{Text: h.text, Source: h.source, Locus: h.locus.String(), Contexts: []string{h.context}, Score: h.score})
		if !slices.Contains(e.ContextsWalked, h.context) {
			e.ContextsWalked = append(e.ContextsWalked, h.context)
		}
	}
	if len(hits) > 0 {
		e.Summary = hits[0].text
		if !more {
			e.Coverage = memory.CoverageFull
		}
	}
	return e, nil
}

// find returns the notes that match, the best first, and whether most cut them off.
func (s *Store) find(ctx context.Context, q search, most int) (hits []hit, more bool, err error) {
	asked := words(memory.Tokens(q.Text))
	if len(asked) == 0 || !storable(q.Tenant) || !storable(q.Root) || q.limit == 0 {
		return nil, false, ctx.Err()
	}
	err = s.db.Read(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		hits, more = nil, false
		f, err := open(ctx, tx, q.Scope)
		if err != nil {
			return err
		}
		m, ok, err := f.match(ctx, tx, q, asked)
		if err != nil || !ok {
			return err
		}
		limit := q.limit
		if limit < 0 {
			var all int
			if err := tx.QueryRow(ctx, `SELECT count(*) FROM (`+m.sql+`) AS h`, m.args...).Scan(&all); err != nil {
				return fmt.Errorf("count notes: %w", err)
			}
			limit = max(0, all+limit)
		}
		if hits, err = m.best(ctx, tx, q, len(asked), min(limit, most)+1); err != nil {
			return err
		}
		if more = len(hits) > most; more || len(hits) > limit {
			hits = hits[:min(limit, most)]
		}
		return nil
	})
	return hits, more, err
}

// matched is the SQL for the notes that share words: note_id, shared, believed.
type matched struct {
	statement
	fence
	sql string
}

// match is not ok if nothing can match.
func (f fence) match(ctx context.Context, tx sqlstore.Tx, q search, asked []string) (m matched, ok bool, err error) {
	m = matched{statement: *f.statement(), fence: f}
	m.sql = `SELECT w.note_id, ` + f.distinct("w.word") + ` AS shared, max(w.believed) AS believed FROM memory_words w
		WHERE w.tenant = $1 AND ` + tx.In("w.word", m.add(asked)) + f.within(tx, &m.statement, "w.gate", len(asked))
	if len(q.sources) > 0 {
		m.sql += ` AND EXISTS (SELECT 1 FROM memory_notes n WHERE n.tenant = $1 AND n.id = w.note_id AND ` + tx.In("n.source", m.add(known(q.sources))) + `)`
	}
	if len(q.ContextIDs) > 0 {
		from, err := f.leadTo(ctx, tx, known(q.ContextIDs))
		if err != nil || len(from) == 0 {
			return m, false, err
		}
		m.sql += ` AND w.note_id IN (` + f.around(tx, &m.statement, from) + `)`
	}
	m.sql += ` GROUP BY w.note_id`
	return m, true, nil
}

// leadTo are the contexts from where one of ids can be reached, over links of
// any kind of the notes that the fence has.
func (f fence) leadTo(ctx context.Context, tx sqlstore.Tx, ids []string) ([]string, error) {
	reached, err := follow(ctx, ids, func(ctx context.Context, to []string) ([]string, error) {
		s := f.statement()
		return sources(ctx, tx, s, `tenant = $1 AND `+tx.In("to_context", s.add(to))+f.within(tx, s, "gate", len(to)))
	}, -1)
	if err != nil {
		return nil, fmt.Errorf("follow links: %w", err)
	}
	return reached, nil
}

// around is the SQL for the notes of contexts, and those that link to them.
func (f fence) around(tx sqlstore.Tx, s *statement, contexts []string) string {
	n := s.add(contexts)
	return `SELECT g.note_id FROM memory_gates g WHERE g.tenant = $1 AND ` + tx.In("g.context_id", n) + f.within(tx, s, "g.gate", len(contexts)) +
		` UNION SELECT l.note_id FROM memory_links l WHERE l.tenant = $1 AND ` + tx.In("l.to_context", n) + f.within(tx, s, "l.gate", len(contexts))
}

// best reads the notes that match best: those that are preferred first, then by
// score, then in the order in which they were kept.
func (m matched) best(ctx context.Context, tx sqlstore.Tx, q search, asked, limit int) (hits []hit, err error) {
	preferred, join := "0", ""
	if ids := known(q.Prefer); len(ids) > 0 {
		preferred, join = "CASE WHEN p.note_id IS NULL THEN 0 ELSE 1 END", ` LEFT JOIN (`+m.around(tx, &m.statement, ids)+`) AS p ON p.note_id = h.note_id`
	}
	// The score times 400 times asked: whole numbers, which no rounding puts in another order.
	m.sql = `SELECT h.note_id, h.shared, ` + preferred + ` AS preferred, 300 * h.shared + CAST(` + m.param(asked) + ` AS bigint) * h.believed AS score
		FROM (` + m.sql + `) AS h` + join + ` ORDER BY 3 DESC, 4 DESC, 1 LIMIT ` + m.param(limit)
	rows, err := tx.Query(ctx, `
		SELECT b.shared, n.id, n.locus, n.context_id, n.kind, n.source, n.text, n.links FROM (`+m.sql+`) AS b
		JOIN memory_notes n ON n.id = b.note_id WHERE n.tenant = $1 ORDER BY b.preferred DESC, b.score DESC, b.note_id`, m.args...)
	if err != nil {
		return nil, fmt.Errorf("search notes: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var h hit
		var shared int
		var links json.RawMessage
		if err := rows.Scan(&shared, &h.id, &h.locus, &h.context, &h.kind, &h.source, &h.text, &links); err != nil {
			return nil, fmt.Errorf("read note: %w", err)
		}
		if err := json.Unmarshal(links, &h.links); err != nil {
			return nil, errors.Join(fmt.Errorf("note %s: links", h.locus), err)
		}
		h.score = memory.Score(shared, asked, h.source)
		hits = append(hits, h)
	}
	return hits, rows.Err()
}
