package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	bus "github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
)

// caller is a model that costs nothing: in each of its turns it asks for some
// calls of one tool, then it says that it is done.
type caller struct {
	tool  string
	turns int
	calls int // of a turn
	asked func()
}

func (m *caller) Call(_ context.Context, r model.Request) (model.Response, error) {
	if m.asked != nil {
		m.asked()
	}
	turn := (len(r.Messages)-1)/2 + 1 // the input, then an answer and its results a turn
	if turn > m.turns {
		return model.Response{Text: "done", StopReason: "end_turn", Usage: events.Usage{Input: 1, Output: 1}}, nil
	}
	cs := make([]events.ToolCall, m.calls)
	for i := range cs {
		cs[i] = events.ToolCall{Name: m.tool, Arguments: json.RawMessage(fmt.Sprintf(`{"n":%d}`, turn*1000+i))}
	}
	return model.Response{Calls: cs, StopReason: "tool_use", Usage: events.Usage{Input: 1, Output: 1}}, nil
}

// clock counts calls and takes the time from one call of a run to its next; of
// a turn of several calls only the first counts.
type clock struct {
	calls  atomic.Int64
	before int64 // calls until then
	mu     sync.Mutex
	first  time.Time
	last   map[events.RunID]time.Time
	took   spread
}

func (c *clock) tick(in *tools.Invocation) {
	c.calls.Add(1)
	if in.Call.Index != 0 {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil {
		c.last, c.first = map[events.RunID]time.Time{}, now
	}
	if t, ok := c.last[in.Run]; ok && c.before > 0 {
		c.took = append(c.took, now.Sub(t))
	}
	c.last[in.Run] = now
}

func (c *clock) began() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.first
}

// start begins the measurement: what came before warmed up.
func (c *clock) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.first, c.before = time.Now(), c.calls.Load()
}

// Tools of the benchmark; both do nothing.
const (
	readonly    = "look"
	destructive = "move"
)

func (c *clock) registry() (*tools.Registry, error) {
	type args struct {
		N int `json:"n"`
	}
	do := func(_ context.Context, in *tools.Invocation, _ args) (string, error) {
		c.tick(in)
		return "ok", nil
	}
	var ts []tools.Tool
	for name, effect := range map[string]tools.Effect{readonly: tools.Readonly, destructive: tools.Destructive} {
		t, err := tools.New(tools.Definition{Name: name, Description: "Does nothing.", Effect: effect, Trust: tools.Own}, do)
		if err != nil {
			return nil, err
		}
		ts = append(ts, t)
	}
	return tools.NewRegistry(ts...)
}

// work is what one measurement puts through the runtime.
type work struct {
	tool     string
	turns    int
	calls    int // of a turn
	inFlight int // runs at once
	runs     int // queued beforehand
	project  bool
	noFeed   bool // the projector runs without the feed
	every    time.Duration
	limit    time.Duration // after the first call
}

// done is what came of it.
type done struct {
	calls   int
	took    time.Duration // from the first call on
	cpu     time.Duration // with what the projector did afterwards, without submitting
	latency spread        // of a turn, where calls is over 1
	// pending is what the projector had before it, in journal messages, after
	// one, two and three thirds of the time.
	pending [3]uint64
	// drained is how long it took the projector to come to the end.
	drained time.Duration
	ended   int64 // runs
}

const agentName = "caller"

func agentOf(tool string, turns int) *agents.Agent {
	return &agents.Agent{
		Name: agentName, Model: "none", Loop: singleshot.Name, Tools: []string{tool}, Prompt: "Do nothing.",
		Limits: events.Limits{MaxTurns: turns + 1},
	}
}

