package main

import (
	"context"
	"fmt"
	"time"
)

// callsPart puts runs of ten calls through the queue, the runtime, the journal
// and the ledger: all that a call costs a user, with its share of claiming and
// finishing its run.
func callsPart(ctx context.Context, b *bench) error {
	for _, every := range []time.Duration{always, interval} {
		for _, n := range []int{1, 64} {
			for _, project := range []bool{true, false} {
				w := work{tool: readonly, turns: 10, calls: 1, inFlight: n, project: project, every: every}
				if err := b.calls(ctx, w); err != nil {
					return err
				}
			}
		}
	}
	for _, w := range []work{
		{tool: readonly, turns: 10, calls: 1, inFlight: 64, project: true, noFeed: true, every: always},
		{tool: readonly, turns: 10, calls: 10, inFlight: 64, project: true, every: always},
		{tool: readonly, turns: 10, calls: 10, inFlight: 64, project: false, every: always},
		{tool: destructive, turns: 10, calls: 1, inFlight: 1, project: true, every: always},
		{tool: destructive, turns: 10, calls: 1, inFlight: 64, project: true, every: always},
		{tool: destructive, turns: 10, calls: 1, inFlight: 64, project: false, every: always},
	} {
		if err := b.calls(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

func (w work) name() string {
	s := fmt.Sprintf("%s calls, %d in flight", map[string]string{readonly: "readonly", destructive: "destructive"}[w.tool], w.inFlight)
	if w.calls > 1 {
		s += fmt.Sprintf(", %d a turn", w.calls)
	}
	if w.every == interval {
		s += ", sync 2m"
	}
	switch {
	case w.project && w.noFeed:
		return s + ", projector without feed"
	case w.project:
		return s + ", projector runs"
	default:
		return s + ", no projector"
	}
}

func (b *bench) calls(ctx context.Context, w work) error {
	// As many as could be done: the measurement ends early when they are used up.
	w.limit = b.time
	perSecond := map[bool]int{true: 1500, false: 8000}[w.inFlight == 1]
	if w.tool == destructive {
		perSecond = 2000
	}
	w.runs = max(int(float64(perSecond)*w.limit.Seconds())/(w.turns*w.calls), w.inFlight*2)
	if w.calls > 1 {
		w.runs *= 3
	}
	d, err := b.drive(ctx, w)
	if err != nil {
		return err
	}
	f := rate("calls", w.name(), taken{d.calls, d.took, d.cpu, d.latency}, syncName(w.every))
	if w.tool == destructive {
		f.Synced = "database: Begin and End; " + f.Synced
	}
	f.Note = fmt.Sprintf("runs of %d turns with %d calls, %d ended; p50 and p99 are of a turn, from call to call", w.turns, w.calls, d.ended)
	if w.project {
		kept := float64(d.calls) / (d.took + d.drained).Seconds()
		f.Note += fmt.Sprintf("; projector behind by %d, %d, %d messages after each third, at the end of all after %s more: %.0f calls/s with all of it projected",
			d.pending[0], d.pending[1], d.pending[2], d.drained.Round(time.Millisecond), kept)
	}
	f = b.report.over(f, rawCommits(map[bool]int{true: 1, false: 64}[w.inFlight == 1]))
	switch {
	case w.tool == destructive && w.inFlight > 1 && w.project:
		f = b.report.atLeastDBOS(f, 1)
	case w.tool == destructive || w.calls > 1:
	case w.inFlight == 1 && w.every == always && w.project:
		f = b.report.atMostDBOS(f, 1)
	case w.inFlight == 1 && w.project:
		f = b.report.atMostDBOS(f, 0.15)
	case w.every == always && w.project:
		f = b.report.atLeastDBOS(f, 6)
	case w.every == always && w.inFlight > 1:
		f = b.report.atLeastDBOS(f, 15)
	}
	b.report.add(f)
	return nil
}
