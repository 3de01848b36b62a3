package events

import (
	"fmt"
	"reflect"
	"sort"

	"github.com/go-json-experiment/json"
)

// Type is the wire name of an event: past tense, snake case, never renamed.
type Type string

// Payload is the data of an event. The set is closed: only this package adds one.
type Payload interface{ eventType() Type }

// TypeOf returns the wire name of p.
func TypeOf(p Payload) Type { return p.eventType() }

// entry is one line of the closed set: a type and its versions, oldest first.
// Version n is versions[n-1]; the last is written, all are read, none is edited.
type entry struct {
	t        Type
	versions []Payload
}

// closedSet lists every type. It is a function so that nobody can change it.
func closedSet() []entry {
	v1 := func(p Payload) entry { return entry{p.eventType(), []Payload{p}} }
	return []entry{
		v1(RunQueued{}), v1(RunStarted{}), v1(RunResumed{}), v1(RunParked{}), v1(RunUnparked{}),
		v1(RunFinished{}), v1(RunFailed{}), v1(RunCancelled{}),
		v1(TurnStarted{}), v1(ModelCallStarted{}), v1(ModelCallFinished{}), v1(ModelCallError{}),
		v1(ToolExecutionStarted{}), v1(ToolExecutionProgress{}), v1(ToolExecutionFinished{}),
		v1(ToolExecutionError{}), v1(ToolExecutionBlocked{}), v1(ToolExecutionInDoubt{}),
		v1(ArtifactValidationStarted{}), v1(ArtifactValidationFinished{}), v1(ArtifactRevisionStarted{}),
		v1(ArtifactFinished{}), v1(ArtifactFailed{}), v1(StepPlanned{}),
		v1(ApprovalRequested{}), v1(ApprovalDecided{}), v1(EffectResolved{}), v1(BudgetExceeded{}),
		v1(SignalReceived{}), v1(TimerFired{}), v1(ChildStarted{}), v1(ChildFinished{}), v1(OperatorActed{}),
		v1(TranscriptCompacted{}),
	}
}

var registry = func() map[Type][]reflect.Type {
	m := map[Type][]reflect.Type{}
	for _, e := range closedSet() {
		for _, p := range e.versions {
			m[e.t] = append(m[e.t], reflect.TypeOf(p))
		}
	}
	return m
}()

// Types returns every type of the closed set, sorted.
func Types() []Type {
	ts := make([]Type, 0, len(registry))
	for t := range registry {
		ts = append(ts, t)
	}
	sort.Slice(ts, func(i, j int) bool { return ts[i] < ts[j] })
	return ts
}

// CurrentVersion returns the version that this build writes.
func CurrentVersion(t Type) (int, bool) { n := len(registry[t]); return n, n > 0 }

func newPayload(t Type, version int) (reflect.Value, error) {
	vs, ok := registry[t]
	if !ok {
		return reflect.Value{}, fmt.Errorf("type %q: %w", t, ErrUnknownType)
	}
	if version < 1 || version > len(vs) {
		return reflect.Value{}, fmt.Errorf("type %q version %d, this build reads 1 to %d: %w", t, version, len(vs), ErrUnknownVersion)
	}
	return reflect.New(vs[version-1]), nil
}

// DecodePayload decodes the data of one type and version; unknown fields are an
// error, since they mean that a newer writer did not raise the version.
func DecodePayload(t Type, version int, raw []byte) (Payload, error) {
	v, err := newPayload(t, version)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 || raw[0] != '{' {
		return nil, fmt.Errorf("type %q version %d: data is no object: %w", t, version, ErrMalformed)
	}
	if err := strictJSON(raw, v.Interface()); err != nil {
		return nil, fmt.Errorf("type %q version %d: %w: %w", t, version, ErrMalformed, err)
	}
	return v.Elem().Interface().(Payload), nil
}

// strictJSON decodes exactly one value. Unknown, repeated or differently
// capitalised names, invalid UTF-8 and trailing bytes are errors: each would
// let two readers see two different events in the same bytes.
func strictJSON(b []byte, v any) error {
	return json.Unmarshal(b, v, json.RejectUnknownMembers(true))
}
