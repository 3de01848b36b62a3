// Package strictyaml reads small YAML files that people write by hand: every
// fault names file, line and field and says what to write instead, and all
// faults of a file are reported at once.
package strictyaml

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// Fault is one thing wrong with a file.
type Fault struct {
	File  string
	Line  int    // from 1; 0 = the file as a whole
	Field string // as a path, "rules[2].when.text"; empty = the file as a whole
	// Message says what is wrong and what to write instead.
	Message string
}

func (f *Fault) Error() string {
	s := f.File
	if f.Line > 0 {
		s += ":" + strconv.Itoa(f.Line)
	}
	if f.Field != "" {
		s += ": " + f.Field
	}
	return s + ": " + f.Message
}

// File collects the faults of one file.
type File struct {
	name   string
	offset int
	faults []*Fault
	// broken: there is nothing to read, so that whatever is missing is no news.
	broken bool
}

// Fault adds a fault at a line of the YAML text (0 = the file as a whole).
func (f *File) Fault(line int, field, format string, args ...any) {
	if f.broken {
		return
	}
	if line > 0 {
		line += f.offset
	}
	f.faults = append(f.faults, &Fault{f.name, line, field, fmt.Sprintf(format, args...)})
}

// Err returns all faults in the order of their lines, joined; nil for none.
// Each is a [*Fault] to errors.As.
func (f *File) Err() error {
	slices.SortStableFunc(f.faults, func(a, b *Fault) int { return a.Line - b.Line })
	errs := make([]error, len(f.faults))
	for i, x := range f.faults {
		errs[i] = x
	}
	return errors.Join(errs...)
}

// Parse reads a YAML mapping. offset is the number of lines before the text in
// its file. A text that is no mapping gives an empty Map and that one fault.
func Parse(name string, text []byte, offset int) (*File, *Map) {
	f := &File{name: name, offset: offset}
	var doc yaml.Node
	empty := &Map{file: f, node: &yaml.Node{Kind: yaml.MappingNode, Line: 1}}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		line, msg := 0, strings.TrimPrefix(err.Error(), "yaml: ")
		if rest, ok := strings.CutPrefix(msg, "line "); ok {
			if n, m, ok := strings.Cut(rest, ": "); ok {
				line, _ = strconv.Atoi(n)
				msg = m
			}
		}
		f.Fault(line, "", "not YAML: %s", msg)
		f.broken = true
		return f, empty
	}
	if len(doc.Content) == 0 {
		f.Fault(1, "", "nothing here; write \"field: value\" lines")
		f.broken = true
		return f, empty
	}
	m := newMap(f, "", doc.Content[0])
	if m == nil {
		f.broken = true
		return f, empty
	}
	return f, m
}

// Map is a mapping whose fields are taken one by one; [Map.Done] complains
// about those that nobody took. A nil Map has no fields.
type Map struct {
	file  *File
	node  *yaml.Node
	path  string
	known []string
}

func newMap(f *File, path string, n *yaml.Node) *Map {
	if n.Kind != yaml.MappingNode {
		f.Fault(n.Line, path, "want fields (\"name: value\" lines), got %s", describe(n))
		return nil
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		if seen[k.Value] {
			f.Fault(k.Line, join(path, k.Value), "written twice; keep one")
		}
		seen[k.Value] = true
	}
	return &Map{file: f, node: n, path: path}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "fields"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias; write the value out"
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!str":
		return fmt.Sprintf("the text %q", n.Value)
	}
	return n.Value
}

// Line returns the line of the mapping within the YAML text, for [File.Fault].
func (m *Map) Line() int { return m.node.Line }

// Path returns the path of the mapping, or of one of its fields.
func (m *Map) Path(key string) string { return join(m.path, key) }

// Keys returns the names of all fields, in order.
func (m *Map) Keys() []string {
	if m == nil {
		return nil
	}
	var ks []string
	for i := 0; i < len(m.node.Content); i += 2 {
		ks = append(ks, m.node.Content[i].Value)
	}
	return ks
}

// Has reports whether a field is there, and counts as taking it.
func (m *Map) Has(key string) bool { return m.find(key) != nil }

// LineOf returns the line of a field, or the mapping's if it is not there.
func (m *Map) LineOf(key string) int {
	if n := m.find(key); n != nil {
		return n.Line
	}
	return m.node.Line
}

// LineInFile is LineOf as the file counts, for whoever makes a [Fault] later.
func (m *Map) LineInFile(key string) int { return m.LineOf(key) + m.file.offset }

func (m *Map) find(key string) *yaml.Node {
	if m == nil {
		return nil
	}
	if !slices.Contains(m.known, key) {
		m.known = append(m.known, key)
	}
	for i := 0; i < len(m.node.Content); i += 2 {
		if m.node.Content[i].Value == key {
			return m.node.Content[i+1]
		}
	}
	return nil
}

