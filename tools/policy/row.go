package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/parser"

	"github.com/daybookhq/daybook/internal/strictyaml"
)

// Fields are the names that an expression over rows can use. A field without any of
// its own holds whatever JSON has: nothing below it is checked.
type Fields map[string]Field

// Field is what is known of a field.
type Field struct {
	// Number: in JSON it is a text, such as "0.25", and compared as the number.
	Number bool
	// Bool: left out of the JSON it is false.
	Bool   bool
	Fields Fields
}

// Names are the fields' names, sorted.
func (f Fields) Names() []string { return slices.Sorted(maps.Keys(f)) }

// Row is a condition over a row, an object of JSON, in the language of the rules:
// exact, and with a bound on its steps. It is immutable and safe for concurrent use.
type Row struct {
	cond   condition
	fields Fields
}

// CompileRow reads a condition. Its errors are [*Fault]s: nil fields permit every name.
func CompileRow(when string, fields Fields) (r *Row, err error) {
	fault := func(format string, args ...any) (*Row, error) {
		return nil, &Fault{Message: fmt.Sprintf(format, args...)}
	}
	defer func() {
		if p := recover(); p != nil { // of the library, by whatever it is given
			r, err = fault("cannot be read")
		}
	}()
	switch {
	case strings.TrimSpace(when) == "":
		return fault(`is empty; write an expression such as tenant == "acme"`)
	case len(when) > MaxWhen:
		return fault("has %d bytes, at most %d", len(when), MaxWhen)
	}
	cfg := conf.New(map[string]any{})
	cfg.Strict = false // names are checked here
	cfg.MaxNodes = 500
	cfg.Expect, cfg.ExpectAny = reflect.Bool, true
	tree, err := parser.ParseWithConfig(when, cfg)
	if err != nil {
		return fault("%s", said(err))
	}
	k := &compiler{row: true, fields: fields}
	eval := k.node(tree.Node)
	if k.fault != "" {
		return fault("%s%s", k.fault, column(k.at, when))
	}
	if _, err := checker.Check(tree, cfg); err != nil {
		return fault("%s", said(err))
	}
	return &Row{cond: condition{eval: eval, slots: k.most}, fields: fields}, nil
}

// Holds evaluates the condition for a row. An error says why that was not possible: it
// names fields and kinds of values, never values.
func (r *Row) Holds(row json.RawMessage) (bool, error) {
	d := json.NewDecoder(strings.NewReader(string(row)))
	d.UseNumber()
	var v map[string]any
	if err := d.Decode(&v); err != nil || v == nil {
		return false, trouble("the row is no JSON object")
	}
	numbers(v, r.fields)
	exact(v)
	holds, wrong := r.cond.holds(&state{facts: &Facts{}, fuel: maxFuel, args: v, read: true, row: true})
	if wrong != "" {
		return false, errors.New(wrong)
	}
	return holds, nil
}

// numbers makes numbers of the texts that are some, and false of what is left out so.
func numbers(row map[string]any, fields Fields) {
	for name, f := range fields {
		switch v := row[name].(type) {
		case nil:
			if _, there := row[name]; f.Bool && !there {
				row[name] = false
			}
		case string:
			if f.Number {
				row[name] = json.Number(v)
			}
		case map[string]any:
			numbers(v, f.Fields)
		case []any:
			for _, x := range v {
				if m, ok := x.(map[string]any); ok {
					numbers(m, f.Fields)
				}
			}
		}
	}
}

// rowField is a name that stands for a field of the row.
func (k *compiler) rowField(n *ast.IdentifierNode) expression {
	if clocks[n.Value] {
		if _, ok := k.fields[n.Value]; !ok {
			return k.failf(n, "there is no clock here; --since and --until bound the time")
		}
	}
	if !k.isField(n, n.Value, k.fields, "there is") {
		return nothing
	}
	name := n.Value
	return func(s *state) (any, error) {
		v, err := s.arguments()
		if err != nil {
			return nil, err
		}
		return memberOf(v, name, name)
	}
}

// isField checks a name; no fields are all.
func (k *compiler) isField(n ast.Node, name string, fields Fields, who string) bool {
	if _, ok := fields[name]; ok || len(fields) == 0 {
		return true
	}
	names := fields.Names()
	if near := strictyaml.Nearest(name, names); near != "" {
		k.failf(n, "%s no field %q; did you mean %q?", who, name, near)
	} else {
		k.failf(n, "%s no field %q; there are %s (a text is in quotes)", who, name, strings.Join(names, ", "))
	}
	return false
}

// below are the fields of what n stands for, nil if they are not known.
func (k *compiler) below(n ast.Node) Fields {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if k.find(n.Value) >= 0 {
			return nil
		}
		return k.fields[n.Value].Fields
	case *ast.ChainNode:
		return k.below(n.Node)
	case *ast.MemberNode:
		if p, ok := n.Property.(*ast.StringNode); ok {
			return k.below(n.Node)[p.Value].Fields
		}
		return k.below(n.Node) // an element of a list
	}
	return nil
}

// checkMember looks whether the field of a row's object is one.
func (k *compiler) checkMember(n *ast.MemberNode) {
	if p, ok := n.Property.(*ast.StringNode); ok {
		k.isField(n, p.Value, k.below(n.Node), k.pathOf(n.Node)+" has")
	}
}
