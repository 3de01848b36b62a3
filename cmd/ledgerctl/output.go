package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger/export"
)

// Output formats. A command writes some of them itself; outputFlag makes the others
// of those.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatCSV   = "csv"
	formatYAML  = "yaml"
	// formatFields is a table of some fields of one record; it comes from --columns.
	formatFields = "fields"
)

var allFormats = []string{formatTable, formatWide, formatJSON, formatJSONL, formatCSV, formatYAML}

// What commands write themselves.
var (
	listFormats = []string{formatTable, formatJSON, formatJSONL, formatCSV}
	showFormats = []string{formatTable, formatJSON, formatJSONL}
)

// shape is how a command's output is to look, beside the format that the command
// itself is told (app.output).
type shape struct {
	asked   string // the format on the command line
	as      string // what JSON is turned into: json, jsonl, yaml, csv or fields
	wide    bool
	columns []string
	filter  string
	jq      string
	query   *query // of jq
	pick    *picker
	// csvHead: the first record of CSV has been written.
	csvHead bool
}

// further reports whether columns are wanted that a table has no room for.
func (a *app) further() bool {
	return a.output == formatCSV || a.shape.wide || len(a.shape.columns) > 0
}

// annFormats marks a command that has -o; its value are the formats that it writes itself.
const annFormats = "formats"

// outputFlag adds -o with all formats, --columns and --jq to a command that writes
// formats itself, and --filter if these are those of a list.
func (a *app) outputFlag(c *cobra.Command, formats ...string) {
	fs := c.Flags()
	fs.StringVarP(&a.output, "output", "o", formatTable, strings.Join(allFormats, ", "))
	fs.StringSliceVar(&a.shape.columns, "columns", nil, "with table, wide and csv: only these columns or fields, in this order")
	fs.StringVar(&a.shape.jq, "jq", "", "runs a jq expression over the JSON; texts are printed as they are")
	if slices.Contains(formats, formatCSV) {
		fs.StringVar(&a.shape.filter, "filter", "", "only rows for which this holds, such as 'tenant == \"acme\"' (ledgerctl help filters)")
	}
	mark(c, annFormats, strings.Join(formats, " "))
	inner := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if err := a.setFormat(c, formats); err != nil {
			return err
		}
		if inner != nil {
			return inner(c, args)
		}
		return nil
	}
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allFormats, cobra.ShellCompDirectiveNoFileComp))
}

func mark(c *cobra.Command, name, value string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[name] = value
}

// setFormat reads the flags: a.output becomes one of own, which the command writes,
// and a.shape what is made of it.
func (a *app) setFormat(c *cobra.Command, own []string) error {
	s := &a.shape
	if !slices.Contains(allFormats, a.output) {
		return usagef("--output %q: want %s", a.output, strings.Join(allFormats, ", "))
	}
	if s.jq != "" {
		switch {
		case !c.Flags().Changed("output"):
			a.output = formatJSON
		case a.output != formatJSON && a.output != formatJSONL:
			return usagef("--jq works on JSON: leave --output %s out, or say json (all at once) or jsonl (line by line)", a.output)
		}
		var err error
		if s.query, err = parseQuery(s.jq); err != nil {
			return err
		}
	}
	if s.filter != "" {
		var err error
		if s.pick, err = newPicker(s.filter); err != nil {
			return err
		}
	}
	if len(s.columns) > 0 && a.output != formatTable && a.output != formatWide && a.output != formatCSV {
		return usagef("--columns goes with table, wide and csv: pick fields of %s with --jq", a.output)
	}
	s.asked, s.as = a.output, a.output
	a.output = nearestFormat(a.output, own)
	switch s.asked {
	case formatWide:
		s.wide = true
	case formatTable:
	case formatCSV:
	default:
		a.machine = true
	}
	// One record is made of its JSON.
	if len(s.columns) > 0 && !slices.Contains(own, formatCSV) && s.asked != formatCSV {
		s.as, a.output = formatFields, nearestFormat(formatJSON, own)
	}
	return nil
}

// nearestFormat is the format out of own that f can be made of.
func nearestFormat(f string, own []string) string {
	switch {
	case slices.Contains(own, f):
		return f
	case f == formatWide:
		return formatTable
	case slices.Contains(own, formatJSON):
		return formatJSON
	default:
		return formatJSONL // a stream
	}
}

// list writes rows in the format asked for; none is what it says on stderr when
// a table would be empty.
func list[T any](a *app, rows []T, cols []column[T], none string) error {
	rows, err := picked(a, rows)
	if err != nil {
		return err
	}
	switch a.output {
	case formatJSON:
		if rows == nil {
			rows = []T{}
		}
		return a.json(rows)
	case formatJSONL:
		for _, r := range rows {
			if err := a.jsonLine(r); err != nil {
				return err
			}
		}
		return nil
	}
	if cols, err = chosen(a, cols); err != nil {
		return err
	}
	if a.output == formatCSV {
		return writeCSV(a, rows, cols)
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.err, none)
		return nil
	}
	t := a.term
	if a.shape.wide {
		t.width = 0
	}
	return table(a.out, t, rows, timed(a, cols))
}

