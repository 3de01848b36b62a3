package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
)

// Scope is within what the same identity means the same effect.
type Scope string

// Scopes. Owner and tenant need a declared window.
const (
	ScopeRun     Scope = "run" // the default: the run's lineage root
	ScopeSession Scope = "session"
	ScopeOwner   Scope = "owner"
	ScopeTenant  Scope = "tenant"
)

// Forever is the window of an effect that is never asked for again.
const Forever time.Duration = -1

// Recovery kinds.
const (
	RecoveryNone   = "none"   // opaque
	RecoveryKeyed  = "keyed"  // the provider dedupes our key for TTL
	RecoveryFenced = "fenced" // the provider checks our fence
	RecoveryProbe  = "probe"  // the provider can be asked
)

// Recovery is how an effect can be recovered after a crash.
type Recovery struct {
	Kind string        // one of the recovery kinds
	TTL  time.Duration // keyed only
}

// Intent is what Begin is asked to allow. Arguments and Identity are canonical
// and redacted.
type Intent struct {
	// Token identifies the attempt; the holder makes it. The same token asked
	// again returns the same verdict while the row is still its own.
	Token       events.ID
	Call        events.CallID
	CallAttempt int
	Tool        string
	Effect      string // as declared; empty is treated as destructive
	Scope       Scope
	// Window is required for ScopeOwner and ScopeTenant; [Forever] or a positive duration.
	Window    time.Duration
	Identity  json.RawMessage
	Arguments json.RawMessage
	Recovery  Recovery
	// Timeout becomes the attempt's deadline, from the transaction's time.
	Timeout time.Duration
	// Continue: the tool lets the model go on while the effect is in doubt.
	Continue bool
	Trace    string
	// Ask: policy wants an approval, whatever else does. The approval is bound to
	// tool, arguments, ToolHash (the declaration) and Policy (the version of the
	// policy), and expires after ApprovalTTL (0 = [DefaultApprovalTTL]).
	Ask bool
	// AskRule is the rule of the policy that asks, and why; empty if none does.
	AskRule          string
	ToolHash, Policy events.Hash
	ApprovalTTL      time.Duration
	// Tainted: foreign text has come into the run, first with the call that TaintBy
	// names. TaintPolicy says what then: allow (or empty), ask or deny.
	Tainted              bool
	TaintPolicy, TaintBy string
	// Reserve is set aside from the budgets.
	Reserve events.PicoUSD
	// Unpriced: the tool costs something, and nobody knows how much beforehand. The
	// attempt is counted in the budgets, or refused if RefuseUnpriced says so.
	Unpriced, RefuseUnpriced bool
	// RunLimit becomes the budget of the run if it has none; nil = none.
	RunLimit *events.PicoUSD
}

// VerdictKind is what Begin decided.
type VerdictKind int

// Verdicts.
const (
	// Execute: begun; run the tool once, under Ref's key, until Deadline.
	Execute VerdictKind = iota + 1
	// Replay: it has been applied; Result is the first outcome.
	Replay
	// Conflict: applied under this identity with other arguments.
	Conflict
	// InDoubt: nobody can know; this run owns the effect, maybe because its own
	// one has ended.
	InDoubt
	// Busy: another run has begun it or has it in doubt.
	Busy
	// GivenUp: a person abandoned it; never begun again, told as unknown.
	GivenUp
	// Refused: policy forbids it; Detail says which (taint, approval_denied,
	// kill_switch, budget), Text says it to the model.
	Refused
	// NeedsApproval: Approval has been asked for and not been decided.
	NeedsApproval
	// Paused: an operator has paused the tool; Text says who and why.
	Paused
	// Simulated: a fork does not execute it.
	Simulated
)

// Verdict is Begin's answer. Nobody reads the row again to decide.
type Verdict struct {
	Kind VerdictKind
	Ref  events.EffectRef
	// Prior is set when an earlier attempt may have reached the provider.
	Prior bool
	// Deadline is in database time, Remaining the time left to it when the
	// answer was made; the holder counts it from before it sent the request.
	Deadline  time.Time
	Remaining time.Duration
	// Fact is the started fact of Execute, or the request that NeedsApproval made:
	// the holder appends it.
	Fact *events.Fact
	// Result, Of and OfArguments are the settled outcome and the call it belongs
	// to (Replay, Conflict, GivenUp).
	Result      events.ToolResult
	Of          events.CallRef
	OfArguments json.RawMessage
	// OfEnded is when that call was settled.
	OfEnded time.Time
	// Exact is, for Replay, the output as the tool returned it the first time; nil
	// without a seal key or after the owner was erased. It goes to whoever asked for
	// the call, and is recorded nowhere.
	Exact []byte
	// Redacted: Result is the redacted outcome, since no seal key kept the bytes.
	Redacted bool
	// Detail and Text belong to Refused and Paused, and to an InDoubt of a call that
	// its provider would absorb: they say which gate keeps it from being made again.
	Detail, Text string
	// Approval is what NeedsApproval waits for, until Expires, Remaining from now.
	Approval events.ID
	Expires  time.Time
	// QuiescentIn is, for InDoubt and Busy, how long until no attempt can still
	// act (deadline plus grace); zero or less: now.
	QuiescentIn time.Duration
}

// OutcomeKind is what an attempt's executor knows.
type OutcomeKind string

// Outcome kinds. Stored; never renamed.
const (
	Applied    OutcomeKind = "applied"
	NotApplied OutcomeKind = "not_applied" // certainly no effect, and no unclear attempt before
	Unclear    OutcomeKind = "unclear"
)

