package runtime_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/policy"
)

// peek is a tool that is declared so.
func peek(p *provider, def tools.Definition) tools.Tool {
	def.Name, def.Description = "peek", "Peeks."
	return must(tools.New(def, func(_ context.Context, inv *tools.Invocation, in text) (string, error) {
		p.apply(inv.OpKey)
		return "saw " + in.Text, nil
	}))
}

// A tool that is deployed anew with another declaration loosens no rule for runs that
// are bound to the old one: those that are taken over, forked, or tried again.
func TestToolDeployedAnewLoosensNoRule(t *testing.T) {
	var (
		distrust = `tool.name == "peek" && tool.trust != "own"`
		opaque   = `tool.name == "peek" && tool.recovery == "none"`
		unpinned = `tool.name == "peek" && !tool.pinned`
		d        = tools.Destructive
		keyed    = tools.Keyed(time.Hour)
	)
	for _, tt := range []struct {
		name      string
		rule      string
		then, now tools.Definition
		peeked    bool // by the run that goes on
	}{
		{"external, now own", distrust, tools.Definition{Effect: tools.Readonly, Trust: tools.External}, tools.Definition{Effect: tools.Readonly, Trust: tools.Own}, false},
		{"nothing said, now own", distrust, tools.Definition{Effect: tools.Readonly}, tools.Definition{Effect: tools.Readonly, Trust: tools.Own}, false},
		{"own, now external", distrust, tools.Definition{Effect: tools.Readonly, Trust: tools.Own}, tools.Definition{Effect: tools.Readonly, Trust: tools.External}, false},
		{"own as before", distrust, tools.Definition{Effect: tools.Readonly, Trust: tools.Own}, tools.Definition{Effect: tools.Readonly, Trust: tools.Own}, true},
		{"opaque, now keyed", opaque, tools.Definition{Effect: d}, tools.Definition{Effect: d, Recovery: keyed}, false},
		{"keyed, now opaque", opaque, tools.Definition{Effect: d, Recovery: keyed}, tools.Definition{Effect: d}, false},
		{"not pinned, now pinned", unpinned, tools.Definition{Effect: tools.Readonly}, tools.Definition{Effect: tools.Readonly, Pinned: true}, false},
		{"pinned, now not", unpinned, tools.Definition{Effect: tools.Readonly, Pinned: true}, tools.Definition{Effect: tools.Readonly}, false},
	} {
		for way, goesOn := range ways {
			if tt.then.Effect == d && tt.then.Recovery == keyed && way != "takeover" {
				continue // the run before has done it, which is handed back
			}
			t.Run(tt.name+" "+way, func(t *testing.T) {
				var p provider
				peeked := 0
				m := &failing{Model: &steady{turns: []model.Response{asks(`peek {"text":"a"}`), asks(saidDone)}}}
				if way == "retry" {
					m.n.Store(1)
				}
				if way == "takeover" {
					m.Model = &steady{turns: []model.Response{asks(`pay {"text":"a"}`), asks(`peek {"text":"a"}`), asks(saidDone)}}
				}
				w := newWorld(t, m)
				rest := append(w.tools, payInto(new(provider), tools.Definition{}))
				deploy := func(def tools.Definition) { w.tools = append(rest[:len(rest):len(rest)], peek(&p, def)) }
				w.agent = func(a *agents.Agent) {
					a.Approve = []string{"pay"}
					a.Policy = policy.Must(`agent "tester"`, policy.Rule{When: tt.rule, Then: policy.Deny, Because: "not that tool"})
				}
				deploy(tt.then)
				first := w.start()
				id := goesOn(t, w, func() {
					first.stop(t)
					peeked = p.effects()
					deploy(tt.now)
					w.start()
				})
				denied := 0
				for _, e := range w.history(id) {
					if b, ok := e.Data.(events.ToolExecutionBlocked); ok && b.Detail == tools.DetailPolicy && b.Tool == "peek" {
						denied++
					}
				}
				if r := w.wait(id, false); r.State != ledger.Finished || tt.peeked != (p.effects() == peeked+1) || tt.peeked == (denied == 1) {
					t.Errorf("run is %s %s, peeked %d times, denied %d times\n%s", r.State, r.Error, p.effects()-peeked, denied, w.story(id))
				}
				w.whole()
			})
		}
	}
}

// ways are how a run comes to a worker of another build: each begins a run, has the
// worker replaced, and returns the run that has ended there.
var ways = map[string]func(t *testing.T, w *world, replace func()) events.RunID{
	"takeover": func(t *testing.T, w *world, replace func()) events.RunID {
		id := w.submit("go").ID
		a := w.asked(id)
		replace()
		w.decide(a.ID, true)
		w.wait(id, false)
		return id
	},
	"fork": func(t *testing.T, w *world, replace func()) events.RunID {
		id := w.submit("go").ID
		w.wait(id, false)
		replace()
		return w.wait(w.fork(id, 2, nil).ID, false).ID
	},
	"retry": func(t *testing.T, w *world, replace func()) events.RunID {
		id := w.submit("go").ID
		if r := w.wait(id, false); r.State != ledger.Failed {
			t.Fatalf("run is %s\n%s", r.State, w.story(id))
		}
		replace()
		r, err := w.store.Requeue(t.Context(), id, 0, "ann", "again")
		if err != nil {
			t.Fatal(err)
		}
		return w.wait(r.ID, false).ID
	},
}

