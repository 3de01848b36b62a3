package runtime_test

import (
	"slices"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
)

// ours is a model at an address of one's own, where nobody answers.
type ours struct{ away }

func (ours) Provider() model.Provider { return model.ProviderAt("http://127.0.0.1:1/v1", "openai") }

// The record says whom each attempt asks, as its client knows it; a model that does not
// say is nobody's.
func TestModelCallsSayWhomTheyAsk(t *testing.T) {
	pool, err := model.NewPool(nil, model.Endpoint{Name: "x", Model: ours{}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, scripted.Script(finish))
	w.agent = func(a *agents.Agent) { a.Model, a.Fallbacks = "away", []string{"plain", "test"} }
	w.cfg = func(c *runtime.Config) { c.Models["away"], c.Models["plain"] = pool, away{} }
	w.start()
	id := w.submit("go").ID
	w.wait(id, false)
	var asked []model.Provider
	for _, e := range w.history(id) {
		if s, ok := e.Data.(events.ModelCallStarted); ok {
			asked = append(asked, model.Provider{Name: s.Provider, Server: s.Server})
		}
	}
	if want := []model.Provider{{Name: "openai", Server: "127.0.0.1"}, {}, {Name: "scripted"}}; !slices.Equal(asked, want) {
		t.Errorf("asked %+v, want %+v\n%s", asked, want, w.story(id))
	}
}
