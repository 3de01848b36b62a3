package policy

import (
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"

	"github.com/daybookhq/daybook/internal/strictyaml"
)

// predicates look at the elements of a list one by one.
var predicates = []string{"all", "any", "none", "one", "count", "filter", "map", "find", "sum"}

// functions are called with values.
var functions = []string{
	"len", "lower", "upper", "trim", "hasPrefix", "hasSuffix", "abs", "min", "max", "sum", "first", "last", "keys", "values",
}

func (k *compiler) unknownFunction(n ast.Node, name string) expression {
	if clocks[name] {
		return k.failf(n, "there is no clock here: a decision has to be the same after a crash")
	}
	all := append(slices.Clone(predicates), functions...)
	if near := strictyaml.Nearest(name, all); near != "" {
		return k.failf(n, "there is no function %q; did you mean %q?", name, near)
	}
	slices.Sort(all)
	return k.failf(n, "there is no function %q; there are %s", name, strings.Join(slices.Compact(all), ", "))
}

func (k *compiler) builtin(n *ast.BuiltinNode) expression {
	var pred ast.Node
	if len(n.Arguments) == 2 {
		if p, ok := n.Arguments[1].(*ast.PredicateNode); ok {
			pred = p.Node
		}
	}
	switch {
	case pred != nil && slices.Contains(predicates, n.Name):
		return k.predicate(n, pred)
	case n.Name == "count" && len(n.Arguments) == 1:
		return k.failf(n, "count wants what to count: count(list, # > 1); the length of a list is len(list)")
	case !slices.Contains(functions, n.Name):
		return k.unknownFunction(n, n.Name)
	}
	f, name := functionsByName[n.Name], n.Name
	var es []expression
	path := ""
	for i, a := range n.Arguments {
		es = append(es, k.node(a))
		if i == 0 {
			path = k.pathOf(a)
		}
	}
	if want := arity[name]; want > 0 && len(es) != want {
		return k.failf(n, "%s wants %d argument(s), got %d", name, want, len(es))
	}
	if len(es) == 0 {
		return k.failf(n, "%s wants an argument", name)
	}
	return func(s *state) (any, error) {
		vs := make([]any, len(es))
		for i, e := range es {
			v, err := e(s)
			if err != nil || v == unknown {
				return v, err
			}
			vs[i] = v
		}
		return f(s, vs, path)
	}
}

func (k *compiler) predicate(n *ast.BuiltinNode, pred ast.Node) expression {
	of, path := k.node(n.Arguments[0]), k.pathOf(n.Arguments[0])
	slot := k.push("#")
	body := k.node(pred)
	k.pop()
	name := n.Name
	return func(s *state) (any, error) {
		v, err := of(s)
		if err != nil || v == unknown {
			return v, err
		}
		list, ok := v.([]any)
		if !ok && (v != nil || !s.row) {
			return nil, wanted("a list", v, path)
		}
		each := func(f func(element, value any) (more bool, err error)) error {
			for _, x := range list {
				if err := s.step(1); err != nil {
					return err
				}
				s.vars[slot] = x
				y, err := body(s)
				if err == nil && name != "map" && name != "sum" {
					y, err = truth(y, nil)
				}
				if err != nil {
					return err
				}
				if more, err := f(x, y); err != nil || !more {
					return err
				}
			}
			return nil
		}
		return looked(name, each)
	}
}

// looked says what a predicate function makes of the elements.
func looked(name string, each func(func(element, value any) (bool, error)) error) (any, error) {
	var held, unsure int64
	var failed bool
	var out []any
	var found any
	sum := any(int64(0))
	err := each(func(x, y any) (bool, error) {
		if y == unknown {
			unsure++
			return true, nil
		}
		switch name {
		case "map":
			out = append(out, y)
			return true, nil
		case "sum":
			var err error
			sum, err = arithmetic("+", sum, y, "", "")
			return true, err
		}
		if y != true {
			failed = true
			return name != "all", nil
		}
		if held++; held == 1 {
			found = x
		}
		out = append(out, x)
		return name != "any" && name != "none" && name != "find" && (name != "one" || held < 2), nil
	})
	switch {
	case err != nil:
		return nil, err
	case unsure > 0:
		return unknown, nil
	}
	switch name {
	case "all":
		return !failed, nil
	case "any":
		return held > 0, nil
	case "none":
		return held == 0, nil
	case "one":
		return held == 1, nil
	case "count":
		return held, nil
	case "find":
		return found, nil
	case "sum":
		return sum, nil
	}
	if out == nil {
		out = []any{}
	}
	return out, nil
}

