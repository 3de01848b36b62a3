package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// bar is one attempt of a model or tool call.
type bar struct {
	name       string
	cost       string
	start, end time.Time // end is zero if nobody came back to say
}

// picture draws a run: one line for each attempt, as long as it took.
func (s *supervisor) picture(ctx context.Context, st ledger.Store, name string) error {
	run, err := events.ParseRunID(name)
	if err != nil {
		return err
	}
	models, err := st.ModelCalls(ctx, run)
	if err != nil {
		return err
	}
	calls, err := st.Calls(ctx, ledger.CallFilter{Run: run, All: true, Limit: 1000})
	if err != nil {
		return err
	}
	bars := attempts(calls)
	for _, m := range models {
		bars = append(bars, bar{fmt.Sprintf("turn %d  %s", m.Turn, m.Model), price(m.Cost), m.StartedAt, m.At})
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return a.start.Compare(b.start) })
	fmt.Fprintf(s.out, "\n%s, and where its time went:\n\n%s", name, draw(bars))
	return nil
}

// attempts puts the rows of tool calls together that tell of one attempt.
func attempts(calls []ledger.CallRecord) []bar {
	type key struct {
		call    events.CallID
		attempt int
	}
	at := map[key]int{}
	var bars []bar
	slices.SortFunc(calls, func(a, b ledger.CallRecord) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, c := range calls {
		k := key{c.Call, c.Attempt}
		if c.Status == "started" {
			at[k] = len(bars)
			bars = append(bars, bar{name: "        " + c.Tool, start: c.At})
		} else if i, ok := at[k]; ok && c.Terminal {
			bars[i].end, bars[i].cost = c.At, price(c.Cost)
		}
	}
	return bars
}

// price is empty for what nobody measured.
func price(p *events.PicoUSD) string {
	if p == nil {
		return ""
	}
	return p.String()
}

// width is that of all the time there was, in characters.
const width = 48

func draw(bars []bar) string {
	if len(bars) == 0 {
		return "  nothing happened\n"
	}
	first, last := bars[0].start, bars[0].start
	for _, b := range bars {
		for _, t := range []time.Time{b.start, b.end} {
			if t.After(last) {
				last = t
			}
		}
	}
	all := max(last.Sub(first), time.Millisecond)
	column := func(t time.Time) int { return int(int64(width-1) * int64(t.Sub(first)) / int64(all)) }
	var out strings.Builder
	for _, b := range bars {
		from := column(b.start)
		long, took := 1, ""
		if b.end.IsZero() {
			took = "killed"
		} else {
			long, took = column(b.end)-from+1, b.end.Sub(b.start).Round(time.Millisecond).String()
		}
		mark := "█"
		if b.end.IsZero() {
			mark = "✗"
		}
		fmt.Fprintf(&out, "  %-30s %s%s%s %7s  %s\n", b.name, strings.Repeat("·", from), strings.Repeat(mark, long), strings.Repeat("·", width-from-long), took, b.cost)
	}
	return out.String()
}
