// Package front takes files apart that people write as fields between two lines
// "---" with text below them: agents and skills.
package front

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/daybookhq/daybook/internal/strictyaml"
)

const fence = "---"

// File is such a file.
type File struct {
	lines []string
	end   int // the line that ends the front matter, from 0
}

// Split takes text apart; name is what errors call it, and below what stands below
// the fields. The error is a [*strictyaml.Fault].
func Split(name string, text []byte, below string) (File, error) {
	fault := func(line int, format string, args ...any) error {
		return &strictyaml.Fault{File: name, Line: line, Message: fmt.Sprintf(format, args...)}
	}
	if !utf8.Valid(text) {
		return File{}, fault(0, "not UTF-8 text; save it as UTF-8")
	}
	s := strings.ReplaceAll(strings.TrimPrefix(string(text), "\ufeff"), "\r\n", "\n")
	lines := strings.Split(s, "\n")
	if strings.TrimRight(lines[0], " \t") != fence {
		return File{}, fault(1, "no front matter; write a line %q, then the fields, then %q, then the %s", fence, fence, below)
	}
	end := slices.IndexFunc(lines[1:], func(l string) bool { return strings.TrimRight(l, " \t") == fence }) + 1
	if end == 0 {
		return File{}, fault(1, "the front matter does not end; write a line %q below its fields", fence)
	}
	return File{lines, end}, nil
}

// Fields reads the front matter.
func (f File) Fields(name string) (*strictyaml.File, *strictyaml.Map) {
	return strictyaml.Parse(name, []byte(strings.Join(f.lines[1:f.end], "\n")), 1)
}

// Body is what stands below the fields, without white space around it.
func (f File) Body() string { return strings.TrimSpace(strings.Join(f.lines[f.end+1:], "\n")) }

// End is the line that ends the fields, as [strictyaml.File.Fault] counts.
func (f File) End() int { return f.end }