// Fault adds a fault about one of the mapping's fields.
func (m *Map) Fault(key, format string, args ...any) {
	m.file.Fault(m.LineOf(key), join(m.path, key), format, args...)
}

// FileLineOf returns the line of a field in the file.
func (m *Map) FileLineOf(key string) int { return m.LineOf(key) + m.file.offset }

// FaultAt adds a fault about one of the mapping's fields, at a line of the file.
func (m *Map) FaultAt(key string, line int, format string, args ...any) {
	m.file.Fault(line-m.file.offset, join(m.path, key), format, args...)
}

// FaultAll adds a fault about the mapping as a whole.
func (m *Map) FaultAll(format string, args ...any) {
	m.file.Fault(m.node.Line, m.path, format, args...)
}

// FaultCount is how many faults the file has so far: whoever makes something of
// the fields need not if there are more than before it read them.
func (m *Map) FaultCount() int { return len(m.file.faults) }

// Done complains about fields that nobody took. what is what the mapping is.
func (m *Map) Done(what string) {
	if m == nil {
		return
	}
	for i := 0; i < len(m.node.Content); i += 2 {
		k := m.node.Content[i]
		if slices.Contains(m.known, k.Value) {
			continue
		}
		want := "known fields: " + strings.Join(m.known, ", ")
		if near := Nearest(k.Value, m.known); near != "" {
			want = fmt.Sprintf("did you mean %q?", near)
		}
		m.file.Fault(k.Line, join(m.path, k.Value), "%s has no such field; %s", what, want)
	}
}

// scalar returns the field if it is a scalar with one of the tags; example is
// what to write instead.
func (m *Map) scalar(key, example string, tags ...string) (*yaml.Node, bool) {
	n := m.find(key)
	if n == nil {
		return nil, false
	}
	if n.Kind != yaml.ScalarNode || !slices.Contains(tags, n.Tag) {
		m.Fault(key, "want %s, got %s", example, describe(n))
		return nil, false
	}
	return n, true
}

// Text returns a text field; empty if it is not there. A number or a boolean
// without quotes is refused: YAML would change it (1.10, 0123, no).
func (m *Map) Text(key string) string {
	if n, ok := m.scalar(key, "a text; put it in quotes", "!!str"); ok {
		return n.Value
	}
	return ""
}

// Need returns a text field that must be there and not be empty; instead says
// what to write.
func (m *Map) Need(key, instead string) string {
	n := m.find(key)
	if n == nil || n.Tag == "!!null" || n.Kind == yaml.ScalarNode && n.Tag == "!!str" && strings.TrimSpace(n.Value) == "" {
		m.Fault(key, "missing; write %s", instead)
		return ""
	}
	return m.Text(key)
}

// Int returns a whole number of at least lowest; 0 if the field is not there.
func (m *Map) Int(key string, lowest int64) int64 {
	want := fmt.Sprintf("a whole number of at least %d", lowest)
	n, ok := m.scalar(key, want, "!!int")
	if !ok {
		return 0
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || v < lowest {
		m.Fault(key, "want %s, got %s", want, n.Value)
		return 0
	}
	return v
}

// Bool returns true or false; false if the field is not there.
func (m *Map) Bool(key string) bool {
	n, ok := m.scalar(key, "true or false", "!!bool")
	return ok && n.Value == "true"
}

// Duration returns a duration above zero; 0 if the field is not there.
func (m *Map) Duration(key string) time.Duration {
	const want = "a duration such as 90s, 15m or 2h"
	n, ok := m.scalar(key, want, "!!str")
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(n.Value)
	if err != nil || d <= 0 {
		m.Fault(key, "want %s, got %q", want, n.Value)
		return 0
	}
	return d
}

// Texts returns a list of texts; nil if the field is not there.
func (m *Map) Texts(key string) []string {
	n := m.find(key)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		m.Fault(key, "want a list such as [a, b], got %s", describe(n))
		return nil
	}
	out := []string{}
	for i, x := range n.Content {
		if x.Kind != yaml.ScalarNode || x.Tag != "!!str" || strings.TrimSpace(x.Value) == "" {
			m.file.Fault(x.Line, fmt.Sprintf("%s[%d]", join(m.path, key), i), "want a text, got %s", describe(x))
			continue
		}
		out = append(out, x.Value)
	}
	return out
}

// Map returns a field that is a mapping; nil if it is not there.
func (m *Map) Map(key string) *Map {
	n := m.find(key)
	if n == nil {
		return nil
	}
	return newMap(m.file, join(m.path, key), n)
}

// Maps returns a field that is a list of mappings; nil if it is not there.
func (m *Map) Maps(key string) []*Map {
	n := m.find(key)
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		m.Fault(key, "want a list (\"- name: value\" lines), got %s", describe(n))
		return nil
	}
	var out []*Map
	for i, x := range n.Content {
		if c := newMap(m.file, fmt.Sprintf("%s[%d]", join(m.path, key), i), x); c != nil {
			out = append(out, c)
		}
	}
	return out
}
