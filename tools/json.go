package tools

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"unicode/utf8"
)

// encoder encodes without escaping <, > and &, which models need not read escaped.
type encoder struct {
	buf bytes.Buffer
	enc *json.Encoder
}

func newEncoder() *encoder {
	e := &encoder{}
	e.enc = json.NewEncoder(&e.buf)
	e.enc.SetEscapeHTML(false)
	return e
}

var encoders = sync.Pool{New: func() any { return newEncoder() }}

// encode returns bytes that are good until the next call or put.
func (e *encoder) encode(v any) ([]byte, error) {
	e.buf.Reset()
	if err := e.enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(e.buf.Bytes(), []byte("\n")), nil
}

// put gives e back, unless its buffer grew too big to keep.
func (e *encoder) put() {
	if e.buf.Cap() <= 64<<10 {
		encoders.Put(e)
	}
}

// What follows walks JSON that is known to be valid, without decoding it.

// kindOf names the type of a JSON value by its first byte.
func kindOf(v []byte) string {
	switch v[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// eachMember calls f with the members of a canonical object, in order.
func eachMember(obj []byte, f func(name string, value []byte)) {
	for i := 1; i < len(obj) && obj[i] == '"'; {
		end := skipString(obj, i)
		name := memberName(obj[i:end])
		start := end + 1 // the colon
		if start >= len(obj) {
			return
		}
		end = skipValue(obj, start)
		f(name, obj[start:end])
		i = end + 1 // the comma
	}
}

func memberName(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // valid by contract; an empty name is declared nowhere
	return s
}

// skipString returns the index behind the string that begins at i, and len(b)
// if it does not end.
func skipString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

// skipValue returns the index behind the value that begins at i.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			i = skipString(b, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return i
}

// clip cuts s to at most n bytes at the boundary of a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:boundary(s, n)] + "…"
}

// boundary returns the largest character boundary of s up to n.
func boundary(s string, n int) int {
	if n >= len(s) {
		return len(s)
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return n
}

// valid replaces what is no UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
