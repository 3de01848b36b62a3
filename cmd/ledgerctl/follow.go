package main

import (
	"context"
	"errors"
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

// followRuns prints the newest page, the oldest first, and from then on each run that is new
// or stands otherwise than before.
func (a *app) followRuns(ctx context.Context, st ledger.Store, f runsFlags) error {
	out, err := newStream(a, a.runColumns())
	if err != nil {
		return err
	}
	l := a.runLister(ctx, st, f)
	seen := map[events.RunID]string{}
	var floor events.RunID
	first := true
	return f.follow.loop(ctx, func() (bool, error) {
		var views []runView
		var ids []events.RunID
		var last *ledger.Summary
		for done := false; !done; {
			rows, err := l.read(scanBatch, last)
			if err != nil {
				return false, err
			}
			for i, r := range rows {
				if first && len(ids) == followWindow || !floor.IsZero() && string(r.ID[:]) < string(floor[:]) {
					done = true
					break
				}
				ids, last = append(ids, r.ID), &rows[i]
				now := seenAs(r.Run)
				if seen[r.ID] == now {
					continue
				}
				seen[r.ID] = now
				v, ok, err := l.passes(a, r)
				if err != nil {
					return false, err
				}
				if ok && !(first && len(views) >= f.page.limit) {
					views = append(views, v)
				}
			}
			done = done || len(rows) < scanBatch
		}
		first = false
		if len(ids) > followWindow { // what is older is not followed any more
			for _, id := range ids[followWindow:] {
				delete(seen, id)
			}
			ids = ids[:followWindow]
		}
		if len(ids) == followWindow {
			floor = ids[followWindow-1]
		}
		slices.Reverse(views)
		return true, out.write(views)
	})
}

// followCalls prints the newest page, the oldest first, and from then on each transition of a
// call as it is folded: of the newest runs, and of all that have not ended.
func (a *app) followCalls(ctx context.Context, st ledger.Store, f callsFlags) error {
	out, err := newStream(a, a.callColumns(true))
	if err != nil {
		return err
	}
	l := a.callLister(ctx, st, f)
	folded := map[events.RunID]uint64{} // how far each run's rows have been printed
	first := true
	return f.follow.loop(ctx, func() (bool, error) {
		runs, err := a.followed(ctx, st, f)
		if err != nil {
			return false, err
		}
		var views []callView
		if first {
			first = false
			p := f.page
			if views, _, err = l.page(a, p); err != nil {
				return false, err
			}
			slices.Reverse(views)
			for _, v := range views {
				folded[v.Run] = max(folded[v.Run], v.Seq)
			}
			for _, r := range runs {
				folded[r.ID] = max(folded[r.ID], uint64(r.Events))
			}
			return true, out.write(views)
		}
		ended := true
		for _, r := range runs {
			ended = ended && r.State.Ended()
			if uint64(r.Events) <= folded[r.ID] {
				continue
			}
			news, top, err := a.newCalls(ctx, st, l, f, r.ID, folded[r.ID])
			if err != nil {
				return false, err
			}
			folded[r.ID] = max(uint64(r.Events), top)
			views = append(views, news...)
		}
		if err := out.write(views); err != nil {
			return false, err
		}
		if f.filter.Run.IsZero() || !ended {
			return true, nil
		}
		return behind(ctx, st, runs)
	})
}

// behind reports whether events of runs wait to be folded.
func behind(ctx context.Context, st ledger.Store, runs []ledger.Summary) (bool, error) {
	for _, r := range runs {
		err := st.Events(ctx, r.ID, uint64(r.Events)+1, func(events.Sealed) error { return errEnough })
		switch {
		case errors.Is(err, errEnough):
			return true, nil
		case err != nil:
			return false, err
		}
	}
	return false, nil
}

// followed are the runs whose calls may change, the oldest first.
func (a *app) followed(ctx context.Context, st ledger.Store, f callsFlags) ([]ledger.Summary, error) {
	q := ledger.RunFilter{Tenant: f.filter.Tenant, Owner: f.filter.Owner, Agent: f.agent, Limit: followWindow}
	if run := f.filter.Run; !run.IsZero() {
		q = ledger.RunFilter{Before: above(run), Limit: 1}
	}
	all, err := st.Summaries(ctx, q)
	if err != nil {
		return nil, err
	}
	if f.filter.Run.IsZero() && len(all) == followWindow {
		q.States = []ledger.State{ledger.Queued, ledger.Running, ledger.Parked, ledger.Cancelling}
		q.Before, q.Limit = all[len(all)-1].ID, maxPage
		older, err := st.Summaries(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, older...)
	}
	slices.Reverse(all)
	return all, nil
}

// newCalls are the rows of a run beyond a seq that pass, the oldest first, and the highest seq there is.
func (a *app) newCalls(ctx context.Context, st ledger.Store, l lister[ledger.CallRecord, callView], f callsFlags, run events.RunID, beyond uint64) ([]callView, uint64, error) {
	q := f.filter
	q.Run, q.Limit, q.BeforeRun, q.BeforeSeq = run, scanBatch, events.RunID{}, 0
	var views []callView
	top := beyond
	for {
		rows, err := st.Calls(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range rows {
			if r.Seq <= beyond {
				rows = nil
				break
			}
			top = max(top, r.Seq)
			v, ok, err := l.passes(a, r)
			if err != nil {
				return nil, 0, err
			}
			if ok {
				views = append(views, v)
			}
		}
		if len(rows) < q.Limit {
			slices.Reverse(views)
			return views, top, nil
		}
		last := rows[len(rows)-1]
		q.BeforeRun, q.BeforeSeq = last.Run, last.Seq
	}
}
