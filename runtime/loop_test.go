package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
)

// parrot is a custom loop, as anybody can write one: the model answers once.
type parrot struct{}

func (parrot) Name() string { return "parrot" }
func (parrot) Version() int { return 1 }

func (parrot) Next(h *loops.History) (loops.Step, error) {
	if a := h.Answer(); a != nil {
		return loops.Stop{By: events.StoppedByFinish, Output: json.RawMessage(`"echoed"`)}, nil
	}
	return loops.AskModel(h), nil
}

func TestLoopSelection(t *testing.T) {
	selected := func(t *testing.T, own string, sel loops.Selection) (*world, *drafts, ledger.Run) {
		t.Helper()
		m := &drafts{}
		w := newWorld(t, m)
		w.reviser("", validators(wants("draft 2")))
		inner := w.cfg
		w.cfg = func(cfg *runtime.Config) {
			inner(cfg)
			cfg.Loops = []loops.Loop{parrot{}}
		}
		w.agent = func(a *agents.Agent) {
			a.Loop = own
			if own == revise.Name {
				a.LoopOptions = json.RawMessage(`{"validators":["v"]}`)
			}
		}
		w.start()
		r, _, err := w.client().Submit(t.Context(), runtime.Submit{Agent: "tester", Input: "go", ClientKey: "a", Loop: sel})
		if err != nil {
			t.Fatal(err)
		}
		return w, m, w.wait(r.ID, false)
	}
	by := loops.Selection{Strategy: revise.Name, Options: json.RawMessage(`{"max_revisions":0,"validators":["v"]}`)}
	t.Run("PR-15 the agent's", func(t *testing.T) {
		w, _, r := selected(t, revise.Name, loops.Selection{})
		if s := last[events.RunStarted](w, r.ID); r.StoppedBy != events.StoppedByArtifactFinished || s.Loop != revise.Name || string(s.LoopOptions) != `{"validators":["v"]}` || len(s.Validators) != 1 {
			t.Errorf("run %s, bound to %+v", r.StoppedBy, s)
		}
		w.whole()
	})
	t.Run("PR-15 the run's wins, options and all", func(t *testing.T) {
		w, m, r := selected(t, revise.Name, by)
		if s := last[events.RunStarted](w, r.ID); r.StoppedBy != events.StoppedByArtifactFailed || m.calls.Load() != 1 || string(s.LoopOptions) != string(by.Options) {
			t.Errorf("run %s after %d calls, bound to %+v", r.StoppedBy, m.calls.Load(), s)
		}
		w.whole()
	})
	t.Run("PR-15 the run's wins over another loop", func(t *testing.T) {
		w, _, r := selected(t, "singleshot", by)
		if r.StoppedBy != events.StoppedByArtifactFailed {
			t.Errorf("run %s", r.StoppedBy)
		}
		w.whole()
	})
	t.Run("PR-17 a loop of one's own", func(t *testing.T) {
		w, _, r := selected(t, "singleshot", loops.Selection{Strategy: "parrot"})
		if string(r.Result) != `"echoed"` {
			t.Errorf("run %s %s", r.State, r.Result)
		}
		w.want(r.ID, "run_queued", "run_started", "turn_started", "model_call_started", "model_call_finished", "run_finished")
	})
	for name, sel := range map[string]loops.Selection{
		"PR-16 an unknown loop":           {Strategy: "generate"},
		"PR-16 a validator too few":       {Strategy: revise.Name},
		"PR-16 an unknown validator":      {Strategy: revise.Name, Options: json.RawMessage(`{"validators":["w"]}`)},
		"PR-16 options of a loop without": {Strategy: "parrot", Options: json.RawMessage(`{"a":1}`)},
	} {
		t.Run(name, func(t *testing.T) {
			w, m, r := selected(t, "singleshot", sel)
			w.want(r.ID, "run_queued", "run_failed")
			if f := last[events.RunFailed](w, r.ID); r.State != ledger.Failed || m.calls.Load() != 0 || f.Error.Kind != "loop_selection" {
				t.Errorf("run %s after %d model calls: %+v", r.State, m.calls.Load(), f.Error)
			}
			w.whole()
		})
	}
}

// The same key with another loop is another submission.
func TestLoopIsPartOfTheSubmission(t *testing.T) {
	w := newWorld(t, &drafts{})
	submit := func(sel loops.Selection) error {
		_, _, err := w.client().Submit(t.Context(), runtime.Submit{Agent: "tester", Input: "go", ClientKey: "a", Loop: sel})
		return err
	}
	if err := errors.Join(submit(loops.Selection{}), submit(loops.Selection{})); err != nil {
		t.Fatal(err)
	}
	if err := submit(loops.Selection{Strategy: "revise"}); !errors.Is(err, ledger.ErrClientKeyConflict) {
		t.Errorf("another loop under the same key: %v", err)
	}
	for _, sel := range []loops.Selection{{Options: json.RawMessage(`{"a":1}`)}, {Strategy: "a", Options: json.RawMessage(`[1]`)}} {
		if err := submit(sel); !errors.Is(err, runtime.ErrInvalidSubmit) {
			t.Errorf("%+v: %v", sel, err)
		}
	}
	_, err := w.client().PutSchedule(t.Context(), runtime.Schedule{Name: "a", Cron: "@daily", Run: runtime.Submit{Agent: "tester", Input: "go", Loop: loops.Selection{Strategy: "revise"}}}, "ann")
	if !errors.Is(err, runtime.ErrInvalidSubmit) {
		t.Errorf("a schedule with a loop: %v", err)
	}
}

// A worker does not start with an agent that it could not work for.
func TestWorkerLacksWhatALoopNeeds(t *testing.T) {
	w := newWorld(t, &drafts{})
	for want, a := range map[string]agents.Agent{
		`there is no loop "generate"; this worker has revise, singleshot`: {Loop: "generate"},
		"validators: missing": {Loop: "revise"},
		`the validator "v"`:   {Loop: "revise", LoopOptions: json.RawMessage(`{"validators":["v"]}`)},
		`has no options`:      {Loop: "singleshot", LoopOptions: json.RawMessage(`{"a":1}`)},
	} {
		a.Name, a.Model, a.Prompt = "tester", "test", "Do it."
		_, err := runtime.NewWorker(runtime.Config{
			Ledger: w.store, Journal: struct{ events.Journal }{}, CatchUp: func(context.Context, string) error { return nil }, Redactor: w.red, Agents: []*agents.Agent{&a}, Models: map[string]model.Model{"test": w.model},
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
