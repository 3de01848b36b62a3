package openai_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/internal/wiretest"
	"github.com/daybookhq/daybook/model/openai"
)

var update = flag.Bool("update", false, "rewrite the golden requests")

// TestTranscripts: each reply is answered by a run that goes on from what was
// recorded; the request that follows is held against testdata/NAME.json. Written
// anew with -update.
func TestTranscripts(t *testing.T) {
	const callX = `{"type":"function_call","id":"fc_1","call_id":"call_Zx","name":"x","arguments":"{\"id\":9007199254740993}"}`
	signed := chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":"{}"},"extra_content":{"google":{"thought_signature":"AbCdEf0123456789AbCdEf0123456789=="}}},{"index":1,"id":"b","function":{"name":"y","arguments":"{half"}}`)
	tests := []struct {
		name, api, reply string
		again            bool // a question of the user comes behind it
		chunks           []string
	}{
		{"chat-calls", openai.Chat, "", false, []string{chatText("looking"), chatCalls(`{"index":0,"id":"call_Zx","function":{"name":"x","arguments":"{\"id\":9007199254740993}"}},{"index":1,"id":"call_Zx","function":{"name":"y","arguments":"{half"}}`), chatStop("tool_calls"), chatUsage, done}},
		{"chat-signed-calls", openai.Chat, "", false, []string{signed, chatStop("tool_calls"), chatUsage, done}},
		{"chat-reasoning", openai.Chat, "", false, []string{`{"model":"m-1","choices":[{"delta":{"reasoning_content":"hm, "}}]}`, `{"choices":[{"delta":{"reasoning_content":"x it is","reasoning":"x it is"}}]}`, chatCalls(`{"index":0,"function":{"name":"x","arguments":"{}"}}`), chatStop("tool_calls"), chatUsage, done}},
		{"chat-reasoning-of-an-earlier-question", openai.Chat, "", true, []string{`{"model":"m-1","choices":[{"delta":{"reasoning_content":"hm"}}]}`, chatText("42"), chatStop("stop"), chatUsage, done}},
		{"chat-reasoning-details", openai.Chat, "", true, []string{
			`{"model":"m-1","choices":[{"delta":{"reasoning":"h","reasoning_details":[{"type":"reasoning.text","index":0,"text":"h","format":"anthropic-claude-v1"}]}}]}`,
			`{"choices":[{"delta":{"reasoning":"m","reasoning_details":[{"type":"reasoning.text","index":0,"text":"m","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"}]}}]}`,
			`{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.encrypted","index":1,"data":"gAAAAABo1234567890abcdefGHIJ"}]}}]}`,
			chatText("42"), chatStop("stop"), chatUsage, done,
		}},
		{"responses-reasoning", openai.Responses, "", false, []string{responsesDone(`{"type":"reasoning","id":"rs_0aB3dE5gH7","summary":[{"type":"summary_text","text":"**Thinking**"}],"encrypted_content":"gAAAAABo1234567890abcdefGHIJKLmnopqrstuvwxyzABCDEFGHIJ0123456789","status":"completed"},` + `{"type":"message","id":"msg_1","phase":"commentary","content":[{"type":"output_text","text":"looking"}]},` + callX + `,{"type":"function_call","call_id":"call_Zx","name":"y","arguments":"{half"}`)}},
		{"responses-open-reasoning", openai.Responses, "", true, []string{responsesDone(`{"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},` + responsesText("42"))}},
		{"responses-two-texts", openai.Responses, "", true, []string{responsesDone(responsesText("one") + "," + callX + "," + responsesText("two"))}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, sse(tt.chunks...))
			m := s.model(t, tt.api, func(c *openai.Config) { c.Model = "gpt-5.1" })
			r := ask("What is it?")
			r.Tools = []model.Spec{{Name: "x", Description: "Looks up.", Schema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer","maximum":9007199254740993}}}`)}, {Name: "y"}}
			r.MaxTokens, r.Thinking = 300, "low"
			r.Format = &model.Format{Name: "answer", Schema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}
			resp, e := call(t, m, r)
			if e != nil {
				t.Fatal(e)
			}
			msg := wiretest.Recorded(t, canary, 1, resp)
			r.Messages = append(r.Messages, msg)
			if len(msg.Calls) > 0 {
				r.Messages = append(r.Messages, wiretest.Results(msg))
			}
			if tt.again {
				r.Messages = append(r.Messages, model.Message{Role: model.User, Text: "Are you sure?"})
			}
			if _, e := call(t, m, r); e != nil {
				t.Fatal(e)
			}
			// Whoever resumes the run reads the same events and sends the same bytes.
			if _, e := call(t, m, r); e != nil {
				t.Fatal(e)
			}
			if !bytes.Equal(s.Requests()[1].Bytes, s.Requests()[2].Bytes) {
				t.Error("the same transcript was sent in two forms")
			}
			published(t, tt.api, s.Requests()[1].Bytes)
			wiretest.Golden(t, *update, tt.name, s.Requests()[1].Bytes)
		})
	}
}

// published holds a request against the SDK's types, which are made from the
// published description of the API: reading it into them and writing it again
// loses nothing but what compatible servers add.
func published(t *testing.T, api string, body []byte) {
	t.Helper()
	var again []byte
	var err error
	if api == openai.Chat {
		var p sdk.ChatCompletionNewParams
		if err = json.Unmarshal(body, &p); err == nil {
			again, err = json.Marshal(p)
		}
	} else {
		var p responses.ResponseNewParams
		if err = json.Unmarshal(body, &p); err == nil {
			again, err = json.Marshal(p)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	var sent, known map[string]any
	if json.Unmarshal(body, &sent) != nil || json.Unmarshal(again, &known) != nil {
		t.Fatal("no JSON")
	}
	delete(sent, "stream") // the SDK sets it beside the parameters
	if d := cmp.Diff(sent, known, cmp.FilterPath(func(p cmp.Path) bool {
		for _, s := range p {
			if k, ok := s.(cmp.MapIndex); ok {
				switch name := k.Key().String(); {
				case strings.HasPrefix(name, "reasoning_"), name == "extra_content", name == "reasoning":
					return true
				case name == "type" && k.Key().Kind() == reflect.String, name == "content" || name == "maximum":
					return true // left out where it can only be one; null; a number over 2^53
				}
			}
		}
		return false
	}, cmp.Ignore())); d != "" {
		t.Errorf("the API has no such request (-sent +known):\n%s", d)
	}
}

// TestReasoningThatWasRedacted does not go back: what signs it no longer fits.
func TestReasoningThatWasRedacted(t *testing.T) {
	s := serve(t, sse(responsesDone(`{"type":"reasoning","id":"rs_1","summary":[{"text":"the key is `+canary+`"}],"encrypted_content":"gAAAA"},{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"`+canary+`"},{"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":"gBBBB"},`+responsesText("hi"))))
	m := s.model(t, openai.Responses)
	resp, e := call(t, m, ask("hello"))
	if e != nil {
		t.Fatal(e)
	}
	r := ask("hello")
	r.Messages = append(r.Messages, wiretest.Recorded(t, canary, 1, resp), model.Message{Role: model.User, Text: "and?"})
	if _, e := call(t, m, r); e != nil {
		t.Fatal(e)
	}
	body := string(s.Requests()[1].Bytes)
	if strings.Contains(body, "rs_1") || strings.Contains(body, "rs_2") || !strings.Contains(body, "rs_3") || strings.Contains(body, canary) {
		t.Errorf("sent %s", body)
	}
}

// TestAnotherFormatsBlocks stay out; text and calls go.
func TestAnotherFormatsBlocks(t *testing.T) {
	for _, api := range []string{openai.Chat, openai.Responses} {
		s := serve(t, refuse(500, ""))
		r := ask("hello")
		r.Messages = append(r.Messages, model.Message{
			Role: model.Assistant, Text: "looking", Calls: []model.Call{{ID: "t1.c0", Name: "x", Arguments: json.RawMessage(`{}`)}},
			Blocks: []events.Block{{Kind: "reasoning", Text: "hm", Format: "anthropic", Data: json.RawMessage(`{"signature":"QQ"}`)}, {Kind: "call", Format: "anthropic", Data: json.RawMessage(`{"extra_content":1}`)}, {Kind: "text"}, {Kind: "future", Text: "?"}},
		})
		_, _ = call(t, s.model(t, api), r)
		body, err := canonical.JSON(s.Requests()[0].Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if b := string(body); strings.Contains(b, "hm") || strings.Contains(b, "QQ") || strings.Contains(b, "extra_content") || !strings.Contains(b, "looking") || !strings.Contains(b, "t00010000") {
			t.Errorf("%s: %s", api, b)
		}
	}
}

// TestDeltas: who watches hears the answer in the order in which it is written,
// characters whole.
func TestDeltas(t *testing.T) {
	replies := map[string][]string{
		openai.Chat: {
			`{"model":"m-1","choices":[{"delta":{"reasoning_content":"hm"}}]}`, `{"choices":[{"delta":{"content":"a\ud83d"}}]}`, `{"choices":[{"delta":{"content":"\ude80"}}]}`,
			chatCalls(`{"index":0,"id":"a","function":{"name":"x","arguments":"{\"k\""}}`), chatCalls(`{"index":1,"id":"b","function":{"name":"y","arguments":"{}"}}`), chatCalls(`{"index":0,"function":{"arguments":":1}"}}`), chatStop("tool_calls"), chatUsage, done,
		},
		openai.Responses: {
			`{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"hm"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"a"}`, `{"type":"response.output_text.delta","output_index":1,"delta":"🚀"}`,
			`{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","name":"x"}}`, `{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"k\""}`,
			`{"type":"response.output_item.added","output_index":3,"item":{"type":"function_call","name":"y"}}`, `{"type":"response.function_call_arguments.delta","output_index":3,"delta":"{}"}`, `{"type":"response.function_call_arguments.delta","output_index":2,"delta":":1}"}`,
			responsesDone(responsesText("a🚀")),
		},
	}
	want := []model.Delta{{Kind: "reasoning", Text: "hm"}, {Kind: "text", Text: "a"}, {Kind: "text", Text: "🚀"}, {Kind: "call", Name: "x"}, {Kind: "call", Text: `{"k"`}, {Kind: "call", Call: 1, Name: "y"}, {Kind: "call", Call: 1, Text: `{}`}, {Kind: "call", Text: `:1}`}}
	for api, chunks := range replies {
		var got []model.Delta
		resp, err := serve(t, sse(chunks...)).model(t, api).Stream(t.Context(), ask("hello"), func(d model.Delta) { got = append(got, d) })
		if err != nil || resp.Text != "a🚀" {
			t.Fatalf("%s: %+v, %v", api, resp, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", api, d)
		}
	}
}

// TestFields: what an operator sets is set, over what the client would.
func TestFields(t *testing.T) {
	s := serve(t, refuse(500, ""))
	_, _ = call(t, s.model(t, openai.Chat, func(c *openai.Config) {
		c.Fields = map[string]json.RawMessage{"temperature": json.RawMessage(`0.2`), "stream_options": json.RawMessage(`null`)}
		c.Thinking = "off"
	}), ask("hello"))
	if b := s.Requests()[0].Body; b["temperature"] != 0.2 || b["stream_options"] != nil || b["reasoning_effort"] != "none" || b["prompt_cache_key"] != nil {
		t.Errorf("request %v", b)
	}
}
