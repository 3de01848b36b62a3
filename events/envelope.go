package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/redact"
)

// MaxDataBytes bounds the data of one event. Larger values go to the ledger's
// blobs by hash before the event is made; an over-limit event is refused and is
// never retried.
const MaxDataBytes = 256 << 10

// MaxEventBytes bounds the stored bytes of one event, data and envelope.
const MaxEventBytes = MaxDataBytes + 4<<10

// Errors of this package; each is wrapped with the event it is about.
var (
	// ErrTooLarge: the data is over [MaxDataBytes].
	ErrTooLarge = errors.New("event data is too large: store the value as a blob and reference it by hash")
	// ErrUnknownType: this build does not know the type.
	ErrUnknownType = errors.New("unknown event type: a newer version of daybook may have written it")
	// ErrUnknownVersion: this build knows the type but not this version of it.
	ErrUnknownVersion = errors.New("unknown event version: upgrade the reader to the version that wrote it")
	// ErrHash: the bytes do not have the hash kept beside them.
	ErrHash = errors.New("event bytes do not match their hash")
	// ErrMalformed: the bytes are not an event.
	ErrMalformed = errors.New("malformed event")
)

// Envelope is everything about an event but its data.
type Envelope struct {
	ID    ID    `json:"id"`
	RunID RunID `json:"run_id"`
	// Seq is dense per run and starts at 1. Only the holder of the run's lease gives it.
	Seq uint64 `json:"seq"`
	// Epoch is the lease epoch of the holder that numbered the event, from 1.
	Epoch   uint64 `json:"epoch"`
	Type    Type   `json:"type"`
	Version int    `json:"version"`
	// Time is in UTC with microseconds (what both databases keep) and never
	// before the previous event's.
	Time   time.Time `json:"time"`
	Tenant string    `json:"tenant"`
	// SessionID groups runs that share a transcript; empty for none.
	SessionID string `json:"session_id,omitempty"`
	// Trace is a W3C traceparent; empty for none.
	Trace string `json:"trace,omitempty"`
	// Prev is the hash of the event before, or [Genesis] for the first.
	Prev Hash `json:"prev"`
}

// Event is a decoded event.
type Event struct {
	Envelope
	Hash Hash
	Data Payload
}

// Sealed is an event in the form that is stored and sent: canonical bytes and
// their hash. The bytes are never re-encoded. The zero value is no event.
type Sealed struct {
	env   Envelope
	bytes []byte
	data  json.RawMessage // as it stands in bytes
	hash  Hash
}

// Envelope returns the decoded envelope.
func (s Sealed) Envelope() Envelope { return s.env }

// Bytes returns the stored bytes. The caller must not modify them.
func (s Sealed) Bytes() []byte { return s.bytes }

// Hash returns the SHA-256 of Bytes.
func (s Sealed) Hash() Hash { return s.hash }

// IsZero reports whether s holds no event.
func (s Sealed) IsZero() bool { return len(s.bytes) == 0 }

type wire struct {
	Envelope
	Data json.RawMessage `json:"data"`
}

// Seal makes the stored form of an event. It is the only way there, and it
// takes data only in the form that the redactor gives. Time is cut to
// microseconds in UTC. Errors: [ErrTooLarge], [ErrUnknownType], [ErrMalformed].
func Seal(env Envelope, data redact.JSON) (Sealed, error) {
	switch {
	case data.IsZero():
		return Sealed{}, fmt.Errorf("seal %s: no data: %w", env.Type, ErrMalformed)
	case data.Len() > MaxDataBytes:
		return Sealed{}, fmt.Errorf("seal %s: %d bytes, at most %d: %w", env.Type, data.Len(), MaxDataBytes, ErrTooLarge)
	case env.Seq == 0 || env.Epoch == 0 || env.ID.IsZero() || env.RunID.IsZero() || env.Time.IsZero():
		return Sealed{}, fmt.Errorf("seal %s: id, run, seq, epoch and time are required: %w", env.Type, ErrMalformed)
	}
	if _, err := newPayload(env.Type, env.Version); err != nil {
		return Sealed{}, fmt.Errorf("seal %s: %w", env.Type, err)
	}
	env.Time = Timestamp(env.Time)
	b, ok := appendCanonical(nil, env, data.Bytes())
	if !ok {
		var err error
		if b, err = canonical.Marshal(wire{env, data.Bytes()}); err != nil {
			return Sealed{}, fmt.Errorf("seal %s: %w", env.Type, err)
		}
	}
	if len(b) > MaxEventBytes {
		return Sealed{}, fmt.Errorf("seal %s: %d bytes with its envelope, at most %d: %w", env.Type, len(b), MaxEventBytes, ErrTooLarge)
	}
	return Sealed{env: env, bytes: b, data: dataIn(b, data.Bytes()), hash: sha256.Sum256(b)}, nil
}

