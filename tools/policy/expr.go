package policy

import (
	"errors"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"github.com/daybookhq/daybook/internal/strictyaml"
)

// The types of what expressions can name, for the checker.
type (
	envTool struct {
		Name     string `expr:"name"`
		Effect   string `expr:"effect"`
		Recovery string `expr:"recovery"`
		Trust    string `expr:"trust"`
		Pinned   bool   `expr:"pinned"`
	}
	envCost struct {
		Spent    float64 `expr:"spent"`
		Limit    any     `expr:"limit"`
		Left     any     `expr:"left"`
		Unpriced int     `expr:"unpriced"`
	}
	envRun struct {
		Agent  string `expr:"agent"`
		Owner  string `expr:"owner"`
		Tenant string `expr:"tenant"`
		Queue  string `expr:"queue"`
		Turn   int    `expr:"turn"`
		Depth  int    `expr:"depth"`
	}
	env struct {
		Tool      envTool        `expr:"tool"`
		Args      map[string]any `expr:"args"`
		Tainted   bool           `expr:"tainted"`
		TaintedBy string         `expr:"tainted_by"`
		Cost      envCost        `expr:"cost"`
		Run       envRun         `expr:"run"`
	}
)

// fieldsOf are the names there are, and what each has.
var fieldsOf = func() map[string][]string {
	all := map[string][]string{}
	for f := range reflect.TypeFor[env]().Fields() {
		all[f.Tag.Get("expr")] = nil
		if f.Type.Kind() == reflect.Struct {
			for x := range f.Type.Fields() {
				all[f.Tag.Get("expr")] = append(all[f.Tag.Get("expr")], x.Tag.Get("expr"))
			}
		}
	}
	return all
}()

// valuesOf are all values that a field of a tool can have.
var valuesOf = map[string][]string{
	"effect":   {"readonly", "idempotent", "destructive"},
	"recovery": {"none", "keyed", "fenced", "probe"},
	"trust":    {"own", "external", "unknown"},
}

// condition is a compiled expression. The library parses it and checks its
// types; it is evaluated here, exactly (its own integers wrap and its floats
// round) and with a bound on the steps (it has none); see docs/decisions/0035.
type condition struct {
	eval  expression
	slots int
	tools []string // that it compares the tool's name with
}

// expression evaluates a part of a condition. Its errors are [*trouble].
type expression func(s *state) (any, error)

// compile parses, checks and compiles. The error is a [*Fault].
func compile(when string) (c condition, f *Fault) {
	fault := func(format string, args ...any) (condition, *Fault) {
		return condition{}, &Fault{Field: "when", Message: fmt.Sprintf(format, args...)}
	}
	defer func() {
		if p := recover(); p != nil { // of the library, by whatever it is given
			c, f = fault("cannot be read")
		}
	}()
	cfg := conf.New(env{})
	cfg.MaxNodes = 500
	cfg.Expect, cfg.ExpectAny = reflect.Bool, true
	tree, err := parser.ParseWithConfig(when, cfg)
	if err != nil {
		return fault("%s", said(err))
	}
	k := &compiler{}
	eval := k.node(tree.Node)
	if k.fault != "" {
		return fault("%s%s", k.fault, column(k.at, when))
	}
	if _, err := checker.Check(tree, cfg); err != nil {
		return fault("%s", said(err))
	}
	return condition{eval: eval, slots: k.most, tools: k.tools}, nil
}

// said makes one line of the library's error.
func said(err error) string {
	var e *file.Error
	if errors.As(err, &e) {
		return fmt.Sprintf("%s (column %d)", strings.TrimSpace(e.Message), e.Column+1)
	}
	return strings.ReplaceAll(err.Error(), "expected bool, but got", "want true or false, got")
}

func column(at int, when string) string {
	line, col := 1, 1
	for i, r := range []rune(when) {
		if i == at {
			break
		}
		col++
		if r == '\n' {
			line, col = line+1, 1
		}
	}
	if line > 1 {
		return fmt.Sprintf(" (line %d column %d of it)", line, col)
	}
	return fmt.Sprintf(" (column %d)", col)
}

// compiler makes closures of nodes.
type compiler struct {
	vars  []string // names of the slots in use; "#" is a predicate's element
	most  int
	tools []string
	fault string // the first
	at    int
	depth int
	// row: names are those of a row's fields, which are all there are if none is given.
	row    bool
	fields Fields
}

func (k *compiler) failf(n ast.Node, format string, args ...any) expression {
	if k.fault == "" {
		k.fault, k.at = fmt.Sprintf(format, args...), n.Location().From
	}
	return nothing
}

func nothing(*state) (any, error) { return nil, nil }

func constant(v any) expression { return func(*state) (any, error) { return v, nil } }

