package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/loops/script"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

type order struct {
	Charge string `json:"charge"`
}

// settle is a script that uses all there is.
func settle(s *script.Script, in order) (any, error) {
	seen := s.Tools(script.Call{Tool: "echo", Arguments: text{in.Charge}}, script.Call{Tool: "echo", Arguments: text{"b"}})
	judged, err := s.Model(script.Ask{Text: "judge " + seen[0].Text})
	if err != nil {
		return nil, err
	}
	s.Sleep(20 * time.Millisecond)
	both := s.Tools(script.Child("helper", "child"), script.Signal("go", time.Minute))
	v, err := s.Artifact(script.Artifact{Name: "report", Value: map[string]string{"judged": judged.Text}, Validators: []string{"v"}})
	if err != nil {
		return nil, err
	}
	if !v.OK {
		if v, err = s.Artifact(script.Artifact{Name: "report", Value: "better", Validators: []string{"v"}}); err != nil {
			return nil, err
		}
	}
	paid := s.Tool("pay", text{s.NewID()})
	if !paid.OK() {
		return nil, paid.Err()
	}
	last, err := s.Model(script.Ask{Text: "sum up", Tools: true})
	if err != nil {
		return nil, err
	}
	notes, err := s.Artifact(script.Artifact{Name: "notes", Value: last.Text}) // nobody judges it
	return []any{judged.Text, both[0].Text, both[1].Text, v.OK, v.Revision, paid.Text, last.Text, notes.OK}, err
}

// judge answers what settle asks, from what it is shown alone.
var judge = listener(func(r model.Request) model.Response {
	said := func(text string) model.Response { return model.Response{Text: text, StopReason: "end_turn"} }
	switch m := r.Messages[len(r.Messages)-1]; {
	case r.Messages[0].Text == "child":
		return answer("finish", `{"answer":"from the child"}`)
	case strings.HasPrefix(m.Text, "judge"):
		return said("justified: " + m.Text)
	case m.Text == "sum up":
		return answer("echo", `{"text":"sum"}`)
	default:
		return said(fmt.Sprintf("%d messages", len(r.Messages)))
	}
})

// scripts makes the world's agent work by a script, with a helper beside it.
func (w *world) scripts(l loops.Loop) *world {
	w.loop = l
	w.cfg = func(cfg *runtime.Config) {
		cfg.Agents = append(cfg.Agents, &agents.Agent{Name: "helper", Model: "test", Loop: "singleshot", Prompt: "Help.", Tools: []string{"finish"}})
		cfg.Artifacts = validators(func(_ context.Context, at revise.Context, _ any) (revise.Verdict, error) {
			return revise.Verdict{OK: at.Revision == 1, Issues: []events.ArtifactIssue{{Message: "dull"}}}, nil
		})
		cfg.CallbackTimeout = 30 * time.Second
	}
	return w
}

func settling() loops.Loop {
	return script.New(script.Config{Name: "settle", Version: 1, Validators: []string{"v"}}, settle)
}

// once is a destructive tool of a provider that keeps to one effect for each key.
func (p *provider) once(def tools.Definition) tools.Tool {
	return pay(def, func(_ context.Context, inv *tools.Invocation, in text) (string, error) {
		if p.count(inv.OpKey) == 0 {
			p.apply(inv.OpKey)
		}
		return "paid", nil
	})
}

// signal sends the signal that settle waits for; it may come before.
func (w *world) signal(id events.RunID) {
	w.t.Helper()
	if err := w.client().Signal(w.t.Context(), id, ledger.Signal{Name: "go", Data: json.RawMessage(`"now"`), From: "ann", Key: "k"}); err != nil {
		w.t.Fatal(err)
	}
}

// scriptRecord is what a crash must not change of a run: what was asked for, what
// came of it, the transcript and the end.
func (w *world) scriptRecord(id events.RunID) string {
	w.t.Helper()
	h := loops.NewHistory(id)
	for _, e := range w.history(id) {
		if err := h.Apply(e); err != nil {
			w.t.Fatal(err)
		}
	}
	var b strings.Builder
	for _, p := range h.Planned() {
		step, err := json.Marshal(p.StepPlanned)
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s done %v\n", step, p.Done)
		for i, end := range p.Ends {
			f, ok := end.(events.ToolExecutionFinished)
			out := f.Result.Output
			if p.Calls[i].Name == loops.SleepTool {
				out, _, _ = strings.Cut(out, " until")
			}
			fmt.Fprintf(&b, "\t%T %v %q %v %+v\n", end, ok, out, f.Repeated, f.Result.Trust)
		}
	}
	return b.String() + w.transcript(id)
}

