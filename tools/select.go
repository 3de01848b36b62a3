package tools

import (
	"slices"

	"github.com/daybookhq/daybook/events"
)

// Why says why a tool is offered, or that it is not.
type Why string

// Reasons of a [Pick].
const (
	Pinned  Why = "pinned"  // it is always
	Matched Why = "matched" // by words of the query
	Filled  Why = "filled"  // there was room: by usage, then in the order declared
	Needed  Why = "needed"  // by one that is offered
	Partner Why = "partner" // of one that needs it and found no room
	NoRoom  Why = "no_room" // not offered: there is no room for it with all that it needs
)

// Pick is one tool in a [Trace].
type Pick struct {
	Tool string `json:"tool"`
	Why  Why    `json:"why"`
	// Score is that of BM25, in thousands; 0 unless words of the query match.
	Score int `json:"score,omitempty"`
}

// Trace is one selection: what was offered for a query, and why.
type Trace struct {
	Query string `json:"query"`
	// Member is the domain that the query named, of a group; empty for none.
	Member string `json:"member,omitempty"`
	Limit  int    `json:"limit"`
	// Catalog is the digest of what could have been offered.
	Catalog events.Hash `json:"catalog"`
	// Offered are the names as Select returns them.
	Offered []string `json:"offered"`
	// Picks are those offered, in the same order, then those left out that had
	// a place but no room.
	Picks []Pick `json:"picks"`
}

// Select returns the names of the tools to offer for a query, best first:
// pinned ones and what they need, then the others by BM25 over name, aliases,
// description and argument names; what the query does not tell apart by usage,
// then in the order declared. What one that is offered needs is offered too, at
// every limit; with no room for both, the one that needs goes and the other stays.
//
// There are limit of them, fewer only if there are no more or needs leave a
// place that nothing fits, and more only if pinned tools alone are more. Zero
// means the bus's own limit, negative none but the pinned.
func (b *Bus) Select(query string, limit int) []string {
	s := b.shortlist()
	defer b.put(s)
	s.fill(query, b.limitOr(limit))
	names := make([]string, len(s.picked))
	for n, i := range s.picked {
		names[n] = b.entries[i].def.Name
	}
	return names
}

// Trace is Select that says why.
func (b *Bus) Trace(query string, limit int) *Trace {
	s := b.shortlist()
	defer b.put(s)
	t := &Trace{Query: query, Limit: b.limitOr(limit), Catalog: b.catalog()}
	t.Member = s.fill(query, t.Limit)
	t.Offered = make([]string, len(s.picked))
	for n, i := range s.picked {
		t.Offered[n] = b.entries[i].def.Name
		t.Picks = append(t.Picks, s.told(i, s.why[n]))
	}
	for _, i := range s.misfits {
		t.Picks = append(t.Picks, s.told(i, NoRoom))
	}
	return t
}

func (s *shortlist) told(i int32, why Why) Pick {
	return Pick{Tool: s.b.entries[i].def.Name, Why: why, Score: int(uint64(s.scores[i]) * 1000 / impactUnit)}
}

func (b *Bus) limitOr(limit int) int {
	if limit == 0 {
		limit = b.limit
	}
	return max(limit, 0)
}

func (b *Bus) shortlist() *shortlist { return b.scratch.Get().(*shortlist) }

func (b *Bus) put(s *shortlist) {
	s.clear()
	b.scratch.Put(s)
}

// fill makes the selection, and returns the member that the query named.
func (s *shortlist) fill(query string, limit int) (member string) {
	s.room = limit
	for _, i := range s.b.base {
		why := Needed
		if s.b.entries[i].def.Pinned {
			why = Pinned
		}
		s.pick(i, why)
	}
	s.words = queryWords(query, s.words)
	d, member := s.b.root.route(s.words)
	if s.room > 0 {
		s.rank(d.lo, d.hi)
	}
	for s.room > 0 {
		c, ok := s.next()
		if !ok {
			break
		}
		s.try(c.tool, Matched)
	}
	if s.room > 0 {
		for next := s.b.spread(d, s.words); s.room > 0; {
			i, ok := next()
			if !ok {
				break
			}
			s.try(i, Filled)
		}
	}
	return member
}

// domain is a bus in a group of buses, with the tools lo to hi. A bus that is no
// group has one, without a name.
type domain struct {
	name   string
	words  []string        // of the name
	about  map[string]bool // words of the description
	lo, hi int32
	sub    []*domain
}

// route follows a query to the domain that it clearly names: all words of its
// name are in the query, and of none beside it. A name that holds all words of
// another and more is clearer than that.
func (d *domain) route(query []string) (to *domain, name string) {
	for {
		named := d.named(query)
		if named == nil {
			return d, name
		}
		if name != "" {
			name += namespaceMark
		}
		d, name = named, name+named.name
	}
}

// named returns the member that the query clearly names, nil for none.
func (d *domain) named(query []string) *domain {
	var clearest *domain
	for _, m := range d.sub {
		if len(m.words) > 0 && within(m.words, query) && (clearest == nil || len(m.words) > len(clearest.words)) {
			clearest = m
		}
	}
	for _, m := range d.sub {
		if m != clearest && len(m.words) > 0 && within(m.words, query) && (len(m.words) == len(clearest.words) || !within(m.words, clearest.words)) {
			return nil
		}
	}
	return clearest
}

func within(words, of []string) bool {
	for _, w := range words {
		if !slices.Contains(of, w) {
			return false
		}
	}
	return true
}

// spread returns the tools of d one by one: of a bus by usage, then as
// declared; of a group one of each member in turn, beginning with the members
// whose description has most of the query's words.
func (b *Bus) spread(d *domain, query []string) func() (int32, bool) {
	if len(d.sub) == 0 {
		return b.byUsage(d)
	}
	subs := slices.Clone(d.sub)
	slices.SortStableFunc(subs, func(a, b *domain) int { return b.shared(query) - a.shared(query) })
	turns := make([]func() (int32, bool), len(subs))
	for n, m := range subs {
		turns[n] = b.spread(m, query)
	}
	at := 0
	return func() (int32, bool) {
		for len(turns) > 0 {
			at %= len(turns)
			i, ok := turns[at]()
			if ok {
				at++
				return i, true
			}
			turns = slices.Delete(turns, at, at+1)
		}
		return 0, false
	}
}

func (d *domain) shared(query []string) int {
	n := 0
	for _, w := range query {
		if d.about[w] {
			n++
		}
	}
	return n
}

// byUsage looks at the counters of all tools, but only if the query leaves room.
func (b *Bus) byUsage(d *domain) func() (int32, bool) {
	var used []candidate
	for i := d.lo; i < d.hi; i++ {
		if b.entries[i].calls.Load() > 0 {
			used = append(used, candidate{tool: i})
		}
	}
	slices.SortFunc(used, b.order)
	unused := d.lo
	return func() (int32, bool) {
		if len(used) > 0 {
			i := used[0].tool
			used = used[1:]
			return i, true
		}
		if unused >= d.hi {
			return 0, false
		}
		unused++
		return unused - 1, true // one that was used before is picked already, or has no room
	}
}
