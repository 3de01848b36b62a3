package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
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

// A fork of a child is as deep as the child, and so are the runs below it.
func TestDepthOfForks(t *testing.T) {
	var p provider
	w := newWorld(t, roles{"tester": lines(one("clerk", `{"input":"pay"}`)), "clerk": lines(one("teller", `{"input":"pay"}`)), "teller": lines(one("pay", `{"text":"x"}`))},
		payInto(&p, tools.Definition{Trust: tools.Own}))
	w.team(
		&agents.Agent{Name: "tester", Agents: []agents.Callee{{Agent: "clerk"}}},
		&agents.Agent{Name: "clerk", Description: "Passes on.", Agents: []agents.Callee{{Agent: "teller"}}},
		&agents.Agent{Name: "teller", Description: "Pays.", Policy: policy.Must(`agent "teller"`, policy.Rule{When: `tool.name == "pay" && run.depth == 2`, Then: policy.Deny, Because: "not from there"})})
	w.start()
	r := w.wait(w.submit("go").ID, false)
	clerk := w.children(r.ID)[0]
	teller := w.children(clerk.ID)[0]
	again := w.wait(w.fork(teller.ID, seqOf[events.RunStarted](w, teller.ID), nil).ID, false)
	other := w.wait(w.fork(clerk.ID, seqOf[events.RunStarted](w, clerk.ID), nil).ID, false)
	for name, id := range map[string]events.RunID{"child": teller.ID, "its fork": again.ID, "child of a fork": w.children(other.ID)[0].ID} {
		if b := last[events.ToolExecutionBlocked](w, id); b.Detail != tools.DetailPolicy {
			t.Errorf("%s: blocked %+v\n%s", name, b, w.story(id))
		}
	}
	if p.effects() != 0 {
		t.Errorf("%d paid", p.effects())
	}
}

// What cannot be recorded of a child is refused before there is one.
func TestGuardsAreBounded(t *testing.T) {
	many := make([]string, 8<<10)
	for i := range many {
		many[i] = fmt.Sprintf("other_tool_%05d", i)
	}
	w := newWorld(t, roles{"tester": lines(one("clerk", `{"input":"pay"}`)), "clerk": lines()}, payInto(new(provider), tools.Definition{}))
	w.team(
		&agents.Agent{Name: "tester", Agents: []agents.Callee{{Agent: "clerk"}}, Approve: many},
		&agents.Agent{Name: "clerk", Description: "Passes on."})
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if e := last[events.ToolExecutionError](w, r.ID); r.State != ledger.Finished || !strings.Contains(e.Error.Message, "child run not started") || len(w.children(r.ID)) != 0 {
		t.Errorf("run is %s %s, told %.300v", r.State, r.Error, e.Error)
	}
}

// Nor are rules taken that the runs of a team could not record together.
func TestRulesAreBoundedTogether(t *testing.T) {
	list := func(name string) *policy.List {
		rs := make([]policy.Rule, 60)
		for i := range rs {
			rs[i] = policy.Rule{When: fmt.Sprintf(`run.turn == %d && run.agent == %q`, i, name), Then: policy.Deny, Because: strings.Repeat("because ", 50)}
		}
		return policy.Must(fmt.Sprintf("agent %q", name), rs...)
	}
	w := newWorld(t, nil)
	j := w.stream.Journal("w")
	defer j.Close(t.Context())
	for n, want := range map[int]string{2: "", 3: "at most 65536"} {
		cfg := runtime.Config{
			Ledger: w.store, Journal: j, Redactor: w.red, CatchUp: func(context.Context, string) error { return nil },
			Models: map[string]model.Model{"test": link{}},
		}
		for i := range n {
			name := fmt.Sprint("a", i)
			cfg.Agents = append(cfg.Agents, &agents.Agent{Name: name, Model: "test", Loop: "singleshot", Prompt: "x", Policy: list(name)})
		}
		_, err := runtime.NewWorker(cfg)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d agents: %v, want %q", n, err, want)
		}
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

// A rule with what became known as a secret only after the worker had started is
// redacted in the record: for a child, and for whoever goes on, it denies.
func TestRulesThatWereRedactedDeny(t *testing.T) {
	const pattern = "zebra-quartz-8[0-9]" // the text that it finds is not redacted
	pays := one("pay", `{"text":"zebra-quartz-85"}`)
	var p provider
	w := newWorld(t, roles{"tester": lines(pays, one("teller", `{"input":"pay"}`)), "teller": lines(pays)}, payInto(&p, tools.Definition{Trust: tools.Own}))
	lead := func(rules ...policy.Rule) {
		w.team(&agents.Agent{Name: "tester", Agents: []agents.Callee{{Agent: "teller"}}, Policy: policy.Must(`agent "tester"`, rules...)},
			&agents.Agent{Name: "teller", Description: "Pays."})
	}
	lead(policy.Rule{When: `tool.effect != "destructive"`, Then: policy.Allow},
		policy.Rule{When: `args.text matches "^` + pattern + `$"`, Then: policy.Deny, Because: "not those"})
	first := w.start()
	if err := w.red.Register("shop", pattern); err != nil {
		t.Fatal(err)
	}
	denied := func(id events.RunID) {
		t.Helper()
		for _, id := range []events.RunID{id, w.children(id)[0].ID} {
			if r := w.wait(id, false); r.State != ledger.Finished || p.effects() != 0 {
				t.Errorf("run is %s, %d paid\n%s", r.State, p.effects(), w.story(id))
			}
			if b := last[events.ToolExecutionBlocked](w, id); b.Detail != tools.DetailPolicy {
				t.Errorf("blocked: %+v", b)
			}
		}
	}
	id := w.submit("go").ID
	w.wait(id, false)
	denied(id)
	first.stop(t)
	lead()
	w.start()
	fork := w.fork(id, 2, "again").ID
	w.wait(fork, false)
	denied(fork)
	w.whole()
}
