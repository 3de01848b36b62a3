package ui

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/daybookhq/daybook/ledger"
)

// provedRuns is how many runs the page proves at a time.
const provedRuns = 25

// wholeRecord is how the record as a whole stands.
type wholeRecord struct {
	recordView
	checked bool
	runs    int
	late    bool
	vitals  *ledger.Vitals // nil: whoever asks sees only a part
}

func (p *page) record(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	v := wholeRecord{checked: r.URL.Query().Get("check") != ""}
	vitals, err := c.read.Vitals(ctx)
	switch {
	case err == nil:
		v.vitals = &vitals
	case !errors.Is(err, ledger.ErrNotFound):
		return shown{}, err
	}
	if v.checked {
		rows, err := c.read.Summaries(ctx, ledger.RunFilter{Limit: provedRuns})
		if err != nil {
			return shown{}, err
		}
		end := time.Now().Add(p.Timeout / 2)
		for _, run := range rows {
			if time.Now().After(end) {
				v.late = true
				break
			}
			one, err := c.verify(ctx, run.ID)
			if err != nil {
				return shown{}, err
			}
			v.runs++
			v.add(one)
		}
	}
	return shown{"Record", recordShown(*c, v)}, nil
}

func (v *wholeRecord) add(o recordView) {
	v.report.Runs += o.report.Runs
	v.report.Events += o.report.Events
	v.report.SetAside += o.report.SetAside
	v.report.Pending += o.report.Pending
	v.report.Tampered += o.report.Tampered
	v.report.Incomplete += o.report.Incomplete
	v.findings = append(v.findings, o.findings...)
	v.more = v.more || o.more
	v.took += o.took
}

func verdictTone(r ledger.VerifyReport) string {
	switch {
	case r.Tampered > 0:
		return "bad"
	case r.Incomplete > 0:
		return "warn"
	}
	return "good"
}

func verdictWords(r ledger.VerifyReport) string {
	switch {
	case r.Tampered > 0:
		return plural(r.Tampered, "place") + " changed, reordered or forged"
	case r.Incomplete > 0:
		return plural(r.Incomplete, "place") + " missing"
	}
	return "Whole: nothing is missing, changed or reordered"
}

func findingTone(k ledger.FindingKind) string {
	switch k {
	case ledger.Tampered:
		return "bad"
	case ledger.Incomplete:
		return "warn"
	}
	return "dim"
}

// workerRow is a worker as the leases tell of it.
type workerRow struct {
	name  string
	runs  int
	until time.Time // of the lease that ends first
	since time.Time // of the run that it has held longest
}

// queuesView is the queues and who works on them.
type queuesView struct {
	queues  []ledger.QueueStats
	workers []workerRow
	more    bool
	vitals  ledger.Vitals
	again   string
	every   string
}

// maxHeld is how many running runs are looked at to name their workers.
const maxHeld = 1000

func (p *page) queues(ctx context.Context, r *http.Request, c *chrome) (shown, error) {
	if !c.who.All() {
		return shown{}, &problem{http.StatusForbidden, "Queues belong to everybody", "Your token sees a part of the runs. Queues and workers are for those who see everything; your runs are under Runs."}
	}
	v := queuesView{every: every(p.Refresh)}
	var err error
	if v.queues, err = c.read.QueueStats(ctx, ""); err != nil {
		return shown{}, err
	}
	if v.vitals, err = c.read.Vitals(ctx); err != nil {
		return shown{}, err
	}
	held, err := c.read.Summaries(ctx, ledger.RunFilter{States: []ledger.State{ledger.Running, ledger.Cancelling}, Limit: maxHeld})
	if err != nil {
		return shown{}, err
	}
	v.more = len(held) == maxHeld
	v.workers = workersOf(held)
	if n := polls(r.URL.Query()); p.Refresh > 0 && n < maxPolls {
		v.again = c.with(c.to("queues"), "polls", plainNumber(n+1))
	}
	return shown{"Queues", queuesShown(*c, v)}, nil
}

func workersOf(held []ledger.Summary) []workerRow {
	by := map[string]*workerRow{}
	for _, r := range held {
		if r.Worker == "" || r.LeaseUntil.IsZero() {
			continue
		}
		w := by[r.Worker]
		if w == nil {
			w = &workerRow{name: r.Worker, until: r.LeaseUntil, since: r.StartedAt}
			by[r.Worker] = w
		}
		w.runs++
		if r.LeaseUntil.Before(w.until) {
			w.until = r.LeaseUntil
		}
		if !r.StartedAt.IsZero() && r.StartedAt.Before(w.since) {
			w.since = r.StartedAt
		}
	}
	out := make([]workerRow, 0, len(by))
	for _, w := range by {
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b workerRow) int { return cmp.Compare(a.name, b.name) })
	return out
}
