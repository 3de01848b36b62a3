package runtime_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/agents/skill"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

// parsed is a skill as a file makes it.
func parsed(t testing.TB, name, fields, text string, trust tools.Trust) *skill.Skill {
	t.Helper()
	s, err := skill.Parse("SKILL.md", []byte("---\nname: "+name+"\ndescription: How "+name+" is done.\n"+fields+"---\n"+text), func(file string) ([]byte, error) {
		return []byte("What stands in " + file + "."), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Trust = trust
	return s
}

// skilled gives the agent of a world skills; those whose names begin with "on" are
// always active.
func (w *world) skilled(all ...*skill.Skill) {
	w.agent = func(a *agents.Agent) {
		a.Skills = nil
		for _, s := range all {
			a.Skills = append(a.Skills, agents.Skill{Skill: s, Active: strings.HasPrefix(s.Name, "on")})
		}
	}
}

func (w *world) with(in runtime.Submit) ledger.Run {
	w.t.Helper()
	in.Agent, in.ClientKey = "tester", fmt.Sprint("key-", w.n.Add(1))
	if in.Input == nil {
		in.Input = "go"
	}
	r, _, err := w.client().Submit(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// answered is an answer of a script, on its own.
func answered(t testing.TB, a scripted.Answer) model.Response {
	t.Helper()
	r, err := scripted.Script(a).Call(t.Context(), model.Request{})
	if err != nil {
		t.Error(err)
	}
	return r
}

func load(name string) scripted.Answer {
	return scripted.Answer{Calls: []scripted.Call{{Name: agents.LoadSkill, Arguments: `{"name":"` + name + `"}`}}}
}

// PR-21: what a skill says and its context count only while it is active: those that
// the agent says, and those that the submission chose. The run is bound to both.
func TestActiveSkills(t *testing.T) {
	m := &prompted{Model: scripted.Script(finish, finish)}
	w := newWorld(t, m, builtin.LoadSkill())
	on, chosen := parsed(t, "on", "", "Be on.", tools.Own), parsed(t, "chosen", "context: [c.md]\ndisable-model-invocation: true\n", "Be chosen.", tools.External)
	idle := parsed(t, "idle", "context: [i.md]\ntools: [none_such]\n", "Be idle.", tools.Own)
	w.skilled(on, idle, chosen)
	w.start()
	const list = "Skills that you can load with load_skill, each for what it says. Load one before you do what it is for.\n\n- idle: How idle is done."
	for _, tt := range []struct {
		in   runtime.Submit
		want string
		on   []string
	}{
		{runtime.Submit{}, "Do it.\n\n" + list + "\n\nBe on.", []string{"on by agent", "idle by "}},
		{runtime.Submit{Skills: []string{"chosen"}}, "Do it.\n\n" + list + "\n\nBe on.\n\nBe chosen.\n\nWhat stands in c.md.", []string{"on by agent", "chosen by run", "idle by "}},
	} {
		r := w.wait(w.with(tt.in).ID, false)
		got := m.prompts()
		if r.State != ledger.Finished || got[len(got)-1] != tt.want {
			t.Errorf("run %s %s, prompt %q", r.State, r.Error, got[len(got)-1])
		}
		s := last[events.RunStarted](w, r.ID)
		var on []string
		for _, k := range s.Skills {
			on = append(on, k.Name+" by "+k.Active)
			i := slices.IndexFunc(s.PromptLayers, func(l events.PromptLayer) bool { return l.ID == "skill/"+k.Name })
			switch b, _, err := w.store.Blob(t.Context(), r.Tenant, k.Digest); {
			case k.Active != "" && (i < 0 || s.PromptLayers[i].Digest != k.Digest || s.PromptLayers[i].Source != "skill"):
				t.Errorf("skill %+v, layers %+v", k, s.PromptLayers)
			case k.Active == "" && (err != nil || string(b) != idle.Text() || !slices.Equal(k.Tools, []string{"none_such"})):
				t.Errorf("skill %+v is bound to %q %v", k, b, err)
			}
		}
		if d := cmp.Diff(tt.on, on); d != "" {
			t.Errorf("skills (-want +got):\n%s", d)
		}
	}
	w.whole()
}

// PR-57, PR-58: a skill grants nothing. What an active one needs must be among the
// tools that the run has by itself: if not, the run ends before a model is asked,
// with nothing about a tool. A registered tool that the agent does not have is none
// of them, nor is one that a filter takes away.
func TestSkillsGrantNothing(t *testing.T) {
	needs := func(t *testing.T, tool string) *skill.Skill {
		return parsed(t, "chosen", "allowed-tools: "+tool+"\n", "Go.", tools.Own)
	}
	for _, tt := range []struct {
		name  string
		skill func(t *testing.T) *skill.Skill
		cfg   func(*runtime.Config)
		kind  string
	}{
		{"PR-57 a tool that the agent has", func(t *testing.T) *skill.Skill { return needs(t, "finish(now:*)") }, nil, ""},
		{"PR-58 a tool that is nowhere", func(t *testing.T) *skill.Skill { return needs(t, "finish none_such") }, nil, "skill_dependency"},
		{"PR-57 a tool that is registered for others", func(t *testing.T) *skill.Skill { return needs(t, "think") }, nil, "skill_dependency"},
		{"PR-57 a tool that a filter takes away", func(t *testing.T) *skill.Skill { return needs(t, "decline") }, func(cfg *runtime.Config) {
			cfg.Dispatch.Filters = []tools.Filter{{Deny: []string{"decline"}}}
		}, "skill_dependency"},
		{"a skill that the agent does not have", func(t *testing.T) *skill.Skill { return parsed(t, "other", "", "Go.", tools.Own) }, nil, "skill_selection"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &prompted{Model: scripted.Script(finish)}
			w := newWorld(t, m, builtin.LoadSkill())
			w.skilled(tt.skill(t))
			w.cfg = func(cfg *runtime.Config) {
				if err := cfg.Tools.Add(builtin.Think()); err != nil {
					t.Fatal(err)
				}
				if tt.cfg != nil {
					tt.cfg(cfg)
				}
			}
			w.start()
			r := w.wait(w.with(runtime.Submit{Skills: []string{"chosen"}}).ID, false)
			if tt.kind == "" {
				if s := last[events.RunStarted](w, r.ID); r.State != ledger.Finished || len(s.Tools) != 3 {
					t.Errorf("run %s %s with %d tools", r.State, r.Error, len(s.Tools))
				}
				w.whole()
				return
			}
			w.want(r.ID, "run_queued", "run_failed")
			f := last[events.RunFailed](w, r.ID)
			if r.State != ledger.Failed || f.Error.Kind != tt.kind || len(m.prompts()) != 0 {
				t.Errorf("run %s after %d model calls: %+v", r.State, len(m.prompts()), f.Error)
			}
			w.caughtUp()
			calls, err := w.store.Calls(t.Context(), ledger.CallFilter{Run: r.ID})
			models, merr := w.store.ModelCalls(t.Context(), r.ID)
			if err != nil || merr != nil || len(calls) != 0 || len(models) != 0 {
				t.Errorf("%d rows of tools, %d of models, %v %v", len(calls), len(models), err, merr)
			}
			w.whole()
		})
	}
}

// A model loads a skill by an ordinary call, which is recorded and tells where the
// text comes from. To have read one gives no tool and no permission.
func TestSkillIsLoaded(t *testing.T) {
	w := newWorld(t, scripted.Script(
		load("own"), load("nobody"), load("on"), load("needy"), load("foreign"),
		scripted.Answer{Calls: []scripted.Call{{Name: "think", Arguments: `{"thought":"x"}`}}}, finish,
	), builtin.LoadSkill())
	w.limits.MaxTurns = 20
	w.skilled(
		parsed(t, "own", "context: [c.md]\n", "Own.", tools.Own), parsed(t, "on", "", "On.", tools.Own), parsed(t, "foreign", "allowed-tools: finish\n", "Foreign: call think.", tools.External),
		parsed(t, "needy", "tools: [think]\n", "Think.", tools.Own), parsed(t, "chosen", "disable-model-invocation: true\n", "Chosen.", tools.Own),
	)
	w.cfg = func(cfg *runtime.Config) {
		if err := cfg.Tools.Add(builtin.Think()); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	r := w.wait(w.with(runtime.Submit{}).ID, false)
	if r.State != ledger.Finished {
		t.Fatalf("run %s %s", r.State, r.Error)
	}
	var told []string
	for _, e := range w.history(r.ID) {
		switch p := e.Data.(type) {
		case events.ToolExecutionFinished:
			told = append(told, fmt.Sprintf("%s: %s", p.Result.Trust, p.Result.Output))
		case events.ToolExecutionError:
			told = append(told, fmt.Sprintf("%s: %s", p.Result.Trust, p.Result.Error))
		case events.ToolExecutionBlocked:
			told = append(told, "blocked: "+string(p.Reason))
		}
	}
	want := []string{
		"own: Own.\n\nWhat stands in c.md.",
		`own: there is no skill "nobody": there are own, foreign, needy`,
		`own: skill "on" is active: its instructions stand in what you were told at the beginning`,
		`own: skill "needy" needs think, which you do not have: do without the skill`,
		"external: Foreign: call think.",
		"blocked: tool_denied",
		`own: "done"`,
	}
	if d := cmp.Diff(want[:6], told[:6]); d != "" {
		t.Errorf("told (-want +got):\n%s", d)
	}
	w.whole()
}

// A skill of a folder of strangers that a model has loaded is text from outside: what
// takes effect is refused from then on, where the agent says so. One of the agent's
// own is not.
func TestForeignSkillTaints(t *testing.T) {
	for trust, want := range map[tools.Trust]string{tools.Own: "finished", tools.External: "blocked"} {
		t.Run(string(trust), func(t *testing.T) {
			mail := pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) { return "paid", nil })
			w := newWorld(t, scripted.Script(load("mails"), payOnce, finish), builtin.LoadSkill(), mail)
			w.skilled(parsed(t, "mails", "", "Write to everybody.", trust))
			inner := w.agent
			w.agent = func(a *agents.Agent) {
				inner(a)
				a.Taint = ledger.TaintDeny
			}
			w.start()
			r := w.wait(w.with(runtime.Submit{}).ID, false)
			w.caughtUp()
			calls, err := w.store.Calls(t.Context(), ledger.CallFilter{Run: r.ID, Tool: "pay"})
			if err != nil || len(calls) == 0 || calls[0].Status != want {
				t.Errorf("%+v %v\n%s", calls, err, w.story(r.ID))
			}
			w.whole()
		})
	}
}

// What strangers wrote is in no prompt of a run that counts as untainted: of their
// skills only the names are listed, and one that a submission makes active taints.
func TestForeignSkillsInThePrompt(t *testing.T) {
	for name, want := range map[string]string{"": "finished", "mails": "blocked"} {
		t.Run(name, func(t *testing.T) {
			m := &prompted{Model: scripted.Script(payOnce, finish)}
			w := newWorld(t, m, builtin.LoadSkill(), pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) { return "paid", nil }))
			w.skilled(parsed(t, "mails", "", "Write to everybody.", tools.External))
			inner := w.agent
			w.agent = func(a *agents.Agent) {
				inner(a)
				a.Taint = ledger.TaintDeny
			}
			w.start()
			in := runtime.Submit{}
			if name != "" {
				in.Skills = []string{name}
			}
			r := w.wait(w.with(in).ID, false)
			w.caughtUp()
			calls, err := w.store.Calls(t.Context(), ledger.CallFilter{Run: r.ID, Tool: "pay"})
			if err != nil || len(calls) == 0 || calls[0].Status != want || strings.Contains(m.prompts()[0], "How mails is done") {
				t.Errorf("active %q: %+v %v, prompt %q", name, calls, err, m.prompts())
			}
			w.whole()
		})
	}
}

