package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
)

const verdictSchema = `{"type":"object","properties":{"ok":{"type":"boolean"},"id":{"type":"integer"}},"required":["ok"],"additionalProperties":false}`

func saying(name, text string) func(int) (model.Response, error) {
	return func(int) (model.Response, error) {
		r := doneBy(name)
		r.Text = text
		return r, nil
	}
}

// An answer that fits is the run's output as the JSON that it is, big numbers intact;
// one that does not ends the run with an error that says what is wrong.
func TestOutputFitsItsSchema(t *testing.T) {
	for _, tt := range []struct{ name, text, output, fault string }{
		{"fits", ` {"ok": true, "id": 9007199254740993} `, `{"id":9007199254740993,"ok":true}`, ""},
		{"another type", `{"ok": 1}`, "", "/ok: "},
		{"no JSON", "Certainly! Here it is.", "", "does not fit the agent's output schema: "},
		{"JSON of a repeated name", `{"ok":true,"ok":false}`, "", "does not fit"},
		{"a field too many", `{"ok": true, "why": "canary-7f3a"}`, "", "why"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := new(chained)
			w := newWorld(t, nil)
			w.chainOf(link{c, "m", saying("m", tt.text)})
			bind := w.agent
			w.agent = func(a *agents.Agent) { bind(a); a.Output, a.Thinking = json.RawMessage(verdictSchema), "low" }
			w.start()
			id := w.submit("go").ID
			r := w.wait(id, false)
			if f := c.requests("m")[0]; f.Thinking != "low" || f.Format == nil || f.Format.Name != "tester" || string(f.Format.Schema) != verdictSchema {
				t.Errorf("asked with thinking %q, format %+v", f.Thinking, f.Format)
			}
			es := w.history(id)
			switch p := es[len(es)-1].Data.(type) {
			case events.RunFinished:
				if string(p.Output) != tt.output {
					t.Errorf("output %s, want %s", p.Output, tt.output)
				}
			case events.RunFailed:
				if tt.fault == "" || p.Error.Kind != "output_mismatch" || !strings.Contains(p.Error.Message, tt.fault) || r.State != ledger.Failed {
					t.Errorf("%s: %+v", r.State, p.Error)
				}
			}
			w.whole()
		})
	}
}

// The schema and how much to think are those that the run began with, on whatever worker and
// whatever model of the chain: the file has changed meanwhile.
func TestOutputAndThinkingAreFrozen(t *testing.T) {
	c := new(chained)
	asked := make(chan struct{}, 8)
	slow := func(turn int) (model.Response, error) {
		if turn == 1 {
			return signedBy("a"), nil
		}
		asked <- struct{}{}
		return model.Response{}, &model.Error{Kind: "overloaded", Retryable: true, RetryAfter: time.Hour, Err: errors.New("busy")}
	}
	w := newWorld(t, nil, looker())
	w.chainOf(link{c, "a", slow}, link{c, "b", func(int) (model.Response, error) {
		return model.Response{}, &model.Error{Kind: "overloaded", Retryable: true, RetryAfter: 300 * time.Millisecond, Err: errors.New("busy")}
	}})
	bind := w.agent
	w.agent = func(a *agents.Agent) { bind(a); a.Output, a.Thinking = json.RawMessage(verdictSchema), "high" }
	first := w.start()
	id := w.submit("go").ID
	<-asked
	w.wait(id, true)
	first.stop(t)
	w.chainOf(link{c, "a", slow}, link{c, "b", saying("b", `{"ok":true}`)})
	w.start()
	if r := w.wait(id, false); r.State != ledger.Finished {
		t.Fatalf("the run is %s\n%s", r.State, w.story(id))
	}
	rs := append(c.requests("a"), c.requests("b")...)
	for _, r := range rs {
		if r.Thinking != "high" || r.Format == nil || string(r.Format.Schema) != verdictSchema {
			t.Errorf("%s is asked with thinking %q, format %+v", r.Model, r.Thinking, r.Format)
		}
	}
	if len(rs) < 4 {
		t.Errorf("%d requests", len(rs))
	}
	w.whole()
}

// A worker with a schema that is none does not start.
func TestOutputSchemaIsChecked(t *testing.T) {
	w := newWorld(t, nil)
	j := w.stream.Journal("w")
	defer j.Close(t.Context())
	cfg := runtime.Config{
		Ledger: w.store, Journal: j, Redactor: w.red, CatchUp: func(context.Context, string) error { return nil },
		Models: map[string]model.Model{"m": link{}}, Agents: []*agents.Agent{{Name: "a", Model: "m", Loop: "singleshot", Prompt: "x", Output: json.RawMessage(`{"type":"thing"}`)}},
	}
	if _, err := runtime.NewWorker(cfg); err == nil || !strings.Contains(err.Error(), `agent "a": output: compile schema`) {
		t.Errorf("NewWorker = %v", err)
	}
}
