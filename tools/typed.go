package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	google "github.com/google/jsonschema-go/jsonschema"
)

// New makes a tool from a typed function. The arguments are the fields of the
// struct In: "json" tags name them, those without omitempty or omitzero are
// required, "jsonschema" tags describe them. Entries of def.Args refine
// fields: a description, or the options of an enum. Numbers in fields of an
// interface type are json.Number, so that big integers stay whole. Errors are
// [*DefinitionError].
func New[In, Out any](def Definition, fn func(context.Context, *Invocation, In) (Out, error)) (Tool, error) {
	d := def.clone()
	typ := reflect.TypeFor[In]()
	if fn == nil {
		return nil, d.fault("function", "there is no function to call")
	}
	if len(d.Schema) > 0 {
		return nil, d.fault("schema", "the schema comes from %v: leave Schema empty, or use Raw", typ)
	}
	if typ.Kind() != reflect.Struct {
		return nil, d.fault("schema", "arguments are %v, want a struct", typ)
	}
	s, err := google.ForType(typ, nil)
	if err != nil {
		return nil, d.fault("schema", "schema: %v", err)
	}
	if err := d.checkName(); err != nil {
		return nil, err
	}
	nullable, err := deriveArgs(d, s)
	if err != nil {
		return nil, err
	}
	r, err := deriveRules(d, s, nullable)
	if err != nil {
		return nil, err
	}
	t := &typedTool[In, Out]{def: d, fn: fn, rules: r, useNumber: hasInterface(typ, map[reflect.Type]bool{})}
	return t, nil
}

// deriveArgs makes d.Args from the schema of the struct, refined by what
// stands in d.Args already.
func deriveArgs(d *Definition, s *google.Schema) (nullable map[string]bool, err error) {
	given := d.Args
	for _, a := range given {
		if s.Properties[a.Name] == nil {
			e := d.fault("argument_name", "the struct of the arguments has no such field")
			e.Arg = a.Name
			return nil, e
		}
	}
	d.Args = nil
	nullable = map[string]bool{}
	for _, name := range s.PropertyOrder {
		p := s.Properties[name]
		a := Arg{Name: name, Description: p.Description, Required: slices.Contains(s.Required, name)}
		for _, t := range append(p.Types, p.Type) {
			switch t {
			case "null":
				nullable[name] = true
			case "":
			default:
				a.Type = ArgType(t)
			}
		}
		if a.Type == "" {
			a.Type = Object // of any type; the full schema decides
		}
		if i := slices.IndexFunc(given, func(g Arg) bool { return g.Name == name }); i >= 0 {
			if err := refine(d, &a, p, given[i]); err != nil {
				return nil, err
			}
		}
		d.Args = append(d.Args, a)
	}
	return nullable, nil
}

func refine(d *Definition, a *Arg, p *google.Schema, given Arg) error {
	if given.Description != "" {
		a.Description, p.Description = given.Description, given.Description
	}
	a.Options = given.Options
	switch {
	case given.Type == "" || given.Type == a.Type:
	case given.Type == Enum && a.Type == String:
		a.Type = Enum
		for _, o := range given.Options {
			p.Enum = append(p.Enum, o)
		}
	default:
		e := d.fault("argument_type", "declared %s, but the field is %s", given.Type, a.Type)
		e.Arg = a.Name
		return e
	}
	return nil
}

// deriveRules sets d.Schema and returns the fast rules if all arguments are
// plain, else those of the full schema.
func deriveRules(d *Definition, s *google.Schema, nullable map[string]bool) (*rules, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, d.fault("schema", "schema: %v", err)
	}
	d.Schema = raw
	full, err := prepare(d)
	if err != nil {
		return nil, err
	}
	for _, a := range d.Args {
		if a.Type == Object || a.Type == Array || s.Properties[a.Name].Pattern != "" {
			return full, nil
		}
	}
	return rulesOf(d.Args, nullable), nil
}

type typedTool[In, Out any] struct {
	def       *Definition
	fn        func(context.Context, *Invocation, In) (Out, error)
	rules     *rules
	useNumber bool
}

func (t *typedTool[In, Out]) Definition() *Definition { return t.def }

func (t *typedTool[In, Out]) Call(ctx context.Context, inv *Invocation) (any, error) {
	run, err := t.bind(inv.Arguments)
	if err != nil {
		return nil, NoEffect(err)
	}
	return run(ctx, inv)
}

// bind decodes arguments once, before the call begins, and returns the call.
func (t *typedTool[In, Out]) bind(raw json.RawMessage) (boundCall, error) {
	in, err := t.decode(raw)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, inv *Invocation) (any, error) {
		out, err := t.fn(ctx, inv, in)
		if err != nil {
			return nil, err
		}
		return out, nil
	}, nil
}

func (t *typedTool[In, Out]) decode(raw json.RawMessage) (in In, err error) {
	if t.useNumber {
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.UseNumber()
		err = dec.Decode(&in)
	} else {
		err = json.Unmarshal(raw, &in)
	}
	if err != nil {
		return in, &ArgumentError{Tool: t.def.Name, Problems: []string{decodeProblem(err)}}
	}
	return in, nil
}

func decodeProblem(err error) string {
	var te *json.UnmarshalTypeError
	if errors.As(err, &te) {
		return fmt.Sprintf("argument %q: %s does not fit into %v", te.Field, te.Value, te.Type)
	}
	return err.Error()
}

func (t *typedTool[In, Out]) argumentRules() *rules { return t.rules }

// boundCall is a call with its arguments decoded.
type boundCall func(context.Context, *Invocation) (any, error)

// typed is what the dispatcher asks of tools made by [New].
type typed interface {
	bind(json.RawMessage) (boundCall, error)
	argumentRules() *rules
}

// typedOf finds the typed tool inside t. It looks only into wrappers of this
// package, whose Call is that of the tool inside.
func typedOf(t Tool) typed {
	for {
		switch x := t.(type) {
		case typed:
			return x
		case *wrapped:
			t = x.Tool
		default:
			return nil
		}
	}
}

// hasInterface reports whether decoding into t can make values of no known type.
func hasInterface(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return hasInterface(t.Elem(), seen)
	case reflect.Struct:
		for f := range t.Fields() {
			if hasInterface(f.Type, seen) {
				return true
			}
		}
	}
	return false
}