// The worker is killed at every event of a run that loads a skill, and the files say
// something else when another one goes on: what the run reads is what it was bound to.
func TestSkillsOfARunThatIsKilledAtEveryEvent(t *testing.T) {
	m := listener(func(req model.Request) model.Response {
		if len(req.Messages) < 2 {
			return answered(t, load("idle"))
		}
		return answered(t, finish)
	})
	seen := &prompted{Model: m}
	w := newWorld(t, seen, builtin.LoadSkill())
	first := func() {
		w.skilled(parsed(t, "on", "", "Be on.", tools.Own), parsed(t, "idle", "", "Idle one.", tools.External), parsed(t, "chosen", "", "Chosen.", tools.Own))
	}
	second := func() { w.skilled(parsed(t, "idle", "tools: [none_such]\n", "Changed.", tools.Own)) }
	submit := runtime.Submit{Skills: []string{"chosen"}, Prompt: "Mind the step."}
	first()
	undisturbed := w.start()
	r := w.wait(w.with(submit).ID, false)
	undisturbed.stop(t)
	w.caughtUp()
	n, transcript := len(w.history(r.ID)), w.transcript(r.ID)
	started := last[events.RunStarted](w, r.ID)
	if !strings.Contains(transcript, "Idle one.") || len(started.Skills) != 3 {
		t.Fatalf("%s %+v", transcript, started.Skills)
	}
	for _, after := range []bool{false, true} {
		for at := 1; at <= n; at++ {
			first()
			id := w.dies(at, after, func() events.RunID { return w.with(submit).ID }, nil)
			if bound := at > 2 || at == 2 && after; bound { // run_started is the second event
				second()
			}
			heir := w.start()
			w.wait(id, false)
			heir.stop(t)
			w.caughtUp()
			if d := cmp.Diff(transcript, w.transcript(id)); d != "" {
				t.Fatalf("killed at event %d of %d (after it: %t):\n%s\n%s", at, n, after, d, w.story(id))
			}
			again := last[events.RunStarted](w, id)
			if d := cmp.Diff(started.Skills, again.Skills); d != "" || again.PromptHash != started.PromptHash {
				t.Errorf("killed at event %d: bound to\n%s", at, d)
			}
		}
	}
	got := seen.prompts()
	if got = slices.Compact(got); len(got) != 1 {
		t.Errorf("prompts %q", got)
	}
	w.whole()
}

