package runtime_test

import (
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/policy"
)

// What the rules of a run say counts for the runs below it, however deep, with
// what they and their parents have read; and a rule sees how deep it is.
func TestRulesGoDownToChildren(t *testing.T) {
	rule := func(when string) *policy.List {
		return policy.Must(`agent "tester"`, policy.Rule{When: when, Then: policy.Deny, Because: "not from there"})
	}
	for _, tt := range []struct {
		name, lead, teller string
		read               bool
		paid               int
		rule               string
	}{
		{"a rule of the lead", `tool.name == "pay" && run.depth == 2`, "", false, 0, `rule 1 of agent "tester" as it was when the run was started`},
		{"another depth", `tool.name == "pay" && run.depth < 2`, "", false, 1, ""},
		{"taint of the lead", `tool.name == "pay" && tainted`, "", true, 0, `rule 1 of agent "tester" as it was when the run was started`},
		{"no taint", `tool.name == "pay" && tainted`, "", false, 1, ""},
		{"the teller's own", "", `tool.name == "pay" && tainted`, true, 0, `rule 1 of agent "tester"`},
		{"nobody's", "", "", true, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p provider
			lead := [][]events.ToolCall{one("clerk", `{"input":"pay"}`)}
			if tt.read {
				lead = append([][]events.ToolCall{one("fetch", `{"text":"a"}`)}, lead...)
			}
			w := newWorld(t, roles{"tester": lines(lead...), "clerk": lines(one("teller", `{"input":"pay"}`)), "teller": lines(one("pay", `{"text":"x"}`))},
				fetchTool(), payInto(&p, tools.Definition{Trust: tools.Own}))
			boss := &agents.Agent{Name: "tester", Agents: []agents.Callee{{Agent: "clerk"}}}
			below := &agents.Agent{Name: "teller", Description: "Pays."}
			if tt.lead != "" {
				boss.Policy = rule(tt.lead)
			}
			if tt.teller != "" {
				below.Policy = rule(tt.teller)
			}
			w.team(boss, &agents.Agent{Name: "clerk", Description: "Passes on.", Agents: []agents.Callee{{Agent: "teller"}}}, below)
			w.start()
			r := w.wait(w.submit("go").ID, false)
			teller := w.children(w.children(r.ID)[0].ID)[0]
			if r.State != ledger.Finished || p.effects() != tt.paid {
				t.Errorf("run is %s, %d paid\n%s", r.State, p.effects(), w.story(teller.ID))
			}
			if tt.paid == 0 {
				if b := last[events.ToolExecutionBlocked](w, teller.ID); b.Detail != tools.DetailPolicy || b.Rule != tt.rule {
					t.Errorf("blocked: %+v", b)
				}
			}
		})
	}
}

// A rule can be about the agents that an agent calls.
func TestRulesAboutAgents(t *testing.T) {
	w := newWorld(t, roles{"tester": lines(one("clerk", `{"input":"pay"}`)), "clerk": lines()}, payInto(new(provider), tools.Definition{}))
	w.team(
		&agents.Agent{Name: "tester", Agents: []agents.Callee{{Agent: "clerk"}}, Policy: policy.Must(`agent "tester"`, policy.Rule{When: `tool.name == "clerk"`, Then: policy.Deny, Because: "alone"})},
		&agents.Agent{Name: "clerk", Description: "Passes on."})
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if b := last[events.ToolExecutionBlocked](w, r.ID); b.Detail != tools.DetailPolicy || len(w.children(r.ID)) != 0 {
		t.Errorf("blocked: %+v", b)
	}
}
