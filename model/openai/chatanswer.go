package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/internal/wire"
)

// chatChunk is a chunk, or a whole answer, of Chat Completions as servers send
// it; what may come in more than one type is raw.
type chatChunk struct {
	Model   string                          `json:"model"`
	Error   json.RawMessage                 `json:"error"`
	Usage   json.RawMessage                 `json:"usage"`
	Groq    struct{ Usage json.RawMessage } `json:"x_groq"`
	Choices []struct {
		Index        int             `json:"index"`
		Delta        chatDelta       `json:"delta"`
		Message      chatDelta       `json:"message"`
		FinishReason json.RawMessage `json:"finish_reason"`
		Usage        json.RawMessage `json:"usage"`
	} `json:"choices"`
}

type chatDelta struct {
	Content          json.RawMessage   `json:"content"`
	Refusal          json.RawMessage   `json:"refusal"`
	ReasoningContent json.RawMessage   `json:"reasoning_content"`
	Reasoning        json.RawMessage   `json:"reasoning"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details"`
	ToolCalls        []chatCallDelta   `json:"tool_calls"`
}

type chatCallDelta struct {
	Index    *int            `json:"index"`
	ID       string          `json:"id"`
	Extra    json.RawMessage `json:"extra_content"`
	Function struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	} `json:"function"`
}

// chatCall is a call that is being put together.
type chatCall struct {
	index     int // the server's; -1 = it gave none
	id, name  string
	arguments wire.Text
	object    json.RawMessage // arguments that came as an object
	extra     json.RawMessage

	depth          int // of brackets that are open in arguments
	quoted, escape bool
	closed         bool // the first of them was closed again
	closedWhole    bool // and was JSON then
}

// whole reports whether its arguments are JSON.
func (c *chatCall) whole() bool {
	return c.object != nil || !c.arguments.Empty() && json.Valid([]byte(c.arguments.String()))
}

// over reports whether more arguments are those of another call. It is asked for each
// piece, so it looks at the whole only once, when the first bracket is closed.
func (c *chatCall) over() bool {
	const short = 64 // what is no object is
	return c.object != nil || c.closedWhole || !c.closed && c.depth == 0 && c.arguments.Len() <= short && c.whole()
}

// follow takes the next piece of the arguments.
func (c *chatCall) follow(piece string) {
	for i := 0; i < len(piece) && !c.closed; i++ {
		switch b := piece[i]; {
		case c.escape:
			c.escape = false
		case c.quoted:
			c.escape, c.quoted = b == '\\', b != '"'
		case b == '"':
			c.quoted = true
		case b == '{', b == '[':
			c.depth++
		case b == '}', b == ']':
			if c.depth--; c.depth <= 0 {
				c.closed, c.closedWhole = true, c.whole()
			}
		}
	}
}

// maxCalls bounds the calls of one answer.
const maxCalls = 512

// begun reports whether there is anything of it; an empty delta is no call.
func (c *chatCall) begun() bool { return c.name != "" || !c.empty() }

// empty reports whether nothing of its arguments came.
func (c *chatCall) empty() bool { return c.object == nil && c.arguments.Empty() }

type chatAnswer struct {
	told      func(model.Delta)
	model     string
	acc       *accounts
	finished  string // finish_reason
	done      bool   // the stream said so, or the answer was whole
	whole     bool   // it was not streamed
	heard     bool   // a choice came
	refused   bool
	text      wire.Text
	reasoning wire.Text
	field     string // the name that reasoning came under
	details   []json.RawMessage
	calls     []*chatCall
}

func (a *chatAnswer) Spent() (string, *events.Usage) { return a.model, a.acc.spent() }

func (a *chatAnswer) Complete() bool { return a.finished != "" }

