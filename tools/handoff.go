package tools

import (
	"context"
	"encoding/json"
	"time"

	"github.com/daybookhq/daybook/events"
)

// DefaultHandOff is how long an async tool's outcome may take unless it says so.
const DefaultHandOff = 24 * time.Hour

// HandedOff is a tool's word that the outcome of a call comes from outside,
// later. The run is parked meanwhile: it holds no worker, goroutine or lease.
type HandedOff struct {
	// For is how long it may take. Then a destructive call is in doubt, and any
	// other has failed. Zero or less: [DefaultHandOff] for async tools, for ever
	// for the rest.
	For time.Duration
	// Reason is what the run waits for; empty means async_tool.
	Reason events.ParkReason
	// Signal names the signal that is the outcome, for reason signal.
	Signal string
	// Child is the run whose end is the outcome, for reason child.
	Child events.RunID
	// ExpiresAs makes the end of the time a result with this output, for reason timer.
	ExpiresAs string
}

// HandOff is returned by an async tool after it has started the work under
// [Invocation.Token]: whoever does the work completes the call by that token,
// hours later if need be. The work may be started again under the same token
// after a crash, and of a destructive call never is.
func HandOff(within time.Duration) HandedOff { return HandedOff{For: within} }

// handedOff returns what a tool's function gave if it is a hand-off.
func handedOff(a answer, destructive bool) (HandedOff, bool) {
	h, ok := a.value.(HandedOff)
	if !ok || a.err != nil {
		return HandedOff{}, false
	}
	if h.Reason == "" {
		h.Reason = events.ParkAsyncTool
	}
	if h.For <= 0 && (h.Reason == events.ParkAsyncTool || destructive) {
		h.For = DefaultHandOff
	}
	if destructive {
		h.ExpiresAs = "" // that the time is up says nothing about an effect
	}
	return h, true
}

// Spawn asks for a child run on behalf of a call.
type Spawn struct {
	Agent string
	// Input is JSON.
	Input json.RawMessage
	// Queue is the parent's if empty.
	Queue string
	// Trust is that of the child's answer at best: "own" or "external". Where text from
	// outside has come into the child it is external.
	Trust Trust
	// Budget is what the child may spend; nil = what its agent says. It is held in the
	// budgets of the run that asks, and what is left of it comes back.
	Budget *events.PicoUSD
}

// SpawnError says why no child run was started. Errors of a [Spawner] may be one.
type SpawnError struct {
	Kind string // that of the call's error, such as [KindBudget]
	Err  error
}

func (e *SpawnError) Error() string { return e.Err.Error() }

// Unwrap returns what happened.
func (e *SpawnError) Unwrap() error { return e.Err }

// DelegateName is the tool that starts child runs of agents that the model names, so
// that a run's limit of children holds its calls back.
const DelegateName = "delegate"

// Spawner starts child runs; see [Invocation.Spawner].
type Spawner interface {
	// Spawn starts a child whose end is the outcome of the call in: asked again
	// by another attempt it returns the same run. The tool returns [HandedOff]
	// with reason child.
	Spawn(ctx context.Context, in *Invocation, s Spawn) (events.RunID, error)
}