// Secrets in skills and prompts reach no event, row or model.
func TestSkillsAreRedacted(t *testing.T) {
	const secret = "Tr0ub4dor-and-4-skills"
	m := &prompted{Model: scripted.Script(load("idle"), finish)}
	w := newWorld(t, m, builtin.LoadSkill())
	if err := w.red.Register("skills", secret); err != nil {
		t.Fatal(err)
	}
	w.skilled(parsed(t, "on", "", "Never say "+secret+".", tools.Own), parsed(t, "idle", "", "Nor "+secret+".", tools.Own))
	w.start()
	r := w.wait(w.with(runtime.Submit{Prompt: "Use " + secret + " as key."}).ID, false)
	if r.State != ledger.Finished || len(m.prompts()) != 2 || !strings.Contains(m.prompts()[0], "Never say [") || !strings.Contains(m.prompts()[0], "Use [") {
		t.Fatalf("run %s %s, prompts %q", r.State, r.Error, m.prompts())
	}
	b, err := json.Marshal(w.history(r.ID))
	if err != nil || strings.Contains(string(b), secret) || strings.Contains(strings.Join(m.prompts(), ""), secret) || strings.Contains(string(r.Prompt), secret) {
		t.Errorf("%v: it is in %s, %q or %s", err, b, m.prompts(), r.Prompt)
	}
	for _, k := range last[events.RunStarted](w, r.ID).Skills {
		if b, _, err := w.store.Blob(t.Context(), r.Tenant, k.Digest); k.Active == "" && (err != nil || strings.Contains(string(b), secret)) {
			t.Errorf("%q %v", b, err)
		}
	}
	w.whole()
}

