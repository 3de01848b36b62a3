package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// provider is the outside world: it counts what really happened, by op key.
type provider struct {
	mu    sync.Mutex
	done  map[string]int
	fence map[string]int // the highest seen
}

func (v *provider) count(key string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.done[key]
}

// pay does what a request asks for, as far as the provider keeps the promise of
// its kind. It reports whether it had been done before.
func (v *provider) pay(kind tools.RecoveryKind, key string, fence int) (before bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before = v.done[key] > 0
	stale := fence < v.fence[key]
	v.fence[key] = max(fence, v.fence[key])
	switch {
	case before && (kind == tools.RecoveryKeyed || kind == tools.RecoveryFenced):
	case stale && kind == tools.RecoveryFenced:
		return false, errors.New("stale fence")
	default:
		v.done[key]++
	}
	return before, nil
}

var errLost = errors.New("connection reset while waiting for the answer")

type text struct {
	Text string `json:"text"`
}

// toolTimeout is longer than a lease.
const toolTimeout = 20 * time.Second

// grace is what the ledger adds to the deadline of an attempt before it takes
// the provider to be done with it.
const grace = 30 * time.Second

// tools of one process.
func (k *process) tools() []tools.Tool {
	lookup, err := tools.New(tools.Definition{Name: "lookup", Description: "Reads.", Effect: tools.Readonly}, func(ctx context.Context, inv *tools.Invocation, in text) (string, error) {
		k.p.pause(ctx, brief(k.p.draw(fmt.Sprint("lookup ", k.p.index(inv.Run), inv.Call))))
		return "found " + in.Text, nil
	})
	ts := []tools.Tool{lookup}
	if err != nil {
		k.p.t.Error(err)
	}
	for _, def := range []tools.Definition{
		{Name: "opaque"},
		{Name: "shared", Scope: tools.ScopeSession},
		{Name: "keyed", Recovery: tools.Keyed(time.Hour)},
		{Name: "fenced", Recovery: tools.Fenced()},
		{Name: "probe", Recovery: tools.Probed()},
	} {
		def.Description, def.Effect, def.Timeout = "Pays.", tools.Destructive, toolTimeout
		kind := def.Recovery.Kind
		tool, err := tools.New(def, func(ctx context.Context, inv *tools.Invocation, _ text) (string, error) {
			return k.pay(ctx, def.Name, kind, inv)
		})
		if err != nil {
			k.p.t.Error(err)
		}
		if kind == tools.RecoveryProbe {
			tool = tools.WithProbe(tool, k.probe)
		}
		ts = append(ts, tool)
	}
	return ts
}

// pay is a request to the provider from a process that may die meanwhile.
func (k *process) pay(ctx context.Context, name string, kind tools.RecoveryKind, inv *tools.Invocation) (string, error) {
	p := k.p
	if k.gone() {
		return "", errLost // it never was a process that sends this
	}
	p.begun(inv)
	d := p.draw(fmt.Sprintf("%s of run %d", name, p.index(inv.Run)))
	ask := func() error {
		before, err := p.provider.pay(kind, inv.OpKey, inv.Fence)
		p.note(k.name, fmt.Sprintf("%s of run %d, attempt %d", name, p.index(inv.Run), inv.Fence), fmt.Sprint(before), err)
		if before && kind == tools.RecoveryFenced {
			return tools.AlreadyApplied("paid")
		}
		return err
	}
	if k.last(d) {
		k.kill()
		if d.IntN(2) == 0 {
			p.travel(brief(d))
			_ = ask()
		}
		return "", errLost
	}
	if p.calm.Load() {
		p.pause(ctx, brief(d))
		return "paid", ask()
	}
	takes := between(d, 0, 2*time.Second)
	if d.IntN(6) == 0 {
		takes = between(d, 0, 2*toolTimeout)
	}
	x := d.IntN(20)
	if x < 6 {
		p.count("tool")
	}
	switch {
	case d.IntN(4) == 0: // deaf to its context, but not for longer than the provider is
		if end, ok := ctx.Deadline(); ok {
			takes = min(takes, time.Until(end)+grace-5*time.Second)
		}
		p.travel(takes)
	case !p.pause(ctx, takes) && d.IntN(2) == 0:
		return "", context.Cause(ctx) // cut off before the request went out
	}
	switch x {
	case 0:
		return "", errLost
	case 1:
		if !inv.Prior {
			return "", tools.NoEffect(errors.New("refused"))
		}
	}
	if err := ask(); err != nil {
		return "", err
	}
	switch x {
	case 2, 3:
		return "", errLost
	case 4:
		panic("after the effect")
	case 5:
		<-ctx.Done()
		return "", context.Cause(ctx)
	}
	return "paid", nil
}

func (k *process) probe(ctx context.Context, inv *tools.Invocation) (tools.ProbeResult, error) {
	d := k.p.draw(fmt.Sprint("probe of run ", k.p.index(inv.Run)))
	k.p.pause(ctx, brief(d))
	switch {
	case !k.p.calm.Load() && d.IntN(4) == 0:
		return tools.ProbeResult{}, errLost
	case k.p.provider.count(inv.OpKey) > 0:
		return tools.ProbeResult{State: tools.ProbeHappened, Result: "paid"}, nil
	}
	return tools.ProbeResult{State: tools.ProbeDidNotHappen}, nil
}

// begun: the ledger knows of the attempt before its tool runs.
func (p *plant) begun(inv *tools.Invocation) {
	var key events.Hash
	if err := key.UnmarshalText([]byte(inv.OpKey)); err != nil {
		p.t.Errorf("op key %q: %v", inv.OpKey, err)
		return
	}
	as, err := p.store.Attempts(context.Background(), key)
	if err != nil || len(as) < inv.Fence {
		p.t.Errorf("attempt %d of %s runs, the ledger has %d: %v", inv.Fence, inv.OpKey, len(as), err)
	}
}
