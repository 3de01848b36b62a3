package openai

import (
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/internal/wire"
)

// reasons matches models that think, and hand out what they thought encrypted;
// others refuse to be asked for it.
var reasons = regexp.MustCompile(`^(ft:)?(o\d|gpt-(oss|[5-9])|codex)`)

// responsesBody is a request to Responses. Field names are those of the SDK's
// ResponseNewParams. Nothing is stored with the provider: the transcript is ours,
// and a run can go on with another provider or after the provider forgot.
func (m *Model) responsesBody(r model.Request) map[string]any {
	body := map[string]any{"model": m.name(r), "input": responsesInput(r), "stream": true, "store": false}
	if r.System != "" {
		body["instructions"] = r.System
	}
	if len(r.Tools) > 0 {
		tools := make([]any, 0, len(r.Tools))
		for _, t := range r.Tools {
			tools = append(tools, map[string]any{
				"type": "function", "name": t.Name, "description": t.Description, "parameters": schema(t.Schema), "strict": false,
			})
		}
		body["tools"] = tools
	}
	if r.MaxTokens > 0 {
		body["max_output_tokens"] = r.MaxTokens
	}
	th := m.thinking(r)
	if th != "" {
		body["reasoning"] = map[string]any{"effort": effort(th)}
	}
	if th != "" && th != "off" || th == "" && reasons.MatchString(m.name(r)) && !strings.Contains(m.name(r), "-chat") {
		body["include"] = []string{"reasoning.encrypted_content"}
	}
	if r.Format != nil {
		body["text"] = map[string]any{"format": map[string]any{
			"type": "json_schema", "name": r.Format.Name, "schema": schema(r.Format.Schema), "strict": false,
		}}
	}
	if key := cacheKey(r); key != "" && m.official() {
		body["prompt_cache_key"] = key
	}
	return body
}

func responsesInput(r model.Request) []any {
	in := make([]any, 0, len(r.Messages))
	for _, msg := range r.Messages {
		switch msg.Role {
		case model.Assistant:
			for _, p := range msg.Pieces(Responses) {
				in = append(in, responsesItem(p))
			}
		case model.Tool:
			for _, res := range msg.Results {
				in = append(in, map[string]any{"type": "function_call_output", "call_id": model.WireID(res.CallID), "output": res.Text})
			}
		default:
			in = append(in, map[string]any{"type": "message", "role": "user", "content": msg.Text})
		}
	}
	return in
}

func responsesItem(p model.Piece) map[string]any {
	item := map[string]any{}
	if p.Data != nil {
		_ = json.Unmarshal(p.Data, &item) // what is none of ours adds nothing
	}
	switch p.Kind {
	case events.BlockText:
		item["type"], item["role"], item["content"] = "message", "assistant", p.Text
	case events.BlockCall:
		item["type"], item["call_id"], item["name"], item["arguments"] = "function_call", model.WireID(p.Call.ID), p.Call.Name, string(p.Call.Object())
	case events.BlockReasoning:
		summary := []any{}
		if _, encrypted := item["encrypted_content"]; p.Text != "" && encrypted {
			summary = append(summary, map[string]any{"type": "summary_text", "text": p.Text})
		} else if p.Text != "" {
			item["content"] = []any{map[string]any{"type": "reasoning_text", "text": p.Text}}
		}
		item["type"], item["summary"] = "reasoning", summary
	}
	return item
}

// response is a Responses object, as far as it is read.
type response struct {
	Model      string          `json:"model"`
	Status     string          `json:"status"`
	Usage      json.RawMessage `json:"usage"`
	Error      json.RawMessage `json:"error"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output []outputItem `json:"output"`
}

type outputItem struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Phase   string `json:"phase"`
	Content []struct {
		Type    string `json:"type"`
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
	Summary []struct {
		Text string `json:"text"`
	} `json:"summary"`
	Encrypted string          `json:"encrypted_content"`
	CallID    string          `json:"call_id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

type responsesEvent struct {
	Type     string          `json:"type"`
	Index    *int            `json:"output_index"`
	Delta    json.RawMessage `json:"delta"`
	Item     *outputItem     `json:"item"`
	Response *response       `json:"response"`
	Error    json.RawMessage `json:"error"`
}

type responsesAnswer struct {
	told  func(model.Delta)
	items []outputItem // that are done, in order of output index
	at    []int        // output index of each of items
	calls map[int]int  // output index → index of the call
	begun int          // calls so far
	last  *response    // the response as it was last described
	ended bool
}

func (a *responsesAnswer) Spent() (string, *events.Usage) {
	if a.last == nil {
		return "", nil
	}
	return a.last.Model, account(a.last.Usage).spent()
}

func (a *responsesAnswer) Complete() bool { return a.ended }

func (a *responsesAnswer) Event(data []byte, whole bool) (bool, error) {
	if len(data) == 0 {
		return true, nil
	}
	if whole {
		var r response
		if err := json.Unmarshal(data, &r); err != nil {
			return false, wire.Malformed(data, err)
		}
		a.last = &r
		if r.Status == "failed" || len(r.Output) == 0 && len(r.Error) > 0 && string(r.Error) != "null" {
			return false, wire.NewFailure(r.Error)
		}
		a.ended = true
		return true, nil
	}
	var e responsesEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return false, wire.Malformed(data, err)
	}
	if e.Response != nil {
		a.last = e.Response
	}
	switch e.Type {
	case "response.output_text.delta", "response.refusal.delta":
		a.tell(e, model.Delta{Kind: events.BlockText})
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		d := model.Delta{Kind: events.BlockReasoning}
		if e.Index != nil {
			d.Block = *e.Index
		}
		a.tell(e, d)
	case "response.function_call_arguments.delta":
		a.tell(e, model.Delta{Kind: events.BlockCall, Call: a.call(e.Index)})
	case "response.output_item.added":
		if e.Item != nil && e.Item.Type == "function_call" {
			if a.calls == nil {
				a.calls = map[int]int{}
			}
			n := a.begun
			a.begun++
			if e.Index != nil {
				a.calls[*e.Index] = n
			}
			a.told(model.Delta{Kind: events.BlockCall, Call: n, Name: e.Item.Name})
		}
	case "response.output_item.done":
		if e.Item != nil {
			a.done(e.Index, *e.Item)
		}
	case "response.completed", "response.incomplete":
		a.ended = a.last != nil
		return true, nil
	case "response.failed":
		if a.last != nil {
			return false, wire.NewFailure(a.last.Error)
		}
		return false, wire.NewFailure(nil)
	case "error":
		if len(e.Error) > 0 {
			return false, wire.NewFailure(e.Error)
		}
		return false, wire.NewFailure(data)
	default:
		if e.Type == "" && len(e.Error) > 0 {
			return false, wire.NewFailure(e.Error)
		}
	}
	return false, nil
}

