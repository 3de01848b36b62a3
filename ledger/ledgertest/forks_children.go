package ledgertest

import (
	"fmt"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// spawnGuarded starts a child that is told what its calls do.
func (a *actor) spawnGuarded(index int, g events.Guard) ledger.Run {
	a.t.Helper()
	in := ledger.Submission{
		Agent: "clerk", Queue: fmt.Sprintf("children-%d", testCount.Add(1)), ClientKey: fmt.Sprintf("child/%s/%d", a.run.ID, index),
		Input: mustSeal(a.t, map[string]int{"part": index}), InputMAC: []byte("mac"), Guard: mustSeal(a.t, g),
	}
	child, fs, err := a.h.Store.Spawn(a.t.Context(), a.lease, a.prefix, in, a.handoff(at(index), func(h *ledger.Handoff) { h.Tool, h.For = "delegate", 0 }))
	if err != nil {
		a.t.Fatalf("spawn: %v", err)
	}
	a.prefix = nil
	a.absorb(fs...)
	return child
}

// testForkChildren: what a fork does not do it does not have done by another run either.
func testForkChildren(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.flush()
	for i, mode := range []ledger.ForkEffects{ledger.ForkSimulate, ledger.ForkAsk, ledger.ForkReplay} {
		fork, _, err := h.Store.Fork(t.Context(), ledger.ForkRequest{Run: a.run.ID, Seq: 1, Effects: mode, By: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		guard := events.Guard{Effects: string(mode)}
		c := take(t, h, takeFork(t, h, fork).spawnGuarded(0, guard))
		queued := events.RunQueued{
			Agent: c.run.Agent, Root: c.run.Root, Parent: c.run.Parent, Input: c.run.Input, ClientKey: c.run.ClientKey, Queue: c.run.Queue,
			QueuedAt: c.run.CreatedAt, Guard: &guard,
		}
		c.note(queued)
		c.flush()
		h.wantWhole(t, c.run.ID)
		d := take(t, h, c.spawnGuarded(0, guard))
		for j, b := range []*actor{c, d} {
			if got := h.state(t, b.run.ID); got.ForkEffects != mode || !got.ForkOf.IsZero() {
				t.Errorf("%s, %d below the child: effects %q, fork of %s", mode, j, got.ForkEffects, got.ForkOf)
			}
			in := refund(order(100+10*i+j), call(1, 1))
			switch mode {
			case ledger.ForkSimulate:
				b.want(ledger.Simulated, in)
			case ledger.ForkAsk:
				b.asked(in)
			default:
				b.want(ledger.Execute, in)
			}
		}
		d.absorb(d.pending()...)
		// A database that has lost the child gets it back as it was.
		lost := ledger.LostRun{ID: testIDs.Run(), Queued: &queued, Epoch: 1}
		lost.First.Tenant = c.run.Tenant
		queued.ClientKey += "/lost"
		if _, err := h.Store.RestoreRun(t.Context(), lost); err != nil {
			t.Fatal(err)
		}
		if got := h.state(t, lost.ID); got.ForkEffects != mode {
			t.Errorf("%s: restored with effects %q", mode, got.ForkEffects)
		}
	}
}
