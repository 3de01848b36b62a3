package anthropic_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/anthropic"
	"github.com/daybookhq/daybook/model/internal/wiretest"
	"github.com/daybookhq/daybook/model/modeltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "sk-ant-api03-canary-5e9c1f7a0b2d4e6f8a1c3b5d7f9e0a2c"

const start = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5-20250929","content":[],"stop_reason":null,"usage":{"input_tokens":40,"cache_read_input_tokens":60,"cache_creation_input_tokens":5,"output_tokens":1}}}`

func end(why string) []string {
	return []string{fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":7}}`, why), `{"type":"message_stop"}`}
}

func text(i int, pieces ...string) []string {
	out := []string{fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"text","text":""}}`, i)}
	for _, p := range pieces {
		out = append(out, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"text_delta","text":"%s"}}`, i, p))
	}
	return append(out, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
}

func toolUse(i int, id, name string, pieces ...string) []string {
	out := []string{fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`, i, id, name)}
	for _, p := range pieces {
		b, _ := json.Marshal(p)
		out = append(out, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%s}}`, i, b))
	}
	return append(out, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i))
}

func thinking(i int, s, signature string) []string {
	return []string{
		fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"thinking","thinking":"","signature":""}}`, i),
		fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"thinking_delta","thinking":%q}}`, i, s),
		fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"signature_delta","signature":%q}}`, i, signature),
		fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i),
	}
}

func stream(parts ...[]string) http.HandlerFunc {
	var all []string
	for _, p := range parts {
		all = append(all, p...)
	}
	return sse(append([]string{start}, all...)...)
}

// sse streams events with their names, as the provider does.
func sse(datas ...string) http.HandlerFunc {
	var lines []string
	for _, d := range datas {
		var e struct{ Type string }
		_ = json.Unmarshal([]byte(d), &e)
		lines = append(lines, "event: "+e.Type+"\ndata: "+d+"\n\n")
	}
	return wiretest.Raw("text/event-stream; charset=utf-8", lines...)
}

func open(t testing.TB, s *wiretest.Server, edit ...func(*anthropic.Config)) *anthropic.Model {
	t.Helper()
	cfg := anthropic.Config{BaseURL: s.URL, Key: canary, Model: "claude-sonnet-4-5", Transport: wiretest.Transport(t)}
	for _, e := range edit {
		e(&cfg)
	}
	m, err := anthropic.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func ask(s string) model.Request {
	return model.Request{Model: "m", System: "Be brief.", Messages: []model.Message{{Role: model.User, Text: s}}}
}

func call(t *testing.T, m model.Model, r model.Request) (model.Response, *model.Error) {
	t.Helper()
	resp, err := m.Call(t.Context(), r)
	var e *model.Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("Call = %v, want a *model.Error", err)
	}
	return resp, e
}

func TestConformance(t *testing.T) {
	ok := stream(text(0, "hel", "lo"), end("end_turn"))
	modeltest.TestModel(t, func(t *testing.T) model.Model {
		var s *wiretest.Server
		s = wiretest.Serve(t, func(w http.ResponseWriter, r *http.Request) {
			rs := s.Requests()
			if strings.Contains(string(rs[len(rs)-1].Bytes), "please fail") {
				wiretest.Refuse(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`, "retry-after", "3")(w, r)
				return
			}
			ok(w, r)
		})
		return open(t, s)
	}, modeltest.Features{FailOn: "please fail"})
}

var usage = events.Usage{Input: 40, CacheRead: 60, CacheWrite: 5, Output: 7}

