package openai_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/openai"
)

// TestResponsesServersDiffer: as TestChatServersDiffer, of the other format.
func TestResponsesServersDiffer(t *testing.T) {
	usage := usage107
	usage.Reasoning = 3
	missing := events.Usage{Missing: true}
	const callX = `{"type":"function_call","id":"fc_1","call_id":"a","name":"x","arguments":"{\"id\":9007199254740993}"}`
	tests := []struct {
		name  string
		reply http.HandlerFunc
		want  model.Response
	}{
		{"as published", sse(`{"type":"response.created","response":{"model":"m-1","status":"in_progress","output":[],"usage":null}}`, `{"type":"response.output_text.delta","delta":"hi"}`, responsesDone(responsesText("hi"))), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage}},
		{"calls in parallel", sse(responsesDone(callX + `,{"type":"function_call","call_id":"b","name":"y","arguments":"{}"}`)), model.Response{StopReason: "tool_use", Usage: usage, Calls: []events.ToolCall{toolCall("a", "x", `{"id":9007199254740993}`), toolCall("b", "y", `{}`)}}},
		{"arguments as an object", sse(responsesDone(`{"type":"function_call","call_id":"a","name":"x","arguments":{"k":1}}`)), model.Response{StopReason: "tool_use", Usage: usage, Calls: []events.ToolCall{toolCall("a", "x", `{"k":1}`)}}},
		{"ids missing and repeated", sse(responsesDone(`{"type":"function_call","name":"x","arguments":"{}"},{"type":"function_call","call_id":"a","name":"x","arguments":""},{"type":"function_call","call_id":"a","name":"x","arguments":"{"}`)), model.Response{StopReason: "tool_use", Usage: usage, Calls: []events.ToolCall{toolCall("", "x", `{}`), toolCall("a", "x", `{}`), {ProviderID: "a", Name: "x", Arguments: []byte(`"{"`), Malformed: true}}}},
		{"an end without what led to it", sse(`{"type":"response.output_item.done","output_index":1,"item":`+callX+`}`, `{"type":"response.output_item.done","output_index":0,"item":`+responsesText("hi")+`}`, responsesDone("")), model.Response{Text: "hi", StopReason: "tool_use", Usage: usage, Calls: []events.ToolCall{toolCall("a", "x", `{"id":9007199254740993}`)}}},
		{"no usage", sse(`{"type":"response.completed","response":{"model":"m-1","status":"completed","output":[` + responsesText("hi") + `]}}`), model.Response{Text: "hi", StopReason: "end_turn", Usage: missing}},
		{"cut off at its length", sse(`{"type":"response.incomplete","response":{"model":"m-1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[` + responsesText("hi") + `],"usage":` + responsesUsage + `}}`), model.Response{Text: "hi", StopReason: "max_tokens", Usage: usage}},
		{"filtered", sse(`{"type":"response.incomplete","response":{"model":"m-1","status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[],"usage":` + responsesUsage + `}}`), model.Response{StopReason: "refusal", Usage: usage}},
		{"refused", sse(responsesDone(`{"type":"message","content":[{"type":"refusal","refusal":"I won't."}]}`)), model.Response{Text: "I won't.", StopReason: "refusal", Usage: usage}},
		{"not streamed", raw("application/json", `{"model":"m-1","status":"completed","error":null,"output":[`+responsesText("hi")+`],"usage":`+responsesUsage+`}`), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage}},
		{"cut after its end", cut(responsesDone(responsesText("hi"))), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage}},
		{"text in two messages around a call", sse(responsesDone(responsesText("one") + "," + callX + "," + responsesText("two"))), model.Response{Text: "one\n\ntwo", StopReason: "tool_use", Usage: usage, Calls: []events.ToolCall{toolCall("a", "x", `{"id":9007199254740993}`)}, Blocks: []events.Block{{Kind: "text", Text: "one"}, {Kind: "call"}, {Kind: "text", Text: "two"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, e := call(t, serve(t, tt.reply).model(t, openai.Responses), ask("hello"))
			if e != nil {
				t.Fatal(e)
			}
			tt.want.Model = "m-1"
			if d := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(model.Response{}, "RawUsage")); d != "" {
				t.Errorf("answer (-want +got):\n%s", d)
			}
			if got.Usage.Missing == (got.RawUsage != nil) {
				t.Errorf("usage %+v, as sent %s", got.Usage, got.RawUsage)
			}
		})
	}
}