// What a tool brings in taints a run that is bound to a declaration with less trust,
// whatever is declared now.
func TestToolDeployedAnewTaintsAsBefore(t *testing.T) {
	var p provider
	m := &steady{turns: []model.Response{asks(`pay {"text":"a"}`), asks(`peek {"text":"a"}`), asks(`pay {"text":"b"}`), asks(saidDone)}}
	w := newWorld(t, m)
	rest := append(w.tools, payInto(&p, tools.Definition{Trust: tools.Own}))
	deploy := func(trust tools.Trust) {
		w.tools = append(rest[:len(rest):len(rest)], peek(new(provider), tools.Definition{Effect: tools.Readonly, Trust: trust}))
	}
	w.ruled(policy.Rule{When: `tool.name == "pay" && tainted`, Then: policy.Deny, Because: "foreign text"},
		policy.Rule{When: `tool.name == "pay"`, Then: policy.Ask, Because: "payments are looked at"})
	deploy(tools.External)
	first := w.start()
	id := w.submit("go").ID
	a := w.asked(id)
	first.stop(t)
	deploy(tools.Own)
	w.start()
	w.decide(a.ID, true)
	if r := w.wait(id, false); r.State != ledger.Finished || p.effects() != 1 {
		t.Errorf("run is %s, %d paid\n%s", r.State, p.effects(), w.story(id))
	}
	if b := last[events.ToolExecutionBlocked](w, id); b.Tool != "pay" || b.Rule != `rule 1 of agent "tester"` {
		t.Errorf("blocked: %+v", b)
	}
	w.whole()
}

// A further attempt is bound to the rules, approvals and taint of those before it, and
// to those of its time: nobody has said that it may do more.
func TestRetriesAreBoundToTheAttemptBefore(t *testing.T) {
	for _, tt := range []struct {
		name      string
		then, now []policy.Rule
		approve   bool
		want      string // the rule that denies; empty = a person is asked
	}{
		{"a looser file", []policy.Rule{denyAll}, nil, false, `rule 1 of agent "tester" as it was when the run was started`},
		{"a stricter file", nil, []policy.Rule{denyAll}, false, `rule 1 of agent "tester"`},
		{"the same file", []policy.Rule{denyAll}, []policy.Rule{denyAll}, false, `rule 1 of agent "tester"`},
		{"approvals", nil, nil, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p provider
			m := &failing{Model: &steady{turns: []model.Response{asks(`peek {"text":"a"}`), asks(`pay {"text":"a"}`), asks(saidDone)}}}
			m.n.Store(2) // before it pays
			w := newWorld(t, m, peek(new(provider), tools.Definition{Effect: tools.Readonly}), payInto(&p, tools.Definition{}))
			rule := func(approve bool, rs []policy.Rule) {
				w.ruled(rs...)
				rules := w.agent
				w.agent = func(a *agents.Agent) {
					rules(a)
					if approve {
						a.Approve = []string{"pay"}
					}
				}
			}
			rule(tt.approve, tt.then)
			first := w.start()
			id := w.submit("go").ID
			w.wait(id, false)
			again := func(id events.RunID) events.RunID {
				r, err := w.store.Requeue(t.Context(), id, 0, "ann", "again")
				if err != nil {
					t.Fatal(err)
				}
				return r.ID
			}
			first.stop(t)
			rule(false, tt.now)
			second := w.start()
			id = again(id)
			if r := w.wait(id, false); r.State != ledger.Failed {
				t.Fatalf("the second attempt is %s\n%s", r.State, w.story(id))
			}
			second.stop(t)
			// The third is bound through the second, which was never taken over.
			w.start()
			id = again(id)
			if tt.want == "" {
				if a := w.asked(id); a.Why != ledger.WhyPolicy || a.Tool != "pay" {
					t.Errorf("asked: %+v", a)
				}
				return
			}
			if r := w.wait(id, false); r.State != ledger.Finished || p.effects() != 0 {
				t.Errorf("run is %s, %d paid\n%s", r.State, p.effects(), w.story(id))
			}
			if b := last[events.ToolExecutionBlocked](w, id); b.Rule != tt.want {
				t.Errorf("blocked by %q, want %q", b.Rule, tt.want)
			}
			if s := last[events.RunStarted](w, id); s.Policy == nil || len(s.Policy.Rules) != 1 || strings.Count(s.Policy.Rules[0].Source, "as it was") > 1 {
				t.Errorf("bound to %+v", s.Policy)
			}
			w.whole()
		})
	}
}
