package ledger

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"

	"github.com/daybookhq/daybook/events"
)

// openState is what is stored of a fold beside its rows: which rows are open.
type openState struct {
	Calls  []openCall  `json:"calls,omitempty"`
	Models []openModel `json:"models,omitempty"`
}

type openCall struct {
	Turn    int      `json:"t"`
	Index   int      `json:"i"`
	Started []uint64 `json:"s,omitempty"` // seq of the started rows
	Dead    int      `json:"d,omitempty"`
	Doubt   uint64   `json:"q,omitempty"` // seq of the in_doubt row
}

type openModel struct {
	Seq  uint64 `json:"s"`
	Dead bool   `json:"d,omitempty"`
}

// Open returns what has to be stored beside the rows to go on folding later
// with [RestoreFold]; it is empty when nothing is open.
func (f *Fold) Open() []byte {
	var s openState
	for id, c := range f.calls {
		o := openCall{Turn: id.Turn, Index: id.Index, Dead: c.dead}
		for _, r := range c.started {
			o.Started = append(o.Started, r.Seq)
		}
		if c.doubt != nil {
			o.Doubt = c.doubt.Seq
		}
		s.Calls = append(s.Calls, o)
	}
	sort.Slice(s.Calls, func(i, j int) bool {
		a, b := s.Calls[i], s.Calls[j]
		return a.Turn < b.Turn || a.Turn == b.Turn && a.Index < b.Index
	})
	for _, m := range f.models {
		s.Models = append(s.Models, openModel{m.row.Seq, m.dead})
	}
	if s.Calls == nil && s.Models == nil {
		return []byte{}
	}
	return rawOf(s)
}

// Unsettled returns the rows of the model calls without an outcome.
func (f *Fold) Unsettled() []ModelCallRow {
	rows := make([]ModelCallRow, len(f.models))
	for i, m := range f.models {
		rows[i] = m.row
	}
	return rows
}

// OpenCalls returns the rows that stand for the open calls of a stored
// [Fold.Open], by seq: the in_doubt row, or the newest started row.
func OpenCalls(open []byte) ([]uint64, error) {
	s, err := parseOpen(open)
	if err != nil {
		return nil, err
	}
	var seqs []uint64
	for _, c := range s.Calls {
		switch {
		case c.Doubt > 0:
			seqs = append(seqs, c.Doubt)
		case len(c.Started) > 0:
			seqs = append(seqs, c.Started[len(c.Started)-1])
		}
	}
	slices.Sort(seqs)
	return seqs, nil
}

// RestoreFold returns a fold that goes on after seq. open is what [Fold.Open]
// gave there; call and model return the rows of the projections.
func RestoreFold(run events.RunID, seq uint64, t Totals, open []byte, call func(seq uint64) (CallRecord, error), model func(seq uint64) (ModelCallRow, error)) (*Fold, error) {
	f := NewFold(run)
	if seq == 0 {
		return f, nil
	}
	f.Seq, f.Totals = seq, t
	s, err := parseOpen(open)
	if err != nil {
		return nil, fmt.Errorf("restore fold of run %s: %w", run, err)
	}
	for _, o := range s.Calls {
		c := &foldedCall{dead: o.Dead}
		for _, n := range o.Started {
			r, err := call(n)
			if err != nil {
				return nil, fmt.Errorf("restore fold of run %s: open call %d.%d: %w", run, o.Turn, o.Index, err)
			}
			c.started = append(c.started, r)
		}
		if o.Doubt > 0 {
			r, err := call(o.Doubt)
			if err != nil {
				return nil, fmt.Errorf("restore fold of run %s: call %d.%d in doubt: %w", run, o.Turn, o.Index, err)
			}
			c.doubt = &r
		}
		f.calls[events.CallID{Turn: o.Turn, Index: o.Index}] = c
	}
	for _, o := range s.Models {
		r, err := model(o.Seq)
		if err != nil {
			return nil, fmt.Errorf("restore fold of run %s: open model call: %w", run, err)
		}
		f.models = append(f.models, modelAttempt{r, o.Dead})
	}
	return f, nil
}

func parseOpen(open []byte) (openState, error) {
	var s openState
	if len(open) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(open, &s); err != nil {
		return s, fmt.Errorf("parse open rows %.80q: %w", open, err)
	}
	return s, nil
}
