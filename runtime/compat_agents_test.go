package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools/policy"
)

// sized looks eight times and finishes; its tokens are the bytes that it is sent. It
// knows by the last result how far it is, since the transcript gets shorter.
type sized struct{}

func (sized) Call(_ context.Context, r model.Request) (model.Response, error) {
	out := model.Response{Model: r.Model, Text: "They looked.", StopReason: "end_turn", Usage: events.Usage{Input: r.InputBound() - 1024, Output: 3}}
	if strings.HasPrefix(r.System, "You will be shown a part") {
		return out, nil
	}
	n := 0
	for _, m := range r.Messages {
		for _, res := range m.Results {
			if _, err := fmt.Sscanf(res.Text, "saw %d", &n); err != nil {
				return out, &model.Error{Kind: "invalid_request", Err: err}
			}
		}
	}
	out.StopReason, out.Text = "tool_use", ""
	out.Calls = []events.ToolCall{{Name: "look", Arguments: fmt.Appendf(nil, `{"text":"%d %s"}`, n+1, strings.Repeat("x", 300))}}
	if n == 8 {
		out.Calls = []events.ToolCall{{Name: "finish", Arguments: []byte(`{"answer":"done"}`)}}
	}
	return out, nil
}

// away is a model that nobody reaches.
type away struct{}

func (away) Call(context.Context, model.Request) (model.Response, error) {
	return model.Response{}, &model.Error{Kind: "overloaded", Retryable: true, Err: errors.New("come back later")}
}

// compatAgents are the agents of the recorded runs beside "tester": what a run may be
// bound to since the first version. A version to come changes none of them; it adds.
func (w *world) compatAgents() {
	w.cfg = func(cfg *runtime.Config) {
		cfg.Models["sized"], cfg.Models["away"] = sized{}, away{}
		cfg.Roles = map[string][]string{"any": {"away", "test"}}
		cfg.Artifacts = validators(wants("That is all."))
		tester := cfg.Agents[0]
		tester.Description = "Does as it is told."
		add := func(name string, with func(a *agents.Agent)) {
			a := *tester
			a.Name, a.Tools = name, slices.Clone(tester.Tools)
			with(&a)
			cfg.Agents = append(cfg.Agents, &a)
		}
		add("lead", func(a *agents.Agent) { a.Agents = []agents.Callee{{Agent: "tester"}} })
		add("careful", func(a *agents.Agent) {
			a.Approve, a.Taint = []string{"pay"}, ledger.TaintAsk
			a.Policy = policy.Must(`agent "careful"`,
				policy.Rule{When: `tool.name == "look" && args.text == "secret"`, Then: policy.Deny, Because: "not that word"},
				policy.Rule{When: `tool.effect == "destructive" && tool.trust == "external"`, Then: policy.Ask, Because: "strangers are asked about"})
		})
		add("chained", func(a *agents.Agent) { a.Model = "any" })
		add("short", func(a *agents.Agent) {
			a.Model, a.Limits.MaxTurns = "sized", 40
			a.Compaction = &events.Compaction{At: 60, Keep: 2, With: events.CompactedBySummary, Window: 4000}
		})
		add("writer", func(a *agents.Agent) {
			a.Loop, a.LoopOptions = revise.Name, []byte(`{"artifact":"note","validators":["v"]}`)
		})
		add("again", func(a *agents.Agent) { a.Retry = agents.Retry{MaxAttempts: 2, Backoff: 1} })
	}
}
