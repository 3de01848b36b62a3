package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// thinker answers like a provider that signs its reasoning: what it said has to
// come back as it was.
type thinker struct {
	mu    sync.Mutex
	asked []model.Request
	calls func(n int, ctx context.Context) (model.Response, error)
}

func (m *thinker) Call(ctx context.Context, r model.Request) (model.Response, error) {
	m.mu.Lock()
	m.asked = append(m.asked, r)
	n := len(m.asked)
	m.mu.Unlock()
	return m.calls(n, ctx)
}

func (m *thinker) requests() []model.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]model.Request(nil), m.asked...)
}

func signed(data string) model.Response {
	return model.Response{
		Model: "test-2026-01-01", StopReason: "tool_use", RequestID: "req_1", RawUsage: json.RawMessage(`{"input_tokens":3,"output_tokens":2}`), Usage: events.Usage{Input: 3, Output: 2},
		Calls: []events.ToolCall{{Name: "look", Arguments: json.RawMessage(`{"text":"x"}`)}},
		Blocks: []events.Block{
			{Kind: events.BlockReasoning, Text: "hm", Format: "test", Data: json.RawMessage(data)},
			{Kind: events.BlockCall},
		},
	}
}

func looker() tools.Tool {
	return must(tools.New(tools.Definition{Name: "look", Description: "Looks.", Effect: tools.Readonly}, func(context.Context, *tools.Invocation, text) (string, error) { return "seen", nil }))
}

// What a provider wants back comes back as it was, to the worker that asked and
// to the one that resumes the run: the same transcript, to the byte.
func TestReasoningIsTheSameAfterATakeover(t *testing.T) {
	const data = `{"signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds","token_like":"sk-proj-a1b2c3d4e5f6a7b8c9d0a1b2c3d4"}`
	asked := make(chan struct{})
	m := &thinker{calls: func(n int, ctx context.Context) (model.Response, error) {
		switch n {
		case 1:
			return signed(data), nil
		case 2: // of the worker that goes away
			close(asked)
			<-ctx.Done()
			return model.Response{}, ctx.Err()
		}
		return model.Response{Text: "done", StopReason: "end_turn", Usage: events.Usage{Missing: true}}, nil
	}}
	w := newWorld(t, m, looker())
	w.cfg = func(c *runtime.Config) { c.ShutdownGrace = 10 * time.Millisecond }
	first := w.start()
	id := w.submit("go").ID
	<-asked
	first.stop(t)
	w.start()
	if r := w.wait(id, true); r.State != ledger.Finished {
		t.Fatalf("run is %s\n%s", r.State, w.story(id))
	}
	rs := m.requests()
	if len(rs) != 3 {
		t.Fatalf("%d requests", len(rs))
	}
	rs[1].AttemptID, rs[2].AttemptID = "", ""
	if d := cmp.Diff(rs[1], rs[2]); d != "" {
		t.Errorf("the resumed transcript differs (-before +after):\n%s", d)
	}
	want := signed(data).Blocks
	if d := cmp.Diff(want, rs[2].Messages[1].Blocks); d != "" {
		t.Errorf("blocks (-want +got):\n%s", d)
	}
	if ps := rs[2].Messages[1].Pieces("test"); len(ps) != 2 || string(ps[0].Data) != data {
		t.Errorf("pieces %+v", ps)
	}
	if e := finishedCall(t, w, id, 0); string(e.RawUsage) != `{"input_tokens":3,"output_tokens":2}` || e.RequestID != "req_1" {
		t.Errorf("recorded %s, %s", e.RawUsage, e.RequestID)
	}
	if e := finishedCall(t, w, id, 1); e.Cost != nil || !e.Usage.Missing {
		t.Errorf("usage that is missing costs %v", e.Cost)
	}
	w.whole()
}

func finishedCall(t *testing.T, w *world, id events.RunID, n int) events.ModelCallFinished {
	t.Helper()
	for _, e := range w.history(id) {
		if f, ok := e.Data.(events.ModelCallFinished); ok {
			if n == 0 {
				return f
			}
			n--
		}
	}
	t.Fatal("no such answer")
	return events.ModelCallFinished{}
}

// A registered secret is redacted in what is the provider's own too; such a block
// goes back to nobody.
func TestSecretsInReasoningAreRedacted(t *testing.T) {
	const secret = "canary-in-a-signature-1"
	m := &thinker{calls: func(n int, _ context.Context) (model.Response, error) {
		if n == 1 {
			return signed(`{"signature":"` + secret + `"}`), nil
		}
		return model.Response{Text: "done", StopReason: "end_turn", Usage: events.Usage{Input: 1, Output: 1}}, nil
	}}
	w := newWorld(t, m, looker())
	if err := w.red.Register("canary", secret); err != nil {
		t.Fatal(err)
	}
	w.start()
	id := w.submit("go").ID
	w.wait(id, true)
	for _, e := range w.history(id) {
		if b, _ := json.Marshal(e.Data); strings.Contains(string(b), secret) {
			t.Errorf("%s holds the secret", e.Type)
		}
	}
	if ps := m.requests()[1].Messages[1].Pieces("test"); len(ps) != 1 || ps[0].Call == nil {
		t.Errorf("pieces %+v", ps)
	}
}

// An answer whose reasoning alone is over what an event holds is kept without
// it: it is paid for.
func TestReasoningThatIsTooLargeIsLeftOut(t *testing.T) {
	m := &thinker{calls: func(n int, _ context.Context) (model.Response, error) {
		if n == 1 {
			return signed(`{"signature":"` + strings.Repeat("a", events.MaxDataBytes) + `"}`), nil
		}
		return model.Response{Text: "done", StopReason: "end_turn", Usage: events.Usage{Input: 1, Output: 1}}, nil
	}}
	w := newWorld(t, m, looker())
	w.start()
	id := w.submit("go").ID
	if r := w.wait(id, true); r.State != ledger.Finished {
		t.Fatalf("run is %s\n%s", r.State, w.story(id))
	}
	if rs := m.requests(); len(rs) != 2 || rs[1].Messages[1].Blocks != nil || len(rs[1].Messages[1].Calls) != 1 {
		t.Errorf("%d requests: %+v", len(rs), rs)
	}
}

// A failed attempt is billed to the model that served it.
func TestFailedAttemptNamesWhoServed(t *testing.T) {
	m := &thinker{calls: func(n int, _ context.Context) (model.Response, error) {
		if n == 1 {
			return model.Response{}, &model.Error{Kind: "unavailable", Retryable: true, Model: "gpt-4o-mini", Usage: &events.Usage{Input: 1000, Output: 10}, Err: errors.New("cut")}
		}
		return model.Response{Text: "done", StopReason: "end_turn", Usage: events.Usage{Input: 1, Output: 1}}, nil
	}}
	w := newWorld(t, m)
	w.start()
	id := w.submit("go").ID
	w.wait(id, true)
	for _, e := range w.history(id) {
		if f, ok := e.Data.(events.ModelCallError); ok {
			if f.ServedModel != "gpt-4o-mini" || f.Cost == nil || f.Cost.String() != "0.000156" {
				t.Errorf("error %+v", f)
			}
			return
		}
	}
	t.Error("no failed attempt")
}
