package runtime_test

import (
	"fmt"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops/script"
	"github.com/daybookhq/daybook/tools"
)

// A script that calls agents before any model is bound to its budget all the same.
func TestBudgetOfAScriptBindsItsAgents(t *testing.T) {
	w := newWorld(t, roles{"clerk": lines(one("pay", `{"text":"x"}`))}, payInto(new(provider), tools.Definition{Approval: true}))
	w.loop = coded(1, func(s *script.Script, _ order) (any, error) {
		var calls []script.Call
		for i := range 10 {
			calls = append(calls, script.Call{Tool: "clerk", Arguments: map[string]string{"input": fmt.Sprint("part ", i)}})
		}
		s.Tools(calls...)
		return "done", nil
	})
	w.team(
		&agents.Agent{Name: "tester", Loop: "coded", Budget: usd(500_000 * token), Agents: []agents.Callee{{Agent: "clerk", Budget: usd(200_000 * token)}}},
		&agents.Agent{Name: "clerk", Description: "Pays."})
	w.start()
	r := w.submit(order{"a"})
	// The children wait for an approval, so nothing comes back to the lead.
	w.until("every call is made or refused", func() bool {
		return count[events.ChildStarted](w, r.ID)+count[events.ToolExecutionError](w, r.ID) == 10
	})
	if n := count[events.ChildStarted](w, r.ID); n != 2 {
		t.Errorf("%d children\n%s", n, w.story(r.ID))
	}
	if e := last[events.ToolExecutionError](w, r.ID); e.Error.Kind != tools.KindBudget {
		t.Errorf("refused as %+v", e.Error)
	}
}