// chosen are the columns that --columns and the format leave, as they are to look.
func chosen[T any](a *app, cols []column[T]) ([]column[T], error) {
	csv := a.output == formatCSV
	if csv {
		cols = slices.DeleteFunc(slices.Clone(cols), func(c column[T]) bool { return c.only })
	}
	names := a.shape.columns
	if len(names) == 0 {
		if a.shape.wide {
			cols = widened(cols)
		}
		return cols, nil
	}
	var out []column[T]
	for _, name := range names {
		i := slices.IndexFunc(cols, func(c column[T]) bool { return c.name == name })
		if i < 0 {
			all := make([]string, len(cols))
			for i, c := range cols {
				all[i] = c.name
			}
			return nil, usagef("--columns: there is no %q; there are %s", name, strings.Join(all, ", "))
		}
		c := cols[i]
		if !csv {
			c = c.filled()
		}
		c.mixed, c.drop = false, 0
		out = append(out, c)
	}
	return out, nil
}

// widened are all columns, also those that otherwise only CSV has.
func widened[T any](cols []column[T]) []column[T] {
	out := make([]column[T], len(cols))
	for i, c := range cols {
		out[i] = c.filled()
		out[i].mixed, out[i].drop = false, 0
		out[i].keep = true
	}
	return out
}

// filled is a column of CSV as one of a table.
func (c column[T]) filled() column[T] {
	if c.raw == nil || !c.mixed {
		return c
	}
	text, raw := c.text, c.raw
	c.text = func(v T) string {
		if s := text(v); s != "" {
			return s
		}
		return raw(v)
	}
	return c
}

// json writes v for people who pipe it on: indented, or as --output and --jq say.
func (a *app) json(v any) error {
	if a.shape.as == formatJSONL || a.output == formatJSONL {
		return a.jsonLine(v)
	}
	return a.value(v, "  ")
}

func (a *app) jsonLine(v any) error { return a.value(v, "") }

// value writes v as --output and --jq say; indent is that of JSON.
func (a *app) value(v any, indent string) error {
	b, err := a.marshal(v)
	if err != nil {
		return err
	}
	switch {
	case a.shape.query != nil:
		return a.shape.query.write(a, b)
	case a.shape.as == formatYAML:
		return a.yaml(b)
	case a.shape.as == formatCSV, a.shape.as == formatFields:
		return a.records(b)
	}
	return a.writeJSON(b, indent)
}

func writeCSV[T any](a *app, rows []T, cols []column[T]) error {
	w := csv.NewWriter(a.out)
	record := make([]string, len(cols))
	for i, c := range cols {
		record[i] = c.name
	}
	if !a.shape.csvHead {
		_ = w.Write(record) // the writer keeps its error for Error
	}
	a.shape.csvHead = true
	for _, r := range rows {
		for i, c := range cols {
			text := c.text
			if c.raw != nil {
				text = c.raw
			}
			record[i] = export.Inert(text(r))
		}
		_ = w.Write(record)
	}
	w.Flush()
	return w.Error()
}

// marshal makes JSON of a view.
func (a *app) marshal(v any) (json.RawMessage, error) {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	out := strings.TrimSuffix(b.String(), "\n")
	if a.dry && strings.HasPrefix(out, "{") && !strings.HasPrefix(out, `{"dry_run":`) {
		rest := strings.TrimPrefix(out, "{")
		if rest != "}" {
			rest = "," + rest
		}
		out = `{"dry_run":true` + rest
	}
	return json.RawMessage(out), nil
}

// page holds the flags of a list that comes in pages.
type page struct {
	limit  int
	after  string
	cursor string
	c      *cobra.Command
}

// maxPage is below what the ledger gives at once, so that one more row can be
// asked for: it says whether there is a next page.
const maxPage = 5000

func (p *page) add(c *cobra.Command, last string) {
	p.c = c
	c.Flags().IntVar(&p.limit, "limit", 50, fmt.Sprintf("rows at most, up to %d", maxPage))
	c.Flags().StringVar(&p.after, "after", "", "goes on after "+last+" (as the last page said)")
	c.Flags().StringVar(&p.cursor, "cursor", "", "goes on where the page ended that gave this cursor, in JSON on stderr")
}

func (p *page) check() error {
	if p.limit < 1 || p.limit > maxPage {
		return usagef("--limit %d: want 1 to %d", p.limit, maxPage)
	}
	if p.cursor == "" {
		return nil
	}
	if p.after != "" {
		return usagef("--after and --cursor exclude each other")
	}
	v, err := readCursor(p.c, p.cursor)
	p.after, p.cursor = v.After, ""
	return err
}
