package tools

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Intent is a destructive call about to be made. Arguments and Identity are
// canonical and redacted.
type Intent struct {
	Call        events.CallID
	CallAttempt int
	Tool        *Definition
	Identity    json.RawMessage
	Arguments   json.RawMessage
	Timeout     time.Duration
	Trace       string
	// Unpriced: the tool is a [Coster] without a price, so that nobody knows before
	// the call what it may cost.
	Unpriced bool
	// AskedBy is the rule that wants a person's approval, and why; empty if none does.
	AskedBy string
}

// VerdictKind is what the ledger decided about an intent.
type VerdictKind int

// Verdicts.
const (
	Execute       VerdictKind = iota + 1 // run it once, under Ref's key
	Replay                               // it has been applied: Result is the first outcome
	Conflict                             // applied under this identity with other arguments
	InDoubt                              // nobody can know; this run owns the effect
	Busy                                 // another run has it
	GivenUp                              // a person abandoned it
	Refused                              // policy forbids it: Detail and Text say which and why
	NeedsApproval                        // a person has been asked
	Paused                               // an operator has paused the tool
	Simulated                            // a fork does not execute it
)

// Verdict is the answer to an intent; nobody asks again to decide.
type Verdict struct {
	Kind VerdictKind
	Ref  events.EffectRef
	// Prior: an earlier attempt may have reached the provider, so a definite
	// error now proves nothing.
	Prior bool
	// Until is the local moment after which the attempt must not act.
	Until time.Time
	// Held reports whether the lease that allows the attempt still holds, by
	// every clock; nil means yes. It is asked once more before the first byte.
	Held func() bool
	// Deadline is the same in database time, for the record.
	Deadline    time.Time
	Result      events.ToolResult
	Of          events.CallRef
	OfArguments json.RawMessage
	// Exact is, for Replay, the output as the tool returned it the first time; nil
	// if it was not kept. Redacted says that Result is all there is.
	Exact    []byte
	Redacted bool
	// Detail and Text belong to Refused and Paused; Approval and Expires to NeedsApproval.
	Detail, Text string
	Approval     events.ID
	Expires      time.Time
}

// OutcomeKind is what the executor knows about an attempt.
type OutcomeKind int

// Outcome kinds.
const (
	Applied    OutcomeKind = iota + 1
	NotApplied             // certainly no effect
	Unclear                // nobody can know
)

// Outcome ends an attempt.
type Outcome struct {
	Ref       events.EffectRef
	Call      events.CallID
	Kind      OutcomeKind
	Result    events.ToolResult
	Error     events.ErrorInfo
	Cause     string // of Unclear: timeout, panic, unclear_error, lease_lost, cancelled
	LatencyMS int64
	// Exact is the output of Applied as the tool returned it, before anything was
	// redacted: it may be kept encrypted and nowhere else.
	Exact []byte `json:"-"`
}

// Settled is the state of the effect after End; the dispatcher uses it and not its own outcome.
type Settled struct {
	State  events.EffectState
	Result events.ToolResult
	Error  events.ErrorInfo
}

// Effects decides about destructive calls. Begin has recorded the started
// event of Execute, and End the outcome's event, when they return. Errors are
// infrastructure: nothing runs, and the call has no outcome yet.
type Effects interface {
	Begin(ctx context.Context, in Intent) (Verdict, error)
	End(ctx context.Context, out Outcome) (Settled, error)
}

// Recorder records the events of the run that a call belongs to: redacted,
// numbered, appended and folded when Record returns; not necessarily
// acknowledged by the journal.
type Recorder interface {
	Record(ctx context.Context, p events.Payload) error
}

// ErrNotApplied marks an error of a destructive tool that certainly took no
// effect; see [NoEffect].
var ErrNotApplied = errors.New("took no effect")
