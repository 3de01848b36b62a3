package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// Text puts a text together from JSON strings. Servers cut characters in two,
// between bytes or between the halves of a surrogate pair, so the strings are
// joined as they are written and decoded once. The zero value is empty.
type Text struct {
	raw  []byte
	told int // bytes of raw that were told
}

// Add appends a JSON string. It returns the text that is complete by now and was
// not returned before; ok is false if s is no string, and then it changes nothing.
func (t *Text) Add(s json.RawMessage) (delta string, ok bool) {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return "", false
	}
	t.raw = append(t.raw, s[1:len(s)-1]...)
	end := len(t.raw) - unfinished(t.raw[t.told:])
	delta = decode(t.raw[t.told:end])
	t.told = end
	return delta, true
}

// Empty reports whether nothing was added.
func (t *Text) Empty() bool { return len(t.raw) == 0 }

// Len is the size of what was added, as it stands in JSON.
func (t *Text) Len() int { return len(t.raw) }

// String returns the text so far.
func (t *Text) String() string { return decode(t.raw) }

func decode(raw []byte) string {
	var s string
	if json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &s) != nil {
		return "" // each piece was inside a JSON document, so this cannot be
	}
	return s
}

// unfinished is how many bytes at the end begin a character that goes on.
func unfinished(raw []byte) int {
	for n := 1; n <= min(3, len(raw)); n++ { // UTF-8
		if c := raw[len(raw)-n]; utf8.RuneStart(c) {
			if c >= 0xc0 && !utf8.FullRune(raw[len(raw)-n:]) {
				return n
			}
			break
		}
	}
	if len(raw) < 6 {
		return 0
	}
	last := bytes.ToLower(raw[len(raw)-6:])
	if !bytes.HasPrefix(last, []byte(`\ud`)) || bytes.IndexByte([]byte("89ab"), last[3]) < 0 {
		return 0
	}
	slashes := 0 // an escaped backslash before "ud8…" is no escape of a surrogate
	for i := len(raw) - 6; i >= 0 && raw[i] == '\\'; i-- {
		slashes++
	}
	if slashes%2 == 0 {
		return 0
	}
	return 6
}
