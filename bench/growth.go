package main

import (
	"context"
	"fmt"
)

// growthPart does the same amount of work in runs of 10 to 10,000 events: what
// is linear has one rate. Runs of ten events pay for claiming and finishing.
func growthPart(ctx context.Context, b *bench) error {
	const perTurn = 8
	const base = "calls in runs of ~1,000 events"
	var late []figure
	for _, g := range []struct {
		name           string
		turns, perTurn int
	}{
		{base, 50, perTurn},
		{"calls in runs of ~10 events", 1, 2},
		{"calls in runs of ~100 events", 5, perTurn},
		{"calls in runs of ~10,000 events", 500, perTurn},
	} {
		w := work{tool: readonly, turns: g.turns, calls: g.perTurn, inFlight: 16, every: always, limit: b.time}
		w.runs = max(int(4000*b.time.Seconds())/(g.turns*g.perTurn), 16)
		d, err := b.drive(ctx, w)
		if err != nil {
			return err
		}
		f := rate("growth", g.name, taken{d.calls, d.took, d.cpu, d.latency}, syncName(always))
		f.Note = fmt.Sprintf("%d turns of %d calls, %d runs ended; p50 and p99 are of a turn", g.turns, g.perTurn, d.ended)
		if g.name != base {
			f = b.report.over(f, base)
			f = f.goal("within 20 %", f.Ratio >= 0.8)
		} else {
			b.report.add(f)
			continue
		}
		late = append(late, f)
	}
	for _, f := range late {
		b.report.add(f)
	}
	return nil
}
