package main

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// callFollower prints the newest page, the oldest first, and from then on each transition
// of a call as it is folded: of the newest runs, and of all that have not ended, until
// their last event is folded.
type callFollower struct {
	a   *app
	st  ledger.Store
	f   callsFlags
	l   lister[ledger.CallRecord, callView]
	out *stream[callView]
	// folded is how far the rows of each run have been printed whose calls may change.
	folded map[events.RunID]uint64
	floor  events.RunID // the oldest of the newest runs; zero = all are among them
	first  bool
}

func (a *app) followCalls(ctx context.Context, st ledger.Store, f callsFlags) error {
	w, err := a.callFollower(ctx, st, f)
	if err != nil {
		return err
	}
	return f.follow.loop(ctx, func() (bool, error) { return w.look(ctx) })
}

func (a *app) callFollower(ctx context.Context, st ledger.Store, f callsFlags) (*callFollower, error) {
	out, err := newStream(a, a.callColumns(true))
	return &callFollower{
		a: a, st: st, f: f, l: a.callLister(ctx, st, f), out: out, first: true, folded: map[events.RunID]uint64{},
	}, err
}

func (w *callFollower) look(ctx context.Context) (bool, error) {
	runs, floor, err := w.runs(ctx)
	if err != nil {
		return false, err
	}
	var views []callView
	if w.first {
		w.first = false
		if views, _, err = w.l.page(w.a, w.f.page); err != nil {
			return false, err
		}
		slices.Reverse(views)
		for _, v := range views {
			w.folded[v.Run] = max(w.folded[v.Run], v.Seq)
		}
		for _, r := range runs {
			w.folded[r.ID] = max(w.folded[r.ID], uint64(r.Events))
		}
		w.floor = floor
		return true, w.out.write(views)
	}
	ended := true
	for _, r := range runs {
		ended = ended && r.State.Ended()
		if uint64(r.Events) > w.folded[r.ID] {
			news, top, err := w.news(ctx, r.ID, w.folded[r.ID])
			if err != nil {
				return false, err
			}
			w.folded[r.ID] = max(uint64(r.Events), top)
			views = append(views, news...)
		}
	}
	if err := w.out.write(views); err != nil {
		return false, err
	}
	if !w.f.filter.Run.IsZero() {
		if !ended {
			return true, nil
		}
		return w.behind(ctx, runs)
	}
	w.floor = floor
	for _, r := range runs {
		if !r.State.Ended() || string(r.ID[:]) >= string(floor[:]) {
			continue
		}
		more, err := w.behind(ctx, []ledger.Summary{r})
		if err != nil {
			return false, err
		}
		if !more {
			delete(w.folded, r.ID)
		}
	}
	return true, nil
}

// behind reports whether events of runs wait to be folded.
func (w *callFollower) behind(ctx context.Context, runs []ledger.Summary) (bool, error) {
	for _, r := range runs {
		err := w.st.Events(ctx, r.ID, uint64(r.Events)+1, func(events.Sealed) error { return errEnough })
		switch {
		case errors.Is(err, errEnough):
			return true, nil
		case err != nil:
			return false, err
		}
	}
	return false, nil
}

// runs are those whose calls may change, the oldest first, and the oldest of the newest ones:
// those down to the floor of the last look, all that have not ended, and those that have
// since the last look.
func (w *callFollower) runs(ctx context.Context) (all []ledger.Summary, floor events.RunID, err error) {
	if run := w.f.filter.Run; !run.IsZero() {
		if string(run[:]) < string(w.f.from[:]) || !w.f.before.IsZero() && string(run[:]) >= string(w.f.before[:]) {
			return nil, floor, nil
		}
		all, err = w.one(ctx, run)
		return all, floor, err
	}
	// Bounds of time are the flags' as they were read: of one that says how long ago, the
	// moment does not move on.
	q := ledger.RunFilter{Tenant: w.f.filter.Tenant, Owner: w.f.filter.Owner, Agent: w.f.agent, Before: w.f.before, Limit: w.a.window}
	low := w.f.from
	if string(low[:]) < string(w.floor[:]) {
		low = w.floor
	}
	newest, err := w.down(ctx, q, low, w.first)
	if err != nil {
		return nil, floor, err
	}
	all = newest
	if len(newest) >= w.a.window {
		floor = newest[w.a.window-1].ID
		q.States = []ledger.State{ledger.Queued, ledger.Running, ledger.Parked, ledger.Cancelling}
		q.Before, q.Limit = newest[len(newest)-1].ID, maxPage
		older, err := w.down(ctx, q, w.f.from, false)
		if err != nil {
			return nil, floor, err
		}
		all = append(all, older...)
	}
	here := make(map[events.RunID]bool, len(all))
	for _, r := range all {
		here[r.ID] = true
	}
	for id := range w.folded {
		if here[id] {
			continue
		}
		r, err := w.one(ctx, id)
		if err != nil {
			return nil, floor, err
		}
		all = append(all, r...)
	}
	slices.SortFunc(all, func(a, b ledger.Summary) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return all, floor, nil
}

// down reads summaries, the newest first, down to low; only one page of them if that is
// asked for.
func (w *callFollower) down(ctx context.Context, q ledger.RunFilter, low events.RunID, page bool) (all []ledger.Summary, err error) {
	for {
		rows, err := w.st.Summaries(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if string(r.ID[:]) < string(low[:]) {
				return all, nil
			}
			all = append(all, r)
		}
		if page || len(rows) < q.Limit {
			return all, nil
		}
		if q.Before = rows[len(rows)-1].ID; q.Before == low {
			return all, nil
		}
	}
}

// one is the summary of a run, if there is one.
func (w *callFollower) one(ctx context.Context, run events.RunID) ([]ledger.Summary, error) {
	rows, err := w.st.Summaries(ctx, ledger.RunFilter{Before: above(run), Limit: 1})
	if err != nil || len(rows) == 1 && rows[0].ID != run {
		return nil, err
	}
	return rows, nil
}

// news are the rows of a run beyond a seq that pass, the oldest first, and the highest seq there is.
func (w *callFollower) news(ctx context.Context, run events.RunID, beyond uint64) ([]callView, uint64, error) {
	q := w.f.filter
	q.Run, q.Limit, q.BeforeRun, q.BeforeSeq = run, scanBatch, events.RunID{}, 0
	var views []callView
	top := beyond
	for {
		rows, err := w.st.Calls(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range rows {
			if r.Seq <= beyond {
				rows = nil
				break
			}
			top = max(top, r.Seq)
			v, ok, err := w.l.passes(w.a, r)
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
