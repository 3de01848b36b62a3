package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// following are the flags of a list that can be followed.
type following struct {
	on    bool
	every time.Duration
}

// followWindow is how many of the newest runs are looked at for changes, besides all
// those that have not ended.
const followWindow = 1000

func (f *following) add(c *cobra.Command, what string) {
	c.Flags().BoolVar(&f.on, "follow", false, "goes on printing "+what+" as they come, oldest first; interrupt to stop (exit code 0)")
	c.Flags().DurationVar(&f.every, "every", time.Second, "with --follow: how often the ledger is asked")
}

func (f following) check() error {
	if f.every < 10*time.Millisecond {
		return usagef("--every %s: want 10ms or more", f.every)
	}
	return nil
}

// loop calls look at once and then again and again, until it says that nothing more
// can come, or somebody interrupts: that is how one leaves.
func (f following) loop(ctx context.Context, look func() (more bool, err error)) error {
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		more, err := look()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil || !more:
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// stream writes rows as they come, in the format asked for; JSON is one object a line.
type stream[V any] struct {
	a    *app
	cols []column[V]
	out  tableWriter[V]
}

func newStream[V any](a *app, cols []column[V]) (*stream[V], error) {
	if a.output == formatJSON {
		a.output = formatJSONL
	}
	if a.shape.as == formatJSON {
		a.shape.as = formatJSONL
	}
	if p := a.shape.pick; p != nil {
		p.done = true
		var v V
		if _, err := holds(a, p, v); err != nil {
			return nil, err
		}
		p.unclear = 0
	}
	var err error
	if a.output == formatTable || a.output == formatCSV {
		if cols, err = chosen(a, cols); err == nil && a.output == formatTable {
			cols = timed(a, cols)
		}
	}
	return &stream[V]{a: a, cols: cols}, err
}

func (s *stream[V]) write(rows []V) error {
	if len(rows) == 0 {
		return nil
	}
	switch s.a.output {
	case formatJSONL:
		for _, r := range rows {
			if err := s.a.jsonLine(r); err != nil {
				return err
			}
		}
		return nil
	case formatCSV:
		return writeCSV(s.a, rows, s.cols)
	}
	t := s.a.term
	if s.a.shape.wide {
		t.width = 0
	}
	return s.out.write(s.a.out, t, rows, s.cols)
}

// seenAs is what makes a run a line of its own again.
func seenAs(r ledger.Run) string {
	return fmt.Sprint(r.State, r.Epoch, r.ParkReason, r.ParkDetail, r.ParkedAt, r.CancelAt, r.HeldAt, r.EndedAt, r.Successor)
}

// runFollower prints the newest page, the oldest first, and from then on each run that is
// new or stands otherwise than before.
type runFollower struct {
	a     *app
	l     lister[ledger.Summary, runView]
	out   *stream[runView]
	limit int
	// seen is how each run stood that was printed, or passed behind the first page. One
	// that does not pass may come to do so by whatever a filter can ask.
	seen  map[events.RunID]string
	kept  map[events.RunID]keptAt
	floor events.RunID // the oldest that is followed; zero = all are
	first bool
}

// keptAt is what the ledger's answer about a run was, and how many events it had then.
type keptAt struct {
	ok     bool
	events int64
}

func (a *app) followRuns(ctx context.Context, st ledger.Store, f runsFlags) error {
	w, err := a.runFollower(ctx, st, f)
	if err != nil {
		return err
	}
	return f.follow.loop(ctx, w.look)
}

func (a *app) runFollower(ctx context.Context, st ledger.Store, f runsFlags) (*runFollower, error) {
	out, err := newStream(a, a.runColumns())
	w := &runFollower{
		a: a, l: a.runLister(ctx, st, f), out: out, limit: f.page.limit, first: true,
		seen: map[events.RunID]string{}, kept: map[events.RunID]keptAt{},
	}
	if keep := w.l.keep; keep != nil {
		// It is a question to the ledger for each run: a call that was made stays made.
		w.l.keep = func(s ledger.Summary) (bool, error) {
			if k, asked := w.kept[s.ID]; asked && (k.ok || k.events == s.Events) {
				return k.ok, nil
			}
			ok, err := keep(s)
			if err == nil {
				w.kept[s.ID] = keptAt{ok, s.Events}
			}
			return ok, err
		}
	}
	return w, err
}

func (w *runFollower) look() (bool, error) {
	var views []runView
	var ids []events.RunID
	var last *ledger.Summary
	for done := false; !done; {
		rows, err := w.l.read(scanBatch, last)
		if err != nil {
			return false, err
		}
		for i, r := range rows {
			if w.first && len(ids) == w.a.window || !w.floor.IsZero() && string(r.ID[:]) < string(w.floor[:]) {
				done = true
				break
			}
			ids, last = append(ids, r.ID), &rows[i]
			now := seenAs(r.Run)
			if w.seen[r.ID] == now {
				continue
			}
			v, ok, err := w.l.passes(w.a, r)
			if err != nil {
				return false, err
			}
			if !ok {
				delete(w.seen, r.ID)
				continue
			}
			w.seen[r.ID] = now
			if !w.first || len(views) < w.limit {
				views = append(views, v)
			}
		}
		done = done || len(rows) < scanBatch
	}
	w.first = false
	if n := w.a.window; len(ids) >= n { // what is older is not followed any more
		for _, id := range ids[n:] {
			delete(w.seen, id)
			delete(w.kept, id)
		}
		w.floor = ids[n-1]
	}
	slices.Reverse(views)
	return true, w.out.write(views)
}
