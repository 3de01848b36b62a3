package modelserver

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/daybookhq/daybook/model"
)

// messages is Anthropic's API.
type messages struct{}

func (messages) key(h http.Header) string {
	if k := h.Get("X-Api-Key"); k != "" {
		return k
	}
	return chat{}.key(h)
}

func (messages) refuse(text string) any {
	return object{"type": "error", "error": object{"type": "invalid_request_error", "message": text}}
}

type block struct {
	Type      string
	Text      string
	ID        string
	Name      string
	Input     json.RawMessage
	ToolUseID string `json:"tool_use_id"`
	Content   string
	IsError   bool `json:"is_error"`
}

func (messages) read(body []byte) (r model.Request, err error) {
	var in struct {
		Model     string
		Stream    bool
		MaxTokens int `json:"max_tokens"`
		System    []block
		Messages  []struct {
			Role    string
			Content []block
		}
		Tools []struct {
			Name, Description string
			InputSchema       json.RawMessage `json:"input_schema"`
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return r, err
	}
	if !in.Stream || in.MaxTokens < 1 {
		return r, fmt.Errorf("want stream: true and max_tokens")
	}
	r.Model = in.Model
	for _, b := range in.System {
		r.System += b.Text
	}
	for _, t := range in.Tools {
		r.Tools = append(r.Tools, model.Spec{Name: t.Name, Description: t.Description, Schema: t.InputSchema})
	}
	names := map[string]string{} // of calls
	for i, m := range in.Messages {
		if m.Role != []string{"user", "assistant"}[i%2] {
			return r, fmt.Errorf("messages.%d: roles must alternate", i)
		}
		out := model.Message{Role: model.Role(m.Role)}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				out.Text += b.Text
			case "tool_use":
				names[b.ID] = b.Name
				out.Calls = append(out.Calls, model.Call{ID: b.ID, Name: b.Name, Arguments: b.Input})
			case "tool_result":
				r.Messages = answer(r.Messages, result(b.ToolUseID, names[b.ToolUseID], b.Content, b.IsError))
			default:
				return r, fmt.Errorf("messages.%d: there is no block %q", i, b.Type)
			}
		}
		if out.Text != "" || len(out.Calls) > 0 {
			r.Messages = append(r.Messages, out)
		}
	}
	return r, nil
}

func (messages) write(send func(any), r model.Response) {
	send(object{"type": "message_start", "message": object{
		"id": "msg_1", "type": "message", "role": "assistant", "model": r.Model, "content": []any{}, "stop_reason": nil,
		"usage": object{"input_tokens": r.Usage.Input, "output_tokens": 1},
	}})
	n := 0
	write := func(start object, kind, field, text string) {
		send(object{"type": "content_block_start", "index": n, "content_block": start})
		for _, piece := range halves(text) {
			send(object{"type": "content_block_delta", "index": n, "delta": object{"type": kind, field: piece}})
		}
		send(object{"type": "content_block_stop", "index": n})
		n++
	}
	if r.Text != "" {
		write(object{"type": "text", "text": ""}, "text_delta", "text", r.Text)
	}
	why := "end_turn"
	for i, c := range r.Calls {
		why = "tool_use"
		write(object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", i), "name": c.Name, "input": object{}}, "input_json_delta", "partial_json", string(c.Arguments))
	}
	send(object{"type": "message_delta", "delta": object{"stop_reason": why, "stop_sequence": nil}, "usage": object{"output_tokens": r.Usage.Output}})
	send(object{"type": "message_stop"})
}
