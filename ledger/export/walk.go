package export

import (
	"context"
	"fmt"
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

const (
	runsPage = 200
	rowsPage = 250 // of events that may be large
)

// sink takes lines in order.
type sink interface {
	row(kind Kind, at Edge, line []byte) error
	head(Head) error
	// kept is told now and then that everything up to p has been handed over.
	kept(p position) error
	// end is told that there is nothing more.
	end() error
}

// position is how far a walk has come.
type position struct {
	Run  events.RunID `json:"run_id,omitzero"`
	Done bool         `json:"done"` // nothing of Run is left to do
	// Of a run that is not done: its events up to this one are written.
	Seq    uint64      `json:"seq,omitempty"`
	Hash   events.Hash `json:"hash,omitzero"`
	Events int64       `json:"events"` // of all runs
}

// walk goes through the ledger run by run: a run's events first, then the calls that
// they make, then the run itself. What it has seen of a run is a beginning of its
// history, and that never changes.
type walk struct {
	src   ledger.Exports
	o     Options
	to    sink
	calls Place // calls of this run up to here are not wanted again
	// headless: nobody wants events or heads, so none are read.
	headless bool
}

func (w *walk) wants(k Kind) bool { return slices.Contains(w.o.Kinds, k) }

func (w *walk) all(ctx context.Context, at position) error {
	if !at.Run.IsZero() && !at.Done {
		f := w.o.Filter
		f.Run = at.Run
		rs, err := w.src.ExportRuns(ctx, f, events.RunID{}, 1)
		if err != nil {
			return err
		}
		for _, r := range rs {
			if err := w.run(ctx, r, &at); err != nil {
				return err
			}
		}
		at.Seq, at.Hash, at.Done = 0, events.Hash{}, true
	}
	for {
		rs, err := w.src.ExportRuns(ctx, w.o.Filter, at.Run, runsPage)
		if err != nil {
			return err
		}
		for _, r := range rs {
			at = position{Run: r.ID, Events: at.Events}
			if err := w.run(ctx, r, &at); err != nil {
				return err
			}
		}
		if len(rs) < runsPage {
			return w.to.end()
		}
	}
}

func (w *walk) run(ctx context.Context, r ledger.ExportRun, at *position) error {
	h := Head{Run: r.ID, Seq: r.Folded}
	if !w.headless {
		var err error
		if h, err = w.events(ctx, r.ID, at); err != nil {
			return err
		}
	}
	// What is folded now was folded when the run was read, or later.
	h.Calls = min(h.Seq, r.Folded)
	if w.wants(Calls) {
		if err := w.callRows(ctx, r.ID, h.Calls); err != nil {
			return err
		}
	}
	if w.wants(Runs) {
		line, err := runLine(w.o.Format, r)
		if err != nil {
			return err
		}
		if err := w.to.row(Runs, Edge{Run: r.ID, Time: r.CreatedAt}, line); err != nil {
			return err
		}
	}
	if err := w.to.head(h); err != nil {
		return err
	}
	at.Done = true
	return w.to.kept(*at)
}

// events writes the events of a run out, up to the first hole, from where at stands.
func (w *walk) events(ctx context.Context, run events.RunID, at *position) (Head, error) {
	for {
		es, damaged := w.src.ExportEvents(ctx, run, at.Seq, rowsPage)
		for _, e := range es {
			env := e.Envelope()
			if env.Seq != at.Seq+1 {
				return Head{Run: run, Seq: at.Seq, Hash: at.Hash, Hole: at.Seq + 1}, nil
			}
			if w.wants(Events) {
				line, err := eventLine(w.o.Format, e)
				if err != nil {
					return Head{}, err
				}
				if err := w.to.row(Events, Edge{run, env.Seq, env.Time}, line); err != nil {
					return Head{}, err
				}
			}
			at.Seq, at.Hash = env.Seq, e.Hash()
			at.Events++
		}
		w.o.Done(at.Events)
		if damaged != nil {
			return Head{}, fmt.Errorf("write events of run %s out: ledgerctl verify says what is wrong: %w", run, damaged)
		}
		if len(es) < rowsPage {
			return Head{Run: run, Seq: at.Seq, Hash: at.Hash}, nil
		}
		if err := w.to.kept(*at); err != nil {
			return Head{}, err
		}
	}
}

func (w *walk) callRows(ctx context.Context, run events.RunID, through uint64) error {
	after := uint64(0)
	if w.calls.Run == run {
		after = w.calls.Seq
	}
	for after < through {
		cs, err := w.src.ExportCalls(ctx, run, w.o.Filter.Tool, after, through, rowsPage)
		if err != nil {
			return err
		}
		for _, c := range cs {
			line, err := callLine(w.o.Format, c)
			if err != nil {
				return err
			}
			if err := w.to.row(Calls, Edge{run, c.Seq, c.At}, line); err != nil {
				return err
			}
			after = c.Seq
		}
		if len(cs) < rowsPage {
			return nil
		}
	}
	return nil
}
