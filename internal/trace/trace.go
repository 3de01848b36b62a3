// Package trace reads a run's events as a trace. It is a projection like any
// other: what a span says comes from recorded, redacted events alone, so a worker
// that dies takes no span with it, and whoever folds the same events (the OTLP
// exporter, ledgerctl, the page) sees the same trace, ids included.
package trace

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
)

// ID names a trace, SpanID a span in it; the zero values name none.
type (
	ID     [16]byte
	SpanID [8]byte
)

func (id ID) String() string     { return hex.EncodeToString(id[:]) }
func (id SpanID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// IsZero reports whether id names nothing.
func (id SpanID) IsZero() bool { return id == SpanID{} }

// Kind is the side of a span, in OpenTelemetry's sense.
type Kind int

// Kinds.
const (
	Internal Kind = iota
	Client
)

// Attr is one attribute: Value is a string, int64, float64, bool or []string.
type Attr struct {
	Key   string
	Value any
}

// Link points at another span that this one goes on from.
type Link struct {
	Trace ID
	Span  SpanID
	Why   string
}

// Moment is something that happened at one instant of a span.
type Moment struct {
	Name  string
	At    time.Time
	Attrs []Attr
}

// Span is one act of a run.
type Span struct {
	Trace      ID
	ID, Parent SpanID // Parent is zero for the root of a trace
	Name       string
	Kind       Kind
	Start, End time.Time
	Attrs      []Attr
	Links      []Link
	Moments    []Moment
	// ErrorType is of low cardinality, as error.type wants it; empty = it went well.
	ErrorType string
	// Message says it for a person, in the words of a tool, a provider or a person;
	// empty without [Options].Content.
	Message string
	// Sampled is what whoever submitted the run decided.
	Sampled bool
}

// Attr returns the value of an attribute, nil if there is none.
func (s *Span) Attr(key string) any {
	for _, a := range s.Attrs {
		if a.Key == key {
			return a.Value
		}
	}
	return nil
}

// Parent is a W3C traceparent, taken apart.
type Parent struct {
	Trace ID
	Span  SpanID
	Flags byte
}

// ParseParent reads a traceparent; ok is false for what is none.
func ParseParent(s string) (p Parent, ok bool) {
	f := strings.Split(s, "-")
	if len(f) != 4 || f[0] != "00" || len(f[1]) != 32 || len(f[2]) != 16 || len(f[3]) != 2 {
		return Parent{}, false
	}
	var flags [1]byte
	for _, d := range []struct {
		to   []byte
		from string
	}{{p.Trace[:], f[1]}, {p.Span[:], f[2]}, {flags[:], f[3]}} {
		if _, err := hex.Decode(d.to, []byte(d.from)); err != nil {
			return Parent{}, false
		}
	}
	p.Flags = flags[0]
	return p, !p.Trace.IsZero() && !p.Span.IsZero()
}

// String is the traceparent.
func (p Parent) String() string {
	return "00-" + p.Trace.String() + "-" + p.Span.String() + "-" + hex.EncodeToString([]byte{p.Flags})
}

// Root is the span that a new trace begins with: its id follows from the trace's,
// so that whoever submits a run can name it before there is a run.
func Root(t ID) SpanID { return derive("root", t[:]) }

// Call is the span of an attempt of a tool call. The runtime hands it on to
// whatever the call calls, long before the span has ended.
func Call(run events.RunID, c events.CallID, attempt int) SpanID {
	return derive("call", run[:], number(c.Turn), number(c.Index), number(attempt))
}

// Model is the span of an attempt of a model call.
func Model(run events.RunID, turn, attempt int) SpanID {
	return derive("model", run[:], number(turn), number(attempt))
}

func number(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) } //nolint:gosec // a count

// derive makes an id of what a span is; never the zero one.
func derive(kind string, parts ...[]byte) SpanID {
	h := sha256.New()
	h.Write([]byte("daybook/span/1\x00" + kind + "\x00"))
	for _, p := range parts {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(p)))) //nolint:gosec // short
		h.Write(p)
	}
	id := SpanID(h.Sum(nil)[:8])
	if id.IsZero() {
		id[7] = 1
	}
	return id
}
