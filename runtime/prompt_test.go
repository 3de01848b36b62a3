package runtime_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// prompted is a model that keeps what prompts it was called with.
type prompted struct {
	model.Model
	mu  sync.Mutex
	got []string
}

func (m *prompted) Call(ctx context.Context, req model.Request) (model.Response, error) {
	m.mu.Lock()
	m.got = append(m.got, req.System)
	m.mu.Unlock()
	return m.Model.Call(ctx, req)
}

func (m *prompted) prompts() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.got)
}

// PR-27, PR-67, PR-70: the layers of an agent make its prompt; the run is bound to
// both, redacted, whatever the next worker's files say; no event tells of prompts.
func TestPromptLayersAreFrozen(t *testing.T) {
	const secret = "Tr0ub4dor-and-3-horses"
	m := &prompted{Model: scripted.Script(
		scripted.Answer{Err: &model.Error{Kind: "overloaded", Retryable: true, RetryAfter: time.Second, Err: errors.New("busy")}}, finish,
	)}
	w := newWorld(t, m)
	if err := w.red.Register("horse", secret); err != nil {
		t.Fatal(err)
	}
	w.agent = func(a *agents.Agent) {
		a.Layers = []prompt.Layer{
			{ID: "agents-md", Source: prompt.App, Text: "Never say " + secret + "."},
			{ID: "system-md", Source: prompt.User, Text: "Be short."},
			{ID: "quiet", Source: "custom", Mode: prompt.Disable},
		}
	}
	first := w.start()
	r := w.submit("go")
	w.until("the model is to be asked later", func() bool { return count[events.RunParked](w, r.ID) == 1 })
	first.stop(t)
	w.agent = func(a *agents.Agent) {
		a.Prompt, a.Layers = "Other.", []prompt.Layer{{ID: "x", Source: prompt.Run, Mode: prompt.Replace, Text: "Other."}}
	}
	w.start()
	if got := w.wait(r.ID, false); got.State != ledger.Finished {
		t.Fatalf("run %s: %s", got.State, got.Error)
	}
	got := m.prompts()
	if len(got) != 2 || got[0] != got[1] || !strings.HasPrefix(got[0], "Do it.\n\nNever say [") || strings.Contains(got[0], secret) || strings.Contains(got[0], "short") {
		t.Errorf("prompts %q", got)
	}
	s := last[events.RunStarted](w, r.ID)
	digest := func(text string) events.Hash { return sha256.Sum256([]byte(text)) }
	want := []events.PromptLayer{
		{ID: "base", Source: "base", Mode: "append", Digest: digest("Do it.")},
		{ID: "system-md", Source: "user", Mode: "append", Digest: digest("Be short."), Off: "quiet"},
		{ID: "quiet", Source: "custom", Mode: "disable", Digest: digest("")},
		{ID: "agents-md", Source: "app", Mode: "append", Digest: digest(strings.TrimPrefix(got[0], "Do it.\n\n"))},
	}
	if d := cmp.Diff(want, s.PromptLayers); d != "" {
		t.Errorf("layers (-want +got):\n%s", d)
	}
	b, _, err := w.store.Blob(t.Context(), r.Tenant, s.PromptHash)
	if err != nil || string(b) != got[0] {
		t.Errorf("the run is bound to %q %v, want %q", b, err, got[0])
	}
	if types := w.types(r.ID); slices.ContainsFunc(types, func(typ string) bool { return strings.Contains(typ, "prompt") }) {
		t.Errorf("events %q", types)
	}
	w.whole()
}

// Without layers an event is as it was before there were any.
func TestPromptWithoutLayers(t *testing.T) {
	m := &prompted{Model: scripted.Script(finish)}
	w := newWorld(t, m)
	w.start()
	r := w.submit("go")
	w.wait(r.ID, false)
	if s := last[events.RunStarted](w, r.ID); s.PromptLayers != nil || !slices.Equal(m.prompts(), []string{"Do it."}) {
		t.Errorf("%+v, prompts %q", s.PromptLayers, m.prompts())
	}
	w.whole()
}

// A prompt that can't be composed is told before any run is taken.
func TestPromptThatCannotBeComposed(t *testing.T) {
	a := &agents.Agent{Name: "tester", Model: "test", Loop: "singleshot", Prompt: "Do it.", Layers: []prompt.Layer{{ID: "a", Source: "s", Mode: "before"}}}
	w := newWorld(t, scripted.Script())
	j := w.stream.Journal("w")
	_, err := runtime.NewWorker(runtime.Config{
		Name: "w", Ledger: w.store, Journal: j, Redactor: w.red, Tools: new(tools.Registry), Agents: []*agents.Agent{a},
		Models: map[string]model.Model{"test": w.model}, CatchUp: func(context.Context, string) error { return nil },
	})
	if err == nil || !strings.Contains(err.Error(), `agent "tester": prompt layer: "a" of source "s": mode "before"`) {
		t.Errorf("%v", err)
	}
	if err := j.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