// TestAnswers: what comes, and what it is taken for.
func TestAnswers(t *testing.T) {
	use := func(id, name, args string) events.ToolCall {
		return events.ToolCall{ProviderID: id, Name: name, Arguments: []byte(args)}
	}
	missing := events.Usage{Missing: true}
	tests := []struct {
		name  string
		reply http.HandlerFunc
		want  model.Response
	}{
		{"text", stream(text(0, "hel", "lo"), end("end_turn")), model.Response{Text: "hello", StopReason: "end_turn", Usage: usage}},
		{"calls in parallel, pings between", stream(text(0, "looking"), []string{`{"type":"ping"}`}, toolUse(1, "toolu_1", "x", "", `{"id":90071`, `99254740993}`), toolUse(2, "toolu_2", "y"), end("tool_use")), model.Response{Text: "looking", StopReason: "tool_use", Usage: usage, Calls: []events.ToolCall{use("toolu_1", "x", `{"id":9007199254740993}`), use("toolu_2", "y", `{}`)}}},
		{"ids missing and repeated", stream(toolUse(0, "", "x", `{}`), toolUse(1, "a", "x", `{}`), toolUse(2, "a", "y", `{}`), end("tool_use")), model.Response{StopReason: "tool_use", Usage: usage, Calls: []events.ToolCall{use("", "x", `{}`), use("a", "x", `{}`), use("a", "y", `{}`)}}},
		{"half of the arguments", stream(toolUse(0, "a", "x", `{"k`), end("max_tokens")), model.Response{StopReason: "max_tokens", Usage: usage, Calls: []events.ToolCall{{ProviderID: "a", Name: "x", Arguments: []byte(`"{\"k"`), Malformed: true}}}},
		{"the wrong reason", stream(toolUse(0, "a", "x", `{}`), end("end_turn")), model.Response{StopReason: "tool_use", Usage: usage, Calls: []events.ToolCall{use("a", "x", `{}`)}}},
		{"a refusal", stream(text(0, "no"), end("refusal")), model.Response{Text: "no", StopReason: "refusal", Usage: usage}},
		{"nothing to say", stream(end("end_turn")), model.Response{StopReason: "end_turn", Usage: usage}},
		{"a full window", stream(text(0, "a"), end("model_context_window_exceeded")), model.Response{Text: "a", StopReason: "max_tokens", Usage: usage}},
		{"thinking that is counted", stream(text(0, "a"), []string{`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"output_tokens_details":{"thinking_tokens":4},"cache_creation_input_tokens":null}}`, `{"type":"message_stop"}`}), model.Response{Text: "a", StopReason: "end_turn", Usage: events.Usage{Input: 40, CacheRead: 60, CacheWrite: 5, Output: 9, Reasoning: 4}}},
		{"no usage", sse(`{"type":"message_start","message":{"model":"claude-sonnet-4-5-20250929","content":[]}}`, text(0, "a")[0], text(0, "a")[1], `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`), model.Response{Text: "a", StopReason: "end_turn", Usage: missing}},
		{"usage of one side", sse(`{"type":"message_start","message":{"model":"claude-sonnet-4-5-20250929","content":[],"usage":{"input_tokens":null}}}`, text(0, "a")[0], text(0, "a")[1], end("end_turn")[0], end("end_turn")[1]), model.Response{Text: "a", StopReason: "end_turn", Usage: missing}},
		{"a surrogate pair in two deltas", stream(text(0, `a\ud83d`, `\ude80`), end("end_turn")), model.Response{Text: "a🚀", StopReason: "end_turn", Usage: usage}},
		{"cut after its reason", wiretest.Cut(start, text(0, "a")[0], text(0, "a")[1], end("end_turn")[0]), model.Response{Text: "a", StopReason: "end_turn", Usage: usage}},
		{"events of the future", stream([]string{`{"type":"weather"}`}, text(0, "a"), []string{`{"type":"content_block_start","index":1,"content_block":{"type":"weather"}}`, `{"type":"content_block_delta","index":7,"delta":{"type":"text_delta","text":"?"}}`}, end("end_turn")), model.Response{Text: "a", StopReason: "end_turn", Usage: usage}},
		{"not streamed, with an error of null", wiretest.Raw("application/json", `{"type":"message","error":null,"model":"claude-sonnet-4-5-20250929","content":[{"type":"text","text":"a"}],"stop_reason":"end_turn","usage":{"input_tokens":40,"cache_read_input_tokens":60,"cache_creation_input_tokens":5,"output_tokens":7}}`), model.Response{Text: "a", StopReason: "end_turn", Usage: usage}},
		{"an error after its reason", sse(start, text(0, "a")[0], text(0, "a")[1], end("end_turn")[0], `{"type":"error","error":{"type":"api_error","message":"too late"}}`), model.Response{Text: "a", StopReason: "end_turn", Usage: usage}},
		{"not streamed", wiretest.Raw("application/json", `{"type":"message","model":"claude-sonnet-4-5-20250929","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"a","name":"x","input":{"k":1}}],"stop_reason":"tool_use","usage":{"input_tokens":40,"cache_read_input_tokens":60,"cache_creation_input_tokens":5,"output_tokens":7}}`), model.Response{Text: "a", StopReason: "tool_use", Usage: usage, Calls: []events.ToolCall{use("a", "x", `{"k":1}`)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, e := call(t, open(t, wiretest.Serve(t, tt.reply)), ask("hello"))
			if e != nil {
				t.Fatal(e)
			}
			tt.want.Model = "claude-sonnet-4-5-20250929"
			if d := cmp.Diff(tt.want, got, cmpopts.IgnoreFields(model.Response{}, "RawUsage")); d != "" {
				t.Errorf("answer (-want +got):\n%s", d)
			}
			if !got.Usage.Missing && !strings.Contains(string(got.RawUsage), `"input_tokens":40`) {
				t.Errorf("usage as sent: %s", got.RawUsage)
			}
		})
	}
}

// TestAnswersThatAreNone: a failed attempt, with what is known of its bill.
func TestAnswersThatAreNone(t *testing.T) {
	unknown := &events.Usage{Missing: true}
	tests := []struct {
		name, kind string
		reply      http.HandlerFunc
		retryable  bool
		usage      *events.Usage
		after      time.Duration
		says       string
	}{
		{"cut in the middle", "unavailable", wiretest.Cut(start, text(0, "a")[0]), true, unknown, 0, ""},
		{"ended in the middle", "unavailable", sse(start, text(0, "a")[0]), true, unknown, 0, "before the answer did"},
		{"nothing", "unavailable", sse(), true, nil, 0, ""},
		{"an error that is billed, not streamed", "overloaded", wiretest.Raw("application/json", `{"error":{"type":"overloaded_error","message":"busy"},"model":"claude-sonnet-4-5-20250929","usage":{"input_tokens":40,"cache_read_input_tokens":60,"cache_creation_input_tokens":5,"output_tokens":7}}`), true, &usage, 0, "busy"},
		{"no JSON", "malformed_answer", wiretest.SSE("{"), true, nil, 0, ""},
		{"overloaded inside the stream", "overloaded", sse(start, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`), true, unknown, 0, "busy"},
		{"overloaded at once", "overloaded", sse(`{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`), true, nil, 0, "busy"},
		{"broken inside the stream", "unavailable", sse(start, `{"type":"error","error":{"type":"api_error","message":"boom"}}`), true, unknown, 0, "boom"},
		{"overloaded", "overloaded", wiretest.Refuse(529, `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`), true, nil, 0, "busy"},
		{"a limit with a wish", "rate_limited", wiretest.Refuse(429, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`, "Retry-After", "9"), true, nil, 9 * time.Second, "slow"},
		{"a limit with a reset", "rate_limited", wiretest.Refuse(429, `{}`, "Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", "2026-11-30T12:00:30Z", "Anthropic-Ratelimit-Requests-Remaining", "7", "Anthropic-Ratelimit-Requests-Reset", "2026-11-30T13:00:00Z"), true, nil, 30 * time.Second, ""},
		{"no credit", "invalid_request", wiretest.Refuse(400, `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low"}}`), false, nil, 0, "credit"},
		{"too long for the window", "context_full", wiretest.Refuse(400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`), false, nil, 0, "too long"},
		{"too long inside the stream", "context_full", sse(`{"type":"error","error":{"type":"invalid_request_error","message":"input length and max_tokens exceed context limit: 1 + 2 > 2"}}`), false, nil, 0, "exceed"},
		{"wrong key", "unauthorized", wiretest.Refuse(401, `{"type":"error","error":{"type":"authentication_error","message":"invalid `+canary+`"}}`), false, nil, 0, "[withheld]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := wiretest.Serve(t, tt.reply)
			m := open(t, s, func(c *anthropic.Config) {
				c.Now = func() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }
			})
			resp, e := call(t, m, ask("hello"))
			if e == nil {
				t.Fatalf("answer %+v", resp)
			}
			if e.Kind != tt.kind || e.Retryable != tt.retryable || e.RetryAfter != tt.after || !strings.Contains(e.Error(), tt.says) {
				t.Errorf("%s, retryable %t after %v: %v", e.Kind, e.Retryable, e.RetryAfter, e)
			}
			if d := cmp.Diff(tt.usage, e.Usage); d != "" {
				t.Errorf("usage (-want +got):\n%s", d)
			}
			if n := len(s.Requests()); n != 1 {
				t.Errorf("%d wire calls", n)
			}
		})
	}
}

// TestKeysStayWhereTheyBelong: the environment gives nothing, and what is secret
// prints nowhere.
func TestKeysStayWhereTheyBelong(t *testing.T) {
	for _, name := range []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"} {
		t.Setenv(name, "sk-from-the-environment-000000")
	}
	t.Setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1/")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-From-Env: sk-from-the-environment-000000")
	s := wiretest.Serve(t, wiretest.Refuse(401, `{"error":{"type":"authentication_error","message":"`+canary+` header-canary-77"}}`))
	var cfg anthropic.Config
	m := open(t, s, func(c *anthropic.Config) { c.Headers = map[string]string{"X-Api-Key": "header-canary-77"}; cfg = *c })
	_, e := call(t, m, ask("hello"))
	for _, said := range []string{e.Error(), fmt.Sprintf("%v %+v %#v", m, m, m), fmt.Sprintf("%v %+v %#v", cfg, cfg, &cfg)} {
		if strings.Contains(said, canary) || strings.Contains(said, "header-canary") {
			t.Errorf("a secret in %q", said)
		}
	}
	r := s.Requests()[0]
	if r.Header.Get("Authorization") != "Bearer "+canary || r.Header.Get("X-Api-Key") != "header-canary-77" || r.Path != "/v1/messages" || r.Header.Get("Anthropic-Version") == "" {
		t.Errorf("%s with headers %v", r.Path, r.Header)
	}
	if strings.Contains(fmt.Sprint(r.Header), "from-the-environment") {
		t.Errorf("headers from the environment: %v", r.Header)
	}
}

// TestDeltas: who watches hears the answer in the order in which it is written.
func TestDeltas(t *testing.T) {
	var got []model.Delta
	m := open(t, wiretest.Serve(t, stream(thinking(0, "hm", "sig"), text(1, `a\ud83d`, `\ude80`), toolUse(2, "a", "x", `{"k"`, `:1}`), end("tool_use"))))
	if _, err := m.Stream(t.Context(), ask("hello"), func(d model.Delta) { got = append(got, d) }); err != nil {
		t.Fatal(err)
	}
	want := []model.Delta{{Kind: "reasoning", Text: "hm"}, {Kind: "text", Text: "a"}, {Kind: "text", Text: "🚀"}, {Kind: "call", Name: "x"}, {Kind: "call", Text: `{"k"`}, {Kind: "call", Text: `:1}`}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("deltas (-want +got):\n%s", d)
	}
}