func submit(ctx context.Context, sys *system.System, agent, prefix string, n int) error {
	c := sys.Client()
	var next atomic.Int64
	errs := make([]error, 16)
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n) && errs[w] == nil; i = next.Add(1) {
				_, _, errs[w] = c.Submit(ctx, runtime.Submit{Agent: agent, Input: i, ClientKey: fmt.Sprint(prefix, i)})
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// drive queues runs, works on them and measures from the first call on.
func (b *bench) drive(ctx context.Context, w work) (d done, err error) {
	s, err := b.site(ctx, w.every)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	sys, err := s.open(ctx, w.every)
	if err != nil {
		return d, err
	}
	js, err := s.jetstream()
	if err != nil {
		return d, err
	}
	consumer, err := js.Consumer(ctx, bus.JournalStream, bus.Projector)
	if err != nil {
		return d, err
	}
	c := &clock{}
	reg, err := c.registry()
	if err != nil {
		return d, err
	}
	if err := submit(ctx, sys, agentName, "run", w.runs); err != nil {
		return d, err
	}
	stopProjector := func() {}
	if w.project {
		if stopProjector, err = background(ctx, sys, !w.noFeed); err != nil {
			return d, err
		}
	}
	defer stopProjector()
	wctx, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	go func() {
		worked <- sys.Work(wctx, runtime.Config{
			Agents: []*agents.Agent{agentOf(w.tool, w.turns)}, Tools: reg, Concurrency: w.inFlight,
			Models: map[string]model.Model{"none": &caller{tool: w.tool, turns: w.turns, calls: w.calls}},
		}, false)
	}()
	if err := c.warmUp(ctx, w, worked); err != nil {
		return d, err
	}
	cpu := b.cpu.used()
	c.start()
	if err := c.watch(ctx, w, &d, worked, consumer); err != nil {
		return d, err
	}
	stop()
	if err := <-worked; err != nil {
		return d, err
	}
	c.mu.Lock()
	d.latency = c.took
	c.mu.Unlock()
	if w.project {
		t := time.Now()
		if err := drain(ctx, consumer); err != nil {
			return d, err
		}
		d.drained = time.Since(t)
	}
	d.cpu = b.cpu.used() - cpu
	d.ended, err = ended(ctx, s)
	return d, err
}

// warmUp waits for a quarter of the measurement's time, or of its calls: until
// then connections are made and statements prepared.
func (c *clock) warmUp(ctx context.Context, w work, worked <-chan error) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-worked:
			return errors.Join(errors.New("the worker ended early"), err)
		case <-tick.C:
		}
		first := c.began()
		if !first.IsZero() && (time.Since(first) >= w.limit/4 || c.calls.Load() >= int64(w.runs*w.turns*w.calls)/4) {
			return nil
		}
	}
}

// watch waits for the end of the measurement and looks at the projector meanwhile.
func (c *clock) watch(ctx context.Context, w work, d *done, worked <-chan error, consumer jetstream.Consumer) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	want := int64(w.runs * w.turns * w.calls)
	looked := 0
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-worked:
			return errors.Join(errors.New("the worker ended early"), err)
		case <-tick.C:
		}
		first := c.began()
		if first.IsZero() {
			continue
		}
		over := time.Since(first) >= w.limit || c.calls.Load() >= want
		if over {
			d.calls, d.took = int(c.calls.Load()-c.before), time.Since(first)
		}
		if w.project && (over || looked < 2 && time.Since(first) >= w.limit*time.Duration(looked+1)/3) {
			n, err := pending(ctx, consumer)
			if err != nil {
				return err
			}
			for ; looked < 3; looked++ {
				d.pending[looked] = n
				if !over {
					looked++
					break
				}
			}
		}
		if over {
			return nil
		}
	}
}

// pending is how many journal messages are not in the ledger yet.
func pending(ctx context.Context, c jetstream.Consumer) (uint64, error) {
	i, err := c.Info(ctx)
	if err != nil {
		return 0, err
	}
	return i.NumPending + uint64(i.NumAckPending), nil //nolint:gosec // a count
}

func drain(ctx context.Context, c jetstream.Consumer) error {
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		n, err := pending(ctx, c)
		if err != nil || n == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the projector did not come to the end: %d messages left", n)
		}
	}
}

// background runs a projector until the function is called.
func background(ctx context.Context, sys *system.System, feed bool) (stop func(), err error) {
	p, err := sys.Projector()
	if err != nil {
		return nil, err
	}
	if !feed {
		p = ledger.NewProjector(sys.Store, sys.Bus.Consumer(), nil, ledger.ProjectorConfig{})
	}
	pctx, cancel := context.WithCancel(ctx)
	ran := make(chan error, 1)
	go func() { ran <- p.Run(pctx) }()
	var once sync.Once
	return func() { once.Do(func() { cancel(); <-ran }) }, nil
}

// ended counts the runs that have finished.
func ended(ctx context.Context, s *site) (n int64, err error) {
	if s.look == nil {
		if s.look, err = s.pool(ctx, 1); err != nil {
			return 0, err
		}
	}
	err = s.look.QueryRow(ctx, `SELECT count(*) FROM runs WHERE state = $1`, string(ledger.Finished)).Scan(&n)
	return n, err
}
