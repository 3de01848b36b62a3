// Package tools is what agents act with: tools, their declarations, and the
// dispatcher that performs a call so that a destructive one takes effect at
// most once.
//
// A [Tool] is a [Definition] and a function. A [Registry] holds tools by name,
// a [Dispatcher] runs them against two small interfaces that the runtime
// provides: [Effects], which decides about destructive calls, and [Recorder],
// which makes events durable.
package tools

import (
	"context"
	"encoding/json"

	"github.com/daybookhq/daybook/events"
)

// Tool is something an agent can call. Safe for concurrent use.
//
// A destructive tool tells by its error what is known: [NoEffect] that it
// certainly took no effect, [AlreadyApplied] that the provider has it, and any
// other error that nobody can know. A tool may also be a [Prober] or a [Coster].
type Tool interface {
	// Definition never changes. It must not be modified.
	Definition() *Definition
	// Call returns a value that becomes the result: text as it is, everything
	// else as JSON, [Finish] and [Decline] as the end of the run, [HandOff] as
	// the word that the outcome comes from outside, [FromOutside] as a result that did.
	Call(ctx context.Context, in *Invocation) (any, error)
}

// Invocation is one execution of a tool.
type Invocation struct {
	// Arguments are valid and canonical, with secrets substituted: nothing of
	// them may be logged.
	Arguments json.RawMessage
	// Handles are the same with secret:// handles where secrets were substituted, for
	// what is passed on to somebody who substitutes them again; nil = as Arguments.
	Handles json.RawMessage
	Call    events.CallID
	Attempt int // of the call, from 1
	// OpKey is the idempotency key in hexadecimal: stable over attempts and
	// workers. Empty unless the call is destructive.
	OpKey string
	// Token is under what the call can be completed from outside, if the tool
	// returns [HandOff]. It is known before the work starts: of a destructive call
	// that of its attempt, of another call the same for every attempt.
	Token events.ID
	// Fence is the attempt number of the op key, from 1; 0 unless destructive.
	Fence     int
	Run       events.RunID
	Tenant    string
	Owner     string // on whose behalf the run was submitted; may be empty
	SessionID string
	Trace     string // W3C traceparent
	// Prior is set when an earlier attempt may have reached the provider.
	Prior bool
	// Spawner starts child runs; nil where there are none.
	Spawner Spawner
	// Past is what the run has done before this turn; nil where nobody knows.
	Past Past
	// Recaller reads the original of what was compacted; nil where nobody can.
	Recaller Recaller
	// Skills are those that the run may load; nil where there are none.
	Skills Skills
	// Progress tells viewers and the ledger how far the call is. It never
	// fails, does nothing after the call has ended, and is never nil.
	Progress func(text string, metadata any)
}

// ProbeState is a provider's answer to whether an effect happened.
type ProbeState int

// Probe answers. The zero value is no answer.
const (
	ProbeUnknown ProbeState = iota
	ProbeHappened
	ProbeDidNotHappen
)

// ProbeResult is what a probe found. Result is for ProbeHappened: what Call
// would have returned.
type ProbeResult struct {
	State  ProbeState
	Result any
}

// Prober is a destructive tool whose provider can be asked. It declares
// recovery [Probed].
type Prober interface {
	// Probe asks whether the effect of in.OpKey happened. It changes nothing.
	Probe(ctx context.Context, in *Invocation) (ProbeResult, error)
}

// Coster is a tool that knows what a call cost.
type Coster interface {
	// CostOf reads the price in micro-USD out of a value that Call returned;
	// not ok means unmeasured, which is not free.
	CostOf(value any) (microUSD int64, ok bool)
}

// Raw makes a tool from its declaration and, if schema is not nil, the JSON
// Schema of its arguments. Errors are [*DefinitionError].
func Raw(def Definition, schema json.RawMessage, fn func(context.Context, *Invocation) (any, error)) (Tool, error) {
	if schema != nil {
		def.Schema = schema
	}
	d := def.clone()
	if _, err := prepare(d); err != nil {
		return nil, err
	}
	if fn == nil {
		return nil, d.fault("function", "there is no function to call")
	}
	return &rawTool{def: d, fn: fn}, nil
}

type rawTool struct {
	def *Definition
	fn  func(context.Context, *Invocation) (any, error)
}

func (t *rawTool) Definition() *Definition { return t.def }

func (t *rawTool) Call(ctx context.Context, in *Invocation) (any, error) { return t.fn(ctx, in) }

// WithProbe makes t a [Prober]. Its recovery becomes [Probed] if it has none.
func WithProbe(t Tool, probe func(context.Context, *Invocation) (ProbeResult, error)) Tool {
	d := t.Definition().clone()
	if d.Recovery.Kind == RecoveryNone {
		d.Recovery = Probed()
	}
	return &wrapped{Tool: t, def: d, probe: probe}
}

// WithCost makes t a [Coster].
func WithCost(t Tool, costOf func(value any) (microUSD int64, ok bool)) Tool {
	return &wrapped{Tool: t, def: t.Definition(), costOf: costOf}
}

// Namespaced renames t to namespace__name.
func Namespaced(namespace string, t Tool) (Tool, error) {
	d := t.Definition().clone()
	if d.namespace != "" {
		namespace += namespaceMark + d.namespace
		d.Name = d.Name[len(d.namespace)+len(namespaceMark):]
	}
	d.namespace = namespace
	d.Name = namespace + namespaceMark + d.Name
	if err := d.Check(); err != nil {
		return nil, err
	}
	return &wrapped{Tool: t, def: d}, nil
}

// wrapped adds to a tool. Unwrap keeps what the inner tool can do reachable.
type wrapped struct {
	Tool
	def    *Definition
	probe  func(context.Context, *Invocation) (ProbeResult, error)
	costOf func(any) (int64, bool)
}

func (w *wrapped) Definition() *Definition { return w.def }

// Unwrap returns the tool inside.
func (w *wrapped) Unwrap() Tool { return w.Tool }

// proberOf and costerOf find a power of t or of what it wraps, outermost first.
func proberOf(t Tool) func(context.Context, *Invocation) (ProbeResult, error) {
	for t != nil {
		if w, ok := t.(*wrapped); ok && w.probe != nil {
			return w.probe
		}
		if p, ok := t.(Prober); ok {
			return p.Probe
		}
		t = unwrap(t)
	}
	return nil
}

func costerOf(t Tool) func(any) (int64, bool) {
	for t != nil {
		if w, ok := t.(*wrapped); ok && w.costOf != nil {
			return w.costOf
		}
		if c, ok := t.(Coster); ok {
			return c.CostOf
		}
		t = unwrap(t)
	}
	return nil
}

func unwrap(t Tool) Tool {
	if u, ok := t.(interface{ Unwrap() Tool }); ok {
		return u.Unwrap()
	}
	return nil
}
