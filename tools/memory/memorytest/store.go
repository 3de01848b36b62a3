// Package memorytest has a memory in the process, and the promises that every
// [memory.Client] keeps, as tests.
package memorytest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf16"

	"github.com/daybookhq/daybook/tools/memory"
)

// Note is one thing that is remembered.
type Note struct {
	ID        string `json:"id"` // m1, m2, … in order; given by the store
	Tenant    string `json:"tenant,omitempty"`
	Root      string `json:"root,omitempty"` // what it belongs to; see [memory.Scope]
	ContextID string `json:"context_id"`
	Text      string `json:"text"`
	Kind      string `json:"kind"`   // "fact" if empty
	Source    string `json:"source"` // "assistant" if empty
	// Details are {} if nil, and the links [].
	Details map[string]any `json:"details"`
	memory.Links
}

// Observed is a moment that was kept.
type Observed struct {
	Tenant string `json:"tenant,omitempty"`
	Root   string `json:"root,omitempty"`
	memory.Moment
}

// Store is a memory in the process, lost with it. Safe for concurrent use. The
// zero value is empty.
type Store struct {
	// CostUSD is what a deep recall says that it cost.
	CostUSD float64

	mu       sync.Mutex
	notes    []Note
	observed []Observed
	keys     map[key]string // → id
}

type key struct{ tenant, key string }

var _ memory.Client = (*Store)(nil)

// NewStore returns a store that remembers each of seed, in order.
func NewStore(seed ...Note) *Store {
	s := &Store{}
	for _, n := range seed {
		s.Remember(n)
	}
	return s
}

// Remember keeps n as it is, with ids that nobody changes, and returns what is
// kept.
func (s *Store) Remember(n Note) Note {
	s.mu.Lock()
	defer s.mu.Unlock()
	return copied(s.remember(n))
}

func (s *Store) remember(n Note) Note {
	n = copied(n)
	n.ID = fmt.Sprintf("m%d", len(s.notes)+1)
	if n.Kind == "" {
		n.Kind = "fact"
	}
	if n.Source == "" {
		n.Source = "assistant"
	}
	s.notes = append(s.notes, n)
	return n
}

// copied shares no list with n, and has none that is nil.
func copied(n Note) Note {
	for _, l := range []*[]string{&n.Extends, &n.RelatedTo, &n.Reinforces, &n.Contradicts} {
		*l = append([]string{}, *l...)
	}
	details := map[string]any{}
	for name, v := range n.Details {
		details[name] = v
	}
	n.Details = details
	return n
}

// Memories returns what is remembered now, in order.
func (s *Store) Memories() []Note {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Note, len(s.notes))
	for i, n := range s.notes {
		all[i] = copied(n)
	}
	return all
}

// Observed returns the moments that were kept until now, in order.
func (s *Store) Observed() []Observed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.observed)
}

// Observe implements [memory.Writer].
func (s *Store) Observe(ctx context.Context, scope memory.Scope, m memory.Moment) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Payload = slices.Clone(m.Payload)
	s.observed = append(s.observed, Observed{scope.Tenant, scope.Root, m})
	return nil
}

// StoreEvents implements [memory.Writer]. It stores all or, if a payload is no
// JSON, nothing.
func (s *Store) StoreEvents(ctx context.Context, scope memory.Scope, events []memory.Event) (memory.Stored, error) {
	if ctx.Err() != nil {
		return memory.Stored{}, context.Cause(ctx)
	}
	notes := make([]Note, len(events))
	for i, e := range events {
		text, details, err := e.Content()
		if err != nil {
			return memory.Stored{}, fmt.Errorf("store events: payload of event %d: %w", i, err)
		}
		notes[i] = Note{
			Tenant: scope.Tenant, Root: scope.Root, ContextID: e.ContextID, Text: text, Kind: e.Kind, Source: e.Source, Details: details, Links: e.Links,
		}
		if e.ContextID == "" {
			notes[i].ContextID = "topic:untitled"
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	out := memory.Stored{Results: []memory.StoredEvent{}, Stored: len(events)}
	for i, n := range notes {
		k := key{scope.Tenant, events[i].Key}
		id := s.keys[k]
		if id == "" {
			id = s.remember(n).ID
			if s.keys == nil {
				s.keys = map[key]string{}
			}
			if k.key != "" {
				s.keys[k] = id
			}
		}
		out.Results = append(out.Results, memory.StoredEvent{Status: "recorded", EventID: id, Relevance: "high"})
	}
	return out, nil
}

// within returns the notes that a scope sees, in order. s.mu is held.
func (s *Store) within(scope memory.Scope) []Note {
	opens := s.opens(scope)
	var in []Note
	for _, n := range s.notes {
		switch {
		case n.Tenant != scope.Tenant:
		case scope.Root == "", n.Root != "" && opens[n.Root], n.Root == "" && slices.ContainsFunc(n.Extends, func(id string) bool { return opens[id] }):
			in = append(in, n)
		}
	}
	return in
}

// opens are the contexts from which extends of notes that the host wrote lead to
// the root, and the root.
func (s *Store) opens(scope memory.Scope) map[string]bool {
	backward := map[string][]string{}
	for _, n := range s.notes {
		if n.Tenant == scope.Tenant && n.Root == "" {
			for _, to := range n.Extends {
				backward[to] = append(backward[to], n.ContextID)
			}
		}
	}
	return reached([]string{scope.Root}, backward, -1)
}

// reached are the contexts at most depth links from where it starts; a negative
// depth is none.
func reached(from []string, links map[string][]string, depth int) map[string]bool {
	seen := map[string]bool{}
	for _, id := range from {
		seen[id] = true
	}
	for ; len(from) > 0 && depth != 0; depth-- {
		var next []string
		for _, id := range from {
			for _, to := range links[id] {
				if !seen[to] {
					seen[to] = true
					next = append(next, to)
				}
			}
		}
		from = next
	}
	return seen
}

type link struct {
	kind string
	to   string
}

// links are those of a note: extends, related_to, reinforces, contradicts.
func links(n Note) []link {
	var all []link
	for _, l := range []struct {
		kind string
		ids  []string
	}{
		{memory.Extends, n.Extends},
		{memory.RelatedTo, n.RelatedTo},
		{memory.Reinforces, n.Reinforces},
		{memory.Contradicts, n.Contradicts},
	} {
		for _, id := range l.ids {
			all = append(all, link{l.kind, id})
		}
	}
	return all
}

// first is a page of all: so many if n is positive, all but so many if it is not.
func first[T any](all []T, n *int, usual int) []T {
	if n != nil {
		usual = *n
	}
	if usual < 0 {
		usual = max(0, len(all)+usual)
	}
	return all[:min(usual, len(all))]
}

// byCodeUnit compares texts by their UTF-16 code units.
func byCodeUnit(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// contextRow is the row of a context that holds n notes.
func contextRow(id string, n int) memory.ContextRow {
	kind, name, _ := strings.Cut(id, ":")
	return memory.ContextRow{ID: id, Type: kind, Name: name, References: n}
}
