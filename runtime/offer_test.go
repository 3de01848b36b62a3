package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/tools"
)

// shown is a model that notes which tools each request has.
type shown struct {
	model.Model
	mu  sync.Mutex
	got [][]string
}

func (m *shown) Call(ctx context.Context, req model.Request) (model.Response, error) {
	var names []string
	for _, t := range req.Tools {
		names = append(names, t.Name)
	}
	m.mu.Lock()
	m.got = append(m.got, names)
	m.mu.Unlock()
	return m.Model.Call(ctx, req)
}

func (m *shown) requests() [][]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.got)
}

// SG-146, SG-154: an agent that selects shows the model what the conversation is
// about, and the event says what that was. Whoever goes on with the call shows
// the same, although it would select otherwise itself.
func TestSelectionIsTakenFromTheHistory(t *testing.T) {
	reader := func(name, description string) tools.Tool {
		return must(tools.New(tools.Definition{Name: name, Description: description, Effect: tools.Readonly, Trust: tools.Own},
			func(context.Context, *tools.Invocation, struct{}) (string, error) { return name, nil }))
	}
	call := func(name string) scripted.Answer { return calls(scripted.Call{Name: name, Arguments: `{}`}) }
	down := scripted.Answer{Err: &model.Error{Kind: "overloaded", Retryable: true, RetryAfter: time.Second, Err: errors.New("busy")}}
	m := &shown{Model: scripted.Script(call("mail"), finish, down, call("nothing"), finish)}
	w := newWorld(t, m, reader("stock", "Counts what is in the warehouse."), reader("weather", "Forecasts rain for a town."), reader("mail", "Sends letters."))
	w.agent = func(a *agents.Agent) { a.Select = 3 }
	first := w.start()
	w.wait(w.submit("send letters").ID, false)
	r := w.submit("will there be rain?")
	w.until("the model is to be asked later", func() bool { return count[events.RunParked](w, r.ID) == 1 })
	first.stop(t)
	w.agent = func(a *agents.Agent) { a.Select = 1 } // today's file does not change a run that is under way
	w.start()
	if got := w.wait(r.ID, false); got.State != ledger.Finished {
		t.Fatalf("run = %s: %s", got.State, got.Error)
	}
	// The second worker never ran mail: by itself it would fill up with decline.
	rain, letters := []string{"finish", "weather", "mail"}, []string{"finish", "decline", "mail"}
	want := [][]string{letters, letters, rain, rain, rain}
	got := m.requests()
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the model was shown %q, want %q", got, want)
	}
	var recorded [][]string
	for _, e := range w.history(r.ID) {
		if p, ok := e.Data.(events.ModelCallStarted); ok {
			recorded = append(recorded, p.Tools)
		}
	}
	if !slices.EqualFunc(recorded, want[2:], slices.Equal) {
		t.Errorf("recorded as shown: %q, want %q", recorded, want[2:])
	}
	if s := last[events.RunStarted](w, r.ID); s.Select != 3 || len(s.Tools) != 5 {
		t.Errorf("the run is bound to a choice of %d out of %d, want 3 out of 5", s.Select, len(s.Tools))
	}
	// SG-152: an unknown name is answered with what was offered.
	if b := last[events.ToolExecutionBlocked](w, r.ID); !strings.Contains(b.Result.Error, "there are finish, weather, mail") {
		t.Errorf("an unknown tool is told: %q", b.Result.Error)
	}
	w.whole()
}

// SG-155 … SG-158: an agent with groups is shown tools of the group that the
// conversation names; else the best of all; and of each group in turn where
// nothing tells them apart.
func TestSelectionByGroups(t *testing.T) {
	reader := func(name, description string) tools.Tool {
		return must(tools.New(tools.Definition{Name: name, Description: description, Effect: tools.Readonly, Trust: tools.Own},
			func(context.Context, *tools.Invocation, struct{}) (string, error) { return name, nil }))
	}
	m := &shown{Model: scripted.Script(finish, finish, finish)}
	w := newWorld(t, m, reader("rain", "Forecasts rain."), reader("wind", "Forecasts storms."),
		reader("count", "Counts boxes."), reader("move", "Moves boxes about."), reader("mail", "Sends letters."))
	w.agent = func(a *agents.Agent) {
		a.Select = 3
		a.Tools = []string{"finish", "rain", "wind", "count", "move", "mail"}
		a.Groups = []agents.Group{{Name: "weather", Tools: []string{"rain", "wind"}}, {Name: "stock", Groups: []agents.Group{{Name: "boxes", Tools: []string{"count", "move"}}}}}
	}
	w.start()
	for _, input := range []string{"what does the stock say of storms and letters", "will there be storms?", "xyzzy"} {
		if r := w.wait(w.submit(input).ID, false); r.State != ledger.Finished {
			t.Fatalf("run = %s: %s", r.State, r.Error)
		}
	}
	want := [][]string{{"finish", "count", "move"}, {"finish", "wind", "rain"}, {"finish", "rain", "count"}}
	got := m.requests()
	for i := range got {
		slices.Sort(got[i])
		slices.Sort(want[i])
	}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the model was shown %q, want %q", got, want)
	}
	w.whole()
}
