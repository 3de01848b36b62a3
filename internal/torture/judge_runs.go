package torture

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// judgeRuns looks at every run that was accepted: is it there, how did it end,
// and what was its model told.
func (t *torture) judgeRuns(ctx context.Context, r *Report) error {
	log, err := readLines[Effect](effectsLog(t.cfg.Dir))
	if err != nil {
		return err
	}
	keys := byKey(log)
	var takeovers []time.Duration
	for n, id := range t.load.runs {
		r.Runs++
		run, err := t.watch.store.Run(ctx, id)
		switch {
		case errors.Is(err, ledger.ErrNotFound):
			r.note(&r.Lost, "run %d (%s) was accepted and is not there", n, id)
			continue
		case err != nil:
			return err
		case run.State == ledger.Finished:
			r.Finished++
		case run.State.Ended():
			r.note(&r.Failed, "run %s is %s by %s: %s", id, run.State, run.StoppedBy, run.Error)
		}
		h := history{t: t, r: r, keys: keys}
		if err := t.watch.store.Events(ctx, id, 1, h.take); err != nil {
			return err
		}
		takeovers = append(takeovers, h.takeovers...)
	}
	r.Timed = len(takeovers)
	r.TakeoverP50, r.TakeoverP99 = quantile(takeovers, 0.5), quantile(takeovers, 0.99)
	return nil
}

// history reads the events of one run.
type history struct {
	t         *torture
	r         *Report
	keys      map[string]int
	holder    string // the worker that numbers the events
	since     time.Time
	left      bool // it gave the run back
	takeovers []time.Duration
}

func (h *history) take(s events.Sealed) error {
	e, err := s.Decode()
	if err != nil {
		return err
	}
	switch p := e.Data.(type) {
	case events.RunStarted:
		h.holder, h.since, h.left = p.Worker, e.Time, false
	case events.RunResumed:
		h.resumed(p.Worker, e.Time)
	case events.RunParked:
		h.left = true
	case events.RunUnparked, events.TurnStarted:
		h.left = false
	case events.ModelCallStarted:
		h.r.ModelCalls++
	case events.ToolExecutionStarted:
		h.r.ToolCalls++
		if p.Ref != nil {
			h.r.DestructiveCalls++
		}
	case events.ToolExecutionFinished:
		if p.Repeated {
			h.r.Repeated++
		}
		if p.Ref != nil && h.keys[p.Ref.OpKey.String()] == 0 {
			h.r.note(&h.r.ToldDoneButNot, "run %s seq %d tells that %s is done, and the provider's log does not have it", e.RunID, e.Seq, p.Tool)
		}
	}
	return nil
}

// resumed notes how long a run waited for a new holder after its last one was
// killed, unless something else was done to the plant meanwhile.
func (h *history) resumed(worker string, at time.Time) {
	killed, ok := h.t.plant.killed[h.holder]
	if ok && !h.left && killed.After(h.since) && killed.Before(at) && h.t.plant.undisturbed(killed, at) {
		h.takeovers = append(h.takeovers, at.Sub(killed))
	}
	if !h.left {
		h.r.Takeovers++
	}
	h.holder, h.since, h.left = worker, at, false
}

// judgeInvoice matches the provider's invoice with the rows of the ledger, line
// by line, by attempt.
func (t *torture) judgeInvoice(ctx context.Context, r *Report) error {
	bills, err := readLines[Bill](invoiceLog(t.cfg.Dir))
	if err != nil {
		return err
	}
	lines := map[string]Bill{}
	total := new(big.Int)
	for _, b := range bills {
		r.Bills++
		total.Add(total, big.NewInt(int64(b.Pico)))
		if _, twice := lines[b.Attempt]; twice {
			r.note(&r.BilledTwice, "attempt %s has two lines on the invoice", b.Attempt)
		}
		lines[b.Attempt] = b
	}
	sum := new(big.Int)
	matched := map[string]bool{}
	for _, id := range t.load.runs {
		rows, err := t.watch.store.ModelCalls(ctx, id)
		if err != nil {
			return err
		}
		for _, row := range rows {
			t.matchRow(r, row, lines, matched, sum)
		}
	}
	for a := range lines {
		if !matched[a] {
			r.note(&r.BilledWithoutRow, "attempt %s is on the invoice and has no row", a)
		}
	}
	r.Invoice, r.Ledger = events.FormatPico(total), events.FormatPico(sum)
	return nil
}

func (t *torture) matchRow(r *Report, row ledger.ModelCallRow, lines map[string]Bill, matched map[string]bool, sum *big.Int) {
	id := attemptID(row)
	b, ok := lines[id]
	if row.State == "late" && (!ok || matched[id]) {
		// What an older holder's call came to is recorded by a later one.
		id, b, ok = lateLine(row, lines, matched)
	}
	if row.Cost != nil {
		sum.Add(sum, big.NewInt(int64(*row.Cost)))
	}
	switch {
	case ok && row.Cost != nil && *row.Cost != b.Pico:
		r.note(&r.BilledWrong, "attempt %s costs %d pico-USD on the invoice and %d in the ledger", id, b.Pico, *row.Cost)
	case ok && row.Cost == nil:
		r.Unsettled++
	case !ok && row.Cost != nil:
		r.note(&r.OnlyInLedger, "attempt %s (%s) costs %d pico-USD in the ledger and is not on the invoice", id, row.State, *row.Cost)
	}
	matched[id] = true
}

func attemptID(row ledger.ModelCallRow) string {
	return fmt.Sprintf("%s.e%d.t%d.a%d", row.Run, row.Epoch, row.Turn, row.Attempt)
}

// lateLine finds the line of an older epoch with the same turn and attempt.
func lateLine(row ledger.ModelCallRow, lines map[string]Bill, matched map[string]bool) (string, Bill, bool) {
	prefix, suffix := row.Run.String()+".e", fmt.Sprintf(".t%d.a%d", row.Turn, row.Attempt)
	for id, b := range lines {
		if !matched[id] && strings.HasPrefix(id, prefix) && strings.HasSuffix(id, suffix) && row.Cost != nil && b.Pico == *row.Cost {
			return id, b, true
		}
	}
	return attemptID(row), Bill{}, false
}
