// Package memory is what agents remember over runs: the tools recall,
// deep_recall, remember and explore_memory over one [Client]. Notes stand in
// contexts, "type:name", which link to each other; every call is fenced by the
// root that its run belongs to.
package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
)

// Format is how recall shows rows.
type Format string

// Formats.
const (
	TOON     Format = "toon"     // a table
	Markdown Format = "markdown" // bullets
)

// Options configure [New].
type Options struct {
	Client Client
	// Root is the context that the run of a call is fenced by, such as
	// "user:" + the principal of the run. It is asked on every call and every
	// [Memory.Observe], by calls of many runs at once, and used as it is. Empty makes
	// the call fail. Required: without a fence there are no tools. See [FixedRoot].
	Root func(inv *tools.Invocation) string
	// Source is whom notes come from, "assistant" if empty.
	Source string
	// Format is TOON if empty.
	Format Format
	// Trust of what is read. External if empty: notes say what an agent has read
	// somewhere, and would otherwise launder it from one run into another.
	Trust tools.Trust
	// DeepPrice is what a deep_recall costs at most, in micro-USD. Zero: nobody knows.
	DeepPrice int64
	// Redactor takes secrets out of what is kept: tools get arguments with secrets
	// substituted. Required: it is the one of the process, with which its secrets are
	// registered. Its key must be the same in every process, since what a note is
	// known by is made of the redacted text.
	Redactor *redact.Redactor
}

// FixedRoot is the root of a host that has one memory for everything it does.
func FixedRoot(id string) func(*tools.Invocation) string {
	return func(*tools.Invocation) string { return id }
}

// Memory is the four tools over one client, and how moments get in beside them.
type Memory struct {
	options Options
	tools   []tools.Tool
}

// ErrNoRoot is the error of every call whose root is empty.
var ErrNoRoot = errors.New("memory cannot be used: the root that this run is fenced by is missing. Do not try again; the host must set it")

// New wires the tools. Errors are of the options.
func New(o Options) (*Memory, error) {
	switch {
	case o.Client == nil:
		return nil, errors.New("memory tools: a client is required")
	case o.Root == nil:
		return nil, errors.New("memory tools: Root is required: say which context each run is fenced by; FixedRoot if it is always the same")
	case o.Redactor == nil:
		return nil, errors.New("memory tools: Redactor is required: pass the redactor of the process, with which its secrets are registered; any other would let them into the memory")
	case o.Format != "" && o.Format != TOON && o.Format != Markdown:
		return nil, fmt.Errorf("memory tools: format %q, want %q or %q", o.Format, TOON, Markdown)
	}
	if o.Source == "" {
		o.Source = "assistant"
	}
	if o.Trust == "" {
		o.Trust = tools.External
	}
	m := &Memory{options: o}
	for _, build := range []func() (tools.Tool, error){m.recall, m.deepRecall, m.remember, m.explore} {
		t, err := build()
		if err != nil {
			return nil, err
		}
		m.tools = append(m.tools, t)
	}
	return m, nil
}

// Tools returns recall, deep_recall, remember and explore_memory.
func (m *Memory) Tools() []tools.Tool { return append([]tools.Tool(nil), m.tools...) }

// Exchange is a question and what was answered to it.
type Exchange struct {
	Question string   `json:"question"`
	Answer   string   `json:"answer"`
	Sources  []string `json:"sources"`
	Stream   string   `json:"-"` // sorts moments; may be empty
}

// Observe appends an exchange as a raw moment and returns. What becomes a note is
// decided later, by who reads the moments. inv says whose run it was: Tenant, Run
// and SessionID, as far as Root looks at them.
func (m *Memory) Observe(ctx context.Context, inv *tools.Invocation, e Exchange) error {
	s, err := m.scope(inv)
	if err != nil {
		return err
	}
	if e.Sources == nil {
		e.Sources = []string{}
	}
	payload, err := m.options.Redactor.JSON(e)
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	if err := m.options.Client.Observe(ctx, s, Moment{Source: m.options.Source, Payload: payload.Bytes(), Stream: e.Stream}); err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	return nil
}

// scope is whose memory a call is about.
func (m *Memory) scope(inv *tools.Invocation) (Scope, error) {
	root := m.options.Root(inv)
	if strings.TrimSpace(root) == "" {
		return Scope{}, ErrNoRoot
	}
	return Scope{Tenant: inv.Tenant, Root: root, Owner: inv.Owner, Run: inv.Run, Call: inv.Call}, nil
}

// encode is JSON without escapes for HTML.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
