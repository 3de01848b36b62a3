package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/policy"
)

// ruled gives the agents of workers that start from now on rules.
func (w *world) ruled(rs ...policy.Rule) {
	w.t.Helper()
	var l *policy.List
	if len(rs) > 0 {
		l = policy.Must(`agent "tester"`, rs...)
	}
	w.agent = func(a *agents.Agent) { a.Policy = l }
}

// operated gives workers that start from now on an operator's rules.
func (w *world) operated(rs ...policy.Rule) {
	w.t.Helper()
	l := policy.Must("the operator's policy", rs...)
	w.cfg = func(c *runtime.Config) { c.Policy = l }
}

func echoTool(n *atomic.Int64, trust tools.Trust) tools.Tool {
	return must(tools.New(tools.Definition{Name: "echo", Description: "Echoes.", Effect: tools.Readonly, Trust: trust},
		func(_ context.Context, _ *tools.Invocation, in text) (string, error) {
			n.Add(1)
			return in.Text, nil
		}))
}

var (
	askAll  = policy.Rule{When: `tool.name == "pay"`, Then: policy.Ask, Because: "payments are looked at"}
	denyAll = policy.Rule{When: `tool.name == "pay"`, Then: policy.Deny, Because: "nothing is paid today"}
)

// Which rule decides, and what stands in the record about it.
func TestRulesDecideAboutCalls(t *testing.T) {
	var p provider
	var echoed atomic.Int64
	ask := calls(
		scripted.Call{Name: "echo", Arguments: `{"text":"secret"}`}, scripted.Call{Name: "echo", Arguments: `{"text":"a"}`},
		scripted.Call{Name: "pay", Arguments: `{"text":"a lot"}`}, scripted.Call{Name: "pay", Arguments: `{"text":"some"}`}, scripted.Call{Name: "pay", Arguments: `{"text":"little"}`},
	)
	w := newWorld(t, scripted.Script(ask, finish), echoTool(&echoed, tools.Own), payInto(&p, tools.Definition{}))
	w.ruled(
		policy.Rule{When: `args.text == "little"`, Then: policy.Allow},
		policy.Rule{When: `tool.name == "pay" && args.text == "a lot"`, Then: policy.Deny, Because: "that is too much"},
		policy.Rule{When: `tool.name == "pay"`, Then: policy.Ask, Because: "payments are looked at"},
		policy.Rule{When: `tool.name == "echo" && args.text contains "secret"`, Then: policy.Deny, Because: "not that word"},
	)
	w.start()
	id := w.submit("go").ID
	a := w.asked(id)
	if a.Tool != "pay" || string(a.Arguments) != `{"text":"some"}` || a.Why != ledger.WhyPolicy || a.Rule != `payments are looked at (rule 3 of agent "tester")` {
		t.Errorf("asked: %+v", a)
	}
	if r := last[events.ApprovalRequested](w, id); r.Rule != a.Rule {
		t.Errorf("request: %+v", r)
	}
	w.decide(a.ID, true)
	if r := w.wait(id, false); r.State != ledger.Finished || p.effects() != 2 || echoed.Load() != 1 {
		t.Errorf("run is %s, %d paid, %d echoed\n%s", r.State, p.effects(), echoed.Load(), w.story(id))
	}
	blocked := map[string]string{}
	for _, e := range w.history(id) {
		if b, ok := e.Data.(events.ToolExecutionBlocked); ok {
			blocked[b.Call.String()] = fmt.Sprintf("%s %s, %s: %s", b.Reason, b.Detail, b.Rule, b.Result.Error)
		}
	}
	want := map[string]string{
		"t1.c0": `permission_denied policy, rule 4 of agent "tester": not permitted: not that word (rule 4 of agent "tester")`,
		"t1.c2": `permission_denied policy, rule 2 of agent "tester": not permitted: that is too much (rule 2 of agent "tester")`,
	}
	if fmt.Sprint(blocked) != fmt.Sprint(want) {
		t.Errorf("blocked %q, want %q", blocked, want)
	}
	s := last[events.RunStarted](w, id)
	if s.Policy == nil || len(s.Policy.Rules) != 1 || len(s.Policy.Rules[0].Rules) != 4 || s.Policy.Rules[0].Source != `agent "tester"` {
		t.Errorf("the rules are not frozen: %+v", s.Policy)
	}
	w.whole()
}