func TestScriptGoesThroughTheWholeSystem(t *testing.T) {
	var p provider
	w := newWorld(t, judge, echo(tools.Readonly), p.once(tools.Definition{})).scripts(settling())
	k := w.start()
	r := w.submit(order{"ch_1"})
	w.signal(r.ID)
	r = w.wait(r.ID, false)
	want := `["justified: judge said ch_1","from the child","now",true,1,"paid","3 messages",true]`
	if r.State != ledger.Finished || r.StoppedBy != events.StoppedByFinish || string(r.Result) != want || p.effects() != 1 {
		t.Fatalf("run = %s %s %s %s, %d effects\n%s", r.State, r.StoppedBy, r.Result, r.Error, p.effects(), w.story(r.ID))
	}
	at := map[string]time.Time{}
	for _, e := range w.history(r.ID) {
		switch p := e.Data.(type) {
		case events.ToolExecutionStarted:
			at["asleep"+p.Tool] = e.Time
		case events.ToolExecutionFinished:
			at["awake"+p.Tool] = e.Time
		}
	}
	if d := at["awake"+loops.SleepTool].Sub(at["asleep"+loops.SleepTool]); d < 20*time.Millisecond {
		t.Errorf("it slept %s", d)
	}
	k.stop(t)
	w.whole()
	calls, err := w.store.Calls(t.Context(), ledger.CallFilter{Run: r.ID, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, c := range calls {
		if c.Terminal {
			told = append(told, fmt.Sprintf("%s %s %s", c.Call, c.Tool, c.Status))
		}
	}
	slices.Sort(told)
	if got := strings.Join(told, ", "); got != "t1.c0 echo finished, t1.c1 echo finished, t3.c0 script__sleep finished, t4.c0 script__child finished, t4.c1 script__signal finished, t7.c0 pay finished, t8.c0 echo finished" {
		t.Errorf("the ledger's calls: %s", got)
	}
}

// killed runs a run whose first worker dies at an event of its own; whoever waits
// for it does what people does.
func (w *world) killedScript(at int, after bool, submit func() events.RunID, people func(*world, events.RunID) ledger.Run) events.RunID {
	w.t.Helper()
	id := w.dies(at, after, submit, func(id events.RunID, cut func()) bool {
		r, err := w.store.Run(context.Background(), id)
		if err != nil || !r.State.Ended() && (r.State != ledger.Parked || r.ParkReason != events.ParkInDoubt) {
			return false
		}
		cut()
		return true
	})
	heir := w.start()
	defer heir.stop(w.t)
	return people(w, id).ID
}

// The worker is killed at every event of a script, before it and after it; another
// one goes on. What was asked for, what came of it and the end are those of the run
// that nobody disturbed, and what was paid was paid once.
func TestScriptIsKilledAtEveryEvent(t *testing.T) {
	var p provider
	w := newWorld(t, judge, echo(tools.Readonly), p.once(tools.Definition{Recovery: tools.Keyed(time.Hour)})).scripts(settling())
	submit := func() events.RunID {
		id := w.submit(order{"ch_1"}).ID
		w.signal(id)
		return id
	}
	undisturbed := submit() // when a signal comes is part of the record
	first := w.start()
	calm := w.wait(undisturbed, false)
	first.stop(t)
	w.caughtUp()
	ids := 0 // runs differ in what NewID gave them
	normal := func(id events.RunID) string {
		s := w.scriptRecord(id)
		for _, e := range w.history(id) {
			if pl, ok := e.Data.(events.StepPlanned); ok && len(pl.Calls) == 1 && pl.Calls[0].Name == "pay" {
				ids++
				s = strings.ReplaceAll(s, string(pl.Calls[0].Arguments), "ID")
			}
		}
		return s
	}
	want, n, runs := normal(calm.ID), len(w.history(calm.ID))+8, 1 // and those of the child
	for _, after := range []bool{false, true} {
		for at := 1; at <= n; at++ {
			id := w.killedScript(at, after, submit, func(w *world, id events.RunID) ledger.Run { return w.wait(id, false) })
			runs++
			w.caughtUp()
			if d := cmp.Diff(want, normal(id)); d != "" {
				t.Fatalf("killed at event %d of %d (after it: %t):\n%s\n%s", at, n, after, d, w.story(id))
			}
		}
	}
	if p.effects() != runs {
		t.Errorf("%d runs paid %d times", runs, p.effects())
	}
	w.whole()
}

// A provider that nobody can ask: the worker is killed at every event, a person
// looks and says what happened, and nothing is paid twice.
func TestScriptedEffectInDoubtWaitsForAPerson(t *testing.T) {
	var p provider
	w := newWorld(t, judge, p.once(tools.Definition{})).scripts(script.New(script.Config{Name: "payer", Version: 1}, func(s *script.Script, in order) (any, error) {
		o := s.Tool("pay", text{in.Charge})
		return []any{o.Status, o.By}, nil
	}))
	doubts := 0
	for _, after := range []bool{false, true} {
		for at := 1; at <= 8; at++ {
			before := p.effects()
			id := w.killedScript(at, after, func() events.RunID { return w.submit(order{fmt.Sprint("ch", at, after)}).ID }, func(w *world, id events.RunID) ledger.Run {
				r := w.wait(id, true)
				if r.State != ledger.Parked {
					return r
				}
				doubts++
				res := ledger.Resolution{OpKey: r.ParkKey, State: events.EffectNotApplied, By: "ann", Force: true}
				if p.effects() > before {
					res.State = events.EffectApplied
				}
				if _, err := w.store.Resolve(t.Context(), res); err != nil {
					t.Fatal(err)
				}
				return w.wait(id, false)
			})
			r, err := w.store.Run(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			did := p.effects() - before
			if want := map[int][]string{0: {`["failed","ann"]`}, 1: {`["completed",""]`, `["completed","ann"]`}}[did]; !slices.Contains(want, string(r.Result)) {
				t.Errorf("killed at %d (after it: %t): paid %d times, the script was told %s %s\n%s", at, after, did, r.Result, r.Error, w.story(id))
			}
		}
	}
	if doubts == 0 {
		t.Error("no kill left anything in doubt: the test tests nothing")
	}
	w.whole()
}
