package tools

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
)

// Defaults of [Config].
const (
	DefaultTimeout      = 30 * time.Second
	DefaultMaxOutput    = 64 << 10
	DefaultMaxArguments = 1 << 20
	DefaultEndTimeout   = 10 * time.Second
	DefaultGrace        = time.Second
)

// Config configures a [Dispatcher]. All fields are optional.
type Config struct {
	// Filters are ANDed: a tool must pass each.
	Filters []Filter
	// CallMiddleware sees calls before they are allowed and ResultMiddleware
	// results before they are recorded, in this order. Neither can grant anything.
	CallMiddleware   []CallMiddleware
	ResultMiddleware []ResultMiddleware
	// Permission allows a call by returning nil; nil allows every call. Its error
	// is told to the model; a [*Denial] refines it.
	Permission func(ctx context.Context, env Env, def *Definition, c Call) error
	// Validate blocks a call by an error, which is told to the model.
	// Env.Validate overrides it.
	Validate func(ctx context.Context, def *Definition, c Call) error
	// Secrets substitutes secret://name handles right before a tool is called.
	Secrets Secrets
	// Redactor is one without registered secrets if nil.
	Redactor *redact.Redactor
	// Timeout, MaxOutput (bytes) and MaxArguments (bytes) are for tools that
	// don't declare their own. Zero means the default of the package.
	Timeout      time.Duration
	MaxOutput    int
	MaxArguments int
	// EndTimeout bounds storing an outcome after the call's context is gone.
	EndTimeout time.Duration
	// Grace is how long a call whose time is up may take to say what it knows.
	Grace time.Duration
	// Now is time.Now if nil.
	Now func() time.Time
	// Logger is silent if nil.
	Logger *slog.Logger
}

// CallMiddleware may change a call's name and arguments; both are checked
// again. It must give the same for the same call, also after a crash, because
// the key of an effect is made from what it returns. An error blocks the call.
type CallMiddleware func(ctx context.Context, c Call) (Call, error)

// ResultMiddleware may change a result's Output, Error and Sources; changes to
// anything else are ignored. An error withholds the text of the result.
type ResultMiddleware func(ctx context.Context, c Call, r events.ToolResult) (events.ToolResult, error)

// Secrets substitutes handles in arguments by what they stand for. Implemented
// by redact.Vault.
type Secrets interface {
	Resolve(arguments json.RawMessage) (json.RawMessage, error)
}

// Env is the run that a call belongs to.
type Env struct {
	Run       events.RunID
	Tenant    string
	SessionID string
	Owner     string
	Trace     string
	Effects   Effects
	Recorder  Recorder
	// Spawner starts child runs; nil where there are none.
	Spawner Spawner
	// Past is what the run has done so far; nil where nobody knows.
	Past Past
	// Recaller reads the original of what was compacted; nil where nobody can.
	Recaller Recaller
	// Skills are those that the run may load; nil where there are none.
	Skills Skills
	// Spending counts priced calls that are no effects; nil counts none.
	Spending Spending
	// RefuseUnpriced blocks calls without an effect of tools that cost something
	// nobody knows beforehand: a [Coster] without a price. For the others Effects says.
	RefuseUnpriced bool
	// Rule says what the run's own policy makes of a call that the permission check
	// lets through; nil allows it. effect is the stricter of the declared and the
	// recorded one. A panic denies.
	Rule func(def *Definition, effect Effect, c Call) Ruling
	// Validate overrides Config.Validate if it is not nil.
	Validate func(ctx context.Context, def *Definition, c Call) error
	// Offered are the tools that the model was shown, which a call of an unknown
	// one is told; nil means all that are permitted. It decides nothing else.
	Offered []string
	// Bindings are those the run was started with: the stricter effect counts, and
	// the less trust.
	Bindings []events.ToolBinding
}

// Call is one call to perform. Arguments are the redacted, appended ones;
// empty means {}.
type Call struct {
	ID        events.CallID
	Attempt   int // 0 means 1
	Name      string
	Arguments json.RawMessage
	// Malformed: the model wrote no JSON, and Arguments is its text as a JSON string.
	Malformed bool

	bound boundCall // with Arguments decoded; nil if they are not
	asked string    // the rule that asks a person about it
}

// Ruling is what rules say of a call. The zero value allows it.
type Ruling struct {
	Deny bool
	// Ask: a person has to approve it. Where nobody can be asked, since the ledger
	// does not decide about the call, it denies.
	Ask bool
	// Rule names the rule that decided, for the record; Text says why, to the model.
	Rule, Text string
}

