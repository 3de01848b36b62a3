package openai_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/daybookhq/daybook/model/openai"
)

// described returns the schemas of the published OpenAPI document, as far as they are
// about what is sent and read here; where they are from stands in the file.
var described = sync.OnceValues(func() (any, error) {
	b, err := os.ReadFile(filepath.Join("testdata", "openapi.schema.json"))
	if err != nil {
		return nil, err
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(b))
})

// fits holds a document against one of them. Of a request no field may be unknown.
func fits(def string, request bool, doc []byte) error {
	all, err := described()
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", all); err != nil {
		return err
	}
	root := map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "openapi.json#/$defs/" + def}
	if request {
		root["unevaluatedProperties"] = false
	}
	if err := c.AddResource("root.json", root); err != nil {
		return err
	}
	s, err := c.Compile("root.json")
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(doc))
	if err != nil {
		return err
	}
	return s.Validate(v)
}

func requestOf(name string) string {
	if strings.HasPrefix(name, "chat-") {
		return "CreateChatCompletionRequest"
	}
	return "CreateResponse"
}

// TestRequestsFitThePublishedDescription: what we send is what the provider says that it
// takes, and the description would notice if it were not.
func TestRequestsFitThePublishedDescription(t *testing.T) {
	files, err := filepath.Glob("testdata/*-*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d goldens, %v", len(files), err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if err := fits(requestOf(name), true, b); err != nil {
				t.Errorf("%v", err)
			}
			for what, spoil := range map[string]func(map[string]any){
				"a field that there is not": func(m map[string]any) { m["max_tokenz"] = 1 },
				"a number in words":         func(m map[string]any) { m["stream"] = "yes" },
				"tools of another form":     func(m map[string]any) { m["tools"] = []any{map[string]any{"type": "function", "name": 7}} },
			} {
				var m map[string]any
				if err := json.Unmarshal(b, &m); err != nil {
					t.Fatal(err)
				}
				spoil(m)
				bad, err := json.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				var invalid *jsonschema.ValidationError
				if err := fits(requestOf(name), true, bad); !errors.As(err, &invalid) {
					t.Errorf("%s is let through: %v", what, err)
				}
			}
		})
	}
}

const published1 = `"id":"resp_1","object":"response","created_at":1764500000,"error":null,"incomplete_details":null,"instructions":null,"metadata":{},"model":"gpt-5-mini-2025-08-07","parallel_tool_calls":true,"temperature":1,"tool_choice":"auto","tools":[],"top_p":1`

// TestStreamsOfThePublishedForm: streams in full, each event of which the description
// accepts, are read as what they say.
func TestStreamsOfThePublishedForm(t *testing.T) {
	const item = `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"hello","annotations":[],"logprobs":[]}]}`
	const call1 = `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"x","arguments":"{\"n\":7}","status":"completed"}`
	chunk := func(choice string) string {
		return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764500000,"model":"gpt-5-mini-2025-08-07","choices":[%s]}`, choice)
	}
	for _, tt := range []struct {
		api, def string
		events   []string
	}{
		{openai.Responses, "ResponseStreamEvent", []string{
			`{"type":"response.created","sequence_number":0,"response":{` + published1 + `,"status":"in_progress","output":[]}}`,
			`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":{"type":"message","id":"msg_1","status":"in_progress","role":"assistant","content":[]}}`,
			`{"type":"response.output_text.delta","sequence_number":2,"item_id":"msg_1","output_index":0,"content_index":0,"delta":"hello","logprobs":[]}`,
			`{"type":"response.output_item.done","sequence_number":3,"output_index":0,"item":` + item + `}`,
			`{"type":"response.function_call_arguments.delta","sequence_number":4,"item_id":"fc_1","output_index":1,"delta":"{\"n\":7}"}`,
			`{"type":"response.output_item.done","sequence_number":5,"output_index":1,"item":` + call1 + `}`,
			`{"type":"response.completed","sequence_number":6,"response":{` + published1 + `,"status":"completed","output":[` + item + `,` + call1 + `],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60,"cache_write_tokens":0},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":107}}}`,
		}},
		{openai.Chat, "CreateChatCompletionStreamResponse", []string{
			chunk(`{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}`),
			chunk(`{"index":0,"delta":{"content":"hello"},"logprobs":null,"finish_reason":null}`),
			chunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"x","arguments":"{\"n\":7}"}}]},"logprobs":null,"finish_reason":null}`),
			chunk(`{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}`),
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1764500000,"model":"gpt-5-mini-2025-08-07","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"total_tokens":107,"prompt_tokens_details":{"cached_tokens":60},"completion_tokens_details":{"reasoning_tokens":0}}}`,
		}},
	} {
		t.Run(strings.ReplaceAll(tt.api, "/", " "), func(t *testing.T) {
			for i, e := range tt.events {
				if err := fits(tt.def, false, []byte(e)); err != nil {
					t.Errorf("event %d is not of the published form: %v", i, err)
				}
			}
			if fits(tt.def, false, []byte(`{"type":"response.completed","choices":7}`)) == nil {
				t.Error("the description takes anything")
			}
			events := tt.events
			if tt.api == openai.Chat {
				events = append(events, done)
			}
			resp, e := call(t, serve(t, sse(events...)).model(t, tt.api), ask("hi"))
			if e != nil || resp.Text != "hello" || resp.Model != "gpt-5-mini-2025-08-07" || resp.Usage != usage107 || len(resp.Calls) != 1 || string(resp.Calls[0].Arguments) != `{"n":7}` {
				t.Errorf("%+v, %v", resp, e)
			}
		})
	}
}