// What a rule allows is still asked about, or denied, by whatever else guards it.
func TestRulesPermitNothing(t *testing.T) {
	all := policy.Rule{When: "true", Then: policy.Allow}
	for name, guard := range map[string]func(w *world, a *agents.Agent, c *runtime.Config){
		"approve": func(_ *world, a *agents.Agent, _ *runtime.Config) { a.Approve = []string{"pay"} },
		"taint":   func(_ *world, a *agents.Agent, _ *runtime.Config) { a.Taint = ledger.TaintDeny },
		"filter": func(_ *world, _ *agents.Agent, c *runtime.Config) {
			c.Dispatch.Filters = []tools.Filter{{Deny: []string{"pay"}}}
		},
		"permission": func(_ *world, _ *agents.Agent, c *runtime.Config) {
			c.Dispatch.Permission = func(_ context.Context, _ tools.Env, d *tools.Definition, _ tools.Call) error {
				if d.Name == "pay" {
					return &tools.Denial{Detail: "host"}
				}
				return nil
			}
		},
		"operator": func(_ *world, _ *agents.Agent, c *runtime.Config) {
			c.Policy = policy.Must("the operator's policy", denyAll)
		},
		"switch": func(w *world, _ *agents.Agent, _ *runtime.Config) { w.setSwitch(ledger.SwitchOff) },
	} {
		t.Run(name, func(t *testing.T) {
			var p provider
			var n atomic.Int64
			w := newWorld(t, scripted.Script(calls(scripted.Call{Name: "echo", Arguments: `{"text":"a"}`}), payOnce, finish), echoTool(&n, tools.External), payInto(&p, tools.Definition{}))
			w.cfg = func(c *runtime.Config) { guard(w, new(agents.Agent), c) }
			w.agent = func(a *agents.Agent) {
				a.Policy = policy.Must(`agent "tester"`, all)
				guard(w, a, new(runtime.Config))
			}
			w.start()
			id := w.submit("go").ID
			if name == "approve" {
				w.decide(w.asked(id).ID, false)
			}
			if r := w.wait(id, false); r.State != ledger.Finished || p.effects() != 0 || n.Load() != 1 {
				t.Errorf("run is %s, %d paid\n%s", r.State, p.effects(), w.story(id))
			}
			w.whole()
		})
	}
}

// PR-41, PR-42: middleware that renames a call, or changes its arguments, does
// not get round the rules: they see what would be executed.
func TestRulesSeeWhatMiddlewareMadeOfACall(t *testing.T) {
	var p provider
	var n atomic.Int64
	w := newWorld(t, scripted.Script(calls(scripted.Call{Name: "echo", Arguments: `{"text":"a"}`}, scripted.Call{Name: "pay", Arguments: `{"text":"little"}`}), finish),
		echoTool(&n, tools.Own), payInto(&p, tools.Definition{}))
	w.ruled(policy.Rule{When: `tool.name == "pay" && args.text != "little"`, Then: policy.Deny, Because: "too much"})
	w.cfg = func(c *runtime.Config) {
		c.Dispatch.CallMiddleware = []tools.CallMiddleware{func(_ context.Context, c tools.Call) (tools.Call, error) {
			if c.Name == "echo" || c.Name == "pay" {
				c.Name, c.Arguments = "pay", []byte(`{"text":"everything"}`)
			}
			return c, nil
		}}
	}
	w.start()
	id := w.submit("go").ID
	if r := w.wait(id, false); r.State != ledger.Finished || p.effects() != 0 || n.Load() != 0 || count[events.ToolExecutionBlocked](w, id) != 2 {
		t.Errorf("run is %s, %d paid\n%s", r.State, p.effects(), w.story(id))
	}
	if b := last[events.ToolExecutionBlocked](w, id); b.Detail != tools.DetailPolicy || string(b.Arguments) != `{"text":"everything"}` {
		t.Errorf("blocked: %+v", b)
	}
}

