package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/memory"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/queue"
)

// policies are the models, and so the agents: calls one after the other, several
// in one turn, and one that all runs of the session ask for.
var policies = map[string]string{
	"serial": `model: serial
rules:
  - { name: a, when: { last: user, not_called: [lookup] }, answer: { calls: [{ name: lookup, arguments: { text: a } }] } }
  - { name: b, when: { last: tool, not_called: [opaque] }, answer: { calls: [{ name: opaque, arguments: { text: b } }] } }
  - { name: c, when: { last: tool, not_called: [keyed] }, answer: { calls: [{ name: keyed, arguments: { text: c } }] } }
  - { name: d, when: { last: tool, not_called: [probe] }, answer: { calls: [{ name: probe, arguments: { text: d } }] } }
  - { name: e, when: { last: tool, not_called: [fenced] }, answer: { calls: [{ name: fenced, arguments: { text: e } }] } }
  - { name: end, when: { last: tool }, answer: { calls: [{ name: finish, arguments: { answer: done } }] } }
`,
	"group": `model: group
rules:
  - name: a
    when: { last: user, not_called: [opaque] }
    answer:
      calls:
        - { name: lookup, arguments: { text: a } }
        - { name: opaque, arguments: { text: a } }
        - { name: lookup, arguments: { text: b } }
        - { name: keyed, arguments: { text: b } }
        - { name: probe, arguments: { text: b } }
  - { name: end, when: { last: tool }, answer: { calls: [{ name: finish, arguments: { answer: done } }] } }
`,
	"shared": `model: shared
rules:
  - { name: a, when: { last: user, not_called: [shared] }, answer: { calls: [{ name: shared, arguments: { text: once } }] } }
  - { name: b, when: { last: tool, not_called: [keyed] }, answer: { calls: [{ name: keyed, arguments: { text: c } }] } }
  - { name: end, when: { last: tool }, answer: { calls: [{ name: finish, arguments: { answer: done } }] } }
`,
}

// rates of the faults of one plant.
type rates struct {
	refuse, lose, twice, again, slow                                   float64 // of a call of the database
	journalRefuse, journalLose, journalDrop, journalAgain, journalSlow float64 // of a message
	crash                                                              float64 // of a process, at each step
	cut                                                                float64 // of a process, once
	cancel                                                             float64 // of a run
}

// plant is a whole system, its faults and its judge.
type plant struct {
	t        *testing.T
	seed     uint64
	rates    rates
	store    *sqlstore.Store
	stream   *memory.Stream
	waker    *queue.Local
	red      *redact.Redactor
	vault    *redact.Vault
	provider provider
	agents   []*agents.Agent
	models   map[string]model.Model
	calm     atomic.Bool // the faults are over
	ctx      context.Context
	stop     context.CancelFunc
	wg       sync.WaitGroup

	resolved, resumed int // by the person
	took              time.Duration

	mu        sync.Mutex
	processes []*process
	deaths    int
	faults    map[string]int
	runs      []events.RunID
	cancelled map[events.RunID]bool
	trace     hash.Hash64
	lines     []string
	rested    bool
}

