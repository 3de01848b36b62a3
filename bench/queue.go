package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
)

// queuePart measures runs that do nothing, and one that has done much.
func queuePart(ctx context.Context, b *bench) (err error) {
	s, err := b.site(ctx, always)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	sys, err := s.open(ctx, always)
	if err != nil {
		return err
	}
	stop, err := background(ctx, sys, true)
	if err != nil {
		return err
	}
	defer stop()
	if err := enqueueToStart(ctx, b, sys); err != nil {
		return err
	}
	if err := noopRuns(ctx, b, s, sys); err != nil {
		return err
	}
	return resume(ctx, b, sys)
}

// worker works until stop is called, which says how it ended.
func worker(ctx context.Context, sys *system.System, a *agents.Agent, m model.Model, reg *tools.Registry, inFlight int) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() {
		worked <- sys.Work(ctx, runtime.Config{Agents: []*agents.Agent{a}, Tools: reg, Concurrency: inFlight, Models: map[string]model.Model{"none": m}}, false)
	}()
	return func() error { cancel(); return <-worked }
}

func named(name string) *agents.Agent {
	a := agentOf(readonly, 100_000)
	a.Name = name
	return a
}

// enqueueToStart submits runs to an idle worker one after the other and waits
// until the run's first model call arrives.
func enqueueToStart(ctx context.Context, b *bench, sys *system.System) error {
	c := &clock{}
	reg, err := c.registry()
	if err != nil {
		return err
	}
	asked := make(chan time.Time, 1)
	stop := worker(ctx, sys, named("idle"), &caller{asked: func() { asked <- time.Now() }}, reg, 4)
	client := sys.Client()
	client.Poll = time.Millisecond
	var l spread
	for i, start := 0, time.Now(); i < 20 || time.Since(start) < b.time/2; i++ {
		r, _, err := client.Submit(ctx, runtime.Submit{Agent: "idle", Input: i, ClientKey: fmt.Sprint("idle", i)})
		if err != nil {
			return err
		}
		committed := time.Now()
		at := <-asked
		if i >= 5 { // the first ones warm up
			l = append(l, max(at.Sub(committed), 0))
		}
		if _, err := client.Wait(ctx, r.ID, false); err != nil {
			return err
		}
	}
	f := figure{
		Part: "queue", Name: "enqueue to start, idle worker", Value: 1000 / l.at(0.5), Unit: "/s", P50MS: l.at(0.5), P99MS: l.at(0.99),
		Synced: "database: submit and claim; journal: every ack", Note: "from the answer to Submit to the first model call, whose start is in the journal by then",
	}
	f = b.report.overP50(f, rawCommits(1))
	b.report.add(f.goal("p50 ≤ 5 ms", f.P50MS <= 5))
	return stop()
}

// noopRuns works off a queue of runs that end with their first answer.
func noopRuns(ctx context.Context, b *bench, s *site, sys *system.System) error {
	reg, err := (&clock{}).registry()
	if err != nil {
		return err
	}
	before, err := ended(ctx, s)
	if err != nil {
		return err
	}
	n := max(int(250*b.time.Seconds()), 100)
	if err := submit(ctx, sys, "noop", "noop", n); err != nil {
		return err
	}
	start, cpu := time.Now(), b.cpu.used()
	stop := worker(ctx, sys, named("noop"), &caller{}, reg, 64)
	for now := before; now < before+int64(n); time.Sleep(5 * time.Millisecond) {
		if now, err = ended(ctx, s); err != nil {
			return err
		}
	}
	took := time.Since(start)
	f := rate("queue", "no-op runs, 64 in flight", taken{n: n, wall: took, cpu: b.cpu.used() - cpu}, "database: claim and finish; journal: every ack")
	f = b.report.over(f, rawCommits(64))
	b.report.add(f)
	return stop()
}

// resume takes over a run of 1,000 steps whose worker has died, until its next
// model call.
func resume(ctx context.Context, b *bench, sys *system.System) error {
	const turns, repeats = 1000, 3
	reg, err := (&clock{}).registry()
	if err != nil {
		return err
	}
	length := 0
	for i := range repeats {
		if length, err = leave(ctx, sys, fmt.Sprint("dead", i), turns); err != nil {
			return err
		}
	}
	time.Sleep(lapse)
	var l spread
	for i := range repeats {
		asked := make(chan time.Time, 1)
		start := time.Now()
		stop := worker(ctx, sys, named(fmt.Sprint("dead", i)), &caller{asked: func() { asked <- time.Now() }}, reg, 1)
		l = append(l, (<-asked).Sub(start))
		if err := stop(); err != nil {
			return err
		}
	}
	f := figure{
		Part: "queue", Name: "resume of a run with 1,000 steps", Value: float64(length) / l.at(0.5) * 1000, Unit: "events/s", P50MS: l.at(0.5), P99MS: l.at(1),
		Synced: "database: claim and base; journal: every ack", Note: fmt.Sprintf("takeover of %d events, from the start of a worker to the run's next model call; median and worst of %d", length, repeats),
	}
	// 700 ms for 1,000 steps, on a machine whose commit takes 0.46 ms.
	if raw := b.report.find(rawCommits(1)); raw != nil {
		got := f.P50MS / (raw.P50MS * 700 / 0.46)
		f = f.goal(fmt.Sprintf("≤ 0.15 × DBOS; is %.2f", got), got <= 0.15)
	}
	b.report.add(f)
	return nil
}

// lapse is how long the lease of a worker lasts that is left to die.
const lapse = 3 * time.Second

// leave is a worker that archives a long run and dies.
func leave(ctx context.Context, sys *system.System, agent string, turns int) (int, error) {
	prompt, err := sys.Store.PutBlob(ctx, "default", "text/markdown", []byte("Do nothing."))
	if err != nil {
		return 0, err
	}
	ts, err := claim(ctx, sys.Store, sys.Redactor, agent, "gone-"+agent, 1, lapse)
	if err != nil {
		return 0, err
	}
	t := ts[0]
	es, err := t.story(nil, t.head(readonly, prompt)...)
	for turn := 1; turn <= turns && err == nil; turn++ {
		if es, err = t.story(es, turnOf(turn, 1)...); err == nil && (len(es) >= 500 || turn == turns) {
			if _, err = sys.Store.Heartbeat(ctx, t.lease.Worker, []ledger.Lease{t.lease}); err == nil {
				_, err = sys.Store.Flush(ctx, t.lease, es)
			}
			es = nil
		}
	}
	return int(t.seq), err //nolint:gosec // small
}
