package ledger

import (
	"context"
	"time"

	"github.com/daybookhq/daybook/events"
)

// HandoffState is how a hand-off stands. Stored; never renamed.
type HandoffState string

// Hand-off states.
const (
	HandoffOpen      HandoffState = "open"
	HandoffCompleted HandoffState = "completed"
	// HandoffExpired: its time was up, or its run ended, before anybody completed it.
	HandoffExpired HandoffState = "expired"
)

// Handoff is a call whose outcome comes from outside, later: from whoever does
// an async tool's work, from a timer, a signal or a child run.
type Handoff struct {
	// Token identifies it to whoever completes it: of a destructive call that of
	// its attempt, of another call [events.CallToken].
	Token       events.ID
	Run         events.RunID // set by HandOff from the lease
	Call        events.CallID
	CallAttempt int
	Tool        string
	// Reason is what the run waits for: async_tool (the default), timer, signal or child.
	Reason events.ParkReason
	// OpKey is set for a destructive call.
	OpKey events.Hash
	// Child is set for reason child. [Children.Spawn] makes it.
	Child events.RunID
	// RunLimit is for [Children.Spawn]: it becomes the budget of Run if that has none;
	// nil = none.
	RunLimit *events.PicoUSD
	// Signal is the name of the signal that completes it, for reason signal.
	Signal string
	// Trust is that of the outcome: "own" or "external".
	Trust string
	Trace string
	// For is how long from now it stays open; 0 or less is for ever. A
	// destructive call needs a time: nobody could ever resolve it otherwise.
	For time.Duration
	// ExpiresAs makes the expiry a result with this output instead of a timeout;
	// not for destructive calls.
	ExpiresAs string

	// What follows is set by the ledger.
	Until       time.Time // zero = for ever
	State       HandoffState
	CreatedAt   time.Time
	CompletedAt time.Time
	CompletedBy string
}

// Completion is the outcome of a call that was handed off.
type Completion struct {
	Token events.ID
	// Kind is Applied for a call that was done. NotApplied says that it failed,
	// and of a destructive one that it certainly took no effect; Unclear, that it
	// failed and nobody can know whether it did. For other calls the two are the same.
	Kind   OutcomeKind
	Result events.ToolResult // Output, and what it cost
	Error  events.ErrorInfo  // for NotApplied and Unclear
	// By is who says so. Required.
	By string
}

// HandoffFilter selects hand-offs; zero fields select all.
type HandoffFilter struct {
	Tenant string
	Run    events.RunID
	States []HandoffState
	Limit  int       // 0 = 100
	After  events.ID // keyset: token of the last row seen
}

// Handoffs are calls whose outcome comes from outside. Safe for concurrent use.
// Errors that mean the database could not be asked wrap [ErrUnavailable].
type Handoffs interface {
	// HandOff is a barrier. It registers a call whose work is under way; from
	// then on a takeover leaves it alone. A signal that is there already
	// completes it at once. Asked again it changes nothing. It returns the facts
	// still pending, the outcome among them if somebody was faster than the
	// barrier. Errors: [ErrFenced], [ErrEnded].
	HandOff(ctx context.Context, l Lease, p Prefix, h Handoff) ([]events.Fact, error)
	// Expire is a barrier. It closes the hand-offs of the run whose time is up: a
	// destructive call is in doubt then, a timer has what it waited for, any
	// other call has failed. It returns the facts still pending. Errors: [ErrFenced].
	Expire(ctx context.Context, l Lease, p Prefix) ([]events.Fact, error)
	// Complete ends a call from outside, in one transaction with the fact that
	// wakes its run. For a destructive call it is an End by token, which also
	// takes late evidence. The same outcome again changes nothing. Errors:
	// [ErrNotFound] for an unknown token, [ErrCompleted] for another outcome
	// than the first, [ErrNotAwaited] for a call that its run does not wait for any more.
	Complete(ctx context.Context, c Completion) (Settlement, error)
	// Handoffs lists hand-offs in the order of their tokens.
	Handoffs(ctx context.Context, f HandoffFilter) ([]Handoff, error)
}
