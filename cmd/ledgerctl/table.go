package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
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
	// only: left out of CSV (a summary for people).
	only  bool
	style func(T) style
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
	cols = shown(rows, cols)
	heads := make([]cell, len(cols))
	widths := make([]int, len(cols))
	for i, c := range cols {
		heads[i] = cell{strings.ToUpper(strings.ReplaceAll(c.name, "_", " ")), bold}
		widths[i] = utf8.RuneCountInString(heads[i].text)
	}
	lines := [][]cell{heads}
	for _, r := range rows {
		line := make([]cell, len(cols))
		for i, c := range cols {
			line[i].text = clean(c.text(r))
			if c.style != nil {
				line[i].style = c.style(r)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i].text))
		}
		lines = append(lines, line)
	}
	if t.width > 0 {
		fit(widths, cols, t.width)
	}
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

// clean makes text safe to print on one line: what comes from models and tools
// must not move the cursor, hide text or start a new line.
func clean(s string) string {
	safe := func(r rune) bool { return r == ' ' || unicode.IsGraphic(r) && r != utf8.RuneError }
	if strings.IndexFunc(s, func(r rune) bool { return !safe(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case safe(r):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

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
		if f.text != "" {
			fmt.Fprintf(a.out, "%s%s  %s\n", a.term.paint(f.name, dim), strings.Repeat(" ", width-len(f.name)), clean(f.text))
		}
	}
}

// section writes the title of a part.
func (a *app) section(format string, args ...any) {
	fmt.Fprintf(a.out, "\n%s\n", a.term.paint(fmt.Sprintf(format, args...), bold))
}
