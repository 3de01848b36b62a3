package tools

import (
	"cmp"
	"slices"
)

// shortlist is the making of one selection. It belongs to one goroutine, and is
// used again.
type shortlist struct {
	b       *Bus
	room    int
	picked  []int32 // in the order they came
	why     []Why   // of picked
	in      []bool  // by tool: picked
	tried   []bool  // by tool: no room for it and what it needs
	misfits []int32 // those tried
	scores  []uint32
	hits    []int32 // tools with a score
	queue   []int32 // of a walk along needs
	stack   []int32 // of try
	marked  []bool  // by tool: in queue
	words   []string
	heap    []candidate
}

func newShortlist(b *Bus) *shortlist {
	n := len(b.entries)
	return &shortlist{b: b, in: make([]bool, n), tried: make([]bool, n), scores: make([]uint32, n), marked: make([]bool, n)}
}

// clear makes it ready for the next selection, at the cost of this one.
func (s *shortlist) clear() {
	for _, i := range s.picked {
		s.in[i] = false
	}
	for _, i := range s.misfits {
		s.tried[i] = false
	}
	for _, i := range s.hits {
		s.scores[i] = 0
	}
	clear(s.words) // they are parts of somebody's query
	s.picked, s.why, s.misfits, s.hits, s.words, s.heap = s.picked[:0], s.why[:0], s.misfits[:0], s.hits[:0], s.words[:0], s.heap[:0]
}

func (s *shortlist) pick(i int32, why Why) {
	s.in[i] = true
	s.picked = append(s.picked, i)
	s.why = append(s.why, why)
	s.room--
}

// force picks i and all that it needs, whatever room there is.
func (s *shortlist) force(i int32) {
	if s.in[i] {
		return
	}
	s.pick(i, Pinned)
	for _, j := range s.closure(i, len(s.b.entries)) {
		s.pick(j, Needed)
	}
}

// try picks i and all that it needs, if there is room for them. Otherwise what
// it needs is tried in its place, one by one: the tool goes and its partners
// stay. A tool for which there was no room is not tried again, since whatever
// is picked meanwhile takes at least as much room as it saves.
func (s *shortlist) try(i int32, why Why) {
	s.stack = append(s.stack[:0], i)
	for len(s.stack) > 0 && s.room > 0 {
		top := len(s.stack) - 1
		i, s.stack = s.stack[top], s.stack[:top]
		if s.in[i] || s.tried[i] {
			continue
		}
		if len(s.b.needs[i]) == 0 {
			s.pick(i, why)
			continue
		}
		if partners := s.closure(i, s.room-1); partners != nil || s.met(i) {
			s.pick(i, why)
			for _, j := range partners {
				s.pick(j, Needed)
			}
			continue
		}
		s.tried[i] = true
		s.misfits = append(s.misfits, i)
		why = Partner
		for _, j := range slices.Backward(s.b.needs[i]) {
			s.stack = append(s.stack, j)
		}
	}
}

// met reports whether all that i needs is picked already. Then so is what they need.
func (s *shortlist) met(i int32) bool {
	for _, j := range s.b.needs[i] {
		if !s.in[j] {
			return false
		}
	}
	return true
}

// closure lists what i needs, directly or not, and is not picked; nil if there
// are more than room. The list is good until the next call. Whatever is picked
// has its own needs picked, so the walk ends there.
func (s *shortlist) closure(i int32, room int) []int32 {
	s.queue = append(s.queue[:0], i)
	s.marked[i] = true
	fits := true
	for at := 0; at < len(s.queue) && fits; at++ {
		for _, j := range s.b.needs[s.queue[at]] {
			if s.in[j] || s.marked[j] {
				continue
			}
			if len(s.queue) > room {
				fits = false
				break
			}
			s.marked[j] = true
			s.queue = append(s.queue, j)
		}
	}
	for _, j := range s.queue {
		s.marked[j] = false
	}
	if !fits || len(s.queue) == 1 {
		return nil
	}
	return s.queue[1:]
}

// candidate is a tool that the query matches.
type candidate struct {
	tool  int32
	score uint32
}

// order is that of candidates: score, then usage, then declaration. Usage is
// looked up only where scores are the same: it lies scattered in memory.
func (b *Bus) order(c, d candidate) int {
	if c.score != d.score {
		return cmp.Compare(d.score, c.score)
	}
	return cmp.Or(cmp.Compare(b.entries[d.tool].calls.Load(), b.entries[c.tool].calls.Load()), cmp.Compare(c.tool, d.tool))
}

// rank scores what the words match within tools lo to hi and makes a heap of it.
func (s *shortlist) rank(lo, hi int32) {
	for _, w := range s.words {
		id, ok := s.b.index.terms[w]
		if !ok {
			continue
		}
		for _, p := range s.b.index.postings[id] {
			if p.tool < lo || p.tool >= hi {
				continue
			}
			if s.scores[p.tool] == 0 {
				s.hits = append(s.hits, p.tool)
			}
			s.scores[p.tool] += p.impact
		}
	}
	for _, i := range s.hits {
		s.heap = append(s.heap, candidate{i, s.scores[i]})
	}
	for i := len(s.heap)/2 - 1; i >= 0; i-- {
		s.sink(i)
	}
}

// next takes the best candidate that is left.
func (s *shortlist) next() (candidate, bool) {
	n := len(s.heap)
	if n == 0 {
		return candidate{}, false
	}
	best := s.heap[0]
	s.heap[0] = s.heap[n-1]
	s.heap = s.heap[:n-1]
	s.sink(0)
	return best, true
}

func (s *shortlist) sink(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(s.heap) && s.b.order(s.heap[child], s.heap[least]) < 0 {
				least = child
			}
		}
		if least == i {
			return
		}
		s.heap[i], s.heap[least] = s.heap[least], s.heap[i]
		i = least
	}
}
