package main

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/redact"
)

// stored is an event as the ledger keeps it.
type stored struct {
	bytes []byte
	hash  events.Hash
}

// longHistory is one run of about n events, with three calls of 1 KB a turn.
func longHistory(n int) (events.RunID, []stored, error) {
	ids := events.NewIDs(nil, nil)
	run := ids.Run()
	t := &teller{lease: ledger.Lease{RunID: run, Epoch: 1}, prev: events.Genesis(run), ids: ids, r: redact.New(redact.Config{})}
	es, err := t.story(nil, t.head(readonly, events.Hash{})...)
	for turn := 1; len(es) < n && err == nil; turn++ {
		es, err = t.story(es, turnOf(turn, 3)...)
		if err == nil && turn%9 != 0 { // a tenth event a turn, of those that carry a word of progress
			es, err = t.story(es, events.SignalReceived{Name: "progress", Data: []byte(`"half way"`)})
		}
	}
	out := make([]stored, len(es))
	for i, e := range es {
		out[i] = stored{e.Bytes(), e.Hash()}
	}
	return run, out, err
}

// fold reads a history from its stored bytes and decides after every turn.
func fold(run events.RunID, es []stored) (nexts int, err error) {
	h, loop := loops.NewHistory(run), singleshot.New()
	for _, e := range es {
		s, err := events.Parse(e.bytes, e.hash)
		if err != nil {
			return 0, err
		}
		d, err := s.Decode()
		if err != nil {
			return 0, err
		}
		if d.Type == events.TypeOf(events.TurnStarted{}) {
			if _, err := loop.Next(h); err != nil {
				return 0, err
			}
			nexts++
		}
		if err := h.Apply(d); err != nil {
			return 0, err
		}
	}
	return nexts, nil
}

// foldPart measures what a resume computes: parse, check the hash, decode, fold
// and decide. It writes nothing.
func foldPart(_ context.Context, b *bench) error {
	for _, n := range []int{1000, 10_000} {
		run, es, err := longHistory(n)
		if err != nil {
			return err
		}
		var l spread
		nexts := 0
		cpu := b.cpu.used()
		for start := time.Now(); len(l) < 5 || time.Since(start) < b.time/8; {
			t := time.Now()
			if nexts, err = fold(run, es); err != nil {
				return err
			}
			l = append(l, time.Since(t))
		}
		f := figure{
			Part: "fold", Name: fmt.Sprintf("fold of %d events with %d Next", len(es), nexts), Unit: "events/s",
			Value: float64(len(es)) / l.at(0.5) * 1000, P50MS: l.at(0.5), P99MS: l.at(0.99), Synced: "nothing",
			CPUMicros: float64((b.cpu.used() - cpu).Microseconds()) / float64(len(l)*len(es)),
			Note:      "p50 and p99 are of the whole fold, from stored bytes; the ratio is events folded per raw publish",
		}
		b.report.add(b.report.over(f, rawPublish(1, interval)))
	}
	return nil
}