// arity is how many arguments a function has, where that is fixed.
var arity = map[string]int{
	"len": 1, "lower": 1, "upper": 1, "trim": 1, "hasPrefix": 2, "hasSuffix": 2, "abs": 1, "sum": 1, "first": 1, "last": 1, "keys": 1, "values": 1,
}

type function func(s *state, vs []any, path string) (any, error)

var functionsByName = map[string]function{
	"len":   length,
	"lower": onText(strings.ToLower), "upper": onText(strings.ToUpper), "trim": onText(strings.TrimSpace),
	"hasPrefix": func(s *state, vs []any, path string) (any, error) {
		return s.text("startsWith", vs[0], vs[1], path, "")
	},
	"hasSuffix": func(s *state, vs []any, path string) (any, error) { return s.text("endsWith", vs[0], vs[1], path, "") },
	"abs": func(_ *state, vs []any, path string) (any, error) {
		n, err := number(vs[0], path)
		if err != nil {
			return nil, err
		}
		return small(new(big.Rat).Abs(rat(n))), nil
	},
	"min": func(s *state, vs []any, path string) (any, error) { return extreme(s, vs, path, -1) },
	"max": func(s *state, vs []any, path string) (any, error) { return extreme(s, vs, path, 1) },
	"sum": func(s *state, vs []any, path string) (any, error) {
		list, err := s.list(vs[0], path)
		sum := any(int64(0))
		for _, x := range list {
			if err == nil {
				sum, err = arithmetic("+", sum, x, "", path)
			}
		}
		return sum, err
	},
	"first": func(s *state, vs []any, path string) (any, error) { return end(s, vs[0], path, false) },
	"last":  func(s *state, vs []any, path string) (any, error) { return end(s, vs[0], path, true) },
	"keys": func(s *state, vs []any, path string) (any, error) {
		m, err := s.object(vs[0], path)
		out := []any{}
		for _, k := range sortedKeys(m) {
			out = append(out, k)
		}
		return out, err
	},
	"values": func(s *state, vs []any, path string) (any, error) {
		m, err := s.object(vs[0], path)
		out := []any{}
		for _, k := range sortedKeys(m) {
			out = append(out, m[k])
		}
		return out, err
	},
}

func length(s *state, vs []any, path string) (any, error) {
	switch v := vs[0].(type) {
	case string:
		return int64(utf8.RuneCountInString(v)), s.step(textSteps(v))
	case []any:
		return int64(len(v)), nil
	case map[string]any:
		return int64(len(v)), nil
	}
	return nil, wanted("a text, a list or an object", vs[0], path)
}

func onText(f func(string) string) function {
	return func(s *state, vs []any, path string) (any, error) {
		t, ok := vs[0].(string)
		if !ok {
			return nil, wanted("a text", vs[0], path)
		}
		if err := s.step(textSteps(t)); err != nil {
			return nil, err
		}
		return f(t), nil
	}
}

// list is v as a list, each element a step.
func (s *state) list(v any, path string) ([]any, error) {
	l, ok := v.([]any)
	if !ok {
		return nil, wanted("a list", v, path)
	}
	return l, s.step(len(l))
}

// object is v as an object, each field some steps.
func (s *state) object(v any, path string) (map[string]any, error) {
	m, ok := v.(map[string]any)
	if !ok {
		return nil, wanted("an object", v, path)
	}
	if err := s.step(8 * len(m)); err != nil { // they are sorted
		return nil, err
	}
	return m, nil
}

// extreme is the least or the greatest of numbers, and of one list.
func extreme(s *state, vs []any, path string, sign int) (any, error) {
	if len(vs) == 1 {
		if l, ok := vs[0].([]any); ok {
			if err := s.step(len(l)); err != nil {
				return nil, err
			}
			vs = l
		}
	}
	if len(vs) == 0 {
		return nil, trouble(prefix(path) + "the list is empty")
	}
	best, err := number(vs[0], path)
	for _, v := range vs[1:] {
		if err != nil {
			break
		}
		var c int
		if c, err = order(v, best, path, path); err == nil && c == sign {
			best, err = number(v, path)
		}
	}
	return best, err
}

// end is the first or last element; nil of an empty list.
func end(s *state, v any, path string, last bool) (any, error) {
	l, err := s.list(v, path)
	switch {
	case err != nil || len(l) == 0:
		return nil, err
	case last:
		return l[len(l)-1], nil
	}
	return l[0], nil
}
