package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Declarations are the tools of those names in a neutral shape: neither what
// runs nor the pin. Nil means all; an empty list, as a selection may be, none. Here
// and in every other shape tools stand in the order of the bus whatever the order
// of names, so that the same selection is the same bytes and a cached prompt
// holds. A name that is not on the bus is a [*NameError].
func (b *Bus) Declarations(names []string) ([]Spec, error) {
	es, err := b.those(names)
	return specsOf(es), err
}

// those returns the entries of names in the order of the bus, each once.
func (b *Bus) those(names []string) ([]*entry, error) {
	if names == nil {
		return b.entries, nil
	}
	wanted := make(map[string]bool, len(names))
	for _, name := range names {
		if _, ok := b.place[name]; !ok {
			return nil, fmt.Errorf("declare tools: %w", &NameError{name, ErrUnknownTool})
		}
		wanted[name] = true
	}
	es := make([]*entry, 0, len(wanted))
	for _, e := range b.entries {
		if wanted[e.def.Name] {
			es = append(es, e)
		}
	}
	return es, nil
}

// ErrShape is wrapped by every error about a tool that a provider would refuse.
var ErrShape = errors.New("a provider refuses this tool")

// ShapeError says which tool a provider would refuse, and why. It wraps [ErrShape].
type ShapeError struct {
	Tool, Provider, Text string
}

func (e *ShapeError) Error() string {
	return fmt.Sprintf("tool %s in the shape of %s: %s", e.Tool, e.Provider, e.Text)
}

// Is reports true for [ErrShape].
func (e *ShapeError) Is(target error) bool { return target == ErrShape }

// What the providers' documentation allows as a name.
var (
	openAIName    = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	anthropicName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,128}$`)
	mcpName       = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)
)

type openAITool struct {
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// OpenAI is the "tools" array of a request for chat completions. A name over 64
// bytes is a [*ShapeError], as is whatever else the provider would refuse; see
// Declarations for names.
func (b *Bus) OpenAI(names []string) (json.RawMessage, error) {
	return b.shaped(names, "OpenAI", openAIName, func(d *Definition) any {
		return openAITool{"function", openAIFunction{d.Name, d.Description, d.typedSchema()}}
	})
}

type anthropicTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// Anthropic is the "tools" array of a request for messages; names may have 128
// bytes. See OpenAI.
func (b *Bus) Anthropic(names []string) (json.RawMessage, error) {
	return b.shaped(names, "Anthropic", anthropicName, func(d *Definition) any {
		return anthropicTool{d.Name, d.Description, d.typedSchema()}
	})
}

type mcpTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations *mcpAnnotations `json:"annotations,omitempty"`
}

type mcpAnnotations struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// MCP is the "tools" array of an answer to tools/list, with the effect and the
// trust as hints; what is not declared is no hint, and the protocol takes its
// absence for the worst. See OpenAI.
func (b *Bus) MCP(names []string) (json.RawMessage, error) {
	return b.shaped(names, "MCP", mcpName, func(d *Definition) any {
		return mcpTool{d.Name, d.Description, d.typedSchema(), d.hints()}
	})
}

func (d *Definition) hints() *mcpAnnotations {
	var a mcpAnnotations
	switch d.Effect {
	case Readonly:
		a.ReadOnly = new(true)
	case Idempotent:
		a.ReadOnly, a.Destructive, a.Idempotent = new(false), new(false), new(true)
	case Destructive:
		a.ReadOnly, a.Destructive, a.Idempotent = new(false), new(true), new(false)
	}
	if d.Trust != "" {
		a.OpenWorld = new(d.Trust == External)
	}
	if a == (mcpAnnotations{}) {
		return nil
	}
	return &a
}

// typedSchema is the schema with the type that some providers insist on.
func (d *Definition) typedSchema() json.RawMessage {
	s := d.JSONSchema()
	var has struct {
		Type json.RawMessage `json:"type"`
	}
	if json.Unmarshal(s, &has) != nil || has.Type != nil {
		return s
	}
	rest := bytes.TrimSpace(bytes.TrimSpace(s)[1:])
	if rest[0] == '}' {
		return json.RawMessage(`{"type":"object"}`)
	}
	return append(json.RawMessage(`{"type":"object",`), rest...)
}

func (b *Bus) shaped(names []string, provider string, rule *regexp.Regexp, shape func(*Definition) any) (json.RawMessage, error) {
	es, err := b.those(names)
	if err != nil {
		return nil, err
	}
	all := make([]any, len(es))
	for i, e := range es {
		if !rule.MatchString(e.def.Name) {
			return nil, &ShapeError{e.def.Name, provider, "its name must match " + rule.String()}
		}
		all[i] = shape(e.def)
	}
	enc := newEncoder()
	raw, err := enc.encode(all)
	if err != nil {
		return nil, fmt.Errorf("declare tools to %s: %w", provider, err)
	}
	return raw, nil
}

// Markdown is the tools as text, for a prompt or for people: a heading, the
// description and a list of arguments for each. Descriptions are put on one
// line, so that none of them can look like another tool.
func (b *Bus) Markdown(names []string) (string, error) {
	es, err := b.those(names)
	if err != nil {
		return "", err
	}
	var w strings.Builder
	for i, e := range es {
		if i > 0 {
			w.WriteByte('\n')
		}
		fmt.Fprintf(&w, "### %s\n\n%s\n", e.def.Name, oneLine(e.def.Description))
		e.def.markdownArgs(&w)
	}
	return w.String(), nil
}

func (d *Definition) markdownArgs(w *strings.Builder) {
	if len(d.Args) == 0 {
		if len(argumentNames(d)) > 0 {
			fmt.Fprintf(w, "\nArguments, as JSON Schema: `%s`\n", oneLine(string(d.JSONSchema())))
		}
		return
	}
	w.WriteByte('\n')
	for _, a := range d.Args {
		fmt.Fprintf(w, "- `%s` (%s", a.Name, a.Type)
		if a.Required {
			w.WriteString(", required")
		}
		w.WriteByte(')')
		if a.Description != "" {
			w.WriteString(": " + oneLine(a.Description))
		}
		if a.Type == Enum {
			w.WriteString("; one of " + oneLine(strings.Join(a.Options, ", ")))
		}
		w.WriteByte('\n')
	}
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
