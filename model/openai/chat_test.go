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

func toolCall(id, name, arguments string) events.ToolCall {
	return events.ToolCall{ProviderID: id, Name: name, Arguments: []byte(arguments)}
}

// TestChatServersDiffer: what servers that call themselves compatible send, and
// what it is taken for.
func TestChatServersDiffer(t *testing.T) {
	var bytewise []string
	for _, b := range []byte("data: " + chatText("zwölf 🚀 Äpfel") + "\n\ndata: " + chatStop("stop") + "\n\ndata: " + chatUsage + "\n\ndata: [DONE]\n\n") {
		bytewise = append(bytewise, string([]byte{b}))
	}
	missing := events.Usage{Missing: true}
	args := `"{\"id\":9007199254740993}"`
	tests := []struct {
		name  string
		reply http.HandlerFunc
		want  model.Response
	}{
		{"as published", sse(chatText("hel"), chatText("lo"), chatStop("stop"), chatUsage, done), model.Response{Text: "hello", StopReason: "end_turn", Usage: usage107}},
		{"no usage", sse(chatText("hi"), chatStop("stop"), done), model.Response{Text: "hi", StopReason: "end_turn", Usage: missing}},
		{"usage of null", sse(chatText("hi"), chatStop("stop"), `{"choices":[],"usage":null}`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: missing}},
		{"usage of nothing", sse(chatText("hi"), chatStop("stop"), `{"choices":[],"usage":{}}`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: missing}},
		{"usage of one side", sse(chatText("hi"), chatStop("stop"), `{"choices":[],"usage":{"prompt_tokens":3}}`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: missing}},
		{"usage of fractions that are none", sse(chatText("hi"), chatStop("stop"), `{"choices":[],"usage":{"prompt_tokens":3.0,"completion_tokens":2.0,"prompt_tokens_details":[]}}`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: events.Usage{Input: 3, Output: 2}}},
		{"usage below zero, since it is too much", sse(chatText("hi"), chatStop("stop"), `{"choices":[],"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":9223372036854775807,"total_tokens":1}}`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: missing}},
		{"usage below zero", sse(chatText("hi"), chatStop("stop"), `{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":1}}`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: missing}},
		{"usage grows with each chunk", sse(`{"model":"m-1","choices":[{"delta":{"content":"hi"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`, `{"choices":[{"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: events.Usage{Input: 3, Output: 2}}},
		{"usage beside the choices", sse(chatText("hi"), chatStop("stop"), `{"choices":[],"x_groq":{"usage":{"prompt_tokens":3,"completion_tokens":2}}}`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: events.Usage{Input: 3, Output: 2}}},
		{"cache hits elsewhere", sse(chatText("hi"), chatStop("stop"), `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_cache_hit_tokens":8,"prompt_cache_miss_tokens":2}}`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: events.Usage{Input: 2, CacheRead: 8, Output: 2}}},
		{"reasoning in the total alone", sse(chatText("hi"), chatStop("stop"), `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":20,"completion_tokens_details":{"reasoning_tokens":8}}}`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: events.Usage{Input: 10, Output: 10, Reasoning: 8}}},
		{"reasoning in the output", sse(chatText("hi"), chatStop("stop"), `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":9,"total_tokens":19,"completion_tokens_details":{"reasoning_tokens":8}}}`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: events.Usage{Input: 10, Output: 9, Reasoning: 8}}},
		{
			"calls in parallel, in pieces",
			sse(chatCalls(`{"index":0,"id":"a","type":"function","function":{"name":"x","arguments":""}}`), chatCalls(`{"index":1,"id":"b","type":"function","function":{"name":"y","arguments":"{\"k\""}}`),
				chatCalls(`{"index":0,"function":{"arguments":"{\"id\":9007199254740993}"}},{"index":1,"function":{"arguments":":1}"}}`), chatStop("tool_calls"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("a", "x", `{"id":9007199254740993}`), toolCall("b", "y", `{"k":1}`)}},
		},
		{
			"calls without ids", sse(chatCalls(`{"index":0,"function":{"name":"x","arguments":`+args+`}}`), chatCalls(`{"index":1,"function":{"name":"y","arguments":"{}"}}`), chatStop("tool_calls"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("", "x", `{"id":9007199254740993}`), toolCall("", "y", `{}`)}},
		},
		{
			"calls without index", sse(chatCalls(`{"id":"a","function":{"name":"x","arguments":"{}"}}`), chatCalls(`{"id":"b","function":{"name":"x","arguments":"{}"}}`), chatStop("stop"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("a", "x", `{}`), toolCall("b", "x", `{}`)}},
		},
		{
			"calls without id and index", sse(chatCalls(`{"function":{"name":"x","arguments":"{}"}}`), chatCalls(`{"function":{"name":"x","arguments":"{\"a\":1}"}}`), chatStop("stop"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("", "x", `{}`), toolCall("", "x", `{"a":1}`)}},
		},
		{
			"one index for all", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}`), chatCalls(`{"index":0,"id":"b","function":{"name":"y","arguments":"{}"}}`), chatStop("tool_calls"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("a", "x", `{}`), toolCall("b", "y", `{}`)}},
		},
		{
			"one id for all", sse(chatCalls(`{"index":0,"id":"call","function":{"name":"x","arguments":"{}"}},{"index":1,"id":"call","function":{"name":"y","arguments":"{}"}}`), chatStop("tool_calls"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("call", "x", `{}`), toolCall("call", "y", `{}`)}},
		},
		{
			"id and name with each piece", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"k\":"}}`), chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":"1}"}}`), chatStop("tool_calls"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("a", "x", `{"k":1}`)}},
		},
		{
			"another id for the second piece", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"k\":"}}`), chatCalls(`{"index":0,"id":"a2","function":{"arguments":"1}"}}`), chatStop("tool_calls"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("a", "x", `{"k":1}`)}},
		},
		{
			"arguments as an object", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":{"id":9007199254740993}}}`), chatStop("tool_calls"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("a", "x", `{"id":9007199254740993}`)}},
		},
		{
			"arguments of null are none", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":null}}`), chatStop("tool_calls"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("a", "x", `{}`)}},
		},
		{
			"arguments that are no JSON", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":"{half"}}`), chatStop("tool_calls"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{{ProviderID: "a", Name: "x", Arguments: []byte(`"{half"`), Malformed: true}}},
		},
		{
			"finish_reason stop with calls", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}`), chatStop("stop"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("a", "x", `{}`)}},
		},
		{"finish_reason tool_calls without any", sse(chatText("hi"), chatStop("tool_calls"), chatUsage, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage107}},
		{"finish_reason of its own", sse(chatText("hi"), chatStop("eos"), chatUsage, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage107}},
		{"finish_reason missing, but done", sse(chatText("hi"), chatUsage, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage107}},
		{
			"cut off before the arguments", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":""}}`), chatStop("length"), chatUsage, done),
			model.Response{StopReason: "max_tokens", Usage: usage107, Calls: []events.ToolCall{{ProviderID: "a", Name: "x", Arguments: []byte(`""`), Malformed: true}}},
		},
		{
			"no arguments under a reason of its own", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x"}}`), chatStop("eos"), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{{ProviderID: "a", Name: "x", Arguments: []byte(`""`), Malformed: true}}},
		},
		{
			"a whole call, no reason, but done", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"k\":1}"}}`), chatUsage, done),
			model.Response{StopReason: "tool_use", Usage: usage107, Calls: []events.ToolCall{toolCall("a", "x", `{"k":1}`)}},
		},
		{
			"no arguments, not streamed", raw("application/json", `{"model":"m-1","choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"x"}}]}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`),
			model.Response{StopReason: "tool_use", Usage: events.Usage{Input: 3, Output: 2}, Calls: []events.ToolCall{toolCall("a", "x", `{}`)}},
		},
		{"an error after it had finished", sse(chatText("hi"), chatStop("stop"), `{"error":{"message":"too late"}}`), model.Response{Text: "hi", StopReason: "end_turn", Usage: missing}},
		{"no JSON after it had finished", sse(chatText("hi"), chatStop("stop"), `{"usage":`, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: missing}},
		{"cut off at its length", sse(chatText("hi"), chatStop("length"), chatUsage, done), model.Response{Text: "hi", StopReason: "max_tokens", Usage: usage107}},
		{"filtered", sse(chatText("hi"), chatStop("content_filter"), chatUsage, done), model.Response{Text: "hi", StopReason: "refusal", Usage: usage107}},
		{"refused in its own field", sse(`{"model":"m-1","choices":[{"delta":{"refusal":"I won't."}}]}`, chatStop("stop"), chatUsage, done), model.Response{Text: "I won't.", StopReason: "refusal", Usage: usage107}},
		{"empty choices first", sse(`{"model":"m-1","choices":[],"prompt_filter_results":[]}`, chatText("hi"), chatStop("stop"), chatUsage, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage107}},
		{"no [DONE]", sse(chatText("hi"), chatStop("stop"), chatUsage), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage107}},
		{"cut after it had finished", cut(chatText("hi"), chatStop("stop")), model.Response{Text: "hi", StopReason: "end_turn", Usage: missing}},
		{"comments, CRLF and other fields", raw("text/event-stream; charset=utf-8", ": OPENROUTER PROCESSING\r\n\r\n", "id: 1\r\nevent: message\r\nretry: 5\r\ndata: "+chatText("hi")+"\r\n\r\n", ":\n\n", "data:"+chatStop("stop")+"\n\n", "data: "+chatUsage+"\n\ndata: [DONE]\n\n"), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage107}},
		{"a byte at a time", raw("text/event-stream", bytewise...), model.Response{Text: "zwölf 🚀 Äpfel", StopReason: "end_turn", Usage: usage107}},
		{"a character in two deltas", sse("{\"model\":\"m-1\",\"choices\":[{\"delta\":{\"content\":\"\xf0\x9f\"}}]}", "{\"choices\":[{\"delta\":{\"content\":\"\x9a\x80!\"}}]}", chatStop("stop"), chatUsage, done), model.Response{Text: "🚀!", StopReason: "end_turn", Usage: usage107}},
		{"a surrogate pair in two deltas", sse(`{"model":"m-1","choices":[{"delta":{"content":"a\ud83d"}}]}`, `{"choices":[{"delta":{"content":"\ude80!"}}]}`, chatStop("stop"), chatUsage, done), model.Response{Text: "a🚀!", StopReason: "end_turn", Usage: usage107}},
		{"content as parts", sse(`{"model":"m-1","choices":[{"delta":{"content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}}]}`, chatStop("stop"), chatUsage, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage107}},
		{"content of null", sse(`{"model":"m-1","choices":[{"delta":{"role":"assistant","content":null,"tool_calls":null}}]}`, chatText("hi"), chatStop("stop"), chatUsage, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage107}},
		{"not streamed", raw("application/json", `{"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`), model.Response{Text: "hi", StopReason: "end_turn", Usage: events.Usage{Input: 3, Output: 2}}},
		{"a second choice", sse(`{"model":"m-1","choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}`, chatUsage, done), model.Response{Text: "hi", StopReason: "end_turn", Usage: usage107}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, e := call(t, serve(t, tt.reply).model(t, openai.Chat), ask("hello"))
			if e != nil {
				t.Fatal(e)
			}
			tt.want.Model = "m-1"
			if d := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(model.Response{}, "RawUsage")); d != "" {
				t.Errorf("answer (-want +got):\n%s", d)
			}
			if got.Usage.Missing == (got.RawUsage != nil) && !strings.HasPrefix(tt.name, "usage of one side") && !strings.HasPrefix(tt.name, "usage below") {
				t.Errorf("usage %+v, as sent %s", got.Usage, got.RawUsage)
			}
		})
	}
}

