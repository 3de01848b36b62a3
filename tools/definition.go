package tools

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
)

// Effect is the author's statement of what a call does to the outside world.
// Unset counts as not known, and is treated as destructive.
type Effect string

// Effects of a call. Stored; never renamed.
const (
	Readonly    Effect = "readonly"
	Idempotent  Effect = "idempotent"
	Destructive Effect = "destructive"
)

// Trust says who can write what comes back. Unset is unknown, not safe. It is
// independent of [Effect]: reading a web page is readonly and external.
type Trust string

// Origins of a result.
const (
	Own      Trust = "own"      // our database, our file, a calculation
	External Trust = "external" // a fetched page, an inbox: data even where it reads like an order
)

// ArgType is the type of an argument.
type ArgType string

// Argument types.
const (
	String  ArgType = "string"
	Number  ArgType = "number"
	Integer ArgType = "integer"
	Boolean ArgType = "boolean"
	Enum    ArgType = "enum" // a string that is one of Options
	Object  ArgType = "object"
	Array   ArgType = "array"
)

// Arg declares one argument.
type Arg struct {
	Name        string   `json:"name"`
	Type        ArgType  `json:"type"`
	Description string   `json:"description,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Options     []string `json:"options,omitempty"` // of an enum; not checked for other types
}

// Scope is within what the same identity means the same effect.
type Scope string

// Scopes. Owner and tenant need a declared Window.
const (
	ScopeRun     Scope = "run" // the default: the run's lineage, so retries, forks and child runs share it
	ScopeSession Scope = "session"
	ScopeOwner   Scope = "owner"
	ScopeTenant  Scope = "tenant"
)

// Forever is the window of an effect that is never made a second time.
const Forever time.Duration = -1

// RecoveryKind names how a destructive tool can be recovered after a crash.
// Stored; never renamed.
type RecoveryKind string

// Recovery kinds.
const (
	RecoveryNone   RecoveryKind = "none"   // opaque: a crash leaves it in doubt
	RecoveryKeyed  RecoveryKind = "keyed"  // the provider dedupes Invocation.OpKey for TTL
	RecoveryFenced RecoveryKind = "fenced" // the provider checks Invocation.Fence
	RecoveryProbe  RecoveryKind = "probe"  // the provider can be asked; the tool is a [Prober]
)

// Recovery is how a destructive tool can be recovered. The zero value is none.
type Recovery struct {
	Kind RecoveryKind  `json:"kind"`
	TTL  time.Duration `json:"ttl,omitempty"` // of keyed: how long the provider remembers a key
}

// Keyed is the recovery of a tool whose provider dedupes the op key for ttl.
func Keyed(ttl time.Duration) Recovery { return Recovery{Kind: RecoveryKeyed, TTL: ttl} }

// Fenced is the recovery of a tool whose provider compares and sets, or checks the fence.
func Fenced() Recovery { return Recovery{Kind: RecoveryFenced} }

// Probed is the recovery of a tool whose provider can be asked whether it happened.
func Probed() Recovery { return Recovery{Kind: RecoveryProbe} }

// Wants names a second input of another shape that the tool would prefer.
type Wants struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// TruncatePolicy says what becomes of an output over MaxOutput.
type TruncatePolicy string

// Truncation policies.
const (
	Cut    TruncatePolicy = "cut"    // the default: kept up to the limit, and flagged
	Refuse TruncatePolicy = "refuse" // a failed result, for documents that are worthless in part
)

// Definition declares a tool. It is data: what runs is the [Tool]. The
// constructors copy it, so later changes to it do nothing.
type Definition struct {
	// Name is what models call: letters, digits and "_", not starting with a
	// digit. "__" is reserved for namespaces, see [Namespaced].
	Name        string
	Description string
	// Args are the arguments in the order they are shown.
	Args []Arg
	// Schema is the JSON Schema of the arguments object; if it is set, it and
	// not Args decides what is valid.
	Schema json.RawMessage
	// Aliases are words that callers type, for selection.
	Aliases []string
	// Pinned tools are offered whatever selection decides. Models don't see it.
	Pinned bool
	Effect Effect
	Trust  Trust
	// Needs names tools that must be offered too, else this one is not.
	Needs []string
	Wants *Wants

	// Recovery, Scope, Identity, Window and InDoubtContinue matter for
	// destructive tools only.
	Recovery Recovery
	// Scope is ScopeRun if empty.
	Scope Scope
	// Identity names the arguments that make the identity of the effect. They
	// must be present and not null in every call. Empty means all arguments.
	Identity []string
	// Window is how long, from its outcome, an effect is handed back instead of
	// made again: [Forever] or a positive duration. Zero is allowed for the
	// scopes run and session, and means forever there.
	Window time.Duration
	// Approval: a person must approve each call before it is made. It needs a
	// destructive tool, since only those are decided about by the ledger.
	Approval bool
	// InDoubtContinue lets the model go on while the effect is in doubt; it is
	// told "unknown, do not retry".
	InDoubtContinue bool

	// Price is what one call costs at most, in micro-USD. Where a budget counts it is
	// reserved before the call. A tool that is no [Coster] is taken to have cost it.
	// Zero means that nobody has said: nothing is reserved, and what a call cost is
	// unmeasured unless the tool is a Coster.
	Price int64

	// Timeout bounds one execution. Zero means the dispatcher's default;
	// negative means none, which destructive tools may not declare.
	Timeout time.Duration
	// MaxOutput bounds the output in bytes. Zero means the dispatcher's default.
	MaxOutput int
	// Truncate is Cut if empty.
	Truncate TruncatePolicy

	namespace string // set by Namespaced
}

// IsDestructive reports whether calls go through the effect protocol: declared
// destructive, or not declared at all.
func (d *Definition) IsDestructive() bool { return d.Effect != Readonly && d.Effect != Idempotent }

// EffectOrDestructive returns the declared effect, and destructive if there is none.
func (d *Definition) EffectOrDestructive() Effect {
	if d.IsDestructive() {
		return Destructive
	}
	return d.Effect
}

// Exempt lists JSON pointers ("/charge_id") of the arguments whose values are
// declared as identity or enum: the redactor's pattern rules skip them.
func (d *Definition) Exempt() []string {
	var all []string
	add := func(name string) {
		p := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	for _, name := range d.Identity {
		add(name)
	}
	for _, a := range d.Args {
		if a.Type == Enum {
			add(a.Name)
		}
	}
	return all
}

// clone copies d as deep as anybody could change it. Empty aliases and needs
// become nil, an empty recovery kind "none".
func (d *Definition) clone() *Definition {
	c := *d
	c.Args = nil
	for _, a := range d.Args {
		a.Options = cloneNonEmpty(a.Options)
		c.Args = append(c.Args, a)
	}
	c.Schema = slices.Clone(d.Schema)
	c.Aliases = cloneNonEmpty(d.Aliases)
	c.Needs = cloneNonEmpty(d.Needs)
	c.Identity = cloneNonEmpty(d.Identity)
	if d.Wants != nil {
		w := *d.Wants
		c.Wants = &w
	}
	if c.Recovery.Kind == "" {
		c.Recovery.Kind = RecoveryNone
	}
	if c.Scope == "" {
		c.Scope = ScopeRun
	}
	if c.Truncate == "" {
		c.Truncate = Cut
	}
	return &c
}

func cloneNonEmpty(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return slices.Clone(s)
}
