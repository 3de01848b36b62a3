package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	term "github.com/daybookhq/daybook/cmd/internal/terminal"
)

// column is a column of a list of T.
type column[T any] struct {
	name string // of the CSV column; upper-cased and with blanks in a table
	text func(T) string
	raw  func(T) string // for CSV; nil = text
	// keep: ids and amounts, which are wrong once cut.
	keep  bool
	right bool
	// mixed: left out of a table where every row says the same, or nothing.
	mixed bool
	// drop: on a narrow terminal the column with the highest one goes first; 0 stays.
	drop int
	// want is what a column that may be cut is worth having; 0 = narrow.
	want int
	// only: left out of CSV (a summary for people).
	only  bool
	style func(T) style
	// at: the moment that the text is an age of; the column behind it is the moment itself
	// if that is of CSV alone.
	at func(T) time.Time
}

// cell is a table's cell.
type cell struct {
	text  string
	style style
}

const (
	gap      = "  "
	narrow   = 8 // a column is not cut below this
	ellipsis = "…"
)

// table writes rows under their heads. On a terminal it cuts what may be cut
// until a row fits a line.
func table[T any](w io.Writer, t terminal, rows []T, cols []column[T]) error {
	return new(tableWriter[T]).write(w, t, rows, cols)
}

// tableWriter writes a table whose rows come bit by bit: the first ones settle the
// columns, and how wide they are at least.
type tableWriter[T any] struct {
	cols   []column[T]
	widths []int
}

func (tw *tableWriter[T]) write(w io.Writer, t terminal, rows []T, cols []column[T]) error {
	var lines [][]cell
	if tw.widths == nil {
		cols = shown(rows, cols)
		if t.width > 0 {
			cols = dropped(rows, cols, t.width)
		}
		heads := make([]cell, len(cols))
		for i, c := range cols {
			heads[i] = cell{c.head(), bold}
		}
		lines = append(lines, heads)
		tw.cols, tw.widths = cols, make([]int, len(cols))
	}
	cols = tw.cols
	widths := slices.Clone(tw.widths)
	for i, c := range cols {
		widths[i] = max(widths[i], natural(rows, c))
	}
	for _, r := range rows {
		line := make([]cell, len(cols))
		for i, c := range cols {
			line[i].text = clean(c.text(r))
			if c.style != nil {
				line[i].style = c.style(r)
			}
		}
		lines = append(lines, line)
	}
	if t.width > 0 {
		fit(widths, cols, t.width)
	}
	tw.widths = widths
	var b strings.Builder
	for _, line := range lines {
		writeLine(&b, t, line, widths, cols)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeLine[T any](b *strings.Builder, t terminal, line []cell, widths []int, cols []column[T]) {
	start := b.Len()
	pending := "" // blanks that are only written before text
	for i, c := range line {
		text := cut(c.text, widths[i])
		pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		if cols[i].right {
			pending += pad
			pad = ""
		}
		if text != "" {
			b.WriteString(pending)
			b.WriteString(t.paint(text, c.style))
			pending = ""
		}
		pending += pad + gap
	}
	if b.Len() > start || len(line) > 0 {
		b.WriteByte('\n')
	}
}

// shown leaves out the columns that say nothing.
func shown[T any](rows []T, cols []column[T]) []column[T] {
	var out []column[T]
	for _, c := range cols {
		if c.mixed {
			different := false
			for _, r := range rows {
				different = different || c.text(r) != c.text(rows[0])
			}
			if !different {
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

func (c column[T]) head() string { return strings.ToUpper(strings.ReplaceAll(c.name, "_", " ")) }

// natural is the width at which nothing of a column is cut.
func natural[T any](rows []T, c column[T]) int {
	n := utf8.RuneCountInString(c.head())
	for _, r := range rows {
		n = max(n, utf8.RuneCountInString(clean(c.text(r))))
	}
	return n
}

// dropped leaves out columns until what stays is worth reading at this width.
func dropped[T any](rows []T, cols []column[T], width int) []column[T] {
	cols = slices.Clone(cols)
	for {
		total, first := -len(gap), -1
		for i, c := range cols {
			n := natural(rows, c)
			if !c.keep {
				n = min(n, max(c.want, narrow))
			}
			total += n + len(gap)
			if c.drop > 0 && (first < 0 || c.drop > cols[first].drop) {
				first = i
			}
		}
		if total <= width || first < 0 {
			return cols
		}
		cols = slices.Delete(cols, first, first+1)
	}
}

// fit takes from the widest column that may be cut until a line has the width.
func fit[T any](widths []int, cols []column[T], width int) {
	total := len(gap) * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for total > width {
		widest := -1
		for i, c := range cols {
			if !c.keep && widths[i] > narrow && (widest < 0 || widths[i] >= widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
		total--
	}
}

// cut shortens s to n runes; the last one says that something is missing.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(n-1, 0)]) + ellipsis
}

// wrap breaks a text between words. A width of zero means one line.
func wrap(s string, width int) []string { return term.Wrap(s, width) }

// clean makes text safe to print on one line.
func clean(s string) string { return term.Clean(s) }

// field is a line of a record for people: a name and what it says.
type field struct{ name, text string }

// fields writes a record; empty ones are left out.
func (a *app) fields(fs []field) {
	width := 0
	for _, f := range fs {
		if f.text != "" {
			width = max(width, len(f.name))
		}
	}
	for _, f := range fs {
		if f.text == "" {
			continue
		}
		room := 0
		if a.term.width > 0 {
			room = max(a.term.width-width-len(gap), narrow)
		}
		text := f.text
		if a.times == timesRelative {
			text = a.agoText(text)
		}
		lines := wrap(clean(text), room)
		fmt.Fprintf(a.out, "%s%s%s%s\n", a.term.paint(f.name, dim), strings.Repeat(" ", width-len(f.name)), gap, lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintf(a.out, "%s%s\n", strings.Repeat(" ", width+len(gap)), line)
		}
	}
}

// section writes the title of a part.
func (a *app) section(format string, args ...any) {
	fmt.Fprintf(a.out, "\n%s\n", a.term.paint(fmt.Sprintf(format, args...), bold))
}