// TestChatAnswersThatAreNone: the attempt fails, keeps what it was billed, and
// says whether trying again can help.
func TestChatAnswersThatAreNone(t *testing.T) {
	billed, unknown := &usage107, &events.Usage{Missing: true}
	tests := []struct {
		name      string
		reply     http.HandlerFunc
		kind      string
		retryable bool
		usage     *events.Usage
		says      string
	}{
		{"cut in the middle", cut(chatText("hel")), "unavailable", true, unknown, ""},
		{"ended in the middle", sse(chatText("hel")), "unavailable", true, unknown, "before the answer did"},
		{"ended in the middle, with usage", sse(chatText("hel"), `{"model":"m-1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}}`), "unavailable", true, billed, "before the answer did"},
		{"nothing at all", sse(), "unavailable", true, nil, "before the answer did"},
		{"no choice ever", sse(chatUsage, done), "malformed_answer", true, billed, "no choices"},
		{"no JSON", sse(chatUsage, `<html>`), "malformed_answer", true, billed, "<html>"},
		{"a page", raw("text/html", "<html>sign in</html>"), "unavailable", true, nil, ""},
		{"half of JSON, not streamed", raw("application/json", `{"choices":[`), "malformed_answer", true, nil, ""},
		{"an error in the stream", sse(chatUsage, `{"error":{"code":502,"message":"upstream is gone"}}`), "unavailable", true, billed, "upstream is gone"},
		{"a rate limit in the stream", sse(`{"error":{"code":"rate_limit_exceeded","message":"slow down"}}`), "rate_limited", true, nil, "slow down"},
		{"an overload in the stream", sse(`{"error":{"type":"overloaded_error","message":"busy"}}`), "overloaded", true, nil, "busy"},
		{"done before the arguments", sse(chatText("hi"), chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":""}}`), chatUsage, done), "unavailable", true, billed, "before the answer did"},
		{"done inside the arguments", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"k\""}}`), chatUsage, done), "unavailable", true, billed, "before the answer did"},
		{"done after nothing but thoughts", sse(`{"model":"m-1","choices":[{"delta":{"reasoning":"hm"}}]}`, chatUsage, done), "unavailable", true, billed, "before the answer did"},
		{"aborted", sse(chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}`), chatStop("abort"), chatUsage, done), "unavailable", true, billed, "abort"},
		{"cancelled", sse(chatText("hi"), chatStop("cancelled"), chatUsage, done), "unavailable", true, billed, "cancelled"},
		{"a refusal in numbers and words", sse(`{"error":{"code":400,"message":"no","status":"INVALID_ARGUMENT"}}`), "invalid_request", false, nil, "INVALID_ARGUMENT"},
		{"calls without end", sse(chatCalls(strings.TrimSuffix(strings.Repeat(`{"function":{"name":"x","arguments":"{}"}},`, 513), ",")), chatStop("stop"), done), "malformed_answer", true, nil, "over 512 calls"},
		{"an error as its reason", sse(chatText("hi"), chatStop("error"), chatUsage, done), "unavailable", true, billed, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, tt.reply)
			resp, e := call(t, s.model(t, openai.Chat), ask("hello"))
			if e == nil {
				t.Fatalf("answer %+v", resp)
			}
			if e.Kind != tt.kind || e.Retryable != tt.retryable || !strings.Contains(e.Error(), tt.says) {
				t.Errorf("%s, retryable %t: %v; want %s, %t, %q", e.Kind, e.Retryable, e, tt.kind, tt.retryable, tt.says)
			}
			if d := cmp.Diff(tt.usage, e.Usage); d != "" {
				t.Errorf("usage (-want +got):\n%s", d)
			}
			if tt.usage == billed && e.Model != "m-1" {
				t.Errorf("billed to model %q", e.Model)
			}
			if n := s.count(); n != 1 {
				t.Errorf("%d wire calls", n)
			}
		})
	}
}

// TestChatRawJSONThatCannotBeRecorded: what has no canonical form is dropped, and
// the answer is kept.
func TestChatRawJSONThatCannotBeRecorded(t *testing.T) {
	for _, bad := range []string{`{"a":1,"a":2}`, `"\ud800"`, "\"\xff\""} {
		usage := `{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"more":` + bad + `}}`
		calls := chatCalls(`{"index":0,"id":"a","extra_content":` + bad + `,"function":{"name":"x","arguments":"{}"}}`)
		got, e := call(t, serve(t, sse(calls, chatStop("tool_calls"), usage, done)).model(t, openai.Chat), ask("hello"))
		if e != nil {
			t.Fatal(e)
		}
		if len(got.Calls) != 1 || got.Usage.Output != 2 {
			t.Errorf("%s: answer %+v", bad, got)
		}
		if got.RawUsage != nil || len(got.Blocks) > 0 && got.Blocks[0].Data != nil {
			t.Errorf("%s: kept %s, %+v", bad, got.RawUsage, got.Blocks)
		}
	}
}
