package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/internal/wiretest"
	"github.com/daybookhq/daybook/model/modeltest"
	"github.com/daybookhq/daybook/model/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// canary is a key that must be nowhere but in the header it is for.
const canary = "sk-canary-5e9c1f7a0b2d4e6f8a1c3b5d7f9e0a2c"

type server struct{ *wiretest.Server }

func serve(t testing.TB, replies ...http.HandlerFunc) server {
	t.Helper()
	return server{wiretest.Serve(t, replies...)}
}

var sse, raw, cut, refuse = wiretest.SSE, wiretest.Raw, wiretest.Cut, wiretest.Refuse

func (s server) count() int { return len(s.Requests()) }

func (s server) model(t testing.TB, api string, edit ...func(*openai.Config)) *openai.Model {
	t.Helper()
	cfg := openai.Config{API: api, BaseURL: s.URL + "/v1", Key: canary, Transport: wiretest.Transport(t)}
	for _, e := range edit {
		e(&cfg)
	}
	m, err := openai.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	chatUsage = `{"model":"m-1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":60}}}`
	done      = `[DONE]`
)

func chatText(s string) string {
	b, _ := json.Marshal(s)
	return fmt.Sprintf(`{"model":"m-1","choices":[{"index":0,"delta":{"content":%s},"finish_reason":null}]}`, b)
}

func chatStop(why string) string {
	return fmt.Sprintf(`{"model":"m-1","choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, why)
}

func chatCalls(calls string) string {
	return fmt.Sprintf(`{"model":"m-1","choices":[{"index":0,"delta":{"tool_calls":[%s]}}]}`, calls)
}

const responsesUsage = `{"input_tokens":100,"output_tokens":7,"total_tokens":107,"input_tokens_details":{"cached_tokens":60},"output_tokens_details":{"reasoning_tokens":3}}`

func responsesDone(output string) string {
	return fmt.Sprintf(`{"type":"response.completed","response":{"model":"m-1","status":"completed","output":[%s],"usage":%s}}`, output, responsesUsage)
}

func responsesText(s string) string {
	b, _ := json.Marshal(s)
	return fmt.Sprintf(`{"type":"message","id":"msg_1","role":"assistant","content":[{"type":"output_text","text":%s,"annotations":[]}]}`, b)
}

func ask(text string) model.Request {
	return model.Request{Model: "m", System: "Be brief.", Messages: []model.Message{{Role: model.User, Text: text}}, AttemptID: "RUN.e1.t1.a1"}
}

// TestConformance runs the suite that every model passes, over both formats.
func TestConformance(t *testing.T) {
	replies := map[string]http.HandlerFunc{
		openai.Chat:      sse(chatText("hel"), chatText("lo"), chatStop("stop"), chatUsage, done),
		openai.Responses: sse(`{"type":"response.output_text.delta","output_index":0,"delta":"hel"}`, `{"type":"response.output_text.delta","output_index":0,"delta":"lo"}`, responsesDone(responsesText("hello"))),
	}
	for api, ok := range replies {
		t.Run(strings.ReplaceAll(api, "/", " "), func(t *testing.T) {
			modeltest.TestModel(t, func(t *testing.T) model.Model {
				var s server
				s = serve(t, func(w http.ResponseWriter, r *http.Request) {
					rs := s.Requests()
					last := string(rs[len(rs)-1].Bytes)
					if strings.Contains(last, "please fail") {
						refuse(http.StatusTooManyRequests, `{"error":{"message":"slow down","type":"requests","code":"rate_limit_exceeded"}}`, "Retry-After", "3")(w, r)
						return
					}
					ok(w, r)
				})
				return s.model(t, api)
			}, modeltest.Features{FailOn: "please fail"})
		})
	}
}

var usage107 = events.Usage{Input: 40, CacheRead: 60, Output: 7}

func call(t *testing.T, m model.Model, r model.Request) (model.Response, *model.Error) {
	t.Helper()
	resp, err := m.Call(t.Context(), r)
	if err == nil {
		return resp, nil
	}
	var e *model.Error
	if !asError(err, &e) {
		t.Fatalf("Call = %v, want a *model.Error", err)
	}
	return resp, e
}

func asError(err error, e **model.Error) bool {
	var ok bool
	*e, ok = err.(*model.Error)
	return ok
}
