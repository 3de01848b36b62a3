package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/bogus"
)

// shaped is the tools of a bus as each provider gets them.
func shaped(t *testing.T, b *tools.Bus, names []string) map[string]json.RawMessage {
	t.Helper()
	all := map[string]json.RawMessage{}
	for provider, f := range map[string]func([]string) (json.RawMessage, error){"openai": b.OpenAI, "anthropic": b.Anthropic, "mcp": b.MCP} {
		raw, err := f(names)
		if err != nil {
			t.Fatalf("%s: %v", provider, err)
		}
		all[provider] = raw
	}
	return all
}

func valid(t *testing.T, provider string, raw json.RawMessage) error {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "shapes", provider+".json"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	schema, err := jsonschema.UnmarshalJSON(f)
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("shape.json", schema); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return c.MustCompile("shape.json").Validate(doc)
}

// odd are tools as they come from elsewhere.
func odd(t *testing.T) []tools.Tool {
	nothing := func(context.Context, *tools.Invocation) (any, error) { return "", nil }
	var ts []tools.Tool
	for name, schema := range map[string]string{
		"untyped": `{"properties":{"a":{"type":"string"}}}`, "empty": `{ }`, "typed": `{"type":"object","required":["a"],"properties":{"a":true}}`,
	} {
		made, err := tools.Raw(tools.Definition{Name: name, Description: "Says <b>nothing</b> & \"more\".\n### like_another\n"}, json.RawMessage(schema), nothing)
		if err != nil {
			t.Fatal(err)
		}
		ts = append(ts, made)
	}
	slices.SortFunc(ts, func(a, b tools.Tool) int { return strings.Compare(a.Definition().Name, b.Definition().Name) })
	return ts
}

// SG-149: the shapes hold what the providers' documentation asks of them.
func TestShapesOfProviders(t *testing.T) {
	b := bus(t, tools.BusConfig{}, append(append(odd(t), bogus.Tools()...), declare(t, strings.Repeat("n", 64), "Long."))...)
	for provider, raw := range shaped(t, b, nil) {
		if err := valid(t, provider, raw); err != nil {
			t.Errorf("%s: %v", provider, err)
		}
		var list []map[string]any
		if err := json.Unmarshal(raw, &list); err != nil || len(list) != len(b.Names()) {
			t.Errorf("%s: %d tools, %v, want %d", provider, len(list), err, len(b.Names()))
		}
		for _, private := range []string{"alias", "pinned", "needs", "trust"} {
			if bytes.Contains(raw, []byte(`"`+private)) {
				t.Errorf("SG-20 %s: a model is shown %q", provider, private)
			}
		}
	}
	t.Run("a schema can refuse", func(t *testing.T) {
		for provider, raw := range shaped(t, b, nil) {
			if valid(t, provider, bytes.Replace(raw, []byte("ame"), []byte("Ame"), 1)) == nil {
				t.Errorf("%s: a tool without a name is let through", provider)
			}
		}
	})
	t.Run("one of each, word for word", func(t *testing.T) {
		one := shaped(t, b, []string{"feed_cat"})
		for provider, want := range map[string]string{
			"openai":    `[{"type":"function","function":{"name":"feed_cat","description":"Drops a portion into the cat's feeder at home. The feeder's level is known only from its reply.","parameters":{`,
			"anthropic": `[{"name":"feed_cat","description":"Drops a portion into the cat's feeder at home. The feeder's level is known only from its reply.","input_schema":{`,
			"mcp":       `,"annotations":{"readOnlyHint":false,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false}}]`,
		} {
			if !strings.Contains(string(one[provider]), want) {
				t.Errorf("%s: %s, want %s", provider, one[provider], want)
			}
		}
	})
	t.Run("an unstated effect is no hint", func(t *testing.T) {
		if raw := shaped(t, b, []string{"empty"})["mcp"]; bytes.Contains(raw, []byte("annotations")) {
			t.Errorf("%s", raw)
		}
	})
	t.Run("a name that a provider would refuse", func(t *testing.T) {
		long := bus(t, tools.BusConfig{}, declare(t, strings.Repeat("n", 65), "Long."))
		var refused *tools.ShapeError
		if _, err := long.OpenAI(nil); !errors.As(err, &refused) || !errors.Is(err, tools.ErrShape) || refused.Provider != "OpenAI" {
			t.Errorf("65 bytes to OpenAI: %v", err)
		}
		if _, err := long.Anthropic(nil); err != nil {
			t.Errorf("65 bytes to Anthropic: %v", err)
		}
		if _, err := long.MCP([]string{"x"}); !errors.Is(err, tools.ErrUnknownTool) {
			t.Errorf("an unknown name: %v", err)
		}
	})
}

// SG-149: a description in Markdown cannot look like another tool.
func TestMarkdown(t *testing.T) {
	b := bus(t, tools.BusConfig{}, append(odd(t), bogus.FeedCat(), declare(t, "send", "Sends\nit.", takes("to")))...)
	got, err := b.Markdown([]string{"send", "feed_cat", "untyped"})
	if err != nil {
		t.Fatal(err)
	}
	want := "### untyped\n\nSays <b>nothing</b> & \"more\". ### like_another\n\nArguments, as JSON Schema: `{\"properties\":{\"a\":{\"type\":\"string\"}}}`\n\n" +
		"### feed_cat\n\nDrops a portion into the cat's feeder at home. The feeder's level is known only from its reply.\n\n" +
		"- `portion` (enum, required): how much; one of small, normal\n\n### send\n\nSends it.\n\n- `to` (string)\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The same tools are the same bytes, so a cached prompt holds: whatever the
// query was that selected them, and over processes.
func TestSelectionsAreStableBytes(t *testing.T) {
	a, b := bus(t, tools.BusConfig{}, bogus.Tools()...), bus(t, tools.BusConfig{}, bogus.Tools()...)
	first, second := a.Select("pizza and a taxi", 2), b.Select("a taxi, then pizza for dinner", 2)
	slices.Sort(first)
	slices.Sort(second)
	if !slices.Equal(first, second) {
		t.Fatalf("%q and %q are not the same tools", first, second)
	}
	slices.Reverse(second)
	for provider, raw := range shaped(t, a, first) {
		if again := shaped(t, b, second)[provider]; !bytes.Equal(raw, again) {
			t.Errorf("%s: %s, then %s", provider, raw, again)
		}
	}
	turned := bogus.Tools()
	slices.Reverse(turned)
	if c := bus(t, tools.BusConfig{}, turned...); a.Catalog() != b.Catalog() || a.Catalog() != c.Catalog() {
		t.Error("the catalogue's digest depends on the order")
	}
	if c := bus(t, tools.BusConfig{}, bogus.Tools()[1:]...); a.Catalog() == c.Catalog() {
		t.Error("the catalogue's digest does not see that a tool is gone")
	}
}
