package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Bounds of one page of a filtered list.
const (
	maxScan   = 100_000 // rows that are looked at
	scanBatch = 1000    // at a time
)

// lister reads rows R of the ledger in pages, and shows those that pass as V.
type lister[R, V any] struct {
	// read returns up to n rows behind after; nil = where the command line says.
	read func(n int, after *R) ([]R, error)
	// past reports that neither this row nor any behind it is wanted; nil = never.
	past func(R) bool
	// keep leaves rows out that the ledger cannot; nil = none.
	keep  func(R) (bool, error)
	view  func(R) (V, error)
	place func(R) string // where the next page goes on, as --after
}

// page reads until as many rows as a page has have passed --filter and the others. It
// goes on behind the last row that it looked at, so no row is left out or comes twice,
// whatever comes in meanwhile. next is the --after of the next page, empty if there is
// none.
func (l lister[R, V]) page(a *app, p page) (views []V, next string, err error) {
	pick := a.shape.pick
	views = []V{}
	if pick != nil {
		pick.done = true
		var v V
		if _, err := holds(a, pick, v); err != nil { // a misspelt name is one in an empty ledger, too
			return nil, "", err
		}
		pick.unclear = 0
		defer a.tellUnclear()
	}
	var last *R
	for scanned := 0; ; {
		n := p.limit + 1 - len(views)
		if pick != nil || l.keep != nil {
			n = scanBatch
		}
		rows, err := l.read(n, last)
		if err != nil {
			return nil, "", err
		}
		for i := range rows {
			if l.past != nil && l.past(rows[i]) {
				return views, "", nil
			}
			if len(views) == p.limit {
				return views, l.place(*last), nil
			}
			if scanned == a.scan {
				fmt.Fprintf(a.err, "looked at %d rows, and %d passed: the next page goes on from there\n", scanned, len(views))
				return views, l.place(*last), nil
			}
			scanned++
			last = &rows[i]
			v, ok, err := l.passes(a, rows[i])
			if err != nil {
				return nil, "", err
			}
			if ok {
				views = append(views, v)
			}
		}
		if len(rows) < n {
			return views, "", nil
		}
	}
}

func (l lister[R, V]) passes(a *app, r R) (v V, ok bool, err error) {
	if l.keep != nil {
		if ok, err := l.keep(r); err != nil || !ok {
			return v, false, err
		}
	}
	if v, err = l.view(r); err != nil {
		return v, false, err
	}
	ok, err = holds(a, a.shape.pick, v)
	return v, ok, err
}

// listPage writes a page and how to get the next one.
func listPage[R, V any](a *app, c *cobra.Command, args []string, p page, l lister[R, V], cols []column[V], none string) error {
	views, next, err := l.page(a, p)
	if err != nil {
		return err
	}
	if err := list(a, views, cols, none); err != nil {
		return err
	}
	if next != "" {
		a.more(c, args, next)
	}
	return nil
}

// span of time in which runs were queued.
type queuedIn struct{ since, until string }

func (q *queuedIn) add(c *cobra.Command) {
	c.Flags().StringVar(&q.since, "since", "", "only of runs queued from then on: 2026-01-31, 2026-01-31T10:00:00Z or a time ago such as 24h")
	c.Flags().StringVar(&q.until, "until", "", "only of runs queued before then")
}

func (q queuedIn) read(a *app) (since, until time.Time, err error) {
	if since, err = a.moment("since", q.since); err != nil {
		return since, until, err
	}
	until, err = a.moment("until", q.until)
	return since, until, err
}

// bounds are the lowest id of a run that is wanted and the lowest that is not any more; zero
// where there is no bound. Ids are in the order of time.
func (q queuedIn) bounds(a *app) (from, before events.RunID, err error) {
	since, until, err := q.read(a)
	if err != nil {
		return from, before, err
	}
	return firstRun(since), firstRun(until), nil
}

// firstRun is the lowest id that a run queued at t can have.
func firstRun(t time.Time) (id events.RunID) {
	ms := t.UnixMilli()
	if t.IsZero() || ms <= 0 {
		return id
	}
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id
}

// lower is the lower of two bounds from above, of which zero is none.
func lower(a, b events.RunID) events.RunID {
	if a.IsZero() || !b.IsZero() && string(b[:]) < string(a[:]) {
		return b
	}
	return a
}

// agents says which agent a run has; it asks once for each.
func agentsOf(ctx context.Context, st ledger.Store) func(events.RunID) (string, error) {
	known := map[events.RunID]string{}
	return func(id events.RunID) (string, error) {
		if name, ok := known[id]; ok {
			return name, nil
		}
		r, err := st.Run(ctx, id)
		if err != nil {
			return "", err
		}
		known[id] = r.Agent
		return r.Agent, nil
	}
}

// both keeps what all of fs keep; nil ones keep all.
func both[R any](fs ...func(R) (bool, error)) func(R) (bool, error) {
	var some []func(R) (bool, error)
	for _, f := range fs {
		if f != nil {
			some = append(some, f)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return func(r R) (bool, error) {
		for _, f := range some {
			if ok, err := f(r); err != nil || !ok {
				return ok, err
			}
		}
		return true, nil
	}
}

// is keeps rows whose text is want; empty is no condition.
func is[R any](want string, text func(R) string) func(R) (bool, error) {
	if want == "" {
		return nil
	}
	return func(r R) (bool, error) { return text(r) == want, nil }
}

// byAgent keeps rows of runs that an agent works on; empty is no condition.
func byAgent[R any](ctx context.Context, st ledger.Store, want string, run func(R) events.RunID) func(R) (bool, error) {
	if want == "" {
		return nil
	}
	agent := agentsOf(ctx, st)
	return func(r R) (bool, error) {
		name, err := agent(run(r))
		return name == want, err
	}
}

// narrowing are conditions on the calls that a list is about.
type narrowing struct{ tool, agent string }

func (n *narrowing) add(c *cobra.Command) {
	c.Flags().StringVar(&n.tool, "tool", "", "tool")
	c.Flags().StringVar(&n.agent, "agent", "", "agent of the run")
}