// Outcome ends an attempt. It is matched by Token and does not need the lease.
type Outcome struct {
	Token  events.ID
	Kind   OutcomeKind
	Result events.ToolResult // redacted
	Error  events.ErrorInfo  // redacted; for NotApplied and Unclear
	// Cause is for Unclear: timeout, panic, unclear_error, lease_lost, cancelled.
	Cause     string
	LatencyMS int64
	// Exact is the output as the tool returned it, before anything was redacted: it
	// is kept encrypted, or not at all. nil = none.
	Exact []byte `json:"-"`
}

// Settlement is the state of the effect after End or Resolve; callers use it
// and not what they brought.
type Settlement struct {
	State  events.EffectState
	Ref    events.EffectRef
	Result events.ToolResult
	Error  events.ErrorInfo
	// Fact is the fact that tells the run, whether inserted now or before; nil
	// if the run's history has it already.
	Fact *events.Fact
	// PossibleDuplicate and Contradicted are flags kept on the effect.
	PossibleDuplicate, Contradicted bool
	// LeaseHeld is false when the caller's lease is gone: the outcome is kept,
	// the prefix was not inserted.
	LeaseHeld bool
}

// Resolution settles an effect in doubt from outside.
type Resolution struct {
	OpKey events.Hash
	State events.EffectState // EffectApplied, EffectNotApplied or EffectAbandoned
	// By is "probe" or the person.
	By     string
	Note   string
	Result events.ToolResult // what the model is told; may be zero
	// Force skips the wait for quiescence; the record says so.
	Force bool
	// Attempt is the number of the latest attempt that whoever decided has seen
	// ([Effect.Attempts]), Run the run that had the effect then: what has been
	// attempted or has gone to another run since is not settled. Zero = any, which is
	// for a probe, whose Lease says as much.
	Attempt int
	Run     events.RunID
	// Lease is set when the run's holder asked a probe.
	Lease *Lease
}

// Attempt is one try of an effect.
type Attempt struct {
	Number    int
	Token     events.ID
	Run       events.RunID
	Epoch     uint64
	Call      events.CallID
	Prior     bool
	StartedAt time.Time
	Deadline  time.Time
	Outcome   OutcomeKind // empty = none yet
	Result    *events.ToolResult
	Error     string
	EndedAt   time.Time
}

// Effect is a row of effects.
type Effect struct {
	OpKey             events.Hash
	Generation        int
	Tenant            string
	Scope             Scope
	ScopeKey          string
	Tool              string
	Identity          json.RawMessage
	State             events.EffectState
	Recovery          Recovery
	Run               events.RunID
	Call              events.CallID
	Attempts          int
	Arguments         json.RawMessage
	Outcome           *events.ToolResult
	Evidence          string
	SettledBy         string
	SettledAt         time.Time
	Contradicted      bool
	PossibleDuplicate bool
	Forced            bool
	CreatedAt         time.Time
	Token             events.ID // of the latest attempt
	Deadline          time.Time // latest deadline of an attempt without a definite outcome
	QuiescentIn       time.Duration
}

// EffectFilter selects effects; zero fields select all.
type EffectFilter struct {
	Tenant string
	Owner  string // of the run that has it
	Run    events.RunID
	OpKey  events.Hash
	States []events.EffectState
	Limit  int         // 0 = 100
	After  events.Hash // keyset: op key of the last row seen
}

// Effects is the protocol of destructive calls. Safe for concurrent use.
// Errors that mean the database could not be asked wrap [ErrUnavailable]; then
// nothing runs.
type Effects interface {
	// Begin is a barrier and the one transaction that allows an execution.
	// Errors: [ErrFenced], [ErrLeaseTooShort], [ErrAuditBehind], [ErrWindowMissing],
	// [ErrWouldWaitOnAncestor]; [ErrFactsPending] if the run is cancelling and
	// this would be a new execution.
	Begin(ctx context.Context, l Lease, p Prefix, in Intent) (Verdict, error)
	// End records what an attempt came to. With the lease still held it is a
	// barrier and carries p. Errors: [ErrNotFound] for an unknown token.
	End(ctx context.Context, l Lease, p Prefix, out Outcome) (Settlement, error)
	// Resolve settles an effect in doubt. Errors: [ErrNotQuiescent], [ErrNotInDoubt],
	// [ErrAttemptedSince], [ErrNotFound].
	Resolve(ctx context.Context, r Resolution) (Settlement, error)
	// Effects lists effects, oldest first.
	Effects(ctx context.Context, f EffectFilter) ([]Effect, error)
	// Attempts lists the attempts of an effect in order, or [ErrNotFound].
	Attempts(ctx context.Context, opKey events.Hash) ([]Attempt, error)
}

// BaseKey is the identity of an effect without its generation:
// SHA-256 over the canonical version, tenant, scope, scope key, tool and
// identity, each length-prefixed so that no two splits collide. identity must be canonical.
func BaseKey(tenant string, scope Scope, scopeKey, tool string, identity []byte) events.Hash {
	b := []byte{canonical.Version}
	for _, s := range [][]byte{[]byte(tenant), []byte(scope), []byte(scopeKey), []byte(tool), identity} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return sha256.Sum256(b)
}

// OpKey is the key of one generation (from 1): what a provider is handed as
// idempotency key, stable over attempts and workers.
func OpKey(base events.Hash, generation int) events.Hash {
	return sha256.Sum256(binary.AppendUvarint(append([]byte("daybook/op/1"), base[:]...), uint64(generation)))
}

// ArgsDigest is the digest of all arguments, in canonical form.
func ArgsDigest(canonicalArgs []byte) events.Hash {
	return sha256.Sum256(append([]byte{canonical.Version}, canonicalArgs...))
}
