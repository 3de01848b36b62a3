// Package loops decides. A loop looks at the history of a run and says what
// comes next; it does no I/O, reads no clock and rolls no dice, so that the
// same history gives the same step on every worker, live and after a crash.
package loops

import (
	"encoding/json"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
)

// Loop decides the next step. Implementations hold no state: everything they
// decide from is in the history. Safe for concurrent use.
type Loop interface {
	Name() string
	// Version rises when the loop decides otherwise; a version must be able to
	// continue histories of the versions before it.
	Version() int
	// Next is called when nothing is in flight and no call of the turn is in
	// doubt. The same history gives the same step.
	Next(h *History) (Step, error)
}

// Step is what the runtime does next. The set is closed.
type Step interface{ step() }

// CallModel asks the model for the next turn. The runtime adds the system
// prompt, the tools and the model that the run is bound to.
type CallModel struct {
	Turn     int // from 1
	Messages []model.Message
}

// CallTools performs the calls of a turn that have no outcome yet, in request order.
type CallTools struct {
	Turn  int
	Calls []PendingCall
}

// PendingCall is a call without an outcome.
type PendingCall struct {
	ID events.CallID
	// Attempt is the number its next execution gets, from 1.
	Attempt   int
	Name      string
	Arguments json.RawMessage
	Malformed bool
}

// CheckArtifact runs a validator by name.
type CheckArtifact struct {
	Turn      int
	Validator string
	Text      string
}

// Await parks the run until something happens.
type Await struct {
	Reason events.ParkReason
	Detail string
	Until  time.Time // zero = not by itself
}

// Stop ends the run.
type Stop struct {
	By              events.StoppedBy
	Output          json.RawMessage
	DeclinedBecause string
	// Err is set for a run that failed.
	Err *events.ErrorInfo
}

func (CallModel) step()     {}
func (CallTools) step()     {}
func (CheckArtifact) step() {}
func (Await) step()         {}
func (Stop) step()          {}
