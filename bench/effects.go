package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// actor begins and ends effects of one run, each carrying the prefix that a
// worker's would: the events of the facts before it.
type actor struct {
	*teller
	st     ledger.Store
	n      int
	prefix ledger.Prefix
}

// pair begins and ends one effect and returns how long each took.
func (a *actor) pair(ctx context.Context) (begin, end time.Duration, err error) {
	a.n++
	args := json.RawMessage(fmt.Sprintf(`{"n":%d}`, a.n))
	token := a.ids.Event()
	start := time.Now()
	v, err := a.st.Begin(ctx, a.lease, a.prefix, ledger.Intent{
		Token: token, Call: events.CallID{Turn: a.n}, CallAttempt: 1, Tool: destructive, Effect: "destructive", Scope: ledger.ScopeRun,
		Identity: args, Arguments: args, Recovery: ledger.Recovery{Kind: ledger.RecoveryNone}, Timeout: time.Minute,
	})
	begin = time.Since(start)
	if err != nil {
		return 0, 0, err
	}
	if v.Kind != ledger.Execute || v.Fact == nil {
		return 0, 0, fmt.Errorf("begin: verdict %d, want execute", v.Kind)
	}
	if err := a.carry(v.Fact); err != nil {
		return 0, 0, err
	}
	start = time.Now()
	set, err := a.st.End(ctx, a.lease, a.prefix, ledger.Outcome{
		Token: token, Kind: ledger.Applied, Result: events.ToolResult{Status: "completed", Output: "ok", Trust: "own"},
	})
	end = time.Since(start)
	if err != nil {
		return 0, 0, err
	}
	if !set.LeaseHeld || set.Fact == nil {
		return 0, 0, errors.New("end: the lease is gone")
	}
	return begin, end, a.carry(set.Fact)
}

// carry makes the event of a fact the whole prefix: what was in it is archived.
func (a *actor) carry(f *events.Fact) error {
	s, err := a.adopt(f)
	a.prefix = ledger.Prefix{s}
	return err
}

const fsyncsPair = "database: Begin and End"

// effectsPart measures the protocol of destructive calls without a runtime.
func effectsPart(ctx context.Context, b *bench) (err error) {
	s, err := b.site(ctx, interval)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	sys, err := s.open(ctx, interval)
	if err != nil {
		return err
	}
	actors := func(worker string, n int) ([]*actor, error) {
		ts, err := claim(ctx, sys.Store, sys.Redactor, agentName, worker, n, time.Hour)
		if err != nil {
			return nil, err
		}
		as := make([]*actor, n)
		for i, t := range ts {
			first, err := t.story(nil, t.head(destructive, events.Hash{})...)
			if err != nil {
				return nil, err
			}
			as[i] = &actor{teller: t, st: sys.Store, prefix: first}
		}
		return as, nil
	}
	for _, n := range []int{1, 32} {
		as, err := actors(fmt.Sprint("pairs", n), n)
		if err != nil {
			return err
		}
		t, err := b.warm(ctx, n, b.time/2, func(ctx context.Context, w int) error {
			_, _, err := as[w].pair(ctx)
			return err
		})
		if err != nil {
			return err
		}
		f := rate("effects", fmt.Sprintf("Begin + End pairs, %d in flight", n), t, fsyncsPair)
		f = b.report.over(f, rawPairs(n))
		if n > 1 {
			f = f.atLeast(0.5)
			if raw := b.report.find(rawCommits(64)); raw != nil {
				f.Note = fmt.Sprintf("goal ≥ 1 × DBOS steps/s: is %.2f", f.Value/(raw.Value*dbosStepsOf64))
			}
		}
		b.report.add(f)
	}
	as, err := actors("beside", 1)
	if err != nil {
		return err
	}
	if _, err := begins(ctx, b, as[0]); err != nil { // warms up
		return err
	}
	alone, err := begins(ctx, b, as[0])
	if err != nil {
		return err
	}
	name := "Begin alone, 1 in flight"
	b.report.add(b.report.overP50(figure{
		Part: "effects", Name: name, Value: 1000 / alone.at(0.5), Unit: "/s", P50MS: alone.at(0.5), P99MS: alone.at(0.99), Synced: "database: Begin",
	}, rawCommits(1)))
	beside, err := besideProjector(ctx, b, sys.Store, as[0])
	if err != nil {
		return err
	}
	b.report.add(b.report.overP50(figure{
		Part: "effects", Name: "Begin beside projecting batches", Value: 1000 / beside.at(0.5), Unit: "/s", P50MS: beside.at(0.5), P99MS: beside.at(0.99), Synced: "database: Begin",
	}, name).atMost(2))
	return nil
}

// begins takes the time of Begins, one after the other.
func begins(ctx context.Context, b *bench, a *actor) (l spread, err error) {
	for start := time.Now(); time.Since(start) < b.time/4; {
		d, _, err := a.pair(ctx)
		if err != nil {
			return nil, err
		}
		l = append(l, d)
	}
	return l, nil
}

// besideProjector is begins while batches of 500 events are projected one after
// the other, of other runs.
func besideProjector(ctx context.Context, b *bench, st ledger.Store, a *actor) (spread, error) {
	ts, err := claim(ctx, st, a.r, agentName, "projected", 50, time.Hour)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() {
		failed <- func() error {
			for turn := 1; ; turn++ {
				in, err := batchOf(ts, turn, 4)
				if err != nil || ctx.Err() != nil {
					return err
				}
				in[0].Events, in[0].Rejected, in[0].Err = events.ParseMessage(in[0].Message.Data)
				if _, err := st.Project(ctx, in); err != nil && ctx.Err() == nil {
					return err
				}
			}
		}()
	}()
	l, err := begins(ctx, b, a)
	stop()
	return l, errors.Join(err, <-failed)
}

// batchOf is one journal message with one turn of each run.
func batchOf(ts []*teller, turn, calls int) ([]ledger.Incoming, error) {
	var es []events.Sealed
	for _, t := range ts {
		var err error
		if turn == 1 {
			if es, err = t.story(es, t.head(readonly, events.Hash{})...); err != nil {
				return nil, err
			}
		}
		if es, err = t.story(es, turnOf(turn, calls)...); err != nil {
			return nil, err
		}
	}
	m := events.Message{Worker: "bench", Sequence: uint64(turn), Data: events.AppendMessage(nil, es)} //nolint:gosec // positive
	return []ledger.Incoming{{Message: m}}, nil
}