func TestResponsesThatAreNone(t *testing.T) {
	billed, unknown := usage107, &events.Usage{Missing: true}
	billed.Reasoning = 3
	tests := []struct {
		name      string
		reply     http.HandlerFunc
		kind      string
		retryable bool
		usage     *events.Usage
		says      string
	}{
		{"cut in the middle", cut(`{"type":"response.created","response":{"model":"m-1"}}`, `{"type":"response.output_text.delta","delta":"h"}`), "unavailable", true, unknown, ""},
		{"ended in the middle", sse(`{"type":"response.output_text.delta","delta":"h"}`), "unavailable", true, unknown, "before the answer did"},
		{"failed", sse(`{"type":"response.failed","response":{"model":"m-1","status":"failed","error":{"code":"server_error","message":"boom"},"usage":` + responsesUsage + `}}`), "unavailable", true, &billed, "boom"},
		{"failed at a limit", sse(`{"type":"response.failed","response":{"model":"m-1","status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}}`), "rate_limited", true, nil, "slow"},
		{"a limit after it had begun", sse(`{"type":"response.output_text.delta","delta":"h"}`, `{"type":"error","code":"rate_limit_exceeded","message":"slow"}`), "rate_limited", true, unknown, "slow"},
		{"failed for what was asked", sse(`{"type":"response.failed","response":{"model":"m-1","status":"failed","error":{"code":"invalid_prompt","message":"no"}}}`), "invalid_request", false, nil, "no"},
		{"failed, not streamed", raw("application/json", `{"model":"m-1","status":"failed","error":{"code":"server_error","message":"boom"},"output":[],"usage":`+responsesUsage+`}`), "unavailable", true, &billed, "boom"},
		{"an error event", sse(`{"type":"error","code":"server_error","message":"boom","param":null}`), "unavailable", true, nil, "boom"},
		{"an error event of the newer form", sse(`{"type":"error","error":{"type":"invalid_request_error","code":"context_length_exceeded","message":"too long"}}`), "context_full", false, nil, "too long"},
		{"no output", sse(responsesDone("")), "malformed_answer", true, &billed, "no output"},
		{"no JSON", sse(`{"type":`), "malformed_answer", true, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.reply)
			resp, e := call(t, s.model(t, openai.Responses), ask("hello"))
			if e == nil {
				t.Fatalf("answer %+v", resp)
			}
			if e.Kind != tt.kind || e.Retryable != tt.retryable || !strings.Contains(e.Error(), tt.says) {
				t.Errorf("%s, retryable %t: %v; want %s, %t, %q", e.Kind, e.Retryable, e, tt.kind, tt.retryable, tt.says)
			}
			if d := cmp.Diff(tt.usage, e.Usage); d != "" {
				t.Errorf("usage (-want +got):\n%s", d)
			}
			if n := s.count(); n != 1 {
				t.Errorf("%d wire calls", n)
			}
		})
	}
}

// TestResponsesWithoutIndex: items without an output_index are all kept, and an
// answer that is incomplete for no reason was cut off.
func TestResponsesWithoutIndex(t *testing.T) {
	item := func(id string) string {
		return `{"type":"response.output_item.done","item":{"type":"function_call","call_id":"` + id + `","name":"x","arguments":"{}"}}`
	}
	s := serve(t, sse(item("a"), item("b"), `{"type":"response.incomplete","response":{"model":"m-1","status":"incomplete","output":[]}}`))
	got, e := call(t, s.model(t, openai.Responses), ask("hello"))
	if e != nil {
		t.Fatal(e)
	}
	if len(got.Calls) != 2 || got.Calls[0].ProviderID != "a" || got.Calls[1].ProviderID != "b" || got.StopReason != "max_tokens" {
		t.Errorf("answer %+v", got)
	}
}
