package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// Size of the chaos: each seed is a queue with three runs, a worker that is cut
// off in the middle, and one that is only treated badly.
const (
	chaosWorlds   = 4
	chaosSeeds    = 10 // in each world
	chaosSeedsAll = 50 // with DAYBOOK_E2E_ALL
)

// chaosTTL makes leases lapse under workers that live. Where the machine is so
// busy that they do nothing else, an operator gives longer ones: after
// chaosLapses leases of one run.
const (
	chaosTTL     = 400 * time.Millisecond
	chaosLongTTL = 5 * time.Second
	chaosLapses  = 15
)

// chaosPolicy makes a call of each kind of recovery, one after the other.
const chaosPolicy = `model: test
rules:
  - name: opaque
    when: { last: user, not_called: [opaque] }
    answer: { calls: [{ name: opaque, arguments: { text: a } }] }
  - name: keyed
    when: { last: tool, not_called: [keyed] }
    answer: { calls: [{ name: keyed, arguments: { text: b } }] }
  - name: probe
    when: { last: tool, not_called: [probe] }
    answer: { calls: [{ name: probe, arguments: { text: c } }] }
  - name: end
    when: { last: tool }
    answer: { calls: [{ name: finish, arguments: { answer: done } }] }
`

// TestChaosOfTheLedger: workers whose database refuses, loses answers, hears
// everything twice and goes away for good, over tools that fail in every way
// there is. Nothing takes effect twice, nothing is told that did not happen, no
// run is lost, and every record proves itself.
func TestChaosOfTheLedger(t *testing.T) {
	seeds := chaosSeeds
	if os.Getenv("DAYBOOK_E2E_ALL") != "" {
		seeds = chaosSeedsAll
	}
	for n := range chaosWorlds {
		t.Run(fmt.Sprint("world ", n), func(t *testing.T) {
			t.Parallel()
			c := newChaos(t)
			for i := range seeds {
				c.seed(uint64(n*chaosSeedsAll + i)) //nolint:gosec // small
			}
			c.judge()
		})
	}
}

// chaos is a world of seeds and the provider that they share.
type chaos struct {
	*world
	provider
	runs  []events.RunID
	fault map[string]int
	held  int // times that a run was held back and resumed
	// raised counts the seeds whose leases were made longer.
	raised int

	rmu sync.Mutex
	rng *rand.Rand
}

func newChaos(t *testing.T) *chaos {
	m, err := scripted.Parse("chaos.yaml", []byte(chaosPolicy))
	if err != nil {
		t.Fatal(err)
	}
	c := &chaos{fault: map[string]int{}}
	c.world = worldWith(t, filepath.Join(t.TempDir(), "ledger.db"), 0, m, c.tool("opaque", tools.Recovery{}), c.tool("keyed", tools.Keyed(time.Hour)), c.tool("probe", tools.Probed()))
	return c
}

func (c *chaos) intN(n int) int {
	c.rmu.Lock()
	defer c.rmu.Unlock()
	return c.rng.IntN(n)
}

// tool fails before, after and instead of its effect.
func (c *chaos) tool(name string, r tools.Recovery) tools.Tool {
	def := tools.Definition{Name: name, Description: "Pays.", Effect: tools.Destructive, Recovery: r, Timeout: 2 * time.Second}
	tool := must(tools.New(def, func(ctx context.Context, inv *tools.Invocation, _ text) (string, error) {
		c.begun(inv)
		x := c.intN(20)
		switch {
		case x == 0:
			return "", errLost
		case x == 1 && !inv.Prior:
			return "", tools.NoEffect(errors.New("refused"))
		}
		if name != "keyed" || c.count(inv.OpKey) == 0 {
			c.apply(inv.OpKey)
		}
		switch x {
		case 2:
			return "", errLost
		case 3:
			panic("after the effect")
		}
		return "paid", nil
	}))
	if r.Kind != tools.RecoveryProbe {
		return tool
	}
	return tools.WithProbe(tool, func(_ context.Context, inv *tools.Invocation) (tools.ProbeResult, error) {
		switch {
		case c.intN(4) == 0:
			return tools.ProbeResult{}, errLost
		case c.count(inv.OpKey) > 0:
			return tools.ProbeResult{State: tools.ProbeHappened, Result: "paid"}, nil
		}
		return tools.ProbeResult{State: tools.ProbeDidNotHappen}, nil
	})
}

