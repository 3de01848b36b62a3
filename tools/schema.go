package tools

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
)

// JSONSchema returns the JSON Schema of the arguments object, for models: the
// declared one, or one made from Args in their order that allows nothing else.
func (d *Definition) JSONSchema() json.RawMessage {
	if len(d.Schema) > 0 {
		return d.Schema
	}
	var b, required bytes.Buffer
	b.WriteString(`{"type":"object","properties":{`)
	for i, a := range d.Args {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(quoted(a.Name))
		b.WriteByte(':')
		b.Write(a.schema())
		if a.Required {
			if required.Len() > 0 {
				required.WriteByte(',')
			}
			required.Write(quoted(a.Name))
		}
	}
	b.WriteByte('}')
	if required.Len() > 0 {
		fmt.Fprintf(&b, `,"required":[%s]`, required.Bytes())
	}
	b.WriteString(`,"additionalProperties":false}`)
	return b.Bytes()
}

func (a Arg) schema() []byte {
	typ := a.Type
	if typ == Enum {
		typ = String
	}
	s := struct {
		Type        ArgType  `json:"type"`
		Description string   `json:"description,omitempty"`
		Enum        []string `json:"enum,omitempty"`
	}{Type: typ, Description: a.Description, Enum: a.Options}
	if a.Type != Enum {
		s.Enum = nil // options of other types are hints, not rules
	}
	return encodeJSON(s)
}

func quoted(s string) []byte { return encodeJSON(s) }

// encodeJSON encodes a value that always can be.
func encodeJSON(v any) []byte {
	b, err := newEncoder().encode(v)
	if err != nil {
		panic(fmt.Sprintf("tools: encode %T: %v", v, err))
	}
	return b
}

// Hash is the digest of the whole declaration: whatever changes it may change
// what a run is bound to.
func (d *Definition) Hash() events.Hash {
	c := d.clone()
	b, err := canonical.Marshal(struct {
		Name, Description string
		Args              []Arg
		Schema            json.RawMessage
		Aliases           []string
		Pinned            bool
		Effect            Effect
		Trust             Trust
		Needs             []string
		Wants             *Wants
		Recovery          Recovery
		Scope             Scope
		Identity          []string
		Window            time.Duration
		InDoubtContinue   bool
		Timeout           time.Duration
		MaxOutput         int
		Truncate          TruncatePolicy
		Price             int64 `json:",omitempty"` // left out, the hash is as it was before there were prices
		Approval          bool  `json:",omitempty"`
	}{
		c.Name, c.Description, c.Args, c.JSONSchema(), c.Aliases, c.Pinned, c.Effect, c.Trust, c.Needs, c.Wants, c.Recovery,
		c.Scope, c.Identity, c.Window, c.InDoubtContinue, c.Timeout, c.MaxOutput, c.Truncate, c.Price, c.Approval,
	})
	if err != nil { // a schema that is no JSON, or text that is no UTF-8: Check or the registry refuse it
		b = fmt.Appendf(nil, "%#v", c)
	}
	return sha256.Sum256(append([]byte("daybook/tool/1\x00"), b...))
}

// Binding is what a run freezes about the tool.
func (d *Definition) Binding() events.ToolBinding {
	c := d.clone()
	return events.ToolBinding{
		Name: c.Name, Hash: c.Hash(), Effect: string(c.EffectOrDestructive()),
		Recovery: string(c.Recovery.Kind), Scope: string(c.Scope), Trust: bindTrust(c.Trust), Pinned: c.Pinned,
	}
}

// errNoReferences keeps foreign schemas from reading files or the network.
var errNoReferences = errors.New("references to other documents are not loaded")

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errNoReferences }

// compileSchema compiles the schema of an arguments object, and refuses one that
// could be held against arguments for ever.
func compileSchema(raw json.RawMessage) (*jsonschema.Schema, error) {
	if _, err := canonical.JSON(raw); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	m, ok := doc.(map[string]any)
	if !ok {
		return nil, errors.New("want an object")
	}
	if t, ok := m["type"]; ok && t != "object" {
		return nil, fmt.Errorf("type is %v, want object: arguments are always one", t)
	}
	const url = "arguments.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(url, doc); err != nil {
		return nil, err
	}
	s, err := c.Compile(url)
	if err != nil {
		return nil, err
	}
	return s, checkCost(s)
}
