package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/daybookhq/daybook/ledger/export"
)

// writeJSON writes one JSON value and a line break; empty indent is one line. On a
// terminal what could move the cursor, hide or turn text is escaped, which
// is the same JSON.
func (a *app) writeJSON(b json.RawMessage, indent string) error {
	var out bytes.Buffer
	if indent == "" {
		out.Write(b)
	} else if err := json.Indent(&out, b, "", indent); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err := a.out.Write(a.harmless(out.Bytes()))
	return err
}

func (a *app) harmless(b []byte) []byte {
	if a.term.width == 0 {
		return b
	}
	var out bytes.Buffer
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if s := string(b[:n]); r == '\n' || clean(s) == s {
			out.Write(b[:n])
		} else {
			for _, u := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&out, `\u%04x`, u)
			}
		}
		b = b[n:]
	}
	return out.Bytes()
}

// yaml writes a JSON value as a YAML document: the order of keys and all digits of
// numbers are kept. Documents after the first begin with "---".
func (a *app) yaml(b json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	n, err := yamlNode(d)
	if err != nil {
		return err
	}
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	text = escaped(text)
	if a.shape.csvHead {
		text = append([]byte("---\n"), text...)
	}
	a.shape.csvHead = true
	_, err = a.out.Write(text)
	return err
}

// escaped writes what cannot be seen as YAML escapes it between double quotes, where
// alone it is.
func escaped(text []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(text) {
		switch s := string(r); {
		case r == '\n' || clean(s) == s:
			out.WriteString(s)
		case r > 0xffff:
			fmt.Fprintf(&out, `\U%08x`, r)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.Bytes()
}

func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	scalar := func(tag, value string) *yaml.Node {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
	}
	switch t := t.(type) {
	case nil:
		return scalar("!!null", "null"), nil
	case bool:
		return scalar("!!bool", fmt.Sprint(t)), nil
	case json.Number:
		return scalar("", t.String()), nil // as it is written
	case string:
		n := new(yaml.Node)
		if err := n.Encode(t); err != nil { // quotes what would read as something else
			return nil, err
		}
		if clean(t) != t && !plainLines(t) {
			n.Kind, n.Tag, n.Value, n.Style = yaml.ScalarNode, "!!str", t, yaml.DoubleQuotedStyle
		}
		return n, nil
	case json.Delim:
		n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
		if t == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for d.More() { // of an object, names and values by turns
			x, err := yamlNode(d)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, x)
		}
		_, err := d.Token() // the end
		return n, err
	}
	return nil, fmt.Errorf("unexpected JSON token %v", t)
}

// plainLines reports whether a text is lines of what can be seen.
func plainLines(s string) bool {
	for line := range strings.SplitSeq(s, "\n") {
		if clean(line) != line {
			return false
		}
	}
	return true
}

// member is a field of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// text is a value as one cell: a text as it is, anything else as JSON.
func (m member) text() string {
	var s string
	if len(m.value) > 0 && m.value[0] == '"' && json.Unmarshal(m.value, &s) == nil {
		return s
	}
	if string(m.value) == "null" {
		return ""
	}
	return string(m.value)
}

// membersOf reads an object's fields in their order. A value that is no object is one
// field without a name.
func membersOf(b json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if t, err := d.Token(); err != nil {
		return nil, err
	} else if t != json.Delim('{') {
		return []member{{"value", b}}, nil
	}
	var ms []member
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string)
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		ms = append(ms, member{name, v})
	}
	return ms, nil
}

// records writes one record, or a list of them, as CSV or as fields for people.
func (a *app) records(b json.RawMessage) error {
	var items []json.RawMessage
	if len(b) == 0 || b[0] != '[' {
		items = []json.RawMessage{b}
	} else if err := json.Unmarshal(b, &items); err != nil {
		return err
	}
	for _, item := range items {
		ms, err := membersOf(item)
		if err != nil {
			return err
		}
		if ms, err = pickMembers(ms, a.shape.columns); err != nil {
			return err
		}
		if a.shape.as == formatFields {
			fs := make([]field, len(ms))
			for i, m := range ms {
				fs[i] = field{m.name, m.text()}
			}
			a.fields(fs)
			continue
		}
		if err := writeRecord(a.out, ms, !a.shape.csvHead); err != nil {
			return err
		}
		a.shape.csvHead = true
	}
	return nil
}

func writeRecord(out io.Writer, ms []member, head bool) error {
	w := csv.NewWriter(out)
	names, values := make([]string, len(ms)), make([]string, len(ms))
	for i, m := range ms {
		names[i], values[i] = m.name, export.Inert(m.text())
	}
	if head {
		_ = w.Write(names) // the writer keeps its error for Error
	}
	_ = w.Write(values)
	w.Flush()
	return w.Error()
}

// pickMembers are those with names, in their order; none is all.
func pickMembers(ms []member, names []string) ([]member, error) {
	if len(names) == 0 {
		return ms, nil
	}
	var out []member
	for _, name := range names {
		i := slices.IndexFunc(ms, func(m member) bool { return m.name == name })
		if i < 0 {
			all := make([]string, len(ms))
			for i, m := range ms {
				all[i] = m.name
			}
			return nil, usagef("--columns: there is no %q; there are %s", name, strings.Join(all, ", "))
		}
		out = append(out, ms[i])
	}
	return out, nil
}
