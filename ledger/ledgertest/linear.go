package ledgertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Size of the test: 8 clients ask of each of many effects in turn.
const (
	linearClients = 8
	linearCells   = 90
	linearOps     = 8 // of a client on one cell: 5,760 operations or more
)

// Kinds of operations on a cell.
const (
	opBegin   = "begin"
	opAgain   = "again" // the same token
	opEnd     = "end"
	opResolve = "resolve"
	opLapse   = "lapse" // the lease of a run runs out
	opClaim   = "claim"
)

// linearIn is what a client asks; cell is the partition.
type linearIn struct {
	cell, run int // run 0 or 1 of the two that want the same effect
	op        string
	epoch     uint64
	in        ledger.Intent
	kind      ledger.OutcomeKind
	state     events.EffectState
	recovery  string
}

// linearOut is what it is told: a verdict, a state, an epoch or an error in one word.
type linearOut struct {
	verdict ledger.VerdictKind
	state   events.EffectState
	epoch   uint64
	err     string
}

// cellState is one effect and its two runs as the design tells it.
type cellState struct {
	eff   modelEffect
	epoch [2]uint64
	alive [2]bool
}

func (s cellState) clone() cellState {
	s.eff.attempts = slices.Clone(s.eff.attempts)
	return s
}

// runID names a run of a cell inside the model.
func (in linearIn) runID() events.RunID { return events.RunID{byte(in.run + 1)} }

func (in linearIn) lease() ledger.Lease { return ledger.Lease{RunID: in.runID(), Epoch: in.epoch} }

// step says whether out is what a ledger without any concurrency would answer.
func (s cellState) step(in linearIn, out linearOut) (bool, cellState) {
	s = s.clone()
	s.eff.kind = in.recovery
	fenced := in.epoch != s.epoch[in.run] || !s.alive[in.run]
	switch in.op {
	case opLapse:
		s.alive[in.run] = false
		return true, s
	case opClaim:
		if out.epoch == 0 {
			return true, s // held, or locked by somebody just then
		}
		if s.alive[in.run] || out.epoch != s.epoch[in.run]+1 {
			return false, s
		}
		s.alive[in.run], s.epoch[in.run] = true, out.epoch
		s.eff.claimed(in.runID(), out.epoch)
		return true, s
	case opEnd:
		if s.eff.find(in.in.Token) == nil {
			return false, s
		}
		s.eff.end(in.in.Token, in.kind)
		return out.state == s.eff.state, s
	case opResolve:
		switch {
		case out.err == "moved":
		case s.eff.state != events.EffectInDoubt:
			return out.err == "not in doubt", s
		case out.err != "":
			return false, s
		default:
			s.eff.resolved(in.state)
		}
		return true, s
	}
	if fenced || out.err == "fenced" {
		return fenced && out.err == "fenced", s
	}
	if in.op == opBegin {
		return out.err == "" && out.verdict == s.eff.begin(in.lease(), in.in, 0), s
	}
	if s.eff.find(in.in.Token) == nil {
		return false, s
	}
	want := s.eff.again(in.lease(), in.in)
	return out.verdict == want && (want != 0) == (out.err == ""), s
}

func linearModel(kinds []string) porcupine.Model {
	return porcupine.Model{
		Partition: func(h []porcupine.Operation) [][]porcupine.Operation {
			parts := make([][]porcupine.Operation, len(kinds))
			for _, o := range h {
				cell := o.Input.(linearIn).cell
				parts[cell] = append(parts[cell], o)
			}
			return slices.DeleteFunc(parts, func(p []porcupine.Operation) bool { return len(p) == 0 })
		},
		Init: func() any { return cellState{epoch: [2]uint64{1, 1}, alive: [2]bool{true, true}} },
		Step: func(state, in, out any) (bool, any) { return state.(cellState).step(in.(linearIn), out.(linearOut)) },
		Equal: func(a, b any) bool {
			return reflect.DeepEqual(a, b)
		},
		DescribeOperation: func(in, out any) string {
			i, o := in.(linearIn), out.(linearOut)
			return fmt.Sprintf("%s run %d epoch %d token %.8s %s%s -> %s %s %d %s",
				i.op, i.run, i.epoch, i.in.Token, i.kind, i.state, verdictName(o.verdict), o.state, o.epoch, o.err)
		},
	}
}

// linearCell is one effect that two runs want.
type linearCell struct {
	n        int
	recovery string
	runs     [2]ledger.Run

	mu     sync.Mutex
	epochs [2]uint64
	begun  []linearIn // that were told to execute
	key    events.Hash
}

// linearRun is the recording of all clients.
type linearRun struct {
	t     *testing.T
	h     Harness
	began time.Time
	cells []*linearCell

	mu      sync.Mutex
	history []porcupine.Operation
	said    map[string]int
}