// appendCanonical appends the canonical form of an event whose data is canonical
// already, without reading that again. It gives up, with ok false, where a
// string would need an escape or the time has no common form.
func appendCanonical(dst []byte, e Envelope, data []byte) (b []byte, ok bool) {
	if y := e.Time.Year(); y < 1 || y > 9999 || !plain(e.SessionID) || !plain(e.Tenant) || !plain(e.Trace) || !plain(string(e.Type)) {
		return nil, false
	}
	b = slices.Grow(dst, len(data)+512)
	b = append(append(b, dataKey...), data...)
	b = strconv.AppendUint(append(b, `,"epoch":`...), e.Epoch, 10)
	b = append(append(b, `,"id":"`...), e.ID.String()...)
	b = append(append(b, `","prev":"`...), e.Prev.String()...)
	b = append(append(b, `","run_id":"`...), e.RunID.String()...)
	b = strconv.AppendUint(append(b, `","seq":`...), e.Seq, 10)
	if e.SessionID != "" {
		b = append(append(append(b, `,"session_id":"`...), e.SessionID...), '"')
	}
	b = append(append(b, `,"tenant":"`...), e.Tenant...)
	b = e.Time.AppendFormat(append(b, `","time":"`...), time.RFC3339Nano)
	if e.Trace != "" {
		b = append(append(b, `","trace":"`...), e.Trace...)
	}
	b = append(append(b, `","type":"`...), e.Type...)
	b = strconv.AppendInt(append(b, `","version":`...), int64(e.Version), 10)
	return append(b, '}'), true
}

// dataKey is how every canonical event begins: no name comes before this one.
const dataKey = `{"data":`

// dataIn is data as a part of the event b, so that it is kept once.
func dataIn(b, data []byte) json.RawMessage {
	if end := len(dataKey) + len(data); end < len(b) && bytes.Equal(b[len(dataKey):end], data) {
		return b[len(dataKey):end:end]
	}
	return data
}

// plain reports whether s stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// Timestamp cuts t to what is stored: UTC, microseconds, no monotonic reading.
func Timestamp(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Parse reads stored bytes and checks them against their hash. It does not
// decode the data, so it also reads types and versions this build does not know.
// It keeps b. Errors: [ErrHash], [ErrMalformed].
func Parse(b []byte, hash Hash) (Sealed, error) {
	if sha256.Sum256(b) != hash {
		return Sealed{}, fmt.Errorf("parse event: %w", ErrHash)
	}
	var w wire
	if err := strictJSON(b, &w); err != nil {
		return Sealed{}, fmt.Errorf("parse event: %w: %w", ErrMalformed, err)
	}
	if w.ID.IsZero() || w.RunID.IsZero() || w.Seq == 0 || w.Epoch == 0 || w.Type == "" || w.Version < 1 || w.Time.IsZero() || len(w.Data) == 0 {
		return Sealed{}, fmt.Errorf("parse event: id, run, seq, epoch, type, version, time or data missing: %w", ErrMalformed)
	}
	return Sealed{env: w.Envelope, bytes: b, data: dataIn(b, w.Data), hash: hash}, nil
}

// Data returns the stored bytes of the event's data. The caller must not modify
// them. The error is [ErrMalformed] for the zero value.
func (s Sealed) Data() (json.RawMessage, error) {
	if len(s.data) == 0 {
		return nil, fmt.Errorf("read data of no event: %w", ErrMalformed)
	}
	return s.data, nil
}

// Decode returns the event with its typed data. Errors: [ErrUnknownType],
// [ErrUnknownVersion], [ErrMalformed].
func (s Sealed) Decode() (Event, error) {
	raw, err := s.Data()
	if err != nil {
		return Event{}, err
	}
	p, err := DecodePayload(s.env.Type, s.env.Version, raw)
	if err != nil {
		return Event{}, fmt.Errorf("decode event: run %s seq %d: %w", s.env.RunID, s.env.Seq, err)
	}
	return Event{Envelope: s.env, Hash: s.hash, Data: p}, nil
}

// Fact is an event that has no number yet: whoever changes a run's state
// without holding its lease inserts one in the same transaction, and the next
// holder of the lease numbers it. Its id is fixed, so it is recorded once.
type Fact struct {
	ID      ID
	RunID   RunID
	Type    Type
	Version int
	Trace   string
	// Data has been through the redactor and is at most [MaxDataBytes].
	Data json.RawMessage
	// At is when the fact was inserted, in database time.
	At time.Time
}

// NewFact makes the fact of a payload. Errors: [ErrTooLarge], [ErrUnknownType].
func NewFact(id ID, run RunID, t Type, data redact.JSON, trace string) (Fact, error) {
	if data.IsZero() || data.Len() > MaxDataBytes {
		return Fact{}, fmt.Errorf("make fact %s: %d bytes, want 1 to %d: %w", t, data.Len(), MaxDataBytes, ErrTooLarge)
	}
	v, ok := CurrentVersion(t)
	if !ok {
		return Fact{}, fmt.Errorf("make fact %q: %w", t, ErrUnknownType)
	}
	return Fact{ID: id, RunID: run, Type: t, Version: v, Trace: trace, Data: data.Bytes()}, nil
}
