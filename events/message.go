package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// AppendMessage appends the journal message of es to dst:
// [{"hash":"…","event":{…}},…] with every event's own bytes, never re-encoded.
func AppendMessage(dst []byte, es []Sealed) []byte {
	dst = append(dst, '[')
	for i, e := range es {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"hash":"`...)
		dst = append(dst, e.hash.String()...)
		dst = append(dst, `","event":`...)
		dst = append(dst, e.bytes...)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// messageOverhead is what a message adds to each event's bytes.
const messageOverhead = len(`{"hash":"","event":},`) + 64

// Fits reports how many of es go into one journal message: at least one, at
// most [MaxEnvelopeEvents] and [MaxEnvelopeBytes].
func Fits(es []Sealed) int {
	n, size := 0, 2
	for _, e := range es {
		size += len(e.bytes) + messageOverhead
		if n > 0 && (n == MaxEnvelopeEvents || size > MaxEnvelopeBytes) {
			break
		}
		n++
	}
	return n
}

// Rejected is one element of a journal message that is no event.
type Rejected struct {
	Index int
	Bytes []byte
	Err   error // wraps [ErrHash] or [ErrMalformed]
}

// ParseMessage reads a journal message event by event, so that one poisonous
// event does not take its neighbours with it. The error is for a message that
// is no envelope at all; it wraps [ErrMalformed].
//
// The events keep data.
func ParseMessage(data []byte) ([]Sealed, []Rejected, error) {
	if es, ok := parseWritten(data); ok {
		return es, nil, nil
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, nil, fmt.Errorf("parse journal message of %d bytes: %w: %w", len(data), ErrMalformed, err)
	}
	es := make([]Sealed, 0, len(raw))
	var bad []Rejected
	for i, r := range raw {
		var m struct {
			Hash  Hash            `json:"hash"`
			Event json.RawMessage `json:"event"`
		}
		err := json.Unmarshal(r, &m)
		if err == nil {
			var s Sealed
			if s, err = Parse(m.Event, m.Hash); err == nil {
				es = append(es, s)
				continue
			}
		}
		if !errors.Is(err, ErrHash) && !errors.Is(err, ErrMalformed) {
			err = fmt.Errorf("%w: %w", ErrMalformed, err)
		}
		bad = append(bad, Rejected{Index: i, Bytes: r, Err: fmt.Errorf("event %d of the message: %w", i, err)})
	}
	return es, bad, nil
}

// parseWritten reads a message byte for byte in the form of [AppendMessage],
// all of whose events are good. Anything else is for a patient reader.
func parseWritten(data []byte) ([]Sealed, bool) {
	const head, middle = `{"hash":"`, `","event":`
	const digits = 2 * len(Hash{})
	rest, ok := bytes.CutPrefix(data, []byte("["))
	if !ok {
		return nil, false
	}
	var es []Sealed
	for {
		if rest, ok = bytes.CutPrefix(rest, []byte(head)); !ok || len(rest) < digits {
			return nil, false
		}
		var h Hash
		if err := h.UnmarshalText(rest[:digits]); err != nil {
			return nil, false
		}
		if rest, ok = bytes.CutPrefix(rest[digits:], []byte(middle)); !ok {
			return nil, false
		}
		n := objectLen(rest)
		if n == 0 || len(rest) < n+2 || rest[n] != '}' {
			return nil, false
		}
		s, err := Parse(rest[:n:n], h)
		if err != nil {
			return nil, false
		}
		es = append(es, s)
		end := rest[n+1]
		rest = rest[n+2:]
		switch {
		case end == ']' && len(rest) == 0:
			return es, true
		case end != ',':
			return nil, false
		}
	}
}

// objectLen is the length of the JSON object that b begins with, 0 if it does
// not end. It counts braces and checks nothing else.
func objectLen(b []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				return i + 1
			}
		case depth == 0:
			return 0
		}
	}
	return 0
}