// State says how a call stands after Dispatch.
type State int

// States.
const (
	// StateDone: the call has an outcome, and its event is recorded.
	StateDone State = iota + 1
	// StateInDoubt: nobody can know; this run owns the effect. Verdict.Ref names
	// it; Verdict.Kind is InDoubt. Either Begin said so, or End just did and has
	// recorded the event.
	StateInDoubt
	// StateBusy: another run has the effect. No event was recorded.
	StateBusy
	// StateHandedOff: the outcome comes from outside, by Token. No event was
	// recorded but that it started.
	StateHandedOff
	// StateNeedsApproval: a person has been asked, see Verdict.Approval.
	StateNeedsApproval
	// StatePaused: an operator has paused the tool; Verdict.Text says who and why.
	StatePaused
)

// Disposition is how a call stands.
type Disposition struct {
	State State
	// Result is the outcome of StateDone.
	Result events.ToolResult
	// Exact is the output of a destructive call that took effect, as the tool
	// returned it: nothing of it is redacted, so it must not be recorded. A replay has
	// the same bytes if they were kept encrypted, else nil.
	Exact []byte
	// Blocked is the reason if the call was not run.
	Blocked events.BlockedReason
	Detail  string
	// Verdict is what the ledger decided; its Kind is 0 if it wasn't asked.
	Verdict Verdict
	// Cause is for StateInDoubt that End found: timeout, panic, …
	Cause string
	// Continue: the tool lets the model go on while the effect is in doubt.
	Continue bool
	// HandedOff, Token and Trust, which is that of the outcome, belong to StateHandedOff.
	HandedOff HandedOff
	Token     events.ID
	Trust     Trust
}

// Dispatcher performs calls. Its tools are those that the registry had when it
// was made. Safe for concurrent use.
type Dispatcher struct {
	cfg     Config
	entries map[string]*entry // permitted or not
	offered []*entry          // permitted, in order
	late    sync.WaitGroup    // calls that outlived their time
}

// NewDispatcher returns a dispatcher of the tools in reg.
func NewDispatcher(reg *Registry, cfg Config) *Dispatcher {
	d := &Dispatcher{cfg: cfg.withDefaults(), entries: map[string]*entry{}}
	for _, e := range reg.snapshot() {
		d.entries[e.def.Name] = e
		if permitted(e.def.Name, cfg.Filters) {
			d.offered = append(d.offered, e)
		}
	}
	return d
}

func (c Config) withDefaults() Config {
	if c.Redactor == nil {
		c.Redactor = redact.New(redact.Config{})
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = DefaultMaxOutput
	}
	if c.MaxArguments == 0 {
		c.MaxArguments = DefaultMaxArguments
	}
	if c.EndTimeout == 0 {
		c.EndTimeout = DefaultEndTimeout
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Destructive reports whether calls of name go through the effect protocol and
// so run alone. An unknown name is destructive, since middleware may rename it.
// recorded are the bindings of the run; the stricter effect counts.
func (d *Dispatcher) Destructive(name string, recorded ...events.ToolBinding) bool {
	e := d.entries[name]
	return e == nil || e.isDestructive(recorded)
}

// isDestructive applies the stricter of the declared and the recorded effect.
func (e *entry) isDestructive(recorded []events.ToolBinding) bool {
	if e.destructive {
		return true
	}
	for _, b := range recorded {
		if b.Name == e.def.Name {
			return b.Effect != string(Readonly) && b.Effect != string(Idempotent)
		}
	}
	return false
}

// Definition returns the declaration of a tool; it must not be modified.
func (d *Dispatcher) Definition(name string) (*Definition, bool) {
	if e := d.entries[name]; e != nil {
		return e.def, true
	}
	return nil, false
}

// Specs declares the permitted tools to models, in the registry's order.
func (d *Dispatcher) Specs() []Spec { return specsOf(d.offered) }

// Bindings are what a run freezes about the permitted tools, in the registry's order.
func (d *Dispatcher) Bindings() []events.ToolBinding { return bindingsOf(d.offered) }

// Catalog is the digest of the permitted declarations.
func (d *Dispatcher) Catalog() events.Hash { return catalogOf(d.offered) }

// Wait returns when no call that outlived its time is running any more, or ctx ends.
func (d *Dispatcher) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		d.late.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

var errNoEffects = errors.New("dispatch a destructive call: Env.Effects is nil")
