package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/internal/wire"
)

// event is one of a stream, or a whole message.
type event struct {
	Type    string          `json:"type"`
	Index   int             `json:"index"`
	Message *message        `json:"message"`
	Block   *block          `json:"content_block"`
	Usage   json.RawMessage `json:"usage"`
	Error   json.RawMessage `json:"error"`
	Delta   struct {
		Type       string          `json:"type"`
		Text       json.RawMessage `json:"text"`
		Partial    json.RawMessage `json:"partial_json"`
		Thinking   json.RawMessage `json:"thinking"`
		Signature  string          `json:"signature"`
		StopReason string          `json:"stop_reason"`
	} `json:"delta"`
}

type message struct {
	Model      string          `json:"model"`
	Content    []block         `json:"content"`
	StopReason string          `json:"stop_reason"`
	Usage      json.RawMessage `json:"usage"`
}

type block struct {
	Type      string          `json:"type"`
	Text      json.RawMessage `json:"text"`
	Thinking  json.RawMessage `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`

	text wire.Text // of text, thinking, or arguments in pieces
	call int
	at   int // among the blocks
}

type answer struct {
	told   func(model.Delta)
	model  string
	usage  map[string]json.RawMessage // as last said, field by field
	blocks []*block
	calls  int
	index  map[int]*block // by the server's index
	stop   string
	ended  bool
	failed bool // whole, and an error: its usage is all there is
}

// Complete implements [wire.Answer]: the reason to stop comes with the usage.
func (a *answer) Complete() bool { return a.stop != "" }

// Spent implements [wire.Answer]. The input is known from the start, the output
// only at the end.
func (a *answer) Spent() (string, *events.Usage) {
	if a.stop == "" && !a.failed || a.usage == nil {
		return a.model, nil
	}
	u := a.counts()
	return a.model, &u
}

// Event implements [wire.Answer].
func (a *answer) Event(data []byte, whole bool) (bool, error) {
	if data == nil {
		return true, nil
	}
	if whole {
		var m struct {
			message
			Error json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(data, &m); err != nil {
			return false, wire.Malformed(data, err)
		}
		if len(m.Error) > 0 && string(m.Error) != "null" {
			m.Content, m.StopReason = nil, "" // what is left is who served, and the bill
			a.begin(&m.message)
			a.failed = true
			return false, wire.NewFailure(m.Error)
		}
		a.begin(&m.message)
		a.ended = true
		return true, nil
	}
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		return false, wire.Malformed(data, err)
	}
	switch e.Type {
	case "message_start":
		if e.Message != nil {
			a.begin(e.Message)
		}
	case "content_block_start":
		if e.Block != nil {
			a.open(e.Index, e.Block)
		}
	case "content_block_delta":
		if b := a.index[e.Index]; b != nil {
			a.add(b, &e)
		}
	case "message_delta":
		a.count(e.Usage)
		if e.Delta.StopReason != "" {
			a.stop = e.Delta.StopReason
		}
	case "message_stop":
		a.ended = true
		return true, nil
	case "error":
		return false, wire.NewFailure(e.Error)
	}
	return false, nil // ping, and what is new
}

func (a *answer) begin(m *message) {
	if m.Model != "" {
		a.model = m.Model
	}
	a.count(m.Usage)
	if m.StopReason != "" {
		a.stop = m.StopReason
	}
	for i := range m.Content {
		a.open(i, &m.Content[i])
	}
}

// count takes what is said of usage; a later figure replaces an earlier one.
func (a *answer) count(raw json.RawMessage) {
	var u map[string]json.RawMessage
	if json.Unmarshal(raw, &u) != nil || len(u) == 0 {
		return
	}
	if a.usage == nil {
		a.usage = map[string]json.RawMessage{}
	}
	for k, v := range u {
		if string(v) != "null" {
			a.usage[k] = bytes.Clone(v)
		}
	}
}

func (a *answer) open(index int, b *block) {
	if a.index == nil {
		a.index = map[int]*block{}
	}
	a.index[index] = b
	b.at = len(a.blocks)
	a.blocks = append(a.blocks, b)
	switch b.Type {
	case "text":
		a.tell(b, events.BlockText, b.Text)
	case "thinking":
		a.tell(b, events.BlockReasoning, b.Thinking)
	case "tool_use":
		b.call = a.calls
		a.calls++
		a.told(model.Delta{Kind: events.BlockCall, Call: b.call, Name: b.Name})
	}
}

