package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Output formats.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatJSONL = "jsonl"
	formatCSV   = "csv"
)

// outputFlag adds -o with the formats a command has.
func (a *app) outputFlag(c *cobra.Command, formats ...string) {
	c.Flags().StringVarP(&a.output, "output", "o", formatTable, strings.Join(formats, ", "))
	inner := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if !slices.Contains(formats, a.output) {
			return usagef("--output %q: want %s", a.output, strings.Join(formats, ", "))
		}
		if inner != nil {
			return inner(c, args)
		}
		return nil
	}
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
}

var (
	listFormats = []string{formatTable, formatJSON, formatJSONL, formatCSV}
	showFormats = []string{formatTable, formatJSON, formatJSONL}
)

// list writes rows in the format asked for; none is what it says on stderr when
// a table would be empty.
func list[T any](a *app, rows []T, cols []column[T], none string) error {
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
	case formatCSV:
		return writeCSV(a, rows, cols)
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.err, none)
		return nil
	}
	return table(a.out, a.term, rows, cols)
}

// json writes v for people who pipe it on: indented, or in one line for jsonl.
func (a *app) json(v any) error {
	if a.output == formatJSONL {
		return a.jsonLine(v)
	}
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func (a *app) jsonLine(v any) error {
	e := json.NewEncoder(a.out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func writeCSV[T any](a *app, rows []T, cols []column[T]) error {
	cols = slices.DeleteFunc(slices.Clone(cols), func(c column[T]) bool { return c.only })
	w := csv.NewWriter(a.out)
	record := make([]string, len(cols))
	for i, c := range cols {
		record[i] = c.name
	}
	_ = w.Write(record) // the writer keeps its error for Error
	for _, r := range rows {
		for i, c := range cols {
			text := c.text
			if c.raw != nil {
				text = c.raw
			}
			record[i] = inert(text(r))
		}
		_ = w.Write(record)
	}
	w.Flush()
	return w.Error()
}

// inert keeps a spreadsheet from running a text as a formula.
func inert(s string) string {
	if s == "" || !strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return s
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return s
	}
	return "'" + s
}

// page holds the flags of a list that comes in pages.
type page struct {
	limit int
	after string
}

// maxPage is below what the ledger gives at once, so that one more row can be
// asked for: it says whether there is a next page.
const maxPage = 5000

func (p *page) add(c *cobra.Command, last string) {
	c.Flags().IntVar(&p.limit, "limit", 50, fmt.Sprintf("rows at most, up to %d", maxPage))
	c.Flags().StringVar(&p.after, "after", "", "goes on after "+last+" (as the last page said)")
}

func (p *page) check() error {
	if p.limit < 1 || p.limit > maxPage {
		return usagef("--limit %d: want 1 to %d", p.limit, maxPage)
	}
	return nil
}

// cutPage drops the row beyond the page and says whether there was one.
func cutPage[T any](rows []T, limit int) ([]T, bool) {
	if len(rows) <= limit {
		return rows, false
	}
	return rows[:limit], true
}

// more says on stderr how to get the next page: this command line with another --after.
func (a *app) more(c *cobra.Command, args []string, after string) {
	words := append(strings.Fields(c.CommandPath())[1:], args...)
	c.Flags().Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "after" || a.flags.Lookup(f.Name) != nil && f.Name != "grace":
		case f.Value.Type() == "bool":
			words = append(words, "--"+f.Name)
		case f.Value.Type() == "stringSlice":
			words = append(words, "--"+f.Name, strings.Trim(f.Value.String(), "[]"))
		default:
			words = append(words, "--"+f.Name, f.Value.String())
		}
	})
	fmt.Fprintf(a.err, "more: %s\n", a.command(append(words, "--after", after)...))
}
