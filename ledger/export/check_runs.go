package export

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// histories goes through heads, events and calls side by side: all are in the order
// of runs.
type histories struct {
	*check
	events, calls, heads *lines
	next                 events.Sealed // not looked at yet; zero = read one
	ended                bool          // there are no more events
	// comparing calls with what events fold to: those that are JSON, as long as no
	// line was wrong and every history could be folded.
	comparing bool
}

func (c *check) histories() (err error) {
	h := &histories{check: c}
	for k, to := range map[Kind]**lines{Events: &h.events, Calls: &h.calls, Heads: &h.heads} {
		if *to, err = c.open(k); err != nil {
			return err
		}
		defer (*to).close()
	}
	has := func(l *lines) bool { return l.f != nil }
	if err := h.manifested(); err != nil || !has(h.heads) {
		return err
	}
	for _, l := range []*lines{h.events, h.calls} {
		if l.bad != nil {
			if err := h.fault(Fault{File: l.name, Kind: ledger.Tampered}, "%v", l.bad); err != nil {
				return err
			}
		}
	}
	h.comparing = h.m.Format == JSONL && has(h.events) && has(h.calls)
	for last := (events.RunID{}); ; {
		if err := context.Cause(c.ctx); err != nil {
			return err
		}
		head, bad, err := h.heads.head()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if bad == nil && bytes.Compare(head.Run[:], last[:]) <= 0 {
			bad = fmt.Errorf("run %s after run %s", head.Run, last)
		}
		if bad != nil {
			if err := c.fault(Fault{File: h.heads.name, Line: h.heads.n, Kind: ledger.Tampered}, "it is no head: %v", bad); err != nil {
				return err
			}
			continue
		}
		last = head.Run
		c.sum.Runs++
		if has(h.events) {
			if err := h.history(head); err != nil {
				return err
			}
		}
	}
	if !has(h.events) {
		return nil
	}
	if err := h.strangers(nil); err != nil || !h.comparing {
		return err
	}
	if line, _, err := h.calls.next(); err == nil {
		return h.fault(Fault{File: h.calls.name, Line: h.calls.n, Kind: ledger.Tampered}, "a call that no event gives: %.200s", line)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// manifested tells of files that every export of its kind has and the manifest does not name.
func (c *check) manifested() error {
	for _, k := range append(slices.Clone(Kinds), Heads) {
		_, counted := c.m.Counts[k]
		named := slices.ContainsFunc(c.m.Files, func(f File) bool { return f.Kind == k })
		if named != counted || k == Heads && !named {
			if err := c.fault(Fault{File: c.l.name(k, c.m.Format), Kind: ledger.Tampered}, "the manifest does not both count and name %s: nobody wrote it so", k); err != nil {
				return err
			}
		}
	}
	return nil
}

// peek is the next event that is one; ok is false after the last.
func (h *histories) peek() (s events.Sealed, ok bool, err error) {
	for h.next.IsZero() && !h.ended {
		s, bad, err := h.events.event(h.m.Format)
		if errors.Is(err, io.EOF) {
			h.ended = true
			break
		}
		if err != nil {
			return s, false, err
		}
		if bad != nil {
			f := Fault{File: h.events.name, Line: h.events.n, Kind: ledger.Tampered}
			if !s.IsZero() {
				f.Run, f.Seq = s.Envelope().RunID, s.Envelope().Seq
			}
			if err := h.fault(f, "%v", bad); err != nil {
				return s, false, err
			}
			continue
		}
		h.next = s
		h.sum.Events++
		if h.sum.Events%rowsPage == 0 {
			h.done(h.sum.Events)
		}
	}
	return h.next, !h.ended, nil
}

// strangers tells of events before those of run (nil: of all that are left): no head has them.
func (h *histories) strangers(run *events.RunID) error {
	for {
		s, ok, err := h.peek()
		if err != nil || !ok {
			return err
		}
		env := s.Envelope()
		if run != nil && bytes.Compare(env.RunID[:], run[:]) >= 0 {
			return nil
		}
		h.next = events.Sealed{}
		if err := h.fault(Fault{File: h.events.name, Line: h.events.n, Run: env.RunID, Seq: env.Seq, Kind: ledger.Tampered}, "an event of a run that is not among the heads, or not in its place"); err != nil {
			return err
		}
	}
}

// history checks the events of a run, and the calls that they give.
func (h *histories) history(head Head) error {
	if err := h.strangers(&head.Run); err != nil {
		return err
	}
	var chain events.Chain
	var seq uint64
	var hash events.Hash
	fold := ledger.NewFold(head.Run)
	for {
		s, ok, err := h.peek()
		if err != nil {
			return err
		}
		if !ok || s.Envelope().RunID != head.Run {
			break
		}
		h.next = events.Sealed{}
		env := s.Envelope()
		if bad := chain.Add(s); bad != nil {
			h.comparing = false
			kind := ledger.Tampered
			if errors.Is(bad, events.ErrGap) {
				kind = ledger.Incomplete
			}
			if err := h.fault(Fault{File: h.events.name, Line: h.events.n, Run: head.Run, Seq: env.Seq, Kind: kind}, "%v", bad); err != nil {
				return err
			}
			chain = events.ChainAfter(s)
		}
		seq, hash = env.Seq, s.Hash()
		if h.comparing {
			if err := h.callsOf(fold, s, head); err != nil {
				return err
			}
		}
	}
	switch {
	case seq < head.Seq:
		return h.fault(Fault{File: h.events.name, Run: head.Run, Seq: seq + 1, Kind: ledger.Incomplete}, "events %d to %d are missing at the end of the run", seq+1, head.Seq)
	case seq != head.Seq || hash != head.Hash:
		return h.fault(Fault{File: h.events.name, Run: head.Run, Seq: seq, Kind: ledger.Tampered}, "its last event is %d with hash %s, its head is %d with %s", seq, hash, head.Seq, head.Hash)
	}
	return nil
}

// callsOf compares the next calls with what an event folds to.
func (h *histories) callsOf(fold *ledger.Fold, s events.Sealed, head Head) error {
	e, err := s.Decode()
	var out ledger.Rows
	if err == nil {
		err = fold.Apply(e, &out)
	}
	if err != nil {
		h.comparing = false // of a newer version, which this build cannot fold
		return nil
	}
	for _, c := range out.Calls {
		if tool := h.m.Filter.Tool; c.Seq > head.Calls || tool != "" && c.Tool != tool {
			continue
		}
		want, err := callLine(JSONL, c)
		if err != nil {
			return err
		}
		line, _, err := h.calls.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		h.sum.Calls++
		if err != nil || !bytes.Equal(line, bytes.TrimSuffix(want, []byte("\n"))) {
			h.comparing = false
			f := Fault{File: h.calls.name, Line: h.calls.n, Run: head.Run, Seq: c.Seq, Kind: ledger.Tampered}
			if err != nil {
				f.Kind = ledger.Incomplete
			}
			return h.fault(f, "it does not have the call as the events give it: want %.200s; calls after it are not compared", want)
		}
	}
	return nil
}
