package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/daybookhq/daybook/internal/canonical"
)

// Details of invalid_arguments. Stored; never renamed.
const (
	DetailMalformed        = "malformed"         // no JSON, duplicate names, invalid UTF-8
	DetailNotObject        = "not_object"        // JSON, but no object
	DetailSchema           = "schema"            // against the declaration
	DetailTooLarge         = "too_large"         // over Config.MaxArguments
	DetailRedactedArgument = "redacted_argument" // a redaction marker in a destructive call
	DetailIdentityMissing  = "identity_missing"  // an identity field is absent or null
	DetailIdentityConflict = "identity_conflict" // applied under this identity with other arguments
)

// rules check the arguments of one tool.
type rules struct {
	fields map[string]field
	needed []string
	// schema decides alone if it is not nil.
	schema *jsonschema.Schema
}

// field is one top-level argument.
type field struct {
	Arg
	nullable bool
}

// prepare checks a declaration and makes its rules.
func prepare(d *Definition) (*rules, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	if len(d.Schema) == 0 {
		return rulesOf(d.Args, nil), nil
	}
	s, err := compileSchema(d.Schema)
	if err != nil {
		return nil, d.fault("schema", "schema: %v", err)
	}
	for _, name := range d.Identity {
		if len(d.Args) == 0 && len(s.Properties) > 0 && s.Properties[name] == nil {
			e := d.fault("identity", "named in the identity, but not a property of the schema")
			e.Arg = name
			return nil, e
		}
	}
	return &rules{schema: s}, nil
}

func rulesOf(args []Arg, nullable map[string]bool) *rules {
	r := &rules{fields: make(map[string]field, len(args))}
	for _, a := range args {
		r.fields[a.Name] = field{a, nullable[a.Name]}
		if a.Required {
			r.needed = append(r.needed, a.Name)
		}
	}
	return r
}

// invalid is why arguments are refused.
type invalid struct {
	detail   string
	problems []string
}

func (v *invalid) text(tool string) string {
	return (&ArgumentError{Tool: tool, Problems: v.problems}).Error()
}

func refuse(detail, format string, args ...any) *invalid {
	return &invalid{detail, []string{fmt.Sprintf(format, args...)}}
}

// object returns raw in canonical form if it is a JSON object of sane size.
func object(raw json.RawMessage, limit int) (json.RawMessage, *invalid) {
	if len(raw) == 0 {
		return json.RawMessage("{}"), nil
	}
	if len(raw) > limit {
		return nil, refuse(DetailTooLarge, "the arguments have %d bytes, at most %d are allowed", len(raw), limit)
	}
	if v := numbers(raw); v != nil {
		return nil, v
	}
	b, err := canonical.JSON(raw)
	if err != nil {
		return nil, refuse(DetailMalformed, "want one JSON object: %v", err)
	}
	if b[0] != '{' {
		return nil, refuse(DetailNotObject, "want a JSON object, got %s", kindOf(b))
	}
	return b, nil
}

// maxDigits bounds a number's text: validators make exact fractions of
// numbers, which for 1e999999999 takes all memory.
const maxDigits = 400

// numbers refuses numbers that no two readers would agree about: beyond the
// range of a float64, which the canonical form would silently bring together.
func numbers(raw []byte) *invalid {
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			i = skipString(raw, i)
		case c == '-' || '0' <= c && c <= '9':
			start := i
			for i < len(raw) && strings.IndexByte("+-.0123456789eE", raw[i]) >= 0 {
				i++
			}
			if v := number(raw[start:i]); v != nil {
				return v
			}
		default:
			i++
		}
	}
	return nil
}

func number(n []byte) *invalid {
	if len(n) > maxDigits {
		return refuse(DetailMalformed, "a number has %d digits, at most %d are allowed", len(n), maxDigits)
	}
	if !bytes.ContainsAny(n, ".eE") {
		return nil
	}
	var f float64
	if json.Unmarshal(n, &f) != nil || bytes.Equal(n, []byte("1.7976931348623157e+308")) {
		return refuse(DetailMalformed, "the number %s is out of range", n[:min(len(n), 32)])
	}
	return nil
}

// check compares canonical arguments with the declaration.
func (r *rules) check(args json.RawMessage) *invalid {
	if r.schema != nil {
		return r.checkSchema(args)
	}
	var problems []string
	seen := 0
	eachMember(args, func(name string, value []byte) {
		f, ok := r.fields[name]
		if !ok {
			problems = append(problems, fmt.Sprintf("argument %q is not declared%s", clip(name, 64), r.declared()))
			return
		}
		if f.Required {
			seen++
		}
		if p := f.problem(value); p != "" {
			problems = append(problems, fmt.Sprintf("argument %q %s", name, p))
		}
	})
	if seen < len(r.needed) {
		problems = append(problems, r.missing(args)...)
	}
	if problems == nil {
		return nil
	}
	return &invalid{DetailSchema, problems}
}

func (r *rules) declared() string {
	if len(r.fields) == 0 {
		return "; there are none"
	}
	names := make([]string, 0, len(r.fields))
	for name := range r.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return ", want " + clip(strings.Join(names, ", "), 256)
}

func (r *rules) missing(args json.RawMessage) []string {
	given := map[string]bool{}
	eachMember(args, func(name string, _ []byte) { given[name] = true })
	var problems []string
	for _, name := range r.needed {
		if !given[name] {
			problems = append(problems, fmt.Sprintf("argument %q is required", name))
		}
	}
	return problems
}

// problem says what is wrong with a canonical value; it is empty if nothing is.
func (f field) problem(v []byte) string {
	got := kindOf(v)
	if got == "null" && f.nullable {
		return ""
	}
	want := string(f.Type)
	switch {
	case f.Type == Enum && got == "string":
		var s string
		if json.Unmarshal(v, &s) == nil && slices.Contains(f.Options, s) {
			return ""
		}
		return "must be one of " + clip(strings.Join(f.Options, ", "), 256)
	case f.Type == Enum:
		want = "one of " + clip(strings.Join(f.Options, ", "), 256)
	case f.Type == Integer && got == "number" && bytes.ContainsAny(v, ".e"):
		got = "a fraction"
	case f.Type == Integer && got == "number", string(f.Type) == got:
		return ""
	}
	if got == "null" && !f.Required {
		got += "; leave it out instead"
	}
	return "must be " + want + ", got " + got
}

func (r *rules) checkSchema(args json.RawMessage) *invalid {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(args))
	if err != nil {
		return refuse(DetailMalformed, "want one JSON object: %v", err)
	}
	err = r.schema.Validate(v)
	if err == nil {
		return nil
	}
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return refuse(DetailSchema, "%v", err)
	}
	return &invalid{DetailSchema, leaves(ve, nil)}
}

// leaves collects the faults at the ends of the tree; what is above them only
// says that something is below.
func leaves(e *jsonschema.ValidationError, all []string) []string {
	if len(e.Causes) == 0 {
		return append(all, strings.TrimSpace(e.Error()))
	}
	for _, c := range e.Causes {
		all = leaves(c, all)
	}
	return all
}

const (
	maxProblems    = 10
	maxProblemText = 2 << 10
)

func joinProblems(p []string) string {
	more := ""
	if len(p) > maxProblems {
		more = fmt.Sprintf("; and %d more", len(p)-maxProblems)
		p = p[:maxProblems]
	}
	return clip(strings.Join(p, "; "), maxProblemText) + more
}