func (a *answer) add(b *block, e *event) {
	switch e.Delta.Type {
	case "text_delta":
		a.tell(b, events.BlockText, e.Delta.Text)
	case "thinking_delta":
		a.tell(b, events.BlockReasoning, e.Delta.Thinking)
	case "signature_delta":
		b.Signature += e.Delta.Signature
	case "input_json_delta":
		a.tell(b, events.BlockCall, e.Delta.Partial)
	}
}

func (a *answer) tell(b *block, kind string, raw json.RawMessage) {
	if delta, ok := b.text.Add(raw); ok && delta != "" {
		d := model.Delta{Kind: kind, Call: b.call, Text: delta}
		if kind == events.BlockReasoning {
			d.Block = b.at
		}
		a.told(d)
	}
}

func (a *answer) figure(name string) (n int64, ok bool) {
	n, ok = wire.Count(a.usage[name])
	if !ok || n < 0 {
		return 0, false
	}
	return n, true
}

// counts is what was billed. Each figure of input is counted apart; without both
// sides nothing is known.
func (a *answer) counts() events.Usage {
	in, knownIn := a.figure("input_tokens")
	out, knownOut := a.figure("output_tokens")
	if !knownIn || !knownOut {
		return events.Usage{Missing: true}
	}
	u := events.Usage{Input: in, Output: out}
	u.CacheRead, _ = a.figure("cache_read_input_tokens")
	u.CacheWrite, _ = a.figure("cache_creation_input_tokens")
	var d struct {
		Thinking json.RawMessage `json:"thinking_tokens"`
	}
	if json.Unmarshal(a.usage["output_tokens_details"], &d) == nil {
		if n, ok := wire.Count(d.Thinking); ok && n > 0 {
			u.Reasoning = n
		}
	}
	return model.Uncached(model.Exclusive, u)
}

// Finish implements [wire.Answer].
func (a *answer) Finish() (model.Response, error) {
	if a.stop == "" && !a.ended {
		return model.Response{}, &model.Error{Kind: "unavailable", Retryable: true, Err: errors.New("the stream ended before the answer did")}
	}
	r := model.Response{Model: a.model, Usage: a.counts()}
	if a.usage != nil {
		r.RawUsage, _ = json.Marshal(a.usage) // of raw JSON
	}
	var bs []events.Block
	var texts []string
	for _, b := range a.blocks {
		switch b.Type {
		case "text":
			if s := b.text.String(); s != "" {
				bs, texts = append(bs, events.Block{Kind: events.BlockText, Text: s}), append(texts, s)
			}
		case "thinking":
			bs = append(bs, reasoning(b.text.String(), map[string]string{"signature": b.Signature}))
		case "redacted_thinking":
			bs = append(bs, reasoning("", map[string]string{"type": b.Type, "data": b.Data}))
		case "tool_use":
			call := events.ToolCall{ProviderID: b.ID, Name: b.Name}
			text := b.text.String()
			if b.text.Empty() && string(b.Input) != "null" {
				text = string(b.Input)
			}
			call.Arguments, call.Malformed = model.Arguments(text)
			bs, r.Calls = append(bs, events.Block{Kind: events.BlockCall, Call: len(r.Calls)}), append(r.Calls, call)
		}
	}
	if len(bs) == 0 && a.stop == "" {
		return model.Response{}, &model.Error{Kind: "malformed_answer", Retryable: true, Err: errors.New("the answer has no content")}
	}
	r.Text = strings.Join(texts, "")
	r.Blocks = model.NeededBlocks(bs)
	r.StopReason = stopReason(a.stop, len(r.Calls) > 0)
	return r, nil
}

func reasoning(text string, data map[string]string) events.Block {
	raw, _ := json.Marshal(data) // of strings
	return events.Block{Kind: events.BlockReasoning, Text: text, Format: Messages, Data: raw}
}

func stopReason(said string, calls bool) string {
	switch {
	case said == "max_tokens" || said == "model_context_window_exceeded":
		return "max_tokens"
	case said == "refusal":
		return "refusal"
	case calls:
		return "tool_use"
	}
	return "end_turn"
}
