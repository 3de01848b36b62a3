package modelserver

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/daybookhq/daybook/model"
)

// chat is Chat Completions.
type chat struct{}

type object = map[string]any

func (chat) key(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") }

func (chat) refuse(text string) any {
	return object{"error": object{"message": text, "type": "invalid_request_error"}}
}

func (chat) read(body []byte) (r model.Request, err error) {
	var in struct {
		Model    string
		Stream   bool
		Messages []struct {
			Role       string
			Content    string
			ToolCallID string `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Tools []struct {
			Function struct {
				Name, Description string
				Parameters        json.RawMessage
			}
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return r, err
	}
	if !in.Stream {
		return r, fmt.Errorf("want stream: true")
	}
	r.Model = in.Model
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, model.Spec{Name: t.Function.Name, Description: t.Function.Description, Schema: t.Function.Parameters})
	}
	names := map[string]string{} // of calls
	for _, m := range in.Messages {
		switch m.Role {
		case "system":
			r.System = m.Content
		case "user":
			r.Messages = append(r.Messages, model.Message{Role: model.User, Text: m.Content})
		case "assistant":
			out := model.Message{Role: model.Assistant, Text: m.Content}
			for _, c := range m.ToolCalls {
				names[c.ID] = c.Function.Name
				out.Calls = append(out.Calls, model.Call{ID: c.ID, Name: c.Function.Name, Arguments: json.RawMessage(c.Function.Arguments)})
			}
			r.Messages = append(r.Messages, out)
		case "tool":
			r.Messages = answer(r.Messages, result(m.ToolCallID, names[m.ToolCallID], m.Content, false))
		default:
			return r, fmt.Errorf("there is no role %q", m.Role)
		}
	}
	return r, nil
}

// answer puts results that stand in a row into one message.
func answer(ms []model.Message, res model.Result) []model.Message {
	if n := len(ms); n == 0 || ms[n-1].Role != model.Tool {
		ms = append(ms, model.Message{Role: model.Tool})
	}
	last := &ms[len(ms)-1]
	last.Results = append(last.Results, res)
	return ms
}

func (chat) write(send func(any), r model.Response) {
	chunk := func(delta object, why any) {
		send(object{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": r.Model,
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": why}},
		})
	}
	chunk(object{"role": "assistant", "content": ""}, nil)
	for _, piece := range halves(r.Text) {
		chunk(object{"content": piece}, nil)
	}
	why := "stop"
	for i, c := range r.Calls {
		why = "tool_calls"
		chunk(object{"tool_calls": []any{object{"index": i, "id": fmt.Sprintf("call_%d", i), "type": "function", "function": object{"name": c.Name, "arguments": ""}}}}, nil)
		for _, piece := range halves(string(c.Arguments)) {
			chunk(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": piece}}}}, nil)
		}
	}
	chunk(object{}, why)
	send(object{
		"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": r.Model, "choices": []any{},
		"usage": object{"prompt_tokens": r.Usage.Input, "completion_tokens": r.Usage.Output, "total_tokens": r.Usage.Input + r.Usage.Output},
	})
	send("[DONE]")
}

// halves cuts a text in two, as a stream would.
func halves(s string) []string {
	runes := []rune(s)
	if len(runes) < 2 {
		return []string{s}
	}
	n := len(runes) / 2
	return []string{string(runes[:n]), string(runes[n:])}
}