// PR-64, PR-91: what a submission says comes last and wins; that configured layers
// are off takes them away and leaves the base, skills and its own text.
func TestPromptOfASubmission(t *testing.T) {
	m := &prompted{Model: scripted.Script(finish, finish, finish, finish)}
	w := newWorld(t, m, builtin.LoadSkill())
	w.skilled(parsed(t, "on", "", "Be on.", tools.Own))
	skilled := w.agent
	w.agent = func(a *agents.Agent) {
		skilled(a)
		a.Layers = []prompt.Layer{{ID: "h", Source: prompt.Host, Text: "Host."}, {ID: "u", Source: prompt.User, Text: "User."}}
	}
	w.start()
	for _, tt := range []struct {
		in   runtime.Submit
		want string
	}{
		{runtime.Submit{}, "Do it.\n\nUser.\n\nBe on.\n\nHost."},
		{runtime.Submit{Prompt: " Mine.\n"}, "Do it.\n\nUser.\n\nBe on.\n\nHost.\n\nMine."},
		{runtime.Submit{NoLayers: true}, "Do it.\n\nBe on."},
		{runtime.Submit{NoLayers: true, Prompt: "Mine."}, "Do it.\n\nBe on.\n\nMine."},
	} {
		r := w.wait(w.with(tt.in).ID, false)
		got := m.prompts()
		if got[len(got)-1] != tt.want {
			t.Errorf("%+v: prompt %q", tt.in, got[len(got)-1])
		}
		q, s := last[events.RunQueued](w, r.ID), last[events.RunStarted](w, r.ID)
		if (len(q.Prompt) > 0) != (tt.in.Prompt != "" || tt.in.NoLayers) || string(q.Prompt) != string(r.Prompt) {
			t.Errorf("queued with %s, the row has %s", q.Prompt, r.Prompt)
		}
		if top := s.PromptLayers[len(s.PromptLayers)-1]; tt.in.Prompt != "" && (top.Source != "run" || top.Digest != sha256.Sum256([]byte("Mine."))) {
			t.Errorf("bound to %+v", top)
		}
	}
	w.whole()
}

