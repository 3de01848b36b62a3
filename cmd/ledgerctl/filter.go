package main

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools/policy"
)

// picker is a --filter.
type picker struct {
	text string
	row  *policy.Row // once the fields of the rows are known
	// unclear counts rows that it could not be evaluated for; why is of the first.
	unclear int
	why     string
	done    bool // the rows that come to list were picked before
}

// newPicker checks what can be checked before the rows are known.
func newPicker(text string) (*picker, error) {
	if _, err := policy.CompileRow(text, nil); err != nil {
		return nil, usagef("--filter: %w (ledgerctl help filters)", err)
	}
	return &picker{text: text}, nil
}

// holds says whether a row passes. One that it cannot be evaluated for does not, and
// is counted.
func holds[T any](a *app, p *picker, v T) (bool, error) {
	if p == nil {
		return true, nil
	}
	if p.row == nil {
		var err error
		if p.row, err = policy.CompileRow(p.text, fieldsOf(reflect.TypeFor[T]())); err != nil {
			return false, usagef("--filter: %w", err)
		}
	}
	b, err := a.marshal(v)
	if err != nil {
		return false, err
	}
	ok, err := p.row.Holds(b)
	if err != nil {
		if p.unclear++; p.unclear == 1 {
			p.why = err.Error()
		}
	}
	return ok, nil
}

// picked are the rows that pass --filter.
func picked[T any](a *app, rows []T) ([]T, error) {
	p := a.shape.pick
	if p == nil || p.done {
		return rows, nil
	}
	var out []T
	for _, r := range rows {
		ok, err := holds(a, p, r)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, r)
		}
	}
	if len(rows) == 0 { // also then a misspelt name is one
		var v T
		if _, err := holds(a, p, v); err != nil {
			return nil, err
		}
		p.unclear = 0
	}
	a.tellUnclear()
	return out, nil
}

// tellUnclear says on stderr how many rows the filter could not be evaluated for.
func (a *app) tellUnclear() {
	if p := a.shape.pick; p != nil && p.unclear > 0 {
		fmt.Fprintf(a.err, "left out: %s that the filter could not be evaluated for (%s)\n", plural(int64(p.unclear), "row"), clean(p.why))
		p.unclear = 0
	}
}

var (
	textType = reflect.TypeFor[encoding.TextMarshaler]()
	jsonType = reflect.TypeFor[json.Marshaler]()
)

// fieldsOf are the fields that a view has in JSON.
func fieldsOf(t reflect.Type) policy.Fields { return fieldsIn(t, nil) }

func fieldsIn(t reflect.Type, in []reflect.Type) policy.Fields {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[time.Time]() || t.Implements(textType) || t.Implements(jsonType) || slices.Contains(in, t) {
		return nil
	}
	in = append(in, t)
	fields := policy.Fields{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			for n, x := range fieldsIn(f.Type, in) {
				fields[n] = x
			}
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		is := f.Type
		if is.Kind() == reflect.Pointer {
			is = is.Elem()
		}
		fields[name] = policy.Field{
			Number: is == reflect.TypeFor[dollars]() || is == reflect.TypeFor[events.PicoUSD](),
			Bool:   f.Type.Kind() == reflect.Bool,
			Fields: fieldsIn(f.Type, in),
		}
	}
	return fields
}

// fieldNames are all names of fields, those of fields behind a dot.
func fieldNames(fields policy.Fields) []string {
	var names []string
	for _, n := range fields.Names() {
		if below := fields[n].Fields; len(below) > 0 {
			for _, m := range fieldNames(below) {
				names = append(names, n+"."+m)
			}
			continue
		}
		names = append(names, n)
	}
	return names
}

// annFields marks a command that lists rows; its value are the names of their fields.
const annFields = "fields"

// listFlags is outputFlag for a command that lists rows of T, whose fields its help names.
func listFlags[T any](a *app, c *cobra.Command) {
	names := strings.Join(fieldNames(fieldsOf(reflect.TypeFor[T]())), " ")
	mark(c, annFields, strings.Join(wrap(names, 94), "\n  "))
	a.outputFlag(c, listFormats...)
}

// filtersHelp is what `ledgerctl help filters` says.
func filtersHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "filters",
		Short: "How --filter picks rows, and --jq prints them",
		Long: `--filter EXPR leaves the rows for which EXPR is true. It is written like the condition of a
policy's rule, over the fields that a row has in JSON; -h of a command names them.

  state == "parked" and waits_for.reason == "approval"
  totals.cost > 0.25 and totals.turns >= 10
  agent in ["refunds", "billing"] and not (owner startsWith "test-")
  any(issues, .severity == "error")                 of a list, # is the element
  arguments.amount > 100                            below a field such as arguments: whatever is there

== != < <= > >= in contains startsWith endsWith matches (a regular expression)
and or not + - * / % ?: ?? any all none one filter map count sum len lower upper trim

Numbers and amounts are exact. Times are texts in UTC, such as "2026-01-31T10:00": --since and
--until bound the time. What a row does not have is nil, and no comparison with nil holds. A
row for which EXPR cannot be evaluated (a text compared with a number) is left out, and how
many were is said on stderr. A list that comes in pages is read until --limit rows have passed,
or so many were looked at that the command says where it stopped and how to go on.

--jq EXPR runs a jq expression (gojq) over the JSON of a command and prints what comes out:
texts as they are, anything else as JSON in a line. With -o jsonl it runs over each line by
itself, without -o over all rows at once. All digits of numbers are kept, unless the expression
calculates with them. Names in objects come out sorted. An expression ends after 30 s, or once it keeps or writes 1 GiB.`,
	}
}
