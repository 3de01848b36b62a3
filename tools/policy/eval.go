package policy

import (
	"encoding/json"
	"math/big"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/events"
)

// maxFuel bounds the steps of one decision: each part of an expression is one,
// each element that is looked at, and each 16 bytes of a text. It is at most some
// hundred milliseconds, and far more than a rule needs that people can read.
const maxFuel = 500_000

// state is one decision under way.
type state struct {
	facts  *Facts
	fuel   int
	vars   []any
	args   any // decoded
	argErr error
	read   bool
	// partial: only the tool is known, or nothing if anyTool.
	partial, anyTool bool
	// row: of a row, not of a call. There nothing can be denied, so what is not there
	// has no fields, and no comparison with it holds.
	row bool
}

// mark is a value that is none.
type mark string

const (
	unknown mark = "unknown" // in a partial evaluation
	absent  mark = "absent"  // x?.y of an x that is nil: the whole chain is nil
)

// trouble is why an expression has no value. It names arguments and types, never
// values.
type trouble string

func (t trouble) Error() string { return string(t) }

const tooMuch trouble = "there is too much to look at in these arguments"

func wanted(what string, got any, path string) error {
	if path != "" {
		path += ": "
	}
	return trouble(path + "want " + what + ", got " + kind(got))
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case bool:
		return "true or false"
	case string:
		return "a text"
	case int64, *big.Rat, json.Number:
		return "a number"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "something else"
}

// step takes n steps.
func (s *state) step(n int) error {
	if s.fuel -= n; s.fuel < 0 {
		return tooMuch
	}
	return nil
}

// steps of looking at a text.
func textSteps(t string) int { return len(t) / 16 }

// holds evaluates a condition. What is wrong is returned as text.
func (c *condition) holds(s *state) (holds bool, wrong string) {
	defer func() {
		if p := recover(); p != nil {
			holds, wrong = false, "the evaluation broke down"
		}
	}()
	if cap(s.vars) < c.slots {
		s.vars = make([]any, c.slots)
	}
	s.vars = s.vars[:cap(s.vars)]
	v, err := c.eval(s)
	if err != nil {
		return false, err.Error()
	}
	b, ok := v.(bool)
	if !ok {
		return false, wanted("true or false", v, "").Error()
	}
	return b, ""
}

// chance is whether a condition can hold.
type chance int

const (
	maybe chance = iota
	yes
	no
)

// possible says whether the condition can hold for calls of t, whatever else is;
// nil = of any tool. What would deny because it cannot be evaluated may hold.
func (c *condition) possible(t *Tool) (p chance) {
	defer func() {
		if recover() != nil {
			p = maybe
		}
	}()
	s := &state{facts: &Facts{}, fuel: maxFuel, partial: true, anyTool: t == nil, vars: make([]any, c.slots)}
	if t != nil {
		s.facts.Tool = *t
	}
	switch v, err := c.eval(s); {
	case err != nil:
		return maybe
	case v == true:
		return yes
	case v == false:
		return no
	}
	return maybe
}

// known is v, or unknown where only the tool is known.
func (s *state) known(v any) any {
	if s.partial {
		return unknown
	}
	return v
}

// arguments decodes them once.
func (s *state) arguments() (any, error) {
	if s.partial {
		return unknown, nil
	}
	if !s.read {
		s.read = true
		s.args, s.argErr = decodeArguments(s.facts.Arguments)
	}
	return s.args, s.argErr
}

// decodeArguments makes exact numbers of numbers.
func decodeArguments(raw json.RawMessage) (any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil || v == nil || d.More() {
		return nil, trouble("the arguments are no JSON object")
	}
	exact(v)
	return v, nil
}

// exact replaces numbers in place; what cannot be compared is left as it is
// written, which is trouble for whoever wants a number.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := number(v, ""); err == nil {
			return n
		}
	case []any:
		for i, x := range v {
			v[i] = exact(x)
		}
	case map[string]any:
		for k, x := range v {
			v[k] = exact(x)
		}
	}
	return v
}

// field is what a name with a dot stands for.
func (s *state) field(name string) any {
	f := s.facts
	if strings.HasPrefix(name, "tool.") {
		if s.anyTool {
			return unknown
		}
		switch name {
		case "tool.name":
			return f.Tool.Name
		case "tool.effect":
			return f.Tool.Effect
		case "tool.recovery":
			return f.Tool.Recovery
		case "tool.trust":
			return f.Tool.Trust
		}
		return f.Tool.Pinned
	}
	if s.partial {
		return unknown
	}
	switch name {
	case "run.agent":
		return f.Run.Agent
	case "run.owner":
		return f.Run.Owner
	case "run.tenant":
		return f.Run.Tenant
	case "run.queue":
		return f.Run.Queue
	case "run.turn":
		return int64(f.Run.Turn)
	case "run.depth":
		return int64(f.Run.Depth)
	case "cost.spent":
		return dollars(f.Cost.Spent)
	case "cost.unpriced":
		return int64(f.Cost.Unpriced)
	case "cost.limit":
		if f.Cost.Limit != nil {
			return dollars(*f.Cost.Limit)
		}
	case "cost.left":
		if f.Cost.Limit != nil {
			return dollars(*f.Cost.Limit - f.Cost.Spent)
		}
	}
	return nil
}