func (a *chatAnswer) Event(data []byte, whole bool) (bool, error) {
	if len(data) == 0 {
		a.done = true
		return true, nil
	}
	var c chatChunk
	if err := json.Unmarshal(data, &c); err != nil {
		return false, wire.Malformed(data, err)
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return false, wire.NewFailure(c.Error)
	}
	if c.Model != "" {
		a.model = c.Model
	}
	for _, raw := range []json.RawMessage{c.Usage, c.Groq.Usage} {
		if acc := account(raw); acc != nil {
			a.acc = acc
		}
	}
	for i := range c.Choices {
		choice := &c.Choices[i]
		if acc := account(choice.Usage); acc != nil && a.acc == nil {
			a.acc = acc
		}
		if choice.Index != 0 {
			continue // we ask for one
		}
		a.heard = true
		a.add(&choice.Delta)
		a.add(&choice.Message)
		if len(a.calls) > maxCalls {
			return false, &model.Error{Kind: "malformed_answer", Retryable: true, Err: fmt.Errorf("the answer has over %d calls", maxCalls)}
		}
		var why string
		if json.Unmarshal(choice.FinishReason, &why) == nil && why != "" {
			a.finished = why
		}
	}
	a.done, a.whole = a.done || whole, whole
	return false, nil // usage comes after the choice has finished
}

func (a *chatAnswer) add(d *chatDelta) {
	if delta := addText(&a.text, d.Content); delta != "" {
		a.told(model.Delta{Kind: events.BlockText, Text: delta})
	}
	if delta := addText(&a.text, d.Refusal); delta != "" {
		a.refused = true
		a.told(model.Delta{Kind: events.BlockText, Text: delta})
	}
	for _, r := range []struct {
		field string
		raw   json.RawMessage
	}{{"reasoning_content", d.ReasoningContent}, {"reasoning", d.Reasoning}} {
		if a.field != "" && a.field != r.field {
			continue // the same under two names
		}
		if delta := addText(&a.reasoning, r.raw); delta != "" {
			a.field = r.field
			a.told(model.Delta{Kind: events.BlockReasoning, Text: delta})
		}
	}
	a.details = append(a.details, d.ReasoningDetails...)
	for i := range d.ToolCalls {
		a.addCall(&d.ToolCalls[i])
	}
}

// addText adds a string, or the texts of a list of parts.
func addText(t *wire.Text, raw json.RawMessage) string {
	if delta, ok := t.Add(raw); ok {
		return delta
	}
	var parts []struct {
		Text json.RawMessage `json:"text"`
	}
	all := ""
	if len(raw) > 0 && raw[0] == '[' && json.Unmarshal(raw, &parts) == nil {
		for _, p := range parts {
			delta, _ := t.Add(p.Text)
			all += delta
		}
	}
	return all
}

func (a *chatAnswer) addCall(d *chatCallDelta) {
	c := a.callOf(d)
	if c.name == "" && d.Function.Name != "" {
		c.name = d.Function.Name
		a.told(model.Delta{Kind: events.BlockCall, Call: slices.Index(a.calls, c), Name: c.name})
	}
	if c.id == "" {
		c.id = d.ID
	}
	if len(d.Extra) > 0 && string(d.Extra) != "null" {
		c.extra = bytes.Clone(d.Extra)
	}
	raw := d.Function.Arguments
	delta, ok := c.arguments.Add(raw)
	c.follow(delta)
	if !ok && len(raw) > 0 && string(raw) != "null" {
		c.object, delta = bytes.Clone(raw), string(raw)
	}
	if delta != "" {
		a.told(model.Delta{Kind: events.BlockCall, Call: slices.Index(a.calls, c), Text: delta})
	}
}

// callOf finds the call that a delta goes on with, or begins one. The index says
// it where servers give one and keep to it; ids may be missing, repeated, or sent
// with every piece.
func (a *chatAnswer) callOf(d *chatCallDelta) *chatCall {
	index := -1
	if d.Index != nil {
		index = *d.Index
	}
	var last *chatCall
	for _, c := range slices.Backward(a.calls) {
		if c.index == index && (index >= 0 || d.ID == "" || c.id == d.ID || c.id == "") {
			last = c
			break
		}
	}
	named := d.Function.Name != ""
	switch {
	case last == nil,
		d.ID != "" && last.id != "" && d.ID != last.id && named, // one index for all
		named && last.name != "" && last.over():
		c := &chatCall{index: index}
		a.calls = append(a.calls, c)
		return c
	}
	return last
}

// ends are the reasons that say that an answer is all there.
var ends = map[string]bool{"stop": true, "tool_calls": true, "function_call": true, "tool_use": true, "end_turn": true}

// gaveUp are the reasons of servers that broke an answer off.
var gaveUp = map[string]bool{"error": true, "abort": true, "aborted": true, "cancel": true, "cancelled": true, "canceled": true}