// maxNesting keeps the evaluation's own stack small.
const maxNesting = 100

func (k *compiler) node(n ast.Node) expression {
	if k.depth++; k.depth > maxNesting {
		return k.failf(n, "is nested too deeply; write several rules")
	}
	defer func() { k.depth-- }()
	return k.counted(k.inner(n))
}

// counted takes a step for each part that is evaluated.
func (k *compiler) counted(e expression) expression {
	return func(s *state) (any, error) {
		if err := s.step(1); err != nil {
			return nil, err
		}
		return e(s)
	}
}

func (k *compiler) inner(n ast.Node) expression {
	switch n := n.(type) {
	case *ast.NilNode:
		return constant(nil)
	case *ast.BoolNode:
		return constant(n.Value)
	case *ast.StringNode:
		return constant(n.Value)
	case *ast.IntegerNode:
		return constant(int64(n.Value))
	case *ast.FloatNode:
		r, ok := new(big.Rat).SetString(strconv.FormatFloat(n.Value, 'g', -1, 64)) // as it is written: 0.1 is a tenth
		if !ok {
			return k.failf(n, "this number cannot be written exactly")
		}
		return constant(small(r))
	case *ast.IdentifierNode:
		return k.identifier(n)
	case *ast.MemberNode:
		return k.member(n)
	case *ast.ChainNode:
		e := k.node(n.Node)
		return func(s *state) (any, error) {
			v, err := e(s)
			if v == absent {
				v = nil
			}
			return v, err
		}
	case *ast.UnaryNode:
		return k.unary(n)
	case *ast.BinaryNode:
		return k.binary(n)
	case *ast.ConditionalNode:
		return k.conditional(n)
	case *ast.VariableDeclaratorNode:
		v := k.node(n.Value)
		slot := k.push(n.Name)
		e := k.node(n.Expr)
		k.pop()
		return func(s *state) (any, error) {
			x, err := v(s)
			if err != nil {
				return nil, err
			}
			s.vars[slot] = x
			return e(s)
		}
	case *ast.ArrayNode:
		return k.array(n)
	case *ast.PointerNode:
		if n.Name != "" {
			return k.failf(n, "#%s is not there; # is the element that is looked at", n.Name)
		}
		slot := k.find("#")
		return func(s *state) (any, error) { return s.vars[slot], nil }
	case *ast.BuiltinNode:
		return k.builtin(n)
	case *ast.CallNode:
		if id, ok := n.Callee.(*ast.IdentifierNode); ok {
			return k.unknownFunction(n, id.Value)
		}
		return k.failf(n, "values have no functions of their own; write f(x)")
	case *ast.SliceNode:
		return k.failf(n, "parts of lists and texts ([a:b]) are not there; use first, last, any, startsWith or matches")
	case *ast.MapNode:
		return k.failf(n, "objects ({…}) are not there; compare their fields")
	}
	return k.failf(n, "this is not there")
}

func (k *compiler) push(name string) int {
	k.vars = append(k.vars, name)
	k.most = max(k.most, len(k.vars))
	return len(k.vars) - 1
}

func (k *compiler) pop() { k.vars = k.vars[:len(k.vars)-1] }

func (k *compiler) find(name string) int {
	for i, v := range slices.Backward(k.vars) {
		if v == name {
			return i
		}
	}
	return -1
}

func (k *compiler) identifier(n *ast.IdentifierNode) expression {
	if slot := k.find(n.Value); slot >= 0 {
		return func(s *state) (any, error) { return s.vars[slot], nil }
	}
	if k.row {
		return k.rowField(n)
	}
	switch n.Value {
	case "args":
		return func(s *state) (any, error) { return s.arguments() }
	case "tainted":
		return func(s *state) (any, error) { return s.known(s.facts.Tainted), nil }
	case "tainted_by":
		return func(s *state) (any, error) { return s.known(s.facts.TaintedBy), nil }
	case "tool", "cost", "run":
		return k.failf(n, "%s has fields: write %s.%s", n.Value, n.Value, strings.Join(fieldsOf[n.Value], ", "+n.Value+"."))
	}
	names := make([]string, 0, len(fieldsOf))
	for name := range fieldsOf {
		names = append(names, name)
	}
	slices.Sort(names)
	if clocks[n.Value] {
		return k.failf(n, "there is no clock here: a decision has to be the same after a crash")
	}
	if near := strictyaml.Nearest(n.Value, names); near != "" {
		return k.failf(n, "there is no %q; did you mean %q?", n.Value, near)
	}
	return k.failf(n, "there is no %q; there are %s (an argument is args.%s, a text is in quotes)", n.Value, strings.Join(names, ", "), n.Value)
}

var clocks = map[string]bool{"now": true, "time": true, "date": true, "duration": true, "timezone": true}