// begun: the ledger knows of the attempt before its tool runs.
func (c *chaos) begun(inv *tools.Invocation) {
	var key events.Hash
	if err := key.UnmarshalText([]byte(inv.OpKey)); err != nil {
		c.t.Errorf("op key %q: %v", inv.OpKey, err)
		return
	}
	as, err := c.store.Attempts(context.Background(), key)
	if err != nil || len(as) < inv.Fence {
		c.t.Errorf("attempt %d of %s runs, the ledger has %d: %v", inv.Fence, inv.OpKey, len(as), err)
	}
}

// seed runs one queue to its rest.
func (c *chaos) seed(seed uint64) {
	c.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	c.rmu.Lock()
	c.rng = rand.New(rand.NewPCG(seed, 8))
	c.rmu.Unlock()
	queue := fmt.Sprint("q", seed)
	rates := ledgertest.Rates{
		Refuse: rng.Float64() * 0.15, Lose: rng.Float64() * 0.15, Twice: rng.Float64() * 0.1, Delay: rng.Float64() * 0.2, MaxDelay: 10 * time.Millisecond,
	}
	doomed, sick := ledgertest.NewFaulty(c.store, seed, rates), ledgertest.NewFaulty(c.store, seed+1<<32, rates)
	configure := func(gone <-chan struct{}, ttl time.Duration) func(*runtime.Config) {
		return func(cfg *runtime.Config) {
			cfg.Queues, cfg.LeaseTTL, cfg.ShutdownGrace = []string{queue}, ttl, time.Second
			cfg.Journal = cutJournal{cfg.Journal, gone}
		}
	}
	c.cfg = configure(doomed.Gone(), chaosTTL)
	first := c.startOn(doomed)
	doomed.CutAfter(5+rng.IntN(60), first.cancel)
	var ids []events.RunID
	for i := range 3 {
		r, _, err := c.client().Submit(c.t.Context(), runtime.Submit{Queue: queue, Agent: "tester", Input: "go", ClientKey: fmt.Sprint(queue, "-", i)})
		if err != nil {
			c.t.Fatal(err)
		}
		ids = append(ids, r.ID)
	}
	c.cfg = configure(sick.Gone(), chaosTTL)
	second := c.startOn(sick)
	raise := sync.OnceFunc(func() {
		c.raised++
		first.cancel()
		second.stop(c.t)
		c.cfg = configure(sick.Gone(), chaosLongTTL)
		second = c.startOn(sick)
	})
	for _, id := range ids {
		c.toRest(seed, id, raise)
	}
	first.cancel()
	second.stop(c.t)
	for _, f := range []*ledgertest.Faulty{doomed, sick} {
		for k, n := range f.Faults() {
			c.fault[k] += n
		}
	}
	c.runs = append(c.runs, ids...)
}

// toRest waits for the end of a run, as long as it gets on: a busy machine makes
// it slow, and only a run that stands still is lost.
func (c *chaos) toRest(seed uint64, id events.RunID, raise func()) {
	c.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	best, since, looked := 0, time.Now(), time.Now()
	for !c.rests(id) {
		<-tick.C
		if time.Since(looked) < time.Second {
			continue
		}
		looked = time.Now()
		if r, err := c.store.Run(context.Background(), id); err == nil && r.Epoch > chaosLapses {
			raise()
		}
		if n := c.outcomes(id); n > best {
			best, since = n, looked
		}
		if time.Since(since) < patience {
			continue
		}
		var stacks strings.Builder
		_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
		r, err := c.store.Run(context.Background(), id)
		c.t.Fatalf("seed %d: run %s stands still after %d outcomes: %+v %v\n%s\n%s", seed, id, best, r, err, c.story(id), stacks.String())
	}
}