// arrived reports whether what came can be an answer though no reason came with
// it: there is text, or a call, and the arguments of each call are whole.
func (a *chatAnswer) arrived() bool {
	n := 0
	for _, c := range a.calls {
		if !c.begun() {
			continue
		}
		if n++; !c.whole() {
			return false
		}
	}
	return n > 0 || !a.text.Empty() || !a.heard
}

var errCut = errors.New("the stream ended before the answer did")

func (a *chatAnswer) Finish() (model.Response, error) {
	switch {
	case a.finished == "" && !a.done, a.finished == "" && !a.whole && !a.arrived():
		return model.Response{}, &model.Error{Kind: "unavailable", Retryable: true, Err: errCut}
	case !a.heard:
		return model.Response{}, &model.Error{Kind: "malformed_answer", Retryable: true, Err: errors.New("the answer has no choices")}
	case gaveUp[a.finished]:
		return model.Response{}, &model.Error{Kind: "unavailable", Retryable: true, Err: fmt.Errorf("the server ended the answer itself: %s", a.finished)}
	}
	r := model.Response{Model: a.model, Text: a.text.String(), Usage: a.acc.usage()}
	if a.acc != nil {
		r.RawUsage = a.acc.raw
	}
	bs := a.reasoningBlocks()
	if r.Text != "" {
		bs = append(bs, events.Block{Kind: events.BlockText, Text: r.Text})
	}
	for _, c := range a.calls {
		if !c.begun() {
			continue // an empty delta
		}
		call := events.ToolCall{ProviderID: c.id, Name: c.name}
		text := c.arguments.String()
		if c.object != nil {
			text = string(c.object)
		}
		call.Arguments, call.Malformed = model.Arguments(text)
		if text == "" && !a.whole && !ends[a.finished] {
			// No arguments are {} only if the server says that this was all.
			call.Arguments, call.Malformed = json.RawMessage(`""`), true
		}
		b := events.Block{Kind: events.BlockCall, Call: len(r.Calls)}
		if c.extra != nil {
			b.Format, b.Data = Chat, encode(added{Extra: c.extra})
		}
		bs, r.Calls = append(bs, b), append(r.Calls, call)
	}
	r.Blocks = model.NeededBlocks(bs)
	r.StopReason = chatStop(a.finished, a.refused, len(r.Calls) > 0)
	return r, nil
}

// chatStop goes by what is there: servers say "stop" with calls, "tool_calls"
// without, and words of their own.
func chatStop(finished string, refused, calls bool) string {
	switch {
	case finished == "length" || finished == "max_tokens":
		return "max_tokens"
	case finished == "content_filter" || refused:
		return "refusal"
	case calls:
		return "tool_use"
	}
	return "end_turn"
}

func (a *chatAnswer) reasoningBlocks() (bs []events.Block) {
	for _, raw := range joinDetails(a.details) {
		b := events.Block{Kind: events.BlockReasoning, Format: Chat}
		add := added{Detail: raw}
		for _, in := range []string{"text", "summary"} {
			if s, ok := raw[in].(string); ok {
				b.Text, add.TextIn = s, in
				delete(raw, in)
			}
		}
		b.Data = encode(add)
		bs = append(bs, b)
	}
	if text := a.reasoning.String(); text != "" && bs == nil {
		bs = append(bs, events.Block{Kind: events.BlockReasoning, Text: text, Format: Chat, Data: encode(added{Field: a.field})})
	}
	return bs
}

// joinDetails puts the elements of reasoning_details together that were streamed
// in pieces: same type and index, each with more text.
func joinDetails(raws []json.RawMessage) (ds []map[string]any) {
	for _, raw := range raws {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		var d map[string]any
		if dec.Decode(&d) != nil {
			continue
		}
		i := slices.IndexFunc(ds, func(x map[string]any) bool {
			return x["type"] == d["type"] && x["index"] == d["index"] && d["index"] != nil
		})
		if i < 0 {
			ds = append(ds, d)
			continue
		}
		for k, v := range d {
			prior, isText := ds[i][k].(string)
			more, goesOn := v.(string)
			switch {
			case v == nil:
			case isText && goesOn && (k == "text" || k == "summary" || k == "data"):
				ds[i][k] = prior + more
			default:
				ds[i][k] = v
			}
		}
	}
	return ds
}

func encode(v any) json.RawMessage {
	b, _ := json.Marshal(v) // made of what was decoded
	return b
}