func (k *compiler) member(n *ast.MemberNode) expression {
	if k.row {
		k.checkMember(n)
	} else if id, ok := n.Node.(*ast.IdentifierNode); ok && k.find(id.Value) < 0 && len(fieldsOf[id.Value]) > 0 {
		p, ok := n.Property.(*ast.StringNode)
		if !ok {
			return k.failf(n, "write a field of %s by its name: %s", id.Value, strings.Join(fieldsOf[id.Value], ", "))
		}
		if !slices.Contains(fieldsOf[id.Value], p.Value) {
			if near := strictyaml.Nearest(p.Value, fieldsOf[id.Value]); near != "" {
				return k.failf(n, "%s has no %q; did you mean %q?", id.Value, p.Value, near)
			}
			return k.failf(n, "%s has no %q; it has %s", id.Value, p.Value, strings.Join(fieldsOf[id.Value], ", "))
		}
		field := id.Value + "." + p.Value
		return func(s *state) (any, error) { return s.field(field), nil }
	}
	of, property, path := k.node(n.Node), k.node(n.Property), k.pathOf(n)
	optional := n.Optional
	return func(s *state) (any, error) {
		v, err := of(s)
		if err != nil || v == unknown || v == absent {
			return v, err
		}
		if v == nil && optional {
			return absent, nil
		}
		if v == nil && s.row {
			return nil, nil
		}
		p, err := property(s)
		if err != nil || p == unknown {
			return p, err
		}
		return memberOf(v, p, path)
	}
}

// pathOf is how a member of the arguments is called, empty for anything else: what
// errors say to models names nothing but arguments.
func (k *compiler) pathOf(n ast.Node) string {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if n.Value == "args" || k.row && k.find(n.Value) < 0 {
			return n.Value
		}
	case *ast.ChainNode:
		return k.pathOf(n.Node)
	case *ast.MemberNode:
		of := k.pathOf(n.Node)
		p, ok := n.Property.(*ast.StringNode)
		if of == "" || !ok {
			return ""
		}
		return of + "." + p.Value
	}
	return ""
}

func (k *compiler) array(n *ast.ArrayNode) expression {
	var es []expression
	consts := make([]any, 0, len(n.Nodes))
	for _, x := range n.Nodes {
		if v, ok := literal(x); ok {
			consts = append(consts, v)
		}
		es = append(es, k.node(x))
	}
	if len(consts) == len(n.Nodes) {
		return constant(consts)
	}
	return func(s *state) (any, error) {
		out := make([]any, len(es))
		for i, e := range es {
			v, err := e(s)
			if err != nil {
				return nil, err
			}
			if v == unknown {
				return unknown, nil
			}
			out[i] = v
		}
		return out, nil
	}
}

func literal(n ast.Node) (any, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.IntegerNode:
		return int64(n.Value), true
	case *ast.BoolNode:
		return n.Value, true
	}
	return nil, false
}

func (k *compiler) conditional(n *ast.ConditionalNode) expression {
	cond, yes, no := k.node(n.Cond), k.node(n.Exp1), k.node(n.Exp2)
	return func(s *state) (any, error) {
		c, err := truth(cond(s))
		switch {
		case err != nil:
			return nil, err
		case c == unknown:
			return unknown, nil
		case c == true:
			return yes(s)
		}
		return no(s)
	}
}

// names checks what a field of the tool is compared with, since a misspelt name
// guards nothing.
func (k *compiler) names(n *ast.BinaryNode) {
	if k.row || n.Operator != "==" && n.Operator != "!=" && n.Operator != "in" {
		return
	}
	field, other := toolField(n.Left), n.Right
	if field == "" && n.Operator != "in" {
		field, other = toolField(n.Right), n.Left
	}
	if field == "" {
		return
	}
	nodes := []ast.Node{other}
	if list, ok := other.(*ast.ArrayNode); ok {
		nodes = list.Nodes
	}
	for _, x := range nodes {
		s, ok := x.(*ast.StringNode)
		if !ok {
			continue
		}
		if field == "name" {
			k.tools = append(k.tools, s.Value)
			continue
		}
		if values := valuesOf[field]; !slices.Contains(values, s.Value) {
			k.failf(x, "tool.%s is never %q; it is one of %s", field, s.Value, strings.Join(values, ", "))
		}
	}
}

func toolField(n ast.Node) string {
	m, ok := n.(*ast.MemberNode)
	if !ok {
		return ""
	}
	id, ok := m.Node.(*ast.IdentifierNode)
	p, named := m.Property.(*ast.StringNode)
	if !ok || !named || id.Value != "tool" || p.Value != "name" && valuesOf[p.Value] == nil {
		return ""
	}
	return p.Value
}
