package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
)

// secret is one registered value as the markers show it.
type secret struct {
	name        string
	fingerprint string
	value       string // for the fingerprints of other tenants
}

// comparison says which differences between a form and a text don't count.
type comparison uint8

const (
	exact      comparison = iota
	ignoreCase            // hexadecimal
	base64Any             // standard and URL alphabet are one
)

// form is one way in which a secret can be written. Escapes of characters are
// not forms: the text is unescaped instead, which finds every mixture of them.
type form struct {
	of      int // index of the secret
	text    string
	compare comparison
	// The first or last base64 digit also carries bits of a neighbour, so it
	// is no part of text, but it is redacted with it.
	left, right bool
}

const (
	// minSecret is the least number of bytes, white space not counted, that a
	// registered value must have.
	minSecret = 8
	// prefixLen is how many bytes of a form go into the automaton; the rest is
	// compared. It bounds the table however long the secrets are.
	prefixLen = 6
	minLine   = 24 // of a secret with several lines, to be known on its own
)

// forms returns every form of value that is long enough to be told from
// ordinary text: of least bytes, which are prefixLen or more.
func forms(of int, value string, least int) []form {
	var fs []form
	seen := map[form]bool{}
	add := func(f form) {
		f.of, f.text = of, squeeze(f.text)
		if len(f.text) >= least && !seen[f] {
			seen[f] = true
			fs = append(fs, f)
		}
	}
	for _, plain := range plainForms(value) {
		add(form{text: plain})
	}
	raw := []byte(value)
	wide := utf16Bytes(value)
	for _, data := range [][]byte{raw, wide} {
		for offset := range 3 {
			add(base64Form(data, offset))
		}
		add(form{text: hex.EncodeToString(data), compare: ignoreCase})
	}
	// What fmt makes of a byte slice: %v, %d with commas, %#v.
	var spaced, comma, source strings.Builder
	for i, b := range raw {
		if i > 0 {
			comma.WriteByte(',')
			source.WriteByte(',')
		}
		d := strconv.Itoa(int(b))
		spaced.WriteString(d)
		comma.WriteString(d)
		fmt.Fprintf(&source, "0x%x", b)
	}
	add(form{text: spaced.String()})
	add(form{text: comma.String()})
	add(form{text: source.String(), compare: ignoreCase})
	return fs
}

// plainForms returns value, value as it looks when unescaping met something in
// it that looks like an escape, and the ways of quoting that double a quote.
func plainForms(value string) []string {
	all := []string{value}
	if lines := strings.Split(value, "\n"); len(lines) > 1 {
		for _, line := range lines {
			if line = strings.TrimSpace(line); len(line) >= minLine && !strings.HasPrefix(line, "-----") {
				all = append(all, line)
			}
		}
	}
	for _, v := range all[:len(all):len(all)] {
		all = append(
			all,
			strings.ReplaceAll(v, " ", "+"),
			strings.ReplaceAll(v, `"`, `""`),
			strings.ReplaceAll(v, "'", "''"),
			strings.ReplaceAll(v, "'", "'''"),
			strings.ReplaceAll(v, "'", `'\''`),
			strings.ReplaceAll(v, "'", `'"'"'`),
		)
	}
	for _, v := range all[:len(all):len(all)] {
		for range maxUnescape {
			for _, kind := range [...]escapeKind{invisible, spelled} {
				if d, ok := unescape(v, kind); ok {
					v = d.text
					all = append(all, v)
				}
			}
		}
	}
	return all
}

// squeeze removes the bytes that matching skips.
func squeeze(s string) string {
	for i := range len(s) {
		if isSkipped(s[i]) {
			b := []byte(s[:i])
			for ; i < len(s); i++ {
				if !isSkipped(s[i]) {
					b = append(b, s[i])
				}
			}
			return string(b)
		}
	}
	return s
}

// base64Form returns the digits that depend on data alone when offset bytes
// stand in front of it in the three-byte group.
func base64Form(data []byte, offset int) form {
	padded := append(make([]byte, offset, offset+len(data)), data...)
	digits := base64.RawStdEncoding.EncodeToString(padded)
	first := [3]int{0, 2, 3}[offset]
	end := len(padded) * 8 / 6
	return form{
		text:    digits[min(first, end):end],
		compare: base64Any,
		left:    offset != 0,
		right:   len(padded)*8%6 != 0,
	}
}

// utf16Bytes returns value in UTF-16, without the last byte: so cut, the
// little-endian bytes also occur in the big-endian ones if it is ASCII.
func utf16Bytes(value string) []byte {
	units := utf16.Encode([]rune(value))
	b := make([]byte, 0, 2*len(units))
	for _, u := range units {
		b = append(b, byte(u), byte(u>>8))
	}
	return b[:max(0, len(b)-1)]
}

// leaves returns the strings inside a value that is a JSON object or array:
// they leak one by one.
func leaves(value string) []string {
	if !looksLikeJSON(value) {
		return nil
	}
	var v any
	if json.Unmarshal([]byte(value), &v) != nil {
		return nil
	}
	var found []string
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			found = append(found, v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
	return found
}

// matchAt compares f with text from i on, reading over skipped bytes. It
// returns the end of the match; cut means that text ended first.
func (f *form) matchAt(text string, i int) (end int, ok, cut bool) {
	for k := range len(f.text) {
		for i < len(text) && isSkipped(text[i]) {
			i++
		}
		if i == len(text) {
			return i, false, true
		}
		a, b := f.text[k], text[i]
		if a != b && (f.compare == exact || fold(a) != fold(b) || (f.compare == base64Any && isLetter(a))) {
			return i, false, false
		}
		i++
	}
	return i, true, false
}

func isLetter(b byte) bool { return 'a' <= b|0x20 && b|0x20 <= 'z' }