// The stricter of the rules then and now counts, whichever way the file changed,
// and an approval given under the one is none under the other.
func TestStricterRulesCountAfterATakeover(t *testing.T) {
	once := policy.Rule{When: `tool.name == "pay" && run.turn == 1`, Then: policy.Ask, Because: "first"}
	for _, tt := range []struct {
		name     string
		then     []policy.Rule
		now      []policy.Rule
		operator []policy.Rule
		asks     bool // again, after the first approval
		paid     int
		rule     string
	}{
		{"the same file", []policy.Rule{askAll}, []policy.Rule{askAll}, nil, false, 1, ""},
		{"no rules any more", []policy.Rule{askAll}, nil, nil, true, 1, `payments are looked at (rule 1 of agent "tester" as it was when the run was started)`},
		{"a looser file", []policy.Rule{askAll}, []policy.Rule{{When: "true", Then: policy.Allow}}, nil, true, 1, `payments are looked at (rule 1 of agent "tester" as it was when the run was started)`},
		{"other rules that ask", []policy.Rule{askAll}, []policy.Rule{once}, nil, true, 1, `first (rule 1 of agent "tester")`},
		{"a stricter file", []policy.Rule{askAll}, []policy.Rule{denyAll}, nil, false, 0, `rule 1 of agent "tester"`},
		{"a stricter operator", []policy.Rule{askAll}, []policy.Rule{askAll}, []policy.Rule{denyAll}, false, 0, `rule 1 of the operator's policy`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p provider
			w := newWorld(t, scripted.Script(payOnce, finish), payInto(&p, tools.Definition{}))
			w.ruled(tt.then...)
			first := w.start()
			id := w.submit("go").ID
			old := w.asked(id)
			first.stop(t)
			w.decide(old.ID, true)
			w.ruled(tt.now...)
			if tt.operator != nil {
				w.operated(tt.operator...)
			}
			w.start()
			if tt.asks {
				var fresh ledger.Approval
				w.until("a new request", func() bool {
					as, err := w.store.Approvals(context.Background(), ledger.ApprovalFilter{Run: id, Open: true})
					if err == nil && len(as) == 1 {
						fresh = as[0]
					}
					return !fresh.ID.IsZero()
				})
				if fresh.ID == old.ID || fresh.Policy == old.Policy || fresh.Rule != tt.rule || p.effects() != 0 {
					t.Errorf("asked again: %+v, %d paid", fresh, p.effects())
				}
				was, err := w.store.Approval(t.Context(), old.ID)
				if err != nil || was.State != ledger.ApprovalExpired || !strings.Contains(was.Reason, "the arguments, the tool or the policy changed") {
					t.Errorf("the first approval: %+v, %v", was, err)
				}
				w.decide(fresh.ID, true)
			}
			if r := w.wait(id, false); r.State != ledger.Finished || p.effects() != tt.paid {
				t.Errorf("run is %s, %d paid\n%s", r.State, p.effects(), w.story(id))
			}
			if tt.paid == 0 {
				if b := last[events.ToolExecutionBlocked](w, id); b.Rule != tt.rule || b.Detail != tools.DetailPolicy {
					t.Errorf("blocked: %+v", b)
				}
			}
			w.whole()
		})
	}
}