func (a *responsesAnswer) tell(e responsesEvent, d model.Delta) {
	if json.Unmarshal(e.Delta, &d.Text) == nil && d.Text != "" {
		a.told(d)
	}
}

// call returns the call that a delta is about: the last one, where the server gives no index.
func (a *responsesAnswer) call(index *int) int {
	if index != nil {
		if n, ok := a.calls[*index]; ok {
			return n
		}
	}
	return max(a.begun-1, 0)
}

// done keeps an item in its place; one without an index is another, and the last.
func (a *responsesAnswer) done(index *int, it outputItem) {
	at := 0
	if n := len(a.at); n > 0 {
		at = a.at[n-1] + 1
	}
	if index != nil {
		at = *index
	}
	i, found := slices.BinarySearch(a.at, at)
	if found {
		a.items[i] = it
		return
	}
	a.at, a.items = slices.Insert(a.at, i, at), slices.Insert(a.items, i, it)
}

func (a *responsesAnswer) Finish() (model.Response, error) {
	if !a.ended {
		return model.Response{}, &model.Error{Kind: "unavailable", Retryable: true, Err: errCut}
	}
	items := a.last.Output
	if len(items) == 0 { // some servers describe the end without what led to it
		items = a.items
	}
	if len(items) == 0 && a.last.Status != "incomplete" {
		return model.Response{}, &model.Error{Kind: "malformed_answer", Retryable: true, Err: errors.New("the answer has no output")}
	}
	acc := account(a.last.Usage)
	r := model.Response{Model: a.last.Model, Usage: acc.usage()}
	if acc != nil {
		r.RawUsage = acc.raw
	}
	var bs []events.Block
	var texts []string
	refused := false
	for _, it := range items {
		switch it.Type {
		case "message":
			text, no := it.text()
			refused = refused || no
			if text == "" {
				continue
			}
			b := events.Block{Kind: events.BlockText, Text: text}
			if it.Phase != "" {
				b.Format, b.Data = Responses, encode(map[string]string{"phase": it.Phase})
			}
			bs, texts = append(bs, b), append(texts, text)
		case "function_call":
			call := events.ToolCall{ProviderID: it.CallID, Name: it.Name}
			text := string(it.Arguments)
			var s string
			if json.Unmarshal(it.Arguments, &s) == nil {
				text = s
			}
			call.Arguments, call.Malformed = model.Arguments(text)
			bs, r.Calls = append(bs, events.Block{Kind: events.BlockCall, Call: len(r.Calls)}), append(r.Calls, call)
		case "reasoning":
			bs = append(bs, it.reasoning())
		}
	}
	r.Text = strings.Join(texts, "\n\n")
	r.Blocks = model.NeededBlocks(bs)
	r.StopReason = responsesStop(a.last, refused, len(r.Calls) > 0)
	return r, nil
}

func responsesStop(last *response, refused, calls bool) string {
	switch {
	case last.Incomplete.Reason == "content_filter" || refused:
		return "refusal"
	case last.Incomplete.Reason != "", last.Status == "incomplete": // some give no reason
		return "max_tokens"
	case calls:
		return "tool_use"
	}
	return "end_turn"
}

func (it outputItem) text() (text string, refused bool) {
	for _, c := range it.Content {
		text += c.Text + c.Refusal
		refused = refused || c.Type == "refusal"
	}
	return text, refused
}

// reasoning keeps what the server showed as text, and the rest to give back.
func (it outputItem) reasoning() events.Block {
	var parts []string
	for _, s := range it.Summary {
		parts = append(parts, s.Text)
	}
	if len(parts) == 0 {
		for _, c := range it.Content {
			parts = append(parts, c.Text)
		}
	}
	data := map[string]string{"id": it.ID}
	if it.Encrypted != "" {
		data["encrypted_content"] = it.Encrypted
	}
	return events.Block{Kind: events.BlockReasoning, Text: strings.Join(parts, "\n\n"), Format: Responses, Data: encode(data)}
}
