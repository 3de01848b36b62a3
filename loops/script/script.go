package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/loops"
)

// Config of a script. Name and Version are required.
type Config struct {
	// Name is what agents call the loop.
	Name string
	// Version is raised with each change of the code, from 1.
	Version int
	// Validators are those of the host's that the script names in [Artifact].
	Validators []string
}

// New returns the loop that is code. A run's input is decoded into In; an input
// that does not fit fails the run ([KindInput]). What code returns is the run's
// output, as JSON; nil is none. An error fails the run, see [Fail] and [Decline].
// It panics without a name, a version or code.
func New[In any](cfg Config, code func(s *Script, in In) (any, error)) loops.Loop {
	if cfg.Name == "" || cfg.Version < 1 || code == nil {
		panic("script.New: want a name, a version from 1 and code")
	}
	cfg.Validators = slices.Clone(cfg.Validators)
	return &loop{cfg, func(s *Script, input json.RawMessage) (any, error) {
		var in In
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, Fail(KindInput, fmt.Sprintf("the input does not fit %T: %v", in, err))
		}
		return code(s, in)
	}}
}

type loop struct {
	cfg  Config
	code func(*Script, json.RawMessage) (any, error)
}

func (l *loop) Name() string { return l.cfg.Name }

func (l *loop) Version() int { return l.cfg.Version }

// Options implements [loops.Configured].
func (l *loop) Options(options json.RawMessage) (loops.Needs, error) {
	if len(options) > 0 {
		return loops.Needs{}, &loops.OptionError{Message: fmt.Sprintf("the script %s has no options: what it needs to know is its input", l.cfg.Name)}
	}
	return loops.Needs{Validators: l.cfg.Validators}, nil
}

// Open implements [loops.Opener].
func (l *loop) Open(h loops.Host) loops.Decider { return newMachine(l, h) }

// patience is how long code may take where nobody says so.
const patience = time.Minute

// Next runs the code over the whole of h. A runtime opens the loop instead.
func (l *loop) Next(h *loops.History) (loops.Step, error) {
	m := newMachine(l, loops.Host{Go: func(f func()) { go f() }, Patience: patience})
	defer m.Close()
	return m.Next(context.Background(), h)
}

// Kinds of errors that end a run. Stored; never renamed.
const (
	KindScript  = "script"         // an error of the code, or a step that cannot be asked for
	KindPanic   = "script_panic"   // the code panicked
	KindBlocked = "script_blocked" // the code did not come back
	KindMisuse  = "script_misuse"  // the Script was used outside of the code
	KindInput   = "script_input"   // the input does not fit
)

// Failure is an error of a kind of one's own.
type Failure struct{ Kind, Message string }

func (e *Failure) Error() string { return e.Kind + ": " + e.Message }

// Fail is the error with which code fails the run, by a kind that machines read.
func Fail(kind, message string) error { return &Failure{kind, message} }

// errDeclined ends a run that declines.
type errDeclined struct{ because string }

func (e errDeclined) Error() string { return "declined: " + e.because }

// Decline is the error with which code declines to do what it was asked: an end
// of the run, and no failure.
func Decline(because string) error { return errDeclined{because} }

// kindOf is what an error of the code's fails the run with.
func kindOf(err error) (kind, message string) {
	var f *Failure
	var m *ModelError
	var o *OutcomeError
	switch {
	case errors.As(err, &f):
		if err == error(f) {
			return f.Kind, f.Message
		}
		return f.Kind, err.Error()
	case errors.As(err, &m):
		return m.Kind, err.Error()
	case errors.As(err, &o):
		return o.kind(), err.Error()
	}
	return KindScript, err.Error()
}