// A fork is bound to the rules of the run that it goes on from.
func TestForksInheritRules(t *testing.T) {
	w := newWorld(t, paying(), payInto(new(provider), tools.Definition{}))
	w.ruled(denyAll)
	first := w.start()
	id := w.submit("go").ID
	w.wait(id, false)
	first.stop(t)
	w.ruled()
	w.start()
	fork := w.fork(id, 2, "again")
	w.wait(fork.ID, false)
	denied := 0
	for _, e := range w.history(fork.ID) {
		if b, ok := e.Data.(events.ToolExecutionBlocked); ok && b.Detail == tools.DetailPolicy && strings.HasSuffix(b.Rule, "as it was when the run was started") {
			denied++
		}
	}
	if denied != 1 {
		t.Errorf("%d calls were denied\n%s", denied, w.story(fork.ID))
	}
}

// Money and taint are those that were recorded when the model asked: what a call
// of the same turn costs or brings in changes nothing for calls beside it, and
// counts in the next turn. A destructive call sees what came in before it.
func TestRulesSeeWhatTheModelKnew(t *testing.T) {
	var p provider
	var n atomic.Int64
	note := must(tools.New(tools.Definition{Name: "note", Description: "Notes.", Effect: tools.Idempotent, Trust: tools.Own},
		func(context.Context, *tools.Invocation, text) (string, error) { return "noted", nil }))
	both := calls(scripted.Call{Name: "echo", Arguments: `{"text":"a"}`}, scripted.Call{Name: "note", Arguments: `{"text":"b"}`}, scripted.Call{Name: "pay", Arguments: `{"text":"c"}`})
	again := calls(scripted.Call{Name: "note", Arguments: `{"text":"d"}`})
	w := newWorld(t, scripted.Script(both, again, finish), echoTool(&n, tools.External), note, payInto(&p, tools.Definition{}))
	w.ruled(policy.Rule{When: `tainted && tainted_by == "echo" && tool.name in ["note", "pay"]`, Then: policy.Deny, Because: "foreign text"})
	w.start()
	id := w.submit("go").ID
	w.wait(id, false)
	var blocked []string
	for _, e := range w.history(id) {
		if b, ok := e.Data.(events.ToolExecutionBlocked); ok {
			blocked = append(blocked, b.Call.String()+" "+b.Tool)
		}
	}
	if fmt.Sprint(blocked) != "[t1.c2 pay t2.c0 note]" || p.effects() != 0 {
		t.Errorf("blocked %v\n%s", blocked, w.story(id))
	}
}

// The worker is killed at every event from the model's answer to the outcome of
// a call that a rule asks about, beside one that a rule denies, before the event
// and after it; another one goes on. The decisions are the same, and the effect
// happens once. A kill between the request and the decision is one of them.
func TestRuledRunIsKilledAtEveryEvent(t *testing.T) {
	var p provider
	m := &steady{turns: []model.Response{asks(`pay {"text":"a lot"}`, `pay {"text":"some"}`), asks(saidDone)}}
	w := newWorld(t, m, payInto(&p, tools.Definition{Recovery: tools.Keyed(time.Hour)}))
	w.ruled(
		policy.Rule{When: `args.text == "a lot"`, Then: policy.Deny, Because: "that is too much"},
		policy.Rule{When: `tool.name == "pay"`, Then: policy.Ask, Because: "payments are looked at"},
	)
	// looked approves what is asked for, and says whether the run has ended.
	looked := func(id events.RunID, _ func()) bool {
		as, err := w.store.Approvals(context.Background(), ledger.ApprovalFilter{Run: id, Open: true})
		if err == nil && len(as) == 1 {
			_, _ = w.store.Decide(context.Background(), ledger.Decision{Approval: as[0].ID, Approve: true, By: "ada"})
		}
		r, err := w.store.Run(context.Background(), id)
		return err == nil && r.State.Ended()
	}
	approved := func(id events.RunID) ledger.Run {
		w.until("the run has ended", func() bool { return looked(id, nil) })
		return w.wait(id, false)
	}
	first := w.start()
	r := approved(w.submit("go").ID)
	first.stop(t)
	w.caughtUp()
	want := w.transcript(r.ID)
	from := int(seqOf[events.ModelCallFinished](w, r.ID))   //nolint:gosec // small
	to := int(seqOf[events.ToolExecutionFinished](w, r.ID)) //nolint:gosec // small
	if r.State != ledger.Finished || p.effects() != 1 {
		t.Fatalf("undisturbed, the run is %s and %d paid\n%s", r.State, p.effects(), w.story(r.ID))
	}
	for _, after := range []bool{false, true} {
		for at := from; at <= to; at++ {
			id := w.dies(at, after, func() events.RunID { return w.submit("go").ID }, looked)
			heir := w.start()
			r := approved(id)
			heir.stop(t)
			w.caughtUp()
			if got := w.transcript(id); got != want || r.State != ledger.Finished {
				t.Fatalf("killed at event %d (after it: %t), %s:\n%s\nwant\n%s\n%s", at, after, r.State, got, want, w.story(id))
			}
		}
	}
	if runs := 1 + 2*(to-from+1); len(p.done) != runs {
		t.Errorf("%d effects of %d keys, want one key for each of %d runs", p.effects(), len(p.done), runs)
	}
	w.whole()
}

