package loops

import (
	"fmt"
	"slices"

	"github.com/daybookhq/daybook/events"
)

// origin is how far the history of another run has been taken over.
type origin struct {
	run  events.RunID
	seq  uint64
	hash events.Hash
}

// Inherit folds an event of the run that this one is a fork of, or goes on from in
// its session: the transcript, the turn in hand, calls and what came in from outside
// become this history's. What belongs to the other run alone stays there: its sequence
// and ids, what it cost, its waits, its end, a request to cancel it. Where that run
// begins with the history of another one, the events come oldest run first. It is called before the first Apply; an event that
// does not continue what was inherited is refused with a [*FoldError] and
// changes nothing.
func (h *History) Inherit(e events.Event) error {
	if err := h.checkInherited(e); err != nil {
		return err
	}
	h.origin = origin{run: e.RunID, seq: e.Seq, hash: e.Hash}
	switch p := e.Data.(type) {
	case events.RunFailed:
		h.left = string(p.StoppedBy)
		return nil
	case events.RunCancelled:
		h.left = string(events.StoppedByCancelled)
		return nil
	case events.RunParked, events.RunUnparked, events.OperatorActed, events.RunFinished:
		return nil
	}
	h.fold(e)
	h.tell()
	h.progress(e.Time)
	return nil
}

// BeginBehind takes an event of another run for the one that this history goes on
// from, and nothing of what was said before it: for a run that is only to be ended.
// It is called before the first Apply.
func (h *History) BeginBehind(run events.RunID, seq uint64, hash events.Hash) {
	h.origin = origin{run: run, seq: seq, hash: hash}
}

// Inherited returns the last inherited event: its run, sequence and hash; the
// zero run if there is none.
func (h *History) Inherited() (run events.RunID, seq uint64, hash events.Hash) {
	return h.origin.run, h.origin.seq, h.origin.hash
}

// InheritedStart returns what the run was bound to whose history this one
// begins with, nil if it had not been started or this is no fork.
func (h *History) InheritedStart() *events.RunStarted { return h.bound }

func (h *History) checkInherited(e events.Event) error {
	refuse := func(err error, what string, want, got any) error {
		return &FoldError{Run: e.RunID, Seq: e.Seq, What: what, Want: fmt.Sprint(want), Got: fmt.Sprint(got), Err: err}
	}
	o := h.origin
	if e.RunID != o.run { // the next run of the lineage
		o.seq, o.hash = 0, events.Genesis(e.RunID)
	}
	switch {
	case h.seq > 0 || e.RunID == h.run:
		return refuse(events.ErrBrokenChain, "place", "an event of another run, before the run's own", fmt.Sprintf("one of run %s after seq %d", e.RunID, h.seq))
	case e.Seq > o.seq+1:
		return refuse(events.ErrGap, "seq", o.seq+1, e.Seq)
	case e.Seq != o.seq+1:
		return refuse(events.ErrBrokenChain, "seq", o.seq+1, e.Seq)
	case e.Prev != o.hash:
		return refuse(events.ErrBrokenChain, "prev", o.hash, e.Prev)
	case e.Data == nil:
		return refuse(events.ErrUnknownType, "data", "the data of a "+string(e.Type), "nothing")
	}
	return h.checkBranch(e)
}

// checkBranch refuses a first event that begins with another history than the
// one inherited.
func (h *History) checkBranch(e events.Event) error {
	q, ok := e.Data.(events.RunQueued)
	if !ok || e.Seq != 1 {
		return nil
	}
	var want origin
	if q.Fork != nil {
		want = origin{run: q.Fork.Run, seq: q.Fork.Seq, hash: q.Fork.Hash}
	} else if q.Session != nil {
		want = origin{run: q.Session.Run, seq: q.Session.Seq, hash: q.Session.Hash}
	}
	switch {
	case want == h.origin:
		return nil
	case want.run == h.origin.run && want.seq == h.origin.seq:
		return &FoldError{Run: e.RunID, Seq: e.Seq, What: "inherited history", Want: want.String(), Got: h.origin.String(), Err: events.ErrBrokenChain}
	}
	return &FoldError{Run: e.RunID, Seq: e.Seq, What: "inherited history", Want: want.String(), Got: h.origin.String(), Err: events.ErrGap}
}

func (o origin) String() string {
	if o.run.IsZero() {
		return "none"
	}
	return fmt.Sprintf("run %s up to seq %d (%s)", o.run, o.seq, o.hash)
}

// branch is where a fork leaves what it inherited. Whatever was under way there
// was another run's: model calls are made again, failed ones have not failed
// here; of a destructive call only the ledger knows how it stands, also if the
// other run had it in doubt, so it is asked for again.
func (h *History) branch(q events.RunQueued) {
	h.queued = &q
	h.guarded(q)
	if h.started != nil {
		h.bound, h.started = h.started, nil
	}
	t := &h.turn
	t.open, t.failures, t.lastError, t.compacting = nil, 0, nil, nil
	h.left = ""                          // that was the other run's end
	h.routes, t.route = nil, turnRoute{} // who was down then need not be now
	h.unfail()
	for i := range t.calls {
		c := &t.calls[i]
		c.handed = nil // whoever completes it tells the other run
		c.open = slices.DeleteFunc(c.open, func(o OpenCall) bool { return o.Ref == nil })
		if d := c.doubt; d != nil {
			c.doubt = nil
			if c.isOpen(d.Attempt) < 0 {
				c.open = append(c.open, OpenCall{ID: c.id, Attempt: d.Attempt, Tool: d.Tool, Ref: &d.Ref, Deadline: d.Deadline})
			}
		}
	}
	if note := noteOf(q); note != "" {
		h.telling = len(h.notes) + 1
		h.say(note)
	}
}

// noteOf is what a fork adds to the history it begins with; a fork without one
// has the input null.
func noteOf(q events.RunQueued) string {
	if string(q.Input) == "null" {
		return ""
	}
	return inputText(q.Input)
}

// say is a word of the user to the model: an answered turn is over by it, and so
// are the revisions of its artifact, whose count begins anew.
func (h *History) say(note string) {
	h.notes = append(h.notes, note)
	h.revision = 0
	if h.turn.answer != nil {
		h.openTurn(h.turn.number + 1)
	}
}
