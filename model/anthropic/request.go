package anthropic

import (
	"encoding/json"
	"regexp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

type object = map[string]any

// body is a request. Field names are those of the SDK's MessageNewParams, which a
// test holds it against; it is written as plain JSON because schemas and
// arguments must reach the wire as they are.
func (m *Model) body(r model.Request) object {
	bound := r.MaxTokens
	if bound == 0 {
		bound = DefaultMaxTokens
	}
	messages := transcript(r.Messages)
	body := object{"model": m.name(r), "max_tokens": bound, "messages": messages, "stream": true}
	if r.System != "" {
		body["system"] = []object{m.mark(object{"type": "text", "text": r.System})}
	}
	if len(r.Tools) > 0 {
		tools := make([]object, 0, len(r.Tools))
		for _, t := range r.Tools {
			tools = append(tools, object{"name": t.Name, "description": t.Description, "input_schema": schema(t.Schema)})
		}
		if r.System == "" {
			m.mark(tools[len(tools)-1])
		}
		body["tools"] = tools
	}
	// The marks move with the transcript: the last is what the next call finds, the
	// one before what this call does.
	marked := 0
	for i := len(messages) - 1; i >= 0 && marked < 2; i-- {
		if content := messages[i]["content"].([]object); messages[i]["role"] == "user" && len(content) > 0 {
			m.mark(content[len(content)-1])
			marked++
		}
	}
	out := object{}
	m.think(r, bound, body, out)
	if r.Format != nil {
		out["format"] = object{"type": "json_schema", "schema": schema(r.Format.Schema)}
	}
	if len(out) > 0 {
		body["output_config"] = out
	}
	return body
}

func (m *Model) mark(block object) object {
	if !m.cfg.NoCache {
		block["cache_control"] = object{"type": "ephemeral"}
	}
	return block
}

// budgeted matches the models that are given a number of tokens to think with;
// those after them are told how hard to try.
var budgeted = regexp.MustCompile(`claude-(3|(opus|sonnet|haiku)-4)(-[0-5])?(-20\d{6}|-latest)?$|claude-3-7`)

var budgets = map[string]int{"minimal": 1024, "low": 4096, "medium": 8192, "high": 16384}

func (m *Model) think(r model.Request, bound int, body, out object) {
	th := r.Thinking
	if th == "" {
		th = m.cfg.Thinking
	}
	budget := budgets[th]
	if budget >= bound {
		budget = bound / 2
	}
	switch {
	case th == "":
	case th == "off":
		body["thinking"] = object{"type": "disabled"}
	case !budgeted.MatchString(m.name(r)):
		if th == "minimal" {
			th = "low"
		}
		body["thinking"], out["effort"] = object{"type": "adaptive"}, th
	case budget < 1024 || lostThought(r.Messages):
		body["thinking"] = object{"type": "disabled"} // or the API refuses the request
	default:
		body["thinking"] = object{"type": "enabled", "budget_tokens": budget}
	}
}

// lostThought reports whether the calls that are being answered came with
// thinking that cannot go back: the redactor changed it, or another model thought it.
func lostThought(ms []model.Message) bool {
	for i := len(ms) - 1; i >= 0 && ms[i].Role != model.User; i-- {
		if ms[i].Role == model.Assistant && len(ms[i].Calls) > 0 {
			ps := ms[i].Pieces(Messages)
			if len(ps) == 0 || ps[0].Kind != events.BlockReasoning {
				return true
			}
		}
	}
	return false
}

// schema is never empty: the API refuses that.
func schema(s json.RawMessage) json.RawMessage {
	if len(s) == 0 || string(s) == "null" {
		return json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return s
}

// transcript joins what one side says in a row: results and the question behind
// them are one message.
func transcript(ms []model.Message) []object {
	var out []object
	add := func(role string, blocks ...object) {
		if len(blocks) == 0 {
			return
		}
		if n := len(out); n > 0 && out[n-1]["role"] == role {
			out[n-1]["content"] = append(out[n-1]["content"].([]object), blocks...)
			return
		}
		out = append(out, object{"role": role, "content": blocks})
	}
	for _, msg := range ms {
		switch msg.Role {
		case model.Assistant:
			add("assistant", assistant(msg)...)
		case model.Tool:
			for _, res := range msg.Results {
				b := object{"type": "tool_result", "tool_use_id": model.WireID(res.CallID)}
				if res.Text != "" {
					b["content"] = res.Text
				}
				if res.Failed {
					b["is_error"] = true
				}
				add("user", b)
			}
		default:
			text := msg.Text
			if text == "" {
				text = "(nothing)" // empty texts are refused
			}
			add("user", object{"type": "text", "text": text})
		}
	}
	return out
}

func assistant(msg model.Message) (blocks []object) {
	for _, p := range msg.Pieces(Messages) {
		b := object{}
		switch p.Kind {
		case events.BlockText:
			b["type"], b["text"] = "text", p.Text
		case events.BlockCall:
			b["type"], b["id"], b["name"], b["input"] = "tool_use", model.WireID(p.Call.ID), p.Call.Name, p.Call.Object()
		case events.BlockReasoning:
			if json.Unmarshal(p.Data, &b) != nil {
				continue
			}
			if b["type"] != "redacted_thinking" {
				b["type"], b["thinking"] = "thinking", p.Text
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}
