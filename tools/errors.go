package tools

import (
	"errors"
	"fmt"
)

// ErrLeaseLost is the cause that the runtime cancels a call's context with when
// the run is no longer its own.
var ErrLeaseLost = errors.New("lease lost")

// errTimeout is the cause of a context that ended by a call's own timeout.
var errTimeout = errors.New("timeout")

// NoEffect says that a destructive tool certainly took no effect: connection
// refused before the first byte, the provider's 4xx on a first attempt. The
// call may be made again. Nil stays nil.
func NoEffect(err error) error {
	if err == nil {
		return nil
	}
	return &noEffectError{err}
}

type noEffectError struct{ err error }

func (e *noEffectError) Error() string { return e.err.Error() }

func (e *noEffectError) Unwrap() error { return e.err }

func (e *noEffectError) Is(target error) bool { return target == ErrNotApplied }

// AlreadyApplied is the error of a keyed, fenced or idempotent tool whose
// provider said that exactly this effect is already there: outcome becomes the
// result, as if Call had returned it. From other tools it is an unclear error,
// since the effect may be somebody else's.
func AlreadyApplied(outcome any) error { return &AppliedError{Outcome: outcome} }

// AppliedError is what [AlreadyApplied] returns.
type AppliedError struct{ Outcome any }

func (e *AppliedError) Error() string { return "already applied" }

// ArgumentError says what is wrong with the arguments of a call. Its text is
// meant for the model.
type ArgumentError struct {
	Tool string
	// Problems are one sentence each.
	Problems []string
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("invalid arguments for %s: %s", e.Tool, joinProblems(e.Problems))
}

// Denial is an error of a permission check that refines the reason.
type Denial struct {
	// Detail is stored: taint, approval_denied, kill_switch, budget, …
	Detail string
	// Text is told to the model.
	Text string
}

func (e *Denial) Error() string {
	if e.Text == "" {
		return e.Detail
	}
	return e.Text
}

// EndError is an outcome that could not be stored. The effect stays started in
// the database, so nobody makes it again; the outcome in here is evidence and
// must not be dropped.
type EndError struct {
	Outcome Outcome
	Err     error
}

func (e *EndError) Error() string {
	return fmt.Sprintf("end call %s: the outcome is known and not stored: %v", e.Outcome.Call, e.Err)
}

// Unwrap returns what the ledger said.
func (e *EndError) Unwrap() error { return e.Err }
