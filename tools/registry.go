package tools

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/daybookhq/daybook/events"
)

// Errors about names.
var (
	ErrDuplicateTool = errors.New("duplicate tool")
	ErrUnknownTool   = errors.New("unknown tool")
)

// NameError names the tool that is there twice or not at all. It wraps
// [ErrDuplicateTool] or [ErrUnknownTool].
type NameError struct {
	Name string
	Err  error
}

func (e *NameError) Error() string { return fmt.Sprintf("%v: %s", e.Err, e.Name) }

// Unwrap returns the sentinel.
func (e *NameError) Unwrap() error { return e.Err }

// Registry holds tools by name, in the order they came. The zero value is
// empty and usable. Safe for concurrent use.
type Registry struct {
	mu      sync.RWMutex
	entries map[string]*entry
	order   []string
}

// entry is a tool with everything that is looked up once.
type entry struct {
	tool        Tool
	def         *Definition
	rules       *rules
	destructive bool
	probe       func(context.Context, *Invocation) (ProbeResult, error)
	costOf      func(any) (int64, bool)
	typed       typed    // nil unless made by New
	calls       *counter // that reached the tool
}

// NewRegistry returns a registry of tools; two of one name are an error.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{}
	return r, r.Add(tools...)
}

// Add adds tools. A name that is taken is a [*NameError] and a faulty
// declaration a [*DefinitionError]; then none of them is added.
func (r *Registry) Add(tools ...Tool) error {
	fresh, err := newEntries(tools)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := make(map[string]bool, len(fresh))
	for _, e := range fresh {
		if r.entries[e.def.Name] != nil || seen[e.def.Name] {
			return &NameError{e.def.Name, ErrDuplicateTool}
		}
		seen[e.def.Name] = true
	}
	for _, e := range fresh {
		r.put(e)
	}
	return nil
}

// Replace puts t in the place of the tool of its name, or adds it. It reports
// whether there was one.
func (r *Registry) Replace(t Tool) (replaced bool, err error) {
	e, err := newEntry(t)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	replaced = r.entries[e.def.Name] != nil
	r.put(e)
	return replaced, nil
}

func (r *Registry) put(e *entry) {
	if r.entries == nil {
		r.entries = map[string]*entry{}
	}
	if r.entries[e.def.Name] == nil {
		r.order = append(r.order, e.def.Name)
	}
	r.entries[e.def.Name] = e
}

// Lookup returns the tool of that name.
func (r *Registry) Lookup(name string) (Tool, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if e := r.entries[name]; e != nil {
		return e.tool, true
	}
	return nil, false
}

// Resolve returns the tool of that name, or a [*NameError] that wraps [ErrUnknownTool].
func (r *Registry) Resolve(name string) (Tool, error) {
	if t, ok := r.Lookup(name); ok {
		return t, nil
	}
	return nil, &NameError{name, ErrUnknownTool}
}

// Tools returns all tools in the order they came.
func (r *Registry) Tools() []Tool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]Tool, len(r.order))
	for i, name := range r.order {
		all[i] = r.entries[name].tool
	}
	return all
}

// Specs declares all tools to models, in the order they came.
func (r *Registry) Specs() []Spec { return specsOf(r.snapshot()) }

// Bindings are what a run freezes about the tools, in the order they came.
func (r *Registry) Bindings() []events.ToolBinding { return bindingsOf(r.snapshot()) }

// Catalog is the digest of all declarations, whatever their order.
func (r *Registry) Catalog() events.Hash { return catalogOf(r.snapshot()) }

// snapshot returns the entries in order.
func (r *Registry) snapshot() []*entry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*entry, len(r.order))
	for i, name := range r.order {
		all[i] = r.entries[name]
	}
	return all
}

// Spec declares a tool to a model: neither what runs nor the pin.
type Spec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

func specsOf(es []*entry) []Spec {
	specs := make([]Spec, len(es))
	for i, e := range es {
		specs[i] = Spec{e.def.Name, e.def.Description, e.def.JSONSchema()}
	}
	return specs
}

func bindingsOf(es []*entry) []events.ToolBinding {
	all := make([]events.ToolBinding, len(es))
	for i, e := range es {
		all[i] = e.def.Binding()
	}
	return all
}

func catalogOf(es []*entry) events.Hash {
	hashes := make([]string, len(es))
	for i, e := range es {
		hashes[i] = e.def.Hash().String()
	}
	slices.Sort(hashes)
	h := sha256.New()
	h.Write([]byte("daybook/catalog/1\x00"))
	for _, s := range hashes {
		h.Write([]byte(s))
	}
	return events.Hash(h.Sum(nil))
}

func newEntries(tools []Tool) ([]*entry, error) {
	all := make([]*entry, 0, len(tools))
	for _, t := range tools {
		e, err := newEntry(t)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// newEntry checks t again, since a tool need not come from a constructor.
func newEntry(t Tool) (*entry, error) {
	if t == nil || t.Definition() == nil {
		return nil, &DefinitionError{Problem: "function", Text: "there is no tool, or it has no definition"}
	}
	d := t.Definition().clone()
	rules, err := prepare(d)
	if err != nil {
		return nil, err
	}
	e := &entry{
		tool: t, def: d, rules: rules, destructive: d.IsDestructive(),
		probe: proberOf(t), costOf: costerOf(t), calls: new(counter),
	}
	if e.typed = typedOf(t); e.typed != nil {
		e.rules = e.typed.argumentRules()
	}
	if e.destructive && d.Recovery.Kind == RecoveryProbe && e.probe == nil {
		return nil, d.fault("recovery", "recovery probe is declared, but the tool cannot be asked: implement tools.Prober or use tools.WithProbe")
	}
	return e, nil
}

// Filter says which tools may be called. Zero fields filter nothing.
type Filter struct {
	Allow []string // if not empty, only these
	Deny  []string // never these, whatever is allowed
}

// Permits reports whether f lets name through.
func (f Filter) Permits(name string) bool {
	return (len(f.Allow) == 0 || slices.Contains(f.Allow, name)) && !slices.Contains(f.Deny, name)
}

// FilterTools returns those of tools that all filters let through. It never
// adds or enables one.
func FilterTools(tools []Tool, filters ...Filter) []Tool {
	return slices.DeleteFunc(slices.Clone(tools), func(t Tool) bool { return !permitted(t.Definition().Name, filters) })
}

func permitted(name string, filters []Filter) bool {
	for _, f := range filters {
		if !f.Permits(name) {
			return false
		}
	}
	return true
}
