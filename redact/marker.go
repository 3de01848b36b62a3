package redact

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"sort"
	"strings"
)

const (
	markerOpen     = "[REDACTED:"
	handleScheme   = "secret://"
	circular       = "[Circular]"
	fingerprintLen = 8
	maxName        = 64
)

// HasMarker reports whether b, JSON or text, contains a redaction marker,
// escaped or not. A destructive call is not made with one in its arguments.
func HasMarker(b []byte) bool {
	s := string(b)
	for range maxUnescape {
		if start, _ := nextMarker(s, 0); start >= 0 {
			return true
		}
		d, ok := unescape(s, spelled)
		if !ok {
			return false
		}
		s = d.text
	}
	start, _ := nextMarker(s, 0)
	return start >= 0
}

// fingerprint is the first 8 hex digits of the HMAC-SHA256 of value.
func fingerprint(key []byte, value string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(value))
	return hex.EncodeToString(h.Sum(nil))[:fingerprintLen]
}

func marker(name, fingerprint string) string {
	return markerOpen + name + ":" + fingerprint + "]"
}

// markerName makes name fit for a marker.
func markerName(name string) string {
	b := []byte(name[:min(len(name), maxName)])
	for i, c := range b {
		if !isNameByte(c) {
			b[i] = '_'
		}
	}
	if len(b) == 0 {
		return "secret"
	}
	return string(b)
}

func isNameByte(c byte) bool { return isAlnum(c) || c == '_' || c == '-' || c == '.' }

func isAlnum(c byte) bool { return isLetter(c) || isDigit(c) }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// nextMarker returns the bounds of the first marker of s that begins at from
// or later; start is -1 if there is none.
func nextMarker(s string, from int) (start, end int) {
	for {
		i := strings.Index(s[from:], markerOpen)
		if i < 0 {
			return -1, -1
		}
		start = from + i
		end = start + len(markerOpen)
		for end < len(s) && isNameByte(s[end]) {
			end++
		}
		name := end - start - len(markerOpen)
		if rest := s[end:]; 0 < name && name <= maxName && len(rest) > fingerprintLen+1 &&
			rest[0] == ':' && rest[fingerprintLen+1] == ']' && isLowerHex(rest[1:fingerprintLen+1]) {
			return start, end + fingerprintLen + 2
		}
		from = start + len(markerOpen)
	}
}

func isLowerHex(s string) bool {
	for i := range len(s) {
		if !isDigit(s[i]) && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

// nextHandle returns the bounds of the first secret://name of s that begins at
// from or later; start is -1 if there is none. A name ends in a letter or
// digit, so that a full stop after it belongs to the sentence.
func nextHandle(s string, from int) (start, end int) {
	for {
		i := strings.Index(s[from:], handleScheme)
		if i < 0 {
			return -1, -1
		}
		start = from + i
		end = start + len(handleScheme)
		for end < len(s) && isNameByte(s[end]) {
			end++
		}
		for end > start+len(handleScheme) && !isAlnum(s[end-1]) {
			end--
		}
		if end > start+len(handleScheme) {
			return start, end
		}
		from = end
	}
}

// islands returns the markers and handles of s, in order. Detectors don't
// look at them.
func islands(s string) []span {
	var all []span
	m, mEnd := nextMarker(s, 0)
	h, hEnd := nextHandle(s, 0)
	for {
		switch {
		case m >= 0 && (h < 0 || m < h):
			all = append(all, span{start: m, end: mEnd})
			m, mEnd = nextMarker(s, mEnd)
		case h >= 0:
			all = append(all, span{start: h, end: hEnd})
			h, hEnd = nextHandle(s, hEnd)
		default:
			return all
		}
	}
}

// overlapping returns the first of the islands that s overlaps.
func overlapping(islands []span, s span) (span, bool) {
	i := sort.Search(len(islands), func(i int) bool { return islands[i].end > s.start })
	if i == len(islands) || islands[i].start >= s.end {
		return span{}, false
	}
	return islands[i], true
}

// isSettled reports whether a value that must not be shown shows nothing: only
// markers and handles, perhaps after the scheme of an Authorization header.
func isSettled(s string) bool {
	rest, last := "", 0
	all := islands(s)
	for _, i := range all {
		rest += s[last:i.start]
		last = i.end
	}
	rest = strings.ToLower(strings.TrimSpace(rest + s[last:]))
	switch rest {
	case "", strings.ToLower(circular):
		return true
	case "bearer", "basic", "token", "apikey":
		return len(all) > 0
	}
	return false
}
