package scripted

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/daybookhq/daybook/model"
)

// conversation is a request as rules look at it. What is looked up in it is
// data: nothing found there is ever read as a rule or a template.
type conversation struct {
	request model.Request
	input   string // the first user message
	fields  any    // the same as JSON, nil if it is none
	last    model.Message
	results []model.Result // of all tools, oldest first
	called  map[string]int // calls asked for, by tool
	turn    int            // that the answer belongs to, from 1
	groups  map[string]any // what the named groups of the rule that is tried have matched
}

func newConversation(r model.Request) *conversation {
	c := &conversation{request: r, called: map[string]int{}, turn: 1}
	for i, m := range r.Messages {
		if m.Role == model.User && c.input == "" && len(c.results) == 0 {
			c.input = m.Text
			c.fields, _ = firstJSON(m.Text)
		}
		if m.Role == model.Assistant {
			c.turn++
		}
		for _, call := range m.Calls {
			c.called[call.Name]++
		}
		c.results = append(c.results, m.Results...)
		if i == len(r.Messages)-1 {
			c.last = m
		}
	}
	return c
}

// lastText is the text of the last message; of tool results, all of them.
func (c *conversation) lastText() string {
	text := c.last.Text
	for _, r := range c.last.Results {
		text += r.Text + "\n"
	}
	return strings.TrimSuffix(text, "\n")
}

func (c *conversation) lastMessage() string {
	if c.last.Role == "" {
		return "missing"
	}
	text := []rune(c.lastText())
	if len(text) > 80 {
		text = append(text[:80], '…')
	}
	return fmt.Sprintf("%s %q", c.last.Role, string(text))
}

// result returns the last result of a tool.
func (c *conversation) result(tool string) *model.Result {
	for i := len(c.results) - 1; i >= 0; i-- {
		if c.results[i].Name == tool {
			return &c.results[i]
		}
	}
	return nil
}

// matches reports whether re matches text, and keeps what its named groups matched.
func (c *conversation) matches(re *regexp.Regexp, text string) bool {
	m := re.FindStringSubmatch(text)
	for i := range m {
		if name := re.SubexpNames()[i]; name != "" {
			if c.groups == nil {
				c.groups = map[string]any{}
			}
			c.groups[name] = m[i]
		}
	}
	return m != nil
}

// lookup finds what a reference means: input, input.<path>, result.<tool>,
// result.<tool>.<path>, match.<group>, last, turn.
func (c *conversation) lookup(ref string) (any, bool) {
	head, path, _ := strings.Cut(ref, ".")
	switch head {
	case "input":
		if path == "" {
			return c.input, true
		}
		return walk(c.fields, path)
	case "match":
		v, ok := c.groups[path]
		return v, ok
	case "last":
		return c.lastText(), path == ""
	case "turn":
		return json.Number(strconv.Itoa(c.turn)), path == ""
	case "result":
		tool, path, _ := strings.Cut(path, ".")
		r := c.result(tool)
		if r == nil {
			return nil, false
		}
		if path == "" {
			return r.Text, true
		}
		v, _ := firstJSON(r.Text)
		return walk(v, path)
	}
	return nil, false
}

// firstJSON reads the first JSON object or array in a text: results may have
// words before it (a repeated one says so) and behind it (a cut one).
func firstJSON(s string) (any, bool) {
	i := strings.IndexAny(s, "{[")
	if i < 0 {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(s[i:]))
	d.UseNumber() // amounts and ids keep their digits
	var v any
	if d.Decode(&v) != nil {
		return nil, false
	}
	return v, true
}

func walk(v any, path string) (any, bool) {
	for key := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = x[key]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(x) {
				return nil, false
			}
			v = x[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// plain writes a value into a text: strings as they are, the rest as JSON.
func plain(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, _ := json.Marshal(v) // it came out of JSON
	return string(b)
}
