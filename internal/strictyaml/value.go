package strictyaml

import (
	"encoding/json"
	"fmt"

	"gopkg.in/yaml.v3"
)

// IsMap reports whether a field is a mapping.
func (m *Map) IsMap(key string) bool {
	n := m.find(key)
	return n != nil && n.Kind == yaml.MappingNode
}

// IsList reports whether a field is there and is a list.
func (m *Map) IsList(key string) bool {
	n := m.find(key)
	return n != nil && n.Kind == yaml.SequenceNode
}

// Scalar returns a text, number, boolean or date as it is written; false if
// the field is none of these, null or not there. It adds no fault.
func (m *Map) Scalar(key string) (string, bool) {
	n := m.find(key)
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", false
	}
	return n.Value, true
}

// JSON returns a field as encoding/json would decode it, with numbers as
// [json.Number]; nil if it is not there. text makes the value of each text, at
// a line and path for [File.Fault].
func (m *Map) JSON(key string, text func(line int, path, s string) any) any {
	n := m.find(key)
	if n == nil {
		return nil
	}
	return m.file.json(n, join(m.path, key), text)
}

func (f *File) json(n *yaml.Node, path string, text func(line int, path, s string) any) any {
	switch n.Kind {
	case yaml.MappingNode:
		out := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			k := n.Content[i].Value
			if _, twice := out[k]; twice {
				f.Fault(n.Content[i].Line, join(path, k), "written twice; keep one")
			}
			out[k] = f.json(n.Content[i+1], join(path, k), text)
		}
		return out
	case yaml.SequenceNode:
		out := []any{}
		for i, e := range n.Content {
			out = append(out, f.json(e, fmt.Sprintf("%s[%d]", path, i), text))
		}
		return out
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!null":
			return nil
		case "!!bool":
			return n.Value == "true"
		case "!!int", "!!float":
			if !json.Valid([]byte(n.Value)) {
				f.Fault(n.Line, path, "%s is no JSON number; write it in decimals, or in quotes for a text", n.Value)
			}
			return json.Number(n.Value)
		}
		return text(n.Line, path, n.Value)
	}
	f.Fault(n.Line, path, "aliases are not read; write the value out")
	return nil
}
