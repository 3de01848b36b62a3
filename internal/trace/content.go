package trace

import (
	"encoding/json"

	"github.com/daybookhq/daybook/events"
)

// outputMessages is an answer in the form of the conventions: a list of messages
// with parts.
func outputMessages(p events.ModelCallFinished) string {
	type part struct {
		Type      string          `json:"type"`
		Content   string          `json:"content,omitempty"`
		ID        string          `json:"id,omitempty"`
		Name      string          `json:"name,omitempty"`
		Arguments json.RawMessage `json:"arguments,omitempty"`
	}
	var parts []part
	if p.Text != "" {
		parts = append(parts, part{Type: "text", Content: p.Text})
	}
	for i, c := range p.ToolCalls {
		parts = append(parts, part{Type: "tool_call", ID: events.CallID{Turn: p.Turn, Index: i}.String(), Name: c.Name, Arguments: c.Arguments})
	}
	b, err := json.Marshal([]any{map[string]any{"role": "assistant", "parts": parts, "finish_reason": p.StopReason}})
	if err != nil {
		return ""
	}
	return string(b)
}