func newPlant(t *testing.T, path string, seed uint64) *plant {
	p := &plant{
		t: t, seed: seed, stream: memory.NewStream(memory.Config{AckWait: 10 * time.Second}), waker: new(queue.Local), red: redact.New(redact.Config{}),
		provider: provider{done: map[string]int{}, fence: map[string]int{}},
		models:   map[string]model.Model{}, faults: map[string]int{}, cancelled: map[events.RunID]bool{}, trace: fnv.New64a(),
	}
	p.vault = redact.NewVault(p.red)
	p.ctx, p.stop = context.WithCancel(context.Background())
	d := p.draw("plant")
	few := func(most float64) float64 { return d.Float64() * most * float64(d.IntN(3)) / 2 } // in a third of all none
	p.rates = rates{
		refuse: few(0.2), lose: few(0.2), twice: few(0.1), again: few(0.1), slow: few(0.2),
		journalRefuse: few(0.3), journalLose: few(0.3), journalDrop: few(0.15), journalAgain: few(0.3), journalSlow: few(0.3),
		crash: few(0.02), cut: few(0.5), cancel: few(0.2),
	}
	skew := between(d, -10*time.Minute, 10*time.Minute) // between the database and everybody else
	var err error
	p.store, err = sqlite.Open(t.Context(), sqlite.Config{
		Path: path, Now: func() time.Time { return time.Now().Add(skew) },
		Store: sqlstore.Config{Redactor: p.red, Grace: grace, IDs: events.NewIDs(nil, reader{d})},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"serial", "group", "shared"} {
		m, err := scripted.Parse(name, []byte(policies[name]))
		if err != nil {
			t.Fatal(err)
		}
		p.models[name] = m
		p.agents = append(p.agents, &agents.Agent{
			Name: name, Model: name, Loop: "singleshot", Prompt: "Do it.", Limits: events.Limits{MaxTurns: 12},
			Tools: []string{"finish", "lookup", "opaque", "shared", "keyed", "fenced", "probe"},
		})
	}
	t.Cleanup(p.end)
	return p
}

// end stops everything, and waits for what is on its way.
func (p *plant) end() {
	p.calm.Store(true)
	p.stop()
	p.mu.Lock()
	ks := append([]*process{}, p.processes...)
	p.mu.Unlock()
	for _, k := range ks {
		k.cancel()
	}
	p.wg.Wait()
	p.travel(3 * toolTimeout) // tools that are deaf
	if err := p.store.Close(); err != nil {
		p.t.Error(err)
	}
}

// Bounds of the two phases, in virtual time.
const (
	faultsFor = 90 * time.Second
	restsIn   = 10 * time.Minute
)

// live is the life of the plant: faults, then rest.
func (p *plant) live() {
	d := p.draw("life")
	p.wg.Go(p.project)
	p.wg.Go(p.brokerFails)
	for range 3 + d.IntN(3) {
		p.startProcess()
	}
	began := time.Now()
	for range 4 + d.IntN(3) {
		p.submit(d)
		p.sleep(between(d, 0, 10*time.Second))
	}
	for time.Since(began) < faultsFor {
		p.sleep(between(d, 2*time.Second, 4*time.Second))
		p.person(d)
	}
	p.calm.Store(true)
	p.stream.SetDown(false)
	p.startProcess()
	began = time.Now()
	for !p.person(d) {
		if p.took = time.Since(began); p.took > restsIn {
			for _, id := range p.runs {
				r, err := p.store.Run(p.ctx, id)
				if err != nil || !r.State.Ended() {
					p.t.Errorf("seed %d: run %s has not come to rest: %+v %v\n%s", p.seed, id, r, err, p.story(id))
				}
			}
			p.t.Fatalf("seed %d: no rest in %s\n%s", p.seed, restsIn, p.tail())
		}
		p.sleep(between(d, 2*time.Second, 4*time.Second))
	}
	p.took = time.Since(began)
	p.mu.Lock()
	p.rested = true
	p.mu.Unlock()
	p.judge()
	if p.t.Failed() {
		p.t.Logf("again: go test ./runtime/simulation -run 'TestSimulation$' -seeds 1 -seed %d\n%s", p.seed, p.tail())
	}
}

func (p *plant) client() *runtime.Client { return runtime.NewClient(p.store, p.red, p.waker) }

func (p *plant) submit(d *rand.Rand) {
	n := len(p.runs)
	agent := []string{"serial", "group", "shared"}[d.IntN(3)]
	r, _, err := p.client().Submit(p.ctx, runtime.Submit{Agent: agent, SessionID: "s", Input: "go", ClientKey: fmt.Sprint("key-", n)})
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.runs = append(p.runs, r.ID)
	p.mu.Unlock()
	if d.Float64() < p.rates.cancel {
		after := between(d, 0, faultsFor)
		p.cancelled[r.ID] = true
		p.wg.Go(func() {
			p.sleep(after)
			if _, err := p.store.Cancel(context.Background(), r.ID, "bob", "enough"); err != nil && !errors.Is(err, ledger.ErrEnded) {
				p.t.Error(err)
			}
		})
	}
}

// project moves the journal into the ledger; while there are faults it is killed
// and started again.
func (p *plant) project() {
	for n := 0; p.ctx.Err() == nil; n++ {
		d := p.draw("projector")
		ctx, cancel := context.WithCancel(p.ctx)
		if !p.calm.Load() {
			ctx, cancel = context.WithTimeout(p.ctx, between(d, 2*time.Second, 40*time.Second))
		}
		_ = ledger.NewProjector(p.store, consumer{p.stream.Consumer(), p}, nil, ledger.ProjectorConfig{
			Wait: 1030 * time.Millisecond, FoldEvery: 2170 * time.Millisecond, Name: fmt.Sprint("p", n),
		}).Run(ctx)
		cancel()
		if !p.calm.Load() {
			p.sleep(between(d, 0, 8*time.Second))
		}
	}
}

// consumer is slow, and its confirmations get lost.
type consumer struct {
	*memory.Consumer
	p *plant
}

func (c consumer) Fetch(ctx context.Context, n int, wait time.Duration) ([]events.Message, error) {
	ms, err := c.Consumer.Fetch(ctx, n, wait)
	c.p.pause(ctx, brief(c.p.draw("fetch")))
	return ms, err
}

func (c consumer) Ack(ctx context.Context, ms ...events.Message) error {
	if d := c.p.draw("ack"); !c.p.calm.Load() && d.IntN(5) == 0 {
		return nil
	}
	return c.Consumer.Ack(ctx, ms...)
}

// brokerFails takes the broker away now and then.
func (p *plant) brokerFails() {
	d := p.draw("broker")
	for d.IntN(3) > 0 && p.sleep(between(d, 0, faultsFor)) && !p.calm.Load() {
		p.count("broker")
		p.stream.SetDown(true)
		p.sleep(between(d, 0, 15*time.Second))
		p.stream.SetDown(false)
	}
}

// person looks after the runs: resolves what is in doubt with the truth, and
// resumes what was held back. It reports whether everything rests.
func (p *plant) person(d *rand.Rand) bool {
	rests := true
	for _, id := range p.runs {
		r, err := p.store.Run(p.ctx, id)
		if err != nil {
			p.t.Fatal(err)
		}
		rests = rests && r.State.Ended()
		if !r.HeldAt.IsZero() && !r.State.Ended() {
			if _, err := p.store.Resume(p.ctx, id, "ann", "looked"); err != nil {
				p.t.Fatal(err)
			}
			p.resumed++
		}
		waits := r.State == ledger.Parked && r.ParkReason == events.ParkInDoubt && r.WakeAt.IsZero()
		if waits && d.IntN(2) == 0 {
			p.resolve(r.ParkKey)
		}
		if !r.State.Ended() || !rests {
			continue
		}
		es, err := p.store.Effects(p.ctx, ledger.EffectFilter{Run: id, States: []events.EffectState{events.EffectInDoubt, events.EffectStarted}})
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range es {
			rests = false
			if e.State == events.EffectInDoubt {
				p.resolve(e.OpKey)
			}
		}
	}
	return rests && p.settled()
}

func (p *plant) resolve(key events.Hash) {
	res := ledger.Resolution{OpKey: key, State: events.EffectNotApplied, By: "ann"}
	if p.provider.count(key.String()) > 0 {
		res.State = events.EffectApplied
	}
	_, err := p.store.Resolve(p.ctx, res)
	switch {
	case err == nil:
		p.resolved++
	case !errors.Is(err, ledger.ErrNotQuiescent) && !errors.Is(err, ledger.ErrNotInDoubt):
		p.t.Fatal(err)
	}
}

// settled reports whether nothing waits to be numbered or folded.
func (p *plant) settled() bool {
	n, err := p.store.FoldBehind(p.ctx, 0, 100)
	if err != nil {
		p.t.Fatal(err)
	}
	pending := false
	_, err = p.store.Verify(p.ctx, events.RunID{}, func(f ledger.Finding) error {
		pending = pending || f.Kind == ledger.Note && strings.Contains(f.Text, "is pending")
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return n == 0 && !pending
}

// count notes a fault.
func (p *plant) count(fault string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fault != "" {
		p.faults[fault]++
	}
}

// index is the number of a run: its id is not the seed's alone.
func (p *plant) index(id events.RunID) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range p.runs {
		if r == id {
			return i
		}
	}
	return -1
}

// note writes a step into the schedule.
func (p *plant) note(who, what, fate string, err error) {
	result := "ok"
	if err != nil {
		result = "refused"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rested {
		return // what is still on its way changes nothing
	}
	line := fmt.Sprintf("%s %s %s %s %s", time.Now().Format("04:05.000000000"), who, what, fate, result)
	p.lines = append(p.lines, line)
	_, _ = p.trace.Write([]byte(line))
}

// tail is the end of the schedule.
func (p *plant) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines[max(0, len(p.lines)-150):], "\n")
}

// draw returns the randomness of what somebody does now. It does not depend on
// what else was drawn, so that one change does not turn everything about.
func (p *plant) draw(what string) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, what, " ", time.Now().UnixNano())
	return rand.New(rand.NewPCG(p.seed, h.Sum64())) //nolint:gosec // a test
}

// reader makes ids of randomness.
type reader struct{ *rand.Rand }

func (r reader) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.IntN(256)) //nolint:gosec // fits
	}
	return len(b), nil
}

// between is a duration from a to b, to the nanosecond.
func between(d *rand.Rand, a, b time.Duration) time.Duration {
	return a + time.Duration(d.Int64N(int64(b-a)))
}

// brief is how long a message travels.
func brief(d *rand.Rand) time.Duration { return between(d, 100*time.Microsecond, 5*time.Millisecond) }

// pick returns one of names at its rate, or "".
func pick(d *rand.Rand, names []string, rates []float64) string {
	x := d.Float64()
	for i, r := range rates {
		if x -= r; x < 0 {
			return names[i]
		}
	}
	return ""
}

// travel waits, whatever happens.
func (p *plant) travel(t time.Duration) { <-time.After(t) }

// pause waits until ctx ends, and reports whether it lasted.
func (p *plant) pause(ctx context.Context, t time.Duration) bool {
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// sleep pauses until the plant ends.
func (p *plant) sleep(t time.Duration) bool { return p.pause(p.ctx, t) }
