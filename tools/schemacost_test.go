package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// doubling is a schema of n definitions, each of which is the next twice.
func doubling(n int, keyword, below string) string {
	var b strings.Builder
	b.WriteString(`{"type":"object",` + fmt.Sprintf(below, `{"$ref":"#/$defs/d0"}`) + `,"$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{%q:[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, keyword, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"minProperties":0}}}`, n)
	return b.String()
}

// nested is allOf in allOf, written out.
func nested(depth, width int) string {
	s := `{"type":"object"}`
	for range depth {
		s = `{"allOf":[` + strings.TrimSuffix(strings.Repeat(s+",", width), ",") + `]}`
	}
	return s
}

func TestCostlySchemasAreRefused(t *testing.T) {
	for name, raw := range map[string]string{
		"allOf":             doubling(30, "allOf", `"allOf":[%s]`),
		"anyOf, below":      doubling(30, "anyOf", `"properties":{"a":%s}`),
		"oneOf, elements":   doubling(30, "oneOf", `"properties":{"a":{"items":%s}}`),
		"contains":          doubling(30, "allOf", `"additionalProperties":{"contains":%s}`),
		"patterns":          doubling(30, "allOf", `"patternProperties":{"^x":%s}`),
		"dependent":         doubling(30, "allOf", `"dependentSchemas":{"x":%s}`),
		"doubles below":     `{"type":"object","allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`,
		"doubles by other":  `{"type":"object","anyOf":[{"properties":{"a":{"$ref":"#"}}},{"patternProperties":{"a":{"$ref":"#"}}}]}`,
		"doubles in arrays": `{"type":"object","additionalProperties":{"$ref":"#/$defs/l"},"$defs":{"l":{"items":{"$ref":"#/$defs/l"},"contains":{"$ref":"#/$defs/l"}}}}`,
		"in two steps":      `{"type":"object","properties":{"a":{"$ref":"#/$defs/u"}},"allOf":[{"properties":{"a":{"$ref":"#/$defs/v"}}}],"$defs":{"u":{"properties":{"a":{"$ref":"#"}}},"v":{"properties":{"a":{"$ref":"#"}}}}}`,
	} {
		if _, err := compileSchema(json.RawMessage(raw)); !errors.Is(err, errCostlySchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHarmlessSchemasAreTaken(t *testing.T) {
	for name, raw := range map[string]string{
		"a tree":            `{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`,
		"a list":            `{"type":"object","additionalProperties":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#"}}]}}`,
		"JSON":              `{"type":"object","additionalProperties":{"$ref":"#/$defs/j"},"$defs":{"j":{"anyOf":[{"type":"string"},{"type":"array","items":{"$ref":"#/$defs/j"}},{"type":"object","additionalProperties":{"$ref":"#/$defs/j"}}]}}}`,
		"tuples":            `{"type":"object","properties":{"t":{"prefixItems":[{"$ref":"#"},{"$ref":"#"}],"items":false}}}`,
		"used often":        doubling(0, "allOf", `"properties":{"a":{"$ref":"#/$defs/d0"},"b":{"$ref":"#/$defs/d0"},"c":%s}`),
		"some doubling":     doubling(8, "allOf", `"allOf":[%s]`),
		"written out":       nested(3, 4),
		"true":              `{"type":"object","properties":{"x":true}}`,
		"old tuple":         `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"t":{"items":[{"type":"string"}],"additionalItems":{"type":"number"}}}}`,
		"one below another": strings.Repeat(`{"type":"object","properties":{"a":`, 50) + `true` + strings.Repeat(`}}`, 50),
	} {
		if _, err := compileSchema(json.RawMessage(raw)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Forty levels of definitions that use the next one under ten names.
func TestLargeFlatSchemaIsTaken(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{`)
	for i := range 40 {
		fmt.Fprintf(&b, `"d%d":{"properties":{`, i)
		for j := range 10 {
			fmt.Fprintf(&b, `"p%d":{"$ref":"#/$defs/d%d"},`, j, i+1)
		}
		b.WriteString(`"q":true}},`)
	}
	b.WriteString(`"d40":true}}`)
	if _, err := compileSchema(json.RawMessage(b.String())); err != nil {
		t.Error(err)
	}
}
