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

// What a provider says of usage or beside a call may be no JSON that can be
// recorded, and an answer may be more than an event holds: the attempt has a row
// all the same, and is not paid for again and again.
func TestAnswersThatCannotBeRecorded(t *testing.T) {
	long := strings.Repeat("<", events.MaxDataBytes)
	tests := []struct {
		name string
		edit func(*model.Response)
		fail string // kind of the error that the run ends with; empty = it goes on
	}{
		{"usage with a name twice", func(r *model.Response) { r.RawUsage = json.RawMessage(`{"a":1,"a":2}`) }, ""},
		{"half a surrogate pair", func(r *model.Response) { r.RawUsage = json.RawMessage(`{"a":"\ud800"}`) }, ""},
		{"a stray byte in a block", func(r *model.Response) { r.Blocks[0].Data = json.RawMessage("{\"a\":\"\xff\"}") }, ""},
		{"usage that is no JSON", func(r *model.Response) { r.RawUsage = json.RawMessage(`{`) }, ""},
		{"usage that is too long", func(r *model.Response) { r.RawUsage = json.RawMessage(`"` + long + `"`) }, ""},
		{"a text that is too long", func(r *model.Response) { r.Text = long }, "answer_too_large"},
		{"a name that is too long", func(r *model.Response) { r.Model = long }, "answer_too_large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &thinker{calls: func(n int, _ context.Context) (model.Response, error) {
				if n == 1 {
					r := signed(`{"signature":"a"}`)
					tt.edit(&r)
					return r, nil
				}
				return model.Response{Text: "done", StopReason: "end_turn", Usage: events.Usage{Input: 1, Output: 1}}, nil
			}}
			w := newWorld(t, m, looker())
			w.start()
			id := w.submit("go").ID
			want, asked := ledger.Finished, 2
			if tt.fail != "" {
				want, asked = ledger.Failed, 1
			}
			if r := w.wait(id, true); r.State != want || len(m.requests()) != asked {
				t.Fatalf("run is %s after %d requests\n%s", r.State, len(m.requests()), w.story(id))
			}
			if tt.fail == "" {
				if e := finishedCall(t, w, id, 0); len(e.ToolCalls) != 1 || e.Usage.Output != 2 {
					t.Errorf("recorded %+v", e)
				}
				return
			}
			if f := failedCall(t, w, id); f.Error.Kind != tt.fail || f.Usage == nil || f.Usage.Output != 2 || len(f.ServedModel) > 300 {
				t.Errorf("recorded %.2000v", f)
			}
		})
	}
}

// The words of an error are cut to what an event holds, and a secret in them is
// taken out before.
func TestLongErrorsAreRecorded(t *testing.T) {
	const secret = "canary-in-an-error-1"
	// What is cut is at 12 KiB: half of the secret would be before it.
	words := strings.Repeat("a", 12<<10-len("model call: unavailable: ")-len(secret)/2) + secret + strings.Repeat("b", events.MaxDataBytes)
	m := &thinker{calls: func(n int, _ context.Context) (model.Response, error) {
		if n == 1 {
			return model.Response{}, &model.Error{Kind: "unavailable", Retryable: true, Err: errors.New(words)}
		}
		return model.Response{Text: "done", StopReason: "end_turn", Usage: events.Usage{Input: 1, Output: 1}}, nil
	}}
	w := newWorld(t, m)
	if err := w.red.Register("canary", secret); err != nil {
		t.Fatal(err)
	}
	w.start()
	id := w.submit("go").ID
	w.wait(id, true) // ended, or parked for the next attempt
	if f := failedCall(t, w, id); strings.Contains(f.Error.Message, secret[:8]) || len(f.Error.Message) > 12<<10 {
		t.Errorf("%d bytes, ending in %q", len(f.Error.Message), f.Error.Message[max(0, len(f.Error.Message)-60):])
	}
}

// A client that still knows what was billed when the time was up is believed.
func TestTimeoutKeepsWhatIsKnown(t *testing.T) {
	m := &thinker{calls: func(n int, ctx context.Context) (model.Response, error) {
		if n == 1 {
			<-ctx.Done()
			return model.Response{}, &model.Error{Kind: "timeout", Retryable: true, Model: "gpt-4o-mini", Usage: &events.Usage{Input: 1000, Output: 10}, Err: ctx.Err()}
		}
		return model.Response{Text: "done", StopReason: "end_turn", Usage: events.Usage{Input: 1, Output: 1}}, nil
	}}
	w := newWorld(t, m)
	w.cfg = func(c *runtime.Config) { c.ModelTimeout = 10 * time.Millisecond }
	w.start()
	id := w.submit("go").ID
	w.wait(id, true)
	if f := failedCall(t, w, id); f.Error.Kind != "timeout" || f.ServedModel != "gpt-4o-mini" || f.Cost == nil || f.Cost.String() != "0.000156" {
		t.Errorf("error %+v", f)
	}
}

func failedCall(t *testing.T, w *world, id events.RunID) events.ModelCallError {
	t.Helper()
	for _, e := range w.history(id) {
		if f, ok := e.Data.(events.ModelCallError); ok {
			return f
		}
	}
	t.Fatalf("no failed attempt\n%s", w.story(id))
	return events.ModelCallError{}
}
