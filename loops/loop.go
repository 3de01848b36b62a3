// Package loops decides. A loop looks at the history of a run and says what
// comes next; it does no I/O, reads no clock and rolls no dice, so that the
// same history gives the same step on every worker, live and after a crash.
package loops

import (
	"context"
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

// Configured is a loop that takes options, which a run is bound to with it: they
// are in [events.RunStarted].LoopOptions.
type Configured interface {
	Loop
	// Options checks options, a JSON object or nil for none, and says what they
	// name. An error joins one [*OptionError] for each fault.
	Options(options json.RawMessage) (Needs, error)
}

// Opener is a loop that is code with a position: what it decides from is in the
// history all the same, but where the code stands is in a Decider, which is opened
// once for each lease of a run and runs the code over what is recorded. Its Next
// opens one for each step, which costs as much as the history is long.
type Opener interface {
	Loop
	Open(h Host) Decider
}

// Host is what a [Decider] is given to run code in.
type Host struct {
	// Go starts a goroutine that its owner waits for.
	Go func(func())
	// Patience is how long the code may take from one step to the next. Zero or less
	// means for ever.
	Patience time.Duration
}

// Decider is an open loop, of one run. It belongs to one goroutine at a time.
type Decider interface {
	// Next is that of [Loop], for a history that only grows. It gives up when ctx
	// ends, with its cause; asked again it goes on. An error that wraps a
	// [*DivergedError] says that the code is not the one that made the history.
	Next(ctx context.Context, h *History) (Step, error)
	// Close ends the code wherever it stands, and waits for it unless it is stuck
	// outside. It may be called more than once.
	Close()
}

// Needs is what options of a loop name of the host's code.
type Needs struct{ Parsers, Validators, Repairers []string }

// OptionError is one thing wrong with a loop's options.
type OptionError struct {
	Field   string // empty = the options as a whole
	Message string // what is wrong, and what to write instead
}

func (e *OptionError) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Step is what the runtime does next. The set is closed.
type Step interface{ step() }

// CallModel asks the model for the next turn. The runtime adds the system
// prompt, the tools and the model that the run is bound to.
type CallModel struct {
	Turn     int // from 1
	Messages []model.Message
	// WithoutTools shows the model none of the run's tools: calls that it asks for
	// all the same are not performed in this turn.
	WithoutTools bool
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
	// Planned: no model asked for it, but the code of a script.
	Planned bool
}

// Plan has what the code of a script asks for recorded, before any of it is done.
type Plan struct{ Step events.StepPlanned }

// CheckArtifact has the answer of a turn parsed, stored and judged, by host code
// that is named: a version of the artifact, and a verdict on it.
type CheckArtifact struct {
	Turn       int
	Artifact   string
	Revision   int // 0 = the first answer
	Parser     string
	Validators []string
	Text       string
}

// ReviseArtifact has host code, which is named, say what to ask of the model after
// a verdict that refused.
type ReviseArtifact struct {
	Turn     int
	Artifact string
	Revision int // of the version that is asked for, from 1
	Parser   string
	Repairer string
	Text     string // that was refused
	Verdict  events.ArtifactValidationFinished
}

// AcceptArtifact ends the revisions with an accepted version.
type AcceptArtifact struct{ Artifact events.ArtifactFinished }

// RejectArtifact ends the revisions without one.
type RejectArtifact struct{ Artifact events.ArtifactFailed }

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

func (CallModel) step()      {}
func (CallTools) step()      {}
func (Plan) step()           {}
func (CheckArtifact) step()  {}
func (ReviseArtifact) step() {}
func (AcceptArtifact) step() {}
func (RejectArtifact) step() {}
func (Await) step()          {}
func (Stop) step()           {}
