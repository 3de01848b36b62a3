//go:build !race

package runtime_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// refundPolicy is a model that refunds the order it is asked for, and ends. Like
// that of the thread below it would do so again from the start of any turn.
const refundPolicy = `model: test
rules:
  - name: refund
    when: { last: user, not_called: [pay] }
    answer:
      calls: [{ name: pay, arguments: { text: "{{input.order}}" } }]
  - name: end
    when: { last: tool }
    answer:
      calls: [{ name: finish, arguments: { answer: "done" } }]
`

// refundsAtOnce is the measurement of the thread.
const refundsAtOnce = 209

// TestRefundsOverACrash repeats the measurement of microsoft/agent-framework#3938:
// 209 refunds, each with a crash between the effect and its record. There, 209 of
// 209 were paid twice. The last case is the control: the same crash with a tool
// that says of itself that it may be run again, and pays for every request.
//
// The crash is one of a worker in this process: all 209 refunds are inside the
// window when its database goes away for good, as if it had been killed; its
// leases lapse and another worker takes over. e2e kills real processes in the
// same window (TestFailpoints, exec.after_reply). Without the race detector: 836 runs.
// RELIABILITY row 7.
func TestRefundsOverACrash(t *testing.T) {
	for _, tt := range []struct {
		name       string
		def        tools.Definition
		duplicates int
		doubt      int
	}{
		{"opaque", tools.Definition{}, 0, refundsAtOnce},
		{"keyed", tools.Definition{Recovery: tools.Keyed(time.Hour)}, 0, 0},
		{"probe", tools.Definition{Recovery: tools.Probed()}, 0, 0},
		{"control: run again without a key", tools.Definition{Effect: tools.Idempotent}, refundsAtOnce, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &refunds{lost: make(chan struct{})}
			m, err := scripted.Parse("refunds.yaml", []byte(refundPolicy))
			if err != nil {
				t.Fatal(err)
			}
			w := newLoneWorld(t, m, r.tool(tt.def))
			first := ledgertest.NewFaulty(w.store, 1, ledgertest.Rates{})
			w.cfg = func(c *runtime.Config) {
				c.Concurrency, c.ShutdownGrace, c.LeaseTTL = refundsAtOnce, 100*time.Millisecond, time.Minute
				c.Journal = cutJournal{c.Journal, first.Gone()}
			}
			killed := w.startOn(first)
			t.Cleanup(func() { close(r.lost) }) // before the worker's own
			w.cfg = nil
			ids := make([]events.RunID, refundsAtOnce)
			for i := range ids {
				ids[i] = w.submit(map[string]string{"order": fmt.Sprintf("ORD-%03d", i)}).ID
			}
			w.until("every refund is paid and none recorded", func() bool { return r.paid() == refundsAtOnce })
			first.Cut()
			killed.cancel()
			w.advance(time.Hour / 2) // its leases, and what any attempt may still do
			r.alive.Store(true)
			w.start()
			doubt := 0
			for _, id := range ids {
				run := w.wait(id, true)
				switch {
				case run.State == ledger.Parked && run.ParkReason == events.ParkInDoubt:
					doubt++
				case run.State != ledger.Finished:
					t.Fatalf("run %s is %s %s %s\n%s", id, run.State, run.ParkReason, run.Error, w.story(id))
				}
			}
			if got := r.paid() - refundsAtOnce; got != tt.duplicates || doubt != tt.doubt {
				t.Errorf("%d of %d refunds were paid twice, %d are in doubt; want %d and %d", got, refundsAtOnce, doubt, tt.duplicates, tt.doubt)
			}
			w.whole()
		})
	}
}

// refunds is a provider and its tool. Its first 209 answers are lost with the
// worker that waits for them.
type refunds struct {
	provider
	lost  chan struct{}
	alive atomic.Bool // whoever asks now hears the answer
	money atomic.Int64
}

func (r *refunds) paid() int { return int(r.money.Load()) }

func (r *refunds) tool(def tools.Definition) tools.Tool {
	kind := def.Recovery.Kind
	opaque := kind == "" || kind == tools.RecoveryProbe
	tool := payAs(def, func(_ context.Context, inv *tools.Invocation, in text) (string, error) {
		key := inv.OpKey
		if key == "" {
			key = in.Text // a control without a key pays each time
		}
		before := r.count(key)
		if r.apply(key); before == 0 || opaque {
			r.money.Add(1)
		}
		if !r.alive.Load() {
			<-r.lost // nobody hears the answer
			return "", errLost
		}
		return "paid", nil
	})
	if kind != tools.RecoveryProbe {
		return tool
	}
	return tools.WithProbe(tool, func(_ context.Context, inv *tools.Invocation) (tools.ProbeResult, error) {
		if r.count(inv.OpKey) == 0 {
			return tools.ProbeResult{State: tools.ProbeDidNotHappen}, nil
		}
		return tools.ProbeResult{State: tools.ProbeHappened, Result: "paid"}, nil
	})
}

// payAs is pay with the effect that def declares, if it does.
func payAs(def tools.Definition, f func(ctx context.Context, inv *tools.Invocation, in text) (string, error)) tools.Tool {
	if def.Effect == "" {
		def.Effect = tools.Destructive
	}
	def.Name, def.Description, def.Timeout = "pay", "Pays.", 5*time.Minute
	return must(tools.New(def, f))
}
