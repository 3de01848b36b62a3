package runtime_test

import (
	"sync/atomic"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// A fork that only simulates, or asks, does not have the agents that it calls act
// for real, however deep they are.
func TestForksBindTheirChildren(t *testing.T) {
	for mode, paid := range map[ledger.ForkEffects]int{ledger.ForkSimulate: 0, ledger.ForkAsk: 0, ledger.ForkReplay: 1} {
		t.Run(string(mode), func(t *testing.T) {
			var p provider
			var delegates atomic.Bool
			lead := lines(one("clerk", `{"input":"pay"}`))
			w := newWorld(t, roles{"tester": func(r model.Request) model.Response {
				if !delegates.Load() {
					return answer("finish", `{"answer":"not today"}`)
				}
				return lead(r)
			}, "clerk": lines(one("teller", `{"input":"pay"}`)), "teller": lines(one("pay", `{"text":"x"}`))},
				payInto(&p, tools.Definition{Trust: tools.Own}))
			w.team(
				&agents.Agent{Name: "tester", Agents: []agents.Callee{{Agent: "clerk"}}},
				&agents.Agent{Name: "clerk", Description: "Passes on.", Agents: []agents.Callee{{Agent: "teller"}}},
				&agents.Agent{Name: "teller", Description: "Pays."})
			w.start()
			origin := w.wait(w.submit("go").ID, false)
			delegates.Store(true)
			f, _, err := w.client().Fork(t.Context(), runtime.Fork{Run: origin.ID, Seq: seqOf[events.RunStarted](w, origin.ID), Effects: mode, By: "ann"})
			if err != nil {
				t.Fatal(err)
			}
			if mode == ledger.ForkAsk {
				w.until("somebody is asked", func() bool {
					as, err := w.store.Approvals(t.Context(), ledger.ApprovalFilter{})
					return err == nil && len(as) == 1 && as[0].Why == ledger.WhyFork
				})
			} else if r := w.wait(f.ID, false); r.State != ledger.Finished {
				t.Errorf("fork is %s\n%s", r.State, w.story(f.ID))
			}
			teller := w.children(w.children(f.ID)[0].ID)[0]
			if p.effects() != paid || teller.ForkEffects != mode {
				t.Errorf("%d paid, effects %q\n%s", p.effects(), teller.ForkEffects, w.story(teller.ID))
			}
			w.whole()
		})
	}
}
