package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// answer is what a rule says, with references to fill in.
type answer struct {
	text       template
	calls      []callTemplate
	stopReason string
	usage      *events.Usage
	model      string
	delay      time.Duration
	err        *model.Error
}

// callTemplate is a call; raw arguments are sent as written.
type callTemplate struct {
	name       string
	providerID string
	arguments  any // JSON with templates as strings; nil = raw
	raw        template
}

// template is a text with {{references}}.
type template struct {
	text string
	// static texts are used as they are, whatever is in them.
	static bool
}

func literal(s string) template { return template{text: s, static: true} }

var reference = regexp.MustCompile(`\{\{\s*([^{}]*?)\s*\}\}`)

// errNothing is for a reference to what is not in the conversation.
var errNothing = errors.New("refers to nothing in the conversation")

// value fills in the references, once: what they bring in is not looked at
// again. A template that is one reference keeps the type of what it refers to.
func (t template) value(c *conversation) (any, error) {
	if t.static || !strings.Contains(t.text, "{{") {
		return t.text, nil
	}
	if m := reference.FindStringSubmatch(t.text); m != nil && m[0] == t.text {
		v, ok := c.lookup(m[1])
		if !ok {
			return nil, fmt.Errorf("{{%s}} %w", m[1], errNothing)
		}
		return v, nil
	}
	var err error
	s := reference.ReplaceAllStringFunc(t.text, func(ref string) string {
		name := reference.FindStringSubmatch(ref)[1]
		v, ok := c.lookup(name)
		if !ok && err == nil {
			err = fmt.Errorf("{{%s}} %w", name, errNothing)
		}
		return plain(v)
	})
	return s, err
}

// fill fills in the templates of a JSON value.
func fill(v any, c *conversation) (any, error) {
	switch x := v.(type) {
	case template:
		return x.value(c)
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			var err error
			if out[k], err = fill(e, c); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(x))
		for i, e := range x {
			var err error
			if out[i], err = fill(e, c); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

func (a *answer) render(c *conversation, rule, served string) (model.Response, error) {
	if a.model != "" {
		served = a.model
	}
	if a.err != nil {
		e := *a.err
		if e.Model == "" {
			e.Model = served
		}
		if e.Err == nil {
			e.Err = fmt.Errorf("injected by %s", rule)
		}
		return model.Response{}, &e
	}
	broken := func(err error) (model.Response, error) {
		return model.Response{}, &model.Error{Kind: "invalid_request", Model: served, Err: fmt.Errorf("%s: %w", rule, err)}
	}
	text, err := a.text.value(c)
	if err != nil {
		return broken(fmt.Errorf("text: %w", err))
	}
	r := model.Response{Model: served, Text: plain(text), StopReason: a.stopReason}
	for i, t := range a.calls {
		call, err := t.render(c)
		if err != nil {
			return broken(fmt.Errorf("calls[%d] of %s: %w", i, t.name, err))
		}
		r.Calls = append(r.Calls, call)
	}
	if r.StopReason == "" {
		r.StopReason = "end_turn"
		if len(r.Calls) > 0 {
			r.StopReason = "tool_use"
		}
	}
	if a.usage != nil {
		r.Usage = *a.usage
	} else {
		r.Usage = count(c.request, r)
	}
	return r, nil
}

func (t callTemplate) render(c *conversation) (events.ToolCall, error) {
	call := events.ToolCall{ProviderID: t.providerID, Name: t.name}
	var text string
	if t.arguments == nil {
		v, err := t.raw.value(c)
		if err != nil {
			return call, err
		}
		text = plain(v)
	} else {
		v, err := fill(t.arguments, c)
		if err != nil {
			return call, err
		}
		b, err := json.Marshal(v)
		if err != nil {
			return call, err
		}
		text = string(b)
	}
	call.Arguments, call.Malformed = model.Arguments(text)
	return call, nil
}

// count makes up the tokens of a call: four bytes each, as a rule of thumb.
func count(req model.Request, resp model.Response) events.Usage {
	size := func(v any) int64 {
		b, _ := json.Marshal(v) // too little for what is no JSON; it is made up anyway
		return int64(len(b)+3) / 4
	}
	return events.Usage{Input: size(req), Output: size(struct {
		Text  string
		Calls []events.ToolCall
	}{resp.Text, resp.Calls})}
}
