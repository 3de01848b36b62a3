package sidequery_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/sidequery"
	"github.com/daybookhq/daybook/redact"
)

// says is a model that answers always the same, and keeps what it was asked.
type says struct {
	resp  model.Response
	err   error
	asked *[]model.Request
}

func (s says) Call(ctx context.Context, r model.Request) (model.Response, error) {
	if s.asked != nil {
		*s.asked = append(*s.asked, r)
	}
	if s.err != nil {
		return model.Response{}, s.err
	}
	return s.resp, ctx.Err()
}

var at = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func hello() []sidequery.Message {
	return []sidequery.Message{{Message: model.Message{Role: model.User, Text: "hello"}}}
}

func run(t *testing.T, s sidequery.Spec, d sidequery.Deps) sidequery.Result {
	t.Helper()
	if s.Messages == nil {
		s.Messages = hello()
	}
	d.Now = func() time.Time { return at }
	if d.Prices == nil {
		d.Prices = model.DefaultPrices()
	}
	r, err := sidequery.Run(t.Context(), s, d)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func answer(served string) model.Response {
	return model.Response{Model: served, Text: "hi", StopReason: "end_turn", Usage: events.Usage{Input: 1_000_000, CacheRead: 5}}
}

func pool(ms map[string]model.Model) sidequery.Deps {
	return sidequery.Deps{Models: ms, Roles: map[string][]string{"default": {"gpt-5", "claude-opus-4-5"}, "cheap": {"gpt-4o-mini"}, "broken": {"nobody"}}}
}

// SE-54: one call, with what a worker has and no more: models, and who they are.
func TestOneCall(t *testing.T) {
	var asked []model.Request
	r := run(t, sidequery.Spec{Model: "m"}, sidequery.Deps{Models: map[string]model.Model{"m": says{resp: answer("m"), asked: &asked}}})
	if len(asked) != 1 || r.Text != "hi" || r.StopReason != "end_turn" || len(r.Attempts) != 1 {
		t.Errorf("%d calls: %+v", len(asked), r)
	}
}

// SE-55: nothing to ask is the one error.
func TestNoMessages(t *testing.T) {
	if _, err := sidequery.Run(t.Context(), sidequery.Spec{Model: "m"}, sidequery.Deps{}); !errors.Is(err, sidequery.ErrNoMessages) {
		t.Errorf("Run = %v", err)
	}
}

// SE-56: which model a spec means, and what else of it is asked.
func TestWhatASpecMeans(t *testing.T) {
	for _, tt := range []struct{ name, model, role, want, says string }{
		{"a name", "gpt-4o-mini", "", "gpt-4o-mini", ""},
		{"a mention", "@gpt-4o-mini", "", "gpt-4o-mini", ""},
		{"a role as the model", "cheap", "", "gpt-4o-mini", ""},
		{"a role mentioned", "@cheap", "", "gpt-4o-mini", ""},
		{"a role", "", "cheap", "gpt-4o-mini", ""},
		{"a role beside a model", "claude-opus-4-5", "cheap", "claude-opus-4-5", ""},
		{"nothing", "", "", "gpt-5", ""},
		{"a name as the role", "", "gpt-5", "", `there is no role "gpt-5"`},
		{"nobody", "nobody", "", "", `there is no model "nobody"`},
		{"a role of nobody", "", "broken", "", `which is not configured`},
	} {
		var asked []model.Request
		m := says{resp: answer(""), asked: &asked}
		r := run(t, sidequery.Spec{Model: tt.model, Role: tt.role, Thinking: "low", System: "Be brief.", MaxTokens: 7}, pool(map[string]model.Model{"gpt-5": m, "claude-opus-4-5": m, "gpt-4o-mini": m}))
		if tt.want == "" {
			if len(asked) != 0 || r.StopReason != "error" || !strings.Contains(r.ErrorMessage, tt.says) {
				t.Errorf("%s: %d calls, %+v", tt.name, len(asked), r)
			}
			continue
		}
		if len(asked) != 1 || asked[0].Model != tt.want || r.Model != tt.want {
			t.Fatalf("%s: asked %+v, result %+v", tt.name, asked, r)
		}
		if q := asked[0]; q.Thinking != "low" || q.System != "Be brief." || q.MaxTokens != 7 {
			t.Errorf("%s: asked %+v", tt.name, q)
		}
	}
}

// SE-57: the whole conversation goes to the model, as it is.
// SE-58: what is missing is filled in, a text is a block of text, what is unknown
// is kept and not sent.
func TestMessages(t *testing.T) {
	const in = `[{"role":"user","content":"find it","timestamp":1700000000000},
		{"role":"assistant","content":"looking","mood":{"n":9007199254740993}},
		{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"toolCall","id":"c1","name":"x","arguments":{"id":9007199254740993}},{"type":"toolCall","id":"c2","name":"y"}]},
		{"role":"toolResult","toolCallId":"c1","toolName":"x","content":[{"type":"text","text":"found"}],"isError":true}]`
	var ms []sidequery.Message
	if err := json.Unmarshal([]byte(in), &ms); err != nil {
		t.Fatal(err)
	}
	var asked []model.Request
	r := run(t, sidequery.Spec{Model: "m", Messages: ms}, sidequery.Deps{Models: map[string]model.Model{"m": says{resp: answer("m"), asked: &asked}}})
	want := []model.Message{
		{Role: model.User, Text: "find it"},
		{Role: model.Assistant, Text: "looking"},
		{Role: model.Assistant, Text: "ab", Calls: []model.Call{{ID: "c1", Name: "x", Arguments: json.RawMessage(`{"id":9007199254740993}`)}, {ID: "c2", Name: "y", Arguments: json.RawMessage(`{}`)}}},
		{Role: model.Tool, Results: []model.Result{{CallID: "c1", Name: "x", Text: "found", Failed: true}}},
	}
	if d := cmp.Diff(want, asked[0].Messages); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
	if !r.Sent[0].Time.Equal(time.UnixMilli(1700000000000)) || !r.Sent[1].Time.Equal(at) || string(r.Sent[1].Extra["mood"]) != `{"n":9007199254740993}` || r.Sent[0].Extra != nil {
		t.Errorf("taken in as %+v", r.Sent)
	}
	if !ms[1].Time.IsZero() {
		t.Error("the caller's messages were changed")
	}
	for _, bad := range []string{`[{"role":"wizard","content":""}]`, `[{"role":"user","content":3}]`, `[3]`} {
		if err := json.Unmarshal([]byte(bad), &ms); err == nil {
			t.Errorf("took %s", bad)
		}
	}
}

// SE-59: calls come back with ids of their own, and nothing runs.
// SE-60: the text of an answer that is calls alone is empty.
func TestCallsComeBack(t *testing.T) {
	var asked []model.Request
	resp := model.Response{Model: "m", StopReason: "tool_use", Calls: []events.ToolCall{
		{Name: "x", Arguments: json.RawMessage(`{"id":9007199254740993}`)}, {ProviderID: "a", Name: "x", Arguments: json.RawMessage(`{}`)}, {ProviderID: "a", Name: "y", Arguments: json.RawMessage(`"{"`), Malformed: true},
	}}
	tools := []model.Spec{{Name: "x", Description: "Looks.", Schema: json.RawMessage(`{}`)}}
	r := run(t, sidequery.Spec{Model: "m", Tools: tools}, sidequery.Deps{Models: map[string]model.Model{"m": says{resp: resp, asked: &asked}}})
	want := []sidequery.ToolCall{{ID: "call_0", Name: "x", Args: json.RawMessage(`{"id":9007199254740993}`)}, {ID: "a", Name: "x", Args: json.RawMessage(`{}`)}, {ID: "call_2", Name: "y", Args: json.RawMessage(`"{"`), Malformed: true}}
	if d := cmp.Diff(want, r.ToolCalls); d != "" || r.Text != "" || len(asked) != 1 {
		t.Errorf("text %q, %d calls of the model, tool calls (-want +got):\n%s", r.Text, len(asked), d)
	}
	if d := cmp.Diff(tools, asked[0].Tools); d != "" {
		t.Errorf("tools (-want +got):\n%s", d)
	}
}

// SE-61: the model that was meant and the one that answered are two after a fallback.
// SE-62: a fallback that served is said, with its reason; nothing is said otherwise.
// SE-63: how the answer names its model is said only if it is another name.
func TestWhoServed(t *testing.T) {
	busy := says{err: &model.Error{Kind: "overloaded", Retryable: true, Err: errors.New("busy"), Usage: &events.Usage{Missing: true}}}
	r := run(t, sidequery.Spec{}, pool(map[string]model.Model{"gpt-5": busy, "claude-opus-4-5": says{resp: answer("claude-opus-4-5-20251101")}}))
	if r.Model != "gpt-5" || r.ServedModel != "claude-opus-4-5" || r.ResponseModel != "claude-opus-4-5-20251101" || r.Text != "hi" || r.ErrorMessage != "" {
		t.Errorf("%+v", r)
	}
	want := &events.Degraded{From: "gpt-5", To: "claude-opus-4-5", Reason: "overloaded", Chain: []string{"gpt-5", "claude-opus-4-5"}}
	if d := cmp.Diff(want, r.Degraded); d != "" {
		t.Errorf("degraded (-want +got):\n%s", d)
	}
	if len(r.Attempts) != 2 || r.Attempts[0].Kind != "overloaded" || !r.Attempts[0].Usage.Missing || r.Attempts[1].Kind != "" {
		t.Errorf("attempts %+v", r.Attempts)
	}
	if r.Cost == nil || r.Cost.String() != "5.0000025" { // of the model that served
		t.Errorf("cost %v", r.Cost)
	}
	r = run(t, sidequery.Spec{}, pool(map[string]model.Model{"gpt-5": says{resp: answer("gpt-5")}, "claude-opus-4-5": busy}))
	if r.Model != "gpt-5" || r.ServedModel != "gpt-5" || r.ResponseModel != "" || r.Degraded != nil || len(r.Attempts) != 1 {
		t.Errorf("%+v", r)
	}
	b, err := json.Marshal(r)
	if err != nil || strings.Contains(string(b), "degraded") || strings.Contains(string(b), "response_model") || strings.Contains(string(b), "usage_missing") || strings.Contains(string(b), "error_message") {
		t.Errorf("%s, %v", b, err)
	}
}

// SE-65: usage is that of who served, by whose family it was counted; the model
// that was meant has no say in it.
func TestUsageAfterAFallback(t *testing.T) {
	served := answer("claude-opus-4-5")
	served.Usage = model.Uncached(model.FamilyOf("claude-opus-4-5"), events.Usage{Input: 10, CacheRead: 8, Output: 1})
	gone := says{err: errors.New("no route to host")}
	r := run(t, sidequery.Spec{}, pool(map[string]model.Model{"gpt-5": gone, "claude-opus-4-5": says{resp: served}}))
	if want := (events.Usage{Input: 10, CacheRead: 8, Output: 1}); r.Usage != want || r.Degraded.Reason != "unavailable" {
		t.Errorf("usage %+v, want %+v; %+v", r.Usage, want, r.Degraded)
	}
}

// SE-66: usage that is missing is said, and costs nobody knows what.
func TestUsageMissing(t *testing.T) {
	resp := answer("gpt-5")
	resp.Usage = events.Usage{Missing: true}
	r := run(t, sidequery.Spec{Model: "m"}, sidequery.Deps{Models: map[string]model.Model{"m": says{resp: resp}}})
	b, _ := json.Marshal(r)
	if !r.UsageMissing || r.Cost != nil || !strings.Contains(string(b), `"usage_missing":true`) {
		t.Errorf("%s", b)
	}
}

// SE-67: errors are values, with usage and model of the attempt that failed.
func TestErrorsAreValues(t *testing.T) {
	const secret = "canary-of-a-provider-1"
	red := redact.New(redact.Config{})
	if err := red.Register("provider", secret); err != nil {
		t.Fatal(err)
	}
	cut := says{err: &model.Error{Kind: "unavailable", Retryable: true, Model: "gpt-5", Usage: &events.Usage{Input: 1_000_000}, Err: errors.New("cut, " + secret)}}
	r := run(t, sidequery.Spec{Model: "m"}, sidequery.Deps{Redactor: red, Models: map[string]model.Model{"m": cut}})
	if r.StopReason != "error" || !strings.Contains(r.ErrorMessage, "cut") || strings.Contains(r.ErrorMessage, secret) || r.Model != "m" || r.ServedModel != "m" {
		t.Errorf("%+v", r)
	}
	if r.Usage.Input != 1_000_000 || r.Cost == nil || r.Cost.String() != "1.25" || r.UsageMissing {
		t.Errorf("usage %+v, cost %v", r.Usage, r.Cost)
	}
	r = run(t, sidequery.Spec{Model: "m"}, sidequery.Deps{Models: map[string]model.Model{"m": panics{}}})
	if r.StopReason != "error" || !strings.Contains(r.ErrorMessage, "oops") || !r.UsageMissing {
		t.Errorf("%+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var asked []model.Request
	r, err := sidequery.Run(ctx, sidequery.Spec{Messages: hello()}, pool(map[string]model.Model{"gpt-5": says{asked: &asked}, "claude-opus-4-5": says{asked: &asked}}))
	if err != nil || r.StopReason != "aborted" || r.ErrorMessage == "" || len(asked) != 0 {
		t.Errorf("%d calls, %+v, %v", len(asked), r, err)
	}
}

type panics struct{}

func (panics) Call(context.Context, model.Request) (model.Response, error) { panic("oops") }

// A context that has ended before the first call makes no attempt: nothing was sent.
func TestEndedContextMakesNoAttempt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var asked []model.Request
	d := sidequery.Deps{Models: map[string]model.Model{"m": says{resp: answer("m"), asked: &asked}}}
	r, err := sidequery.Run(ctx, sidequery.Spec{Model: "m", Messages: hello()}, d)
	if err != nil || r.StopReason != "aborted" || r.ErrorMessage == "" || len(r.Attempts) != 0 || len(asked) != 0 {
		t.Errorf("%+v, %v, %d calls", r, err, len(asked))
	}
}