// testLinear drives begin, end, resolve, lapses and takeovers of the same
// effects from eight clients at once, and asks porcupine whether every answer
// fits some order in which the operations happened one at a time, within the
// times at which they were asked and answered. The model is that of the property
// test: a second execute, a verdict from a second look or a lost outcome has none.
func testLinear(t *testing.T, h Harness) {
	l := &linearRun{t: t, h: h, began: time.Now(), said: map[string]int{}}
	kinds := make([]string, linearCells)
	for i := range linearCells {
		kinds[i] = []string{ledger.RecoveryNone, ledger.RecoveryFenced}[i%2]
		c := &linearCell{n: i, recovery: kinds[i], epochs: [2]uint64{1, 1}}
		for r := range c.runs {
			a := start(t, h, ofTenant("linear"), inSession(fmt.Sprintf("cell-%d", i)))
			c.runs[r] = a.run
			// No lease runs out by itself.
			h.sql(t, `UPDATE runs SET lease_until = $2 WHERE id = $1`, a.run.ID, time.Now().Add(1000*time.Hour))
		}
		l.cells = append(l.cells, c)
	}
	var wg sync.WaitGroup
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // any number
	t.Logf("seed %d", seed)
	for client := range linearClients {
		rng := rand.New(rand.NewPCG(seed, uint64(client))) //nolint:gosec // small
		wg.Go(func() {
			for _, c := range l.cells {
				for range linearOps {
					l.act(client, c, rng)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	m := linearModel(kinds)
	if res := porcupine.CheckOperationsTimeout(m, l.history, 2*time.Minute); res != porcupine.Ok {
		t.Errorf("%d operations: %s\n%s", len(l.history), res, l.firstBad(m))
	}
	t.Logf("%d operations: %v", len(l.history), l.said)
	for _, want := range []string{"execute", "replay", "in doubt", "busy", "fenced"} {
		if l.said[want] == 0 {
			t.Errorf("void: nobody was ever told %s", want)
		}
	}
	l.mutate(m)
}

// firstBad tells the operations of the first partition that has no order.
func (l *linearRun) firstBad(m porcupine.Model) string {
	for _, p := range m.Partition(l.history) {
		if porcupine.CheckOperations(linearModel(make([]string, linearCells)), p) {
			continue
		}
		slices.SortFunc(p, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
		var b strings.Builder
		for _, o := range p {
			fmt.Fprintf(&b, "client %d %9d to %9d: %s\n", o.ClientId, o.Call/1000, o.Return/1000, m.DescribeOperation(o.Input, o.Output))
		}
		return b.String()
	}
	return ""
}

// mutate changes one answer of a history that is in order: the checker must
// refuse it, or it would accept everything.
func (l *linearRun) mutate(m porcupine.Model) {
	parts := m.Partition(l.history)
	for _, mut := range []struct {
		name string
		do   func(in linearIn, out *linearOut) bool
	}{
		{"a second execute", func(in linearIn, out *linearOut) bool {
			hit := in.op == opBegin && (out.verdict == ledger.Busy || out.verdict == ledger.Replay)
			out.verdict = ledger.Execute
			return hit
		}},
		{"a zombie that begins", func(in linearIn, out *linearOut) bool {
			hit := in.op == opBegin && out.err == "fenced"
			out.err, out.verdict = "", ledger.Execute
			return hit
		}},
		{"an outcome that is lost", func(in linearIn, out *linearOut) bool {
			hit := in.op == opEnd && in.kind == ledger.Applied && out.state == events.EffectApplied
			out.state = events.EffectInDoubt
			return hit
		}},
		{"an epoch given twice", func(in linearIn, out *linearOut) bool {
			hit := in.op == opClaim && out.epoch > 1
			out.epoch--
			return hit
		}},
	} {
		tried, refused := 0, 0
		for _, p := range parts {
			for i, o := range p {
				out := o.Output.(linearOut)
				if !mut.do(o.Input.(linearIn), &out) {
					continue
				}
				q := slices.Clone(p)
				q[i].Output = out
				tried++
				if porcupine.CheckOperationsTimeout(linearModel(make([]string, linearCells)), q, 10*time.Second) == porcupine.Illegal {
					refused++
				}
				break // one of a cell
			}
		}
		if tried == 0 || refused < tried*9/10 { // a few may still have an order
			l.t.Errorf("%s: %d of %d mutated histories were refused", mut.name, refused, tried)
		}
	}
}

// do makes one operation and writes it down.
func (l *linearRun) do(client int, in linearIn, f func() linearOut) linearOut {
	called := time.Since(l.began).Nanoseconds()
	out := f()
	returned := time.Since(l.began).Nanoseconds()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, porcupine.Operation{ClientId: client, Input: in, Call: called, Output: out, Return: returned})
	word := verdictName(out.verdict)
	if out.err != "" {
		word = out.err
	}
	if word == "" {
		word = in.op
	}
	l.said[word]++
	return out
}

// act makes a random operation on a cell.
func (l *linearRun) act(client int, c *linearCell, rng *rand.Rand) {
	in := linearIn{cell: c.n, run: rng.IntN(2), recovery: c.recovery}
	c.mu.Lock()
	in.epoch = c.epochs[in.run]
	begun, key := slices.Clone(c.begun), c.key
	c.mu.Unlock()
	x := rng.IntN(100)
	switch {
	case x < 45 || len(begun) == 0:
		in.op = opBegin
		if in.epoch > 1 && rng.IntN(8) == 0 {
			in.epoch-- // a zombie
		}
		in.in = refund(inSessionScope, recovery(c.recovery), call(client+1, rng.IntN(2)))
		l.begin(client, c, in)
	case x < 53:
		old := begun[rng.IntN(len(begun))]
		old.op = opAgain
		l.begin(client, c, old)
	case x < 80:
		old := begun[rng.IntN(len(begun))]
		old.op, old.kind = opEnd, []ledger.OutcomeKind{ledger.Unclear, ledger.NotApplied, ledger.NotApplied, ledger.Unclear, ledger.Applied}[rng.IntN(5)]
		l.end(client, c, old)
	case x < 90:
		lapse, claim := in, in
		lapse.op, claim.op = opLapse, opClaim
		l.do(client, lapse, func() linearOut {
			l.h.sql(l.t, `UPDATE runs SET lease_until = created_at WHERE id = $1`, c.runs[in.run].ID)
			return linearOut{}
		})
		l.claim(client, c, claim)
	default:
		in.op, in.state = opResolve, []events.EffectState{events.EffectApplied, events.EffectAbandoned}[rng.IntN(2)]
		l.resolve(client, in, key)
	}
}

func (l *linearRun) begin(client int, c *linearCell, in linearIn) {
	lease := ledger.Lease{RunID: c.runs[in.run].ID, Epoch: in.epoch, TTL: leaseTTL}
	var v ledger.Verdict
	out := l.do(client, in, func() linearOut {
		var err error
		v, err = l.h.Store.Begin(l.t.Context(), lease, nil, in.in)
		switch {
		case errors.Is(err, ledger.ErrFenced):
			return linearOut{err: "fenced"}
		case err != nil && in.op == opAgain && strings.Contains(err.Error(), "ended without effect"):
			return linearOut{err: "ended"}
		case err != nil:
			l.t.Errorf("begin: %v", err)
			return linearOut{err: err.Error()}
		}
		return linearOut{verdict: v.Kind}
	})
	if out.verdict == ledger.Execute {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.begun, c.key = append(c.begun, in), v.Ref.OpKey
	}
}

func (l *linearRun) end(client int, c *linearCell, in linearIn) {
	lease := ledger.Lease{RunID: c.runs[in.run].ID, Epoch: in.epoch, TTL: leaseTTL}
	l.do(client, in, func() linearOut {
		s, err := l.h.Store.End(l.t.Context(), lease, nil, outcome(in.in.Token, in.kind))
		if err != nil {
			l.t.Errorf("end: %v", err)
			return linearOut{err: err.Error()}
		}
		return linearOut{state: s.State}
	})
}

func (l *linearRun) claim(client int, c *linearCell, in linearIn) {
	out := l.do(client, in, func() linearOut {
		cs, err := l.h.Store.Claim(l.t.Context(), ledger.ClaimRequest{
			Worker: fmt.Sprintf("c%d", client), Queues: []string{c.runs[in.run].Queue}, TTL: 1000 * time.Hour,
		})
		switch {
		case err != nil:
			l.t.Errorf("claim: %v", err)
			return linearOut{err: err.Error()}
		case len(cs) == 0:
			return linearOut{}
		}
		return linearOut{epoch: cs[0].Lease.Epoch}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.epochs[in.run] = max(c.epochs[in.run], out.epoch)
}

func (l *linearRun) resolve(client int, in linearIn, key events.Hash) {
	l.do(client, in, func() linearOut {
		_, err := l.h.Store.Resolve(l.t.Context(), ledger.Resolution{OpKey: key, State: in.state, By: "ann", Force: true})
		switch {
		case err == nil:
			return linearOut{}
		case errors.Is(err, ledger.ErrNotInDoubt):
			return linearOut{err: "not in doubt"}
		case strings.Contains(err.Error(), "ask again"):
			return linearOut{err: "moved"}
		}
		l.t.Errorf("resolve: %v", err)
		return linearOut{err: err.Error()}
	})
}
