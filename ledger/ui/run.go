package ui

import (
	"context"
	"net/http"
	"strconv"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// runHead is what every page about a run begins with.
type runHead struct {
	ledger.Summary
	tab   string
	again string // address to look again at; empty: it has ended, or was looked at often enough
	every string
	done  string // what was just done, in words
	why   *why   // nil: not on this page
}

// head reads the run that an address names.
func (p *page) head(ctx context.Context, r *http.Request, c *chrome, tab string) (runHead, error) {
	id, err := events.ParseRunID(r.PathValue("run"))
	if err != nil {
		return runHead{}, badQuery("a run", r.PathValue("run"), "Want the 26 characters that the list of runs shows.")
	}
	s, err := c.summary(ctx, id)
	if err != nil {
		return runHead{}, err
	}
	h := runHead{Summary: s, tab: tab, every: every(p.Refresh), done: doneWords[r.URL.Query().Get("done")]}
	if n := polls(r.URL.Query()); !s.State.Ended() && p.Refresh > 0 && n < maxPolls {
		q := r.URL.Query()
		q.Set("polls", strconv.Itoa(n+1))
		h.again = c.base + r.URL.Path + "?" + q.Encode()
	}
	return h, nil
}

// summary is a run with its totals.
func (c *chrome) summary(ctx context.Context, id events.RunID) (ledger.Summary, error) {
	r, err := c.read.Run(ctx, id)
	if err != nil {
		return ledger.Summary{}, err
	}
	list, err := c.read.Summaries(ctx, ledger.RunFilter{Before: above(id), Limit: 1})
	if err != nil {
		return ledger.Summary{}, err
	}
	if len(list) == 1 && list[0].ID == id {
		return list[0], nil
	}
	return ledger.Summary{Run: r}, nil
}

// above is the id after r.
func above(r events.RunID) events.RunID {
	for i := len(r) - 1; i >= 0; i-- {
		r[i]++
		if r[i] != 0 {
			break
		}
	}
	return r
}

func (p *page) run(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	h, err := p.head(ctx, r, c, "waterfall")
	if err != nil {
		return shown{}, err
	}
	w, err := c.fold(ctx, h.ID, h.State.Ended())
	if err != nil {
		return shown{}, err
	}
	if h.why, err = p.whyRun(ctx, c, h.Summary); err != nil {
		return shown{}, err
	}
	over := w.overview()
	n, _ := strconv.Atoi(r.URL.Query().Get("page"))
	w.cutTo(n - 1)
	return shown{h.Agent + " " + tail(h.ID), runPage(*c, h, waterfallView(*c, h, w, over))}, nil
}