// A worker does not start with rules that guard nothing or ask in vain.
func TestRulesAreCheckedBeforeTheWorkerStarts(t *testing.T) {
	var n atomic.Int64
	reg, err := tools.NewRegistry(echoTool(&n, tools.Own), payInto(new(provider), tools.Definition{}))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, scripted.Script(finish))
	j := w.stream.Journal("x")
	defer j.Close(t.Context())
	_, err = runtime.NewWorker(runtime.Config{
		Name: "x", Ledger: w.store, Journal: j, Redactor: w.red, Tools: reg, CatchUp: func(context.Context, string) error { return nil }, Models: map[string]model.Model{"m": w.model},
		CallValidators: map[string]runtime.CallValidator{"strict": nil},
		Agents: []*agents.Agent{
			{Name: "x", Model: "m", Loop: "singleshot", Prompt: "p", Validate: "stirct"}, {Name: "y", Model: "m", Loop: "singleshot", Prompt: "p", Middleware: []string{"log"}},
		},
	})
	if err == nil || !strings.Contains(err.Error(), `agent "x" wants validator "stirct", which this worker does not have; it has strict`) ||
		!strings.Contains(err.Error(), `agent "y" wants middleware "log", which this worker does not have; it has none`) {
		t.Errorf("names of the host's code: %v", err)
	}
	for when, want := range map[string]string{
		`tool.name == "pya"`:                            `agents/x/AGENT.md:7: policy: rule 1: when: there is no tool "pya", so this guards nothing; did you mean "pay"?`,
		`args.key == "rk_live_51H8eu7shopkeeperAbCdEf"`: `agents/x/AGENT.md:7: policy: rule 1: when: holds what looks like a secret`,
		`tainted`: `agents/x/AGENT.md:7: policy: rule 1: then: ask may hold for calls of echo (readonly): approvals guard destructive calls`,
	} {
		l := policy.Must(`agent "x"`, policy.Rule{When: when, Then: policy.Ask, Because: "x", Line: 7})
		_, err := runtime.NewWorker(runtime.Config{
			Name: "x", Ledger: w.store, Journal: j, Redactor: w.red, Tools: reg, CatchUp: func(context.Context, string) error { return nil },
			Models: map[string]model.Model{"m": w.model}, Policy: policy.Must("the operator's policy", policy.Rule{When: `tool.name == "ehco"`, Then: policy.Deny, Because: "x"}),
			Agents: []*agents.Agent{{Name: "x", Model: "m", Loop: "singleshot", Prompt: "p", Tools: []string{"echo", "pay"}, Policy: l, Path: "agents/x/AGENT.md"}},
		})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `the operator's policy: rule 1: when: there is no tool "ehco"`) {
			t.Errorf("%s: %v, want %q", when, err, want)
		}
	}
}