// outcomes counts the events of a run that bring it forward, which those that
// every new holder records do not.
func (c *chaos) outcomes(id events.RunID) (n int) {
	for _, typ := range c.types(id) {
		if typ != "run_resumed" && !strings.HasSuffix(typ, "_started") {
			n++
		}
	}
	return n
}

// rests: ended, or waiting for a person, whose part the test plays with the
// truth. A run that was held back, since its leases lapsed again and again, is
// resumed.
func (c *chaos) rests(id events.RunID) bool {
	r, err := c.store.Run(context.Background(), id)
	if err != nil {
		c.t.Fatal(err)
	}
	if !r.HeldAt.IsZero() && !r.State.Ended() {
		if r.HeldBy != "daybook" {
			c.t.Fatalf("run %s is held back by %s", id, r.HeldBy)
		}
		if _, err := c.store.Resume(context.Background(), id, "ann", "its workers live"); err != nil && !errors.Is(err, ledger.ErrNotPaused) && !errors.Is(err, ledger.ErrEnded) {
			c.t.Fatal(err)
		}
		c.held++
	}
	if r.State == ledger.Parked && r.ParkReason == events.ParkInDoubt && r.WakeAt.IsZero() {
		res := ledger.Resolution{OpKey: r.ParkKey, State: events.EffectNotApplied, By: "ann"}
		if c.count(r.ParkKey.String()) > 0 {
			res.State = events.EffectApplied
		}
		_, err := c.store.Resolve(context.Background(), res)
		if err != nil && !errors.Is(err, ledger.ErrNotQuiescent) && !errors.Is(err, ledger.ErrNotInDoubt) {
			c.t.Fatal(err)
		}
	}
	return r.State.Ended()
}

// judge compares what the ledger says with what happened.
func (c *chaos) judge() {
	c.t.Helper()
	for _, id := range c.runs {
		r, err := c.store.Run(context.Background(), id)
		if err != nil || r.State != ledger.Finished {
			c.t.Errorf("run %s is %s %s, %v\n%s", id, r.State, r.Error, err, c.story(id))
		}
		es, err := c.store.Effects(context.Background(), ledger.EffectFilter{Run: id})
		if err != nil {
			c.t.Fatal(err)
		}
		for _, e := range es {
			switch n := c.count(e.OpKey.String()); {
			case n > 1:
				c.t.Errorf("run %s: %s took effect %d times\n%s", id, e.Tool, n, c.story(id))
			case e.State == events.EffectApplied && n == 0, e.State == events.EffectNotApplied && n > 0:
				c.t.Errorf("run %s: %s is %s, it took effect %d times\n%s", id, e.Tool, e.State, n, c.story(id))
			case e.State != events.EffectApplied && e.State != events.EffectNotApplied:
				c.t.Errorf("run %s has ended, and %s is %s", id, e.Tool, e.State)
			case e.PossibleDuplicate || e.Contradicted:
				c.t.Errorf("run %s: %s: possible duplicate %v, contradicted %v: nobody lied", id, e.Tool, e.PossibleDuplicate, e.Contradicted)
			}
		}
	}
	c.t.Logf("%d runs, held back and resumed %d times, longer leases for %d seeds, faults %v", len(c.runs), c.held, c.raised, c.fault)
	c.whole()
	for _, k := range []string{"refuse", "lose", "twice", "delay"} {
		if c.fault[k] < len(c.runs)/6 {
			c.t.Errorf("void: %d faults of kind %s", c.fault[k], k)
		}
	}
}

// cutJournal is a journal whose worker is dead.
type cutJournal struct {
	events.Journal
	dead <-chan struct{}
}

func (j cutJournal) gone() bool {
	select {
	case <-j.dead:
		return true
	default:
		return false
	}
}

func (j cutJournal) Record(ctx context.Context, es ...events.Sealed) error {
	if j.gone() {
		return events.ErrJournalClosed
	}
	return j.Journal.Record(ctx, es...)
}

func (j cutJournal) Append(ctx context.Context, es ...events.Sealed) (events.Receipt, error) {
	if j.gone() {
		return nil, events.ErrJournalClosed
	}
	return j.Journal.Append(ctx, es...)
}