func dollars(p events.PicoUSD) any {
	if p == 0 {
		return int64(0)
	}
	return small(big.NewRat(int64(p), 1e12))
}

// memberOf is a field of an object, nil if it is not there, or an element of a
// list, which has to be there.
func memberOf(v, p any, path string) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		name, ok := p.(string)
		if !ok {
			return nil, wanted("the name of a field", p, "")
		}
		return v[name], nil
	case []any:
		n, err := number(p, "")
		if err != nil {
			return nil, err
		}
		i, ok := n.(int64)
		if !ok {
			return nil, wanted("a whole number as index", p, "")
		}
		if i < 0 {
			i += int64(len(v))
		}
		if i < 0 || i >= int64(len(v)) {
			return nil, trouble("a list is shorter than the rule expects")
		}
		return v[i], nil
	}
	return nil, wanted("an object", v, path[:max(0, strings.LastIndexByte(path, '.'))])
}

// truth is v if it is true, false or unknown.
func truth(v any, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	switch v.(type) {
	case bool, mark:
		if v != absent {
			return v, nil
		}
	}
	return nil, wanted("true or false", v, "")
}

// equal compares by value; values of different kinds are not equal.
func (s *state) equal(a, b any) (bool, error) {
	if err := s.step(1); err != nil {
		return false, err
	}
	switch x := a.(type) {
	case string:
		y, ok := b.(string)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		return x == y, s.step(textSteps(x))
	case int64, *big.Rat, json.Number:
		switch b.(type) {
		case int64, *big.Rat, json.Number:
			c, err := order(a, b, "", "")
			return c == 0 && err == nil, err
		}
		return false, nil
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		for i := range x {
			if eq, err := s.equal(x[i], y[i]); !eq || err != nil {
				return false, err
			}
		}
		return true, nil
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false, nil
		}
		for k, v := range x {
			w, there := y[k]
			if eq, err := s.equal(v, w); !eq || err != nil || !there {
				return false, err
			}
		}
		return true, nil
	}
	return a == b, nil // nil, true and false
}

// compare orders two numbers or two texts.
func compare(s *state, op string, a, b any, ap, bp string) (bool, error) {
	if s.row && (a == nil || b == nil) {
		return false, nil
	}
	var c int
	if x, ok := a.(string); ok {
		y, ok := b.(string)
		if !ok {
			return false, wanted("a text", b, bp)
		}
		if err := s.step(textSteps(x)); err != nil {
			return false, err
		}
		c = strings.Compare(x, y)
	} else {
		var err error
		if c, err = order(a, b, ap, bp); err != nil {
			return false, err
		}
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

// in looks for a value in a list, or for a field in an object.
func (s *state) in(a, b any, path string) (bool, error) {
	if s.row && b == nil {
		return false, nil
	}
	switch list := b.(type) {
	case []any:
		for _, x := range list {
			if eq, err := s.equal(a, x); eq || err != nil {
				return eq, err
			}
		}
		return false, nil
	case map[string]any:
		name, ok := a.(string)
		if !ok {
			return false, wanted("the name of a field", a, "")
		}
		_, there := list[name]
		return there, nil
	}
	return false, wanted("a list", b, path)
}

func (s *state) text(op string, a, b any, ap, bp string) (bool, error) {
	if s.row && (a == nil || b == nil) {
		return false, nil
	}
	x, ok := a.(string)
	if !ok {
		return false, wanted("a text", a, ap)
	}
	y, ok := b.(string)
	if !ok {
		return false, wanted("a text", b, bp)
	}
	if err := s.step(textSteps(x) + textSteps(y)); err != nil {
		return false, err
	}
	switch op {
	case "contains":
		return strings.Contains(x, y), nil
	case "startsWith":
		return strings.HasPrefix(x, y), nil
	}
	return strings.HasSuffix(x, y), nil
}

func (s *state) concat(x string, b any, path string) (any, error) {
	y, ok := b.(string)
	if !ok {
		return nil, wanted("a text", b, path)
	}
	if err := s.step(textSteps(x) + textSteps(y)); err != nil {
		return nil, err
	}
	return x + y, nil
}

// sortedKeys are the names of an object's fields, in an order that is always the same.
func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