// Another prompt, other skills and no layers are another submission: a key that was
// used for one is not the other.
func TestPromptIsPartOfTheSubmission(t *testing.T) {
	w := newWorld(t, scripted.Script())
	submit := func(key string, in runtime.Submit) error {
		in.Agent, in.Input, in.ClientKey = "tester", "go", key
		_, _, err := w.client().Submit(t.Context(), in)
		return err
	}
	all := []runtime.Submit{{}, {Prompt: "a"}, {Prompt: "b"}, {NoLayers: true}, {Skills: []string{"a"}}, {Skills: []string{"b"}}, {Skills: []string{"a"}, Prompt: "a"}}
	for i, first := range all {
		for j, second := range all {
			key := fmt.Sprint(i, "-", j)
			if err := submit(key, first); err != nil {
				t.Fatal(err)
			}
			if err := submit(key, second); errors.Is(err, ledger.ErrClientKeyConflict) == (i == j) {
				t.Errorf("%+v, then %+v: %v", first, second, err)
			}
		}
	}
	for name, in := range map[string]runtime.Submit{
		"too long": {Prompt: strings.Repeat("x", 64<<10)}, "a NUL": {Prompt: "a\x00"}, "no text": {Prompt: "\xff"}, "an odd skill": {Skills: []string{"../x"}},
		"a skill twice": {Skills: []string{"a", "a"}}, "too many skills": {Skills: strings.Split(strings.Repeat("a ", 33)+"a", " ")},
	} {
		if err := submit(name, in); !errors.Is(err, runtime.ErrInvalidSubmit) || !strings.Contains(err.Error(), "prompt: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := w.client().PutSchedule(t.Context(), runtime.Schedule{Name: "s", Cron: "@daily", Run: runtime.Submit{Agent: "tester", Input: "go", Skills: []string{"a"}}}, "ann")
	if !errors.Is(err, runtime.ErrInvalidSubmit) {
		t.Errorf("a schedule with a skill: %v", err)
	}
}

// Retries and forks are told what the submission said; children are not.
func TestPromptOfARetryAndAFork(t *testing.T) {
	m := &prompted{Model: scripted.Script(scripted.Answer{Err: &model.Error{Kind: "broken", Err: errors.New("broken")}}, finish, finish)}
	w := newWorld(t, m)
	w.start()
	r := w.wait(w.with(runtime.Submit{Prompt: "Mine.", MaxAttempts: 2}).ID, false)
	if r.Successor.IsZero() {
		t.Fatalf("run %s %s has no successor", r.State, r.Error)
	}
	w.advance(3600 * 1e9)
	again := w.wait(r.Successor, false)
	f, _, err := w.client().Fork(t.Context(), runtime.Fork{Run: r.Successor, Seq: 2, Effects: ledger.ForkReplay, By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	fork := w.wait(f.ID, false)
	if again.State != ledger.Finished || fork.State != ledger.Finished {
		t.Fatalf("retry %s %s, fork %s %s", again.State, again.Error, fork.State, fork.Error)
	}
	if got := slices.Compact(m.prompts()); !slices.Equal(got, []string{"Do it.\n\nMine."}) {
		t.Errorf("prompts %q", got)
	}
	w.whole()
}
