package sidequery

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/model"
)

// Message is an entry of the conversation: a [model.Message], or what JSON has
// there, where content may be a text or a list of blocks (text, toolCall), and
// role toolResult stands for the result of one call.
type Message struct {
	model.Message
	// Time is when it was said; zero = when it was asked.
	Time time.Time
	// Extra are fields that are not known here. They are kept, and not sent.
	Extra map[string]json.RawMessage
}

// intake makes messages whole; the caller's are not touched.
func intake(ms []Message, now time.Time) []Message {
	ms = slices.Clone(ms)
	for i := range ms {
		if ms[i].Time.IsZero() {
			ms[i].Time = now
		}
	}
	return ms
}

type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// UnmarshalJSON implements [json.Unmarshaler].
func (m *Message) UnmarshalJSON(b []byte) error {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(b, &in); err != nil {
		return fmt.Errorf("message: %w", err)
	}
	var role, id, name string
	var failed bool
	var ms int64
	var content json.RawMessage
	for field, to := range map[string]any{"role": &role, "toolCallId": &id, "toolName": &name, "isError": &failed, "timestamp": &ms, "content": &content} {
		raw, ok := in[field]
		if !ok {
			continue
		}
		if err := json.Unmarshal(raw, to); err != nil {
			return fmt.Errorf("message: %s: %w", field, err)
		}
		delete(in, field)
	}
	*m = Message{}
	if len(in) > 0 {
		m.Extra = in
	}
	if ms != 0 {
		m.Time = time.UnixMilli(ms).UTC()
	}
	text, calls, err := readContent(content)
	if err != nil {
		return err
	}
	switch role {
	case "user":
		m.Message = model.Message{Role: model.User, Text: text}
	case "assistant":
		m.Message = model.Message{Role: model.Assistant, Text: text, Calls: calls}
	case "toolResult":
		m.Message = model.Message{Role: model.Tool, Results: []model.Result{{CallID: id, Name: name, Text: text, Failed: failed}}}
	default:
		return fmt.Errorf("message: role %q: want user, assistant or toolResult", role)
	}
	return nil
}

func readContent(raw json.RawMessage) (text string, calls []model.Call, err error) {
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil, nil
	}
	var bs []block
	if err := json.Unmarshal(raw, &bs); err != nil {
		return "", nil, fmt.Errorf("message: content: want a text or a list of blocks: %w", err)
	}
	for _, b := range bs {
		switch b.Type {
		case "text":
			text += b.Text
		case "toolCall":
			if len(b.Arguments) == 0 {
				b.Arguments = json.RawMessage(`{}`)
			}
			calls = append(calls, model.Call{ID: b.ID, Name: b.Name, Arguments: b.Arguments})
		}
	}
	return text, calls, nil
}
