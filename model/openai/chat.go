package openai

import (
	"encoding/json"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

type chatMessage map[string]any

// chatBody is a request to Chat Completions. Field names are those of the SDK's
// ChatCompletionNewParams, which a test holds it against; it is written as plain
// JSON because schemas and arguments must reach the wire as they are.
func (m *Model) chatBody(r model.Request) map[string]any {
	body := map[string]any{
		"model":          m.name(r),
		"messages":       chatMessages(r),
		"stream":         true,
		"stream_options": map[string]any{"include_usage": true},
	}
	if len(r.Tools) > 0 {
		tools := make([]any, 0, len(r.Tools))
		for _, t := range r.Tools {
			tools = append(tools, map[string]any{"type": "function", "function": map[string]any{
				"name": t.Name, "description": t.Description, "parameters": schema(t.Schema),
			}})
		}
		body["tools"] = tools
	}
	if r.MaxTokens > 0 {
		if m.official() {
			body["max_completion_tokens"] = r.MaxTokens
		} else {
			body["max_tokens"] = r.MaxTokens // what servers have known for longest
		}
	}
	if th := m.thinking(r); th != "" {
		body["reasoning_effort"] = effort(th)
	}
	if r.Format != nil {
		body["response_format"] = map[string]any{"type": "json_schema", "json_schema": map[string]any{
			"name": r.Format.Name, "schema": schema(r.Format.Schema), "strict": false,
		}}
	}
	if key := cacheKey(r); key != "" && m.official() {
		body["prompt_cache_key"] = key
	}
	return body
}

// cacheKey is the run of a request: its calls share a prefix, which the provider
// is to look for where the last of them was answered.
func cacheKey(r model.Request) string {
	run, _, _ := strings.Cut(r.AttemptID, ".")
	return run
}

func effort(thinking string) string {
	if thinking == "off" {
		return "none"
	}
	return thinking
}

// schema is never empty: servers refuse that.
func schema(s json.RawMessage) json.RawMessage {
	if len(s) == 0 || string(s) == "null" {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return s
}

func chatMessages(r model.Request) []chatMessage {
	ms := make([]chatMessage, 0, len(r.Messages)+1)
	if r.System != "" {
		ms = append(ms, chatMessage{"role": "system", "content": r.System})
	}
	asked := 0 // the last message of the user
	for i, msg := range r.Messages {
		if msg.Role == model.User {
			asked = i
		}
	}
	for i, msg := range r.Messages {
		switch msg.Role {
		case model.Assistant:
			ms = append(ms, chatAssistant(msg, i > asked))
		case model.Tool:
			for _, res := range msg.Results {
				ms = append(ms, chatMessage{"role": "tool", "tool_call_id": model.WireID(res.CallID), "content": res.Text})
			}
		default:
			ms = append(ms, chatMessage{"role": "user", "content": msg.Text})
		}
	}
	return ms
}

// chatAssistant gives back what a server added to its answer. Plain reasoning
// goes back only within the turn that it belongs to: the servers that want it
// there refuse it later.
func chatAssistant(msg model.Message, current bool) chatMessage {
	out := chatMessage{"role": "assistant"}
	var text strings.Builder
	var calls []any
	var detailed []any
	for _, p := range msg.Pieces(Chat) {
		var add added
		if p.Data != nil {
			_ = json.Unmarshal(p.Data, &add) // what is none of ours adds nothing
		}
		switch p.Kind {
		case events.BlockText:
			text.WriteString(p.Text)
		case events.BlockCall:
			call := map[string]any{"id": model.WireID(p.Call.ID), "type": "function", "function": map[string]any{
				"name": p.Call.Name, "arguments": string(p.Call.Object()),
			}}
			if add.Extra != nil {
				call["extra_content"] = add.Extra
			}
			calls = append(calls, call)
		case events.BlockReasoning:
			switch {
			case add.Detail != nil:
				d := add.Detail
				if p.Text != "" && add.TextIn != "" {
					d[add.TextIn] = p.Text
				}
				detailed = append(detailed, d)
			case add.Field != "" && current:
				prior, _ := out[add.Field].(string)
				out[add.Field] = prior + p.Text
			}
		}
	}
	if text.Len() > 0 || len(calls) == 0 {
		out["content"] = text.String()
	} else {
		out["content"] = nil
	}
	if len(calls) > 0 {
		out["tool_calls"] = calls
	}
	if len(detailed) > 0 {
		out["reasoning_details"] = detailed
	}
	return out
}

// added is the Data of a block of this format.
type added struct {
	// Field is the name that plain reasoning came under.
	Field string `json:"field,omitempty"`
	// Detail is an element of reasoning_details without its text, which goes back
	// under TextIn.
	Detail map[string]any `json:"detail,omitempty"`
	TextIn string         `json:"text_in,omitempty"`
	// Extra is what came beside a call, such as a signature of the thought before it.
	Extra json.RawMessage `json:"extra_content,omitempty"`
}
