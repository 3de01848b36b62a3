package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// MaxStream bounds what a [Stream] keeps of a text, in bytes. What comes after it
// is dropped.
const MaxStream = 256 << 10

const (
	// escapeTail is how far back from the end of a text an escape may have begun
	// that is not written to its end, and ansiTail one of a terminal.
	escapeTail = 64
	ansiTail   = 512
	// authorizationReach is how far after its keyword the words of a credential may
	// reach.
	authorizationReach = 160
	// headReach is how long the header line of a private key may be.
	headReach = 96
)

// A Stream redacts a text that comes in pieces, for people who read it while it
// is being written. It gives out a part of the redacted text as soon as nothing
// that may still come can make a secret of it: it holds back the word that has
// not ended, what a registered secret may have begun in, in any spelling, and
// what a detector may still find something in. A text that may be a JSON document is
// held back until it has ended, because names of keys decide there.
//
// What it has given out is, joined, what [Redactor.String] makes of the whole
// text; see [Stream.End]. Its zero value is not usable; it is not safe for
// concurrent use.
type Stream struct {
	r     *Redactor
	text  []byte
	given string // out of Next so far, redacted
	seen  int    // length of text when Next looked last
	plain bool   // it is no JSON document
	over  bool   // more came than is kept
}

// Stream returns a stream for one text.
func (r *Redactor) Stream() *Stream { return &Stream{r: r} }

// Format writes the name of the type: the text that is held back is not redacted.
func (s *Stream) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redact.Stream") }

// Write takes the next piece, which may end within a character. It is cheap: nothing
// is looked for before Next.
func (s *Stream) Write(piece string) {
	if room := MaxStream - len(s.text); len(piece) > room {
		piece, s.over = piece[:room], true
	}
	s.text = append(s.text, piece...)
}

// Over reports whether more was written than is kept; then no more is given out.
func (s *Stream) Over() bool { return s.over }

// Held is how many bytes came in, given out or not.
func (s *Stream) Held() int { return len(s.text) }

// Given is all that was given out.
func (s *Stream) Given() string { return s.given }

// Next returns what can be given out now and was not before, redacted.
func (s *Stream) Next() string {
	if len(s.text) == s.seen || s.over {
		return ""
	}
	s.seen = len(s.text)
	text := string(s.text)
	if !s.plain {
		if maybeJSON(text) {
			return ""
		}
		s.plain = true
	}
	m := s.r.state().matcher()
	cut := m.settled(text)
	if cut == 0 {
		return ""
	}
	// Both are compared, so that a cut which the rules above get wrong shows.
	part, all := m.text(text[:cut], textOptions{}), m.text(text, textOptions{})
	if !strings.HasPrefix(all, part) || !strings.HasPrefix(part, s.given) || len(part) == len(s.given) {
		return ""
	}
	next := part[len(s.given):]
	s.given = part
	return next
}

// End returns the rest of the text. If whole is set, it is all of it, and takes
// the place of what was given out before: something that came late has changed how
// the beginning is redacted. Of a text that is over nothing more is given out.
func (s *Stream) End() (rest string, whole bool) {
	if s.over {
		return "", false
	}
	all := s.r.String(string(s.text))
	before := s.given
	s.given, s.seen = all, len(s.text)
	if rest, ok := strings.CutPrefix(all, before); ok {
		return rest, false
	}
	return all, true
}

// maybeJSON reports whether text may become, or is, a JSON object or array.
func maybeJSON(text string) bool {
	trimmed := strings.TrimLeft(text, " \t\r\n")
	if trimmed == "" {
		return true
	}
	if trimmed[0] != '{' && trimmed[0] != '[' {
		return false
	}
	d := json.NewDecoder(strings.NewReader(trimmed))
	for depth := 0; ; {
		t, err := d.Token()
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return true
		case err != nil:
			return false
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			if depth--; depth == 0 {
				return len(bytes.TrimSpace([]byte(trimmed[d.InputOffset():]))) == 0
			}
		}
	}
}

// settled returns how much of text, from its beginning, stays as it is whatever
// comes after it: it ends where a word does.
func (m *matcher) settled(text string) int {
	cut := min(m.unopened(text), m.undetected(text))
	for {
		at := wordEnd(text, cut)
		if digits := beforeDigits(text, at); digits < at {
			cut = digits
			continue
		}
		return at
	}
}

// unopened returns where a registered secret may have begun that has not ended, in
// any spelling; an escape that is not written to its end may belong to one.
func (m *matcher) unopened(text string) int {
	open := m.find(text).open
	for i := len(text) - 1; i >= max(0, len(text)-escapeTail); i-- {
		switch text[i] {
		case '\\', '%', '&', 0x1b:
			open = min(open, i, m.find(text[:i]).open)
		default:
			if text[i] >= utf8.RuneSelf && utf8.RuneStart(text[i]) && invisibleAt(text[i:]) == 0 && !utf8.FullRuneInString(text[i:]) {
				open = min(open, i, m.find(text[:i]).open) // perhaps an invisible one
			}
		}
	}
	if i := strings.LastIndexByte(text, 0x1b); i >= max(0, len(text)-ansiTail) && invisibleAt(text[i:]) == 1 { // as if it were alone
		open = min(open, i, m.find(text[:i]).open)
	}
	return open
}

// undetected returns where something begins that a detector may still make more of.
func (m *matcher) undetected(text string) int {
	cut := len(text)
	for _, at := range []int{openKey(text), openHeader(text), m.openAssignment(text), m.ungated(text)} {
		cut = min(cut, at)
	}
	return cut
}

// ungated returns the first thing that a detector would find if its keyword stood
// anywhere else in the text, which it may yet.
func (m *matcher) ungated(text string) int {
	f := m.scan(text)
	cut := len(text)
	for i, d := range m.detectors {
		switch d.name {
		case "assignment", cardName, "entropy":
		default:
			continue
		}
		if f.detectors&(1<<i) == 0 {
			if found := d.find(text); len(found) > 0 {
				cut = min(cut, found[0][0])
			}
		}
	}
	if !f.encoded {
		if after := m.encodedJSON(text, textOptions{}); after != text {
			cut = min(cut, common(text, after))
		}
	}
	return cut
}

// common is how long the beginning is that a and b share.
func common(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// openKey returns where a private key begins that has not ended.
func openKey(text string) int {
	// Whatever begins before the last complete end has one: each is looked for once.
	cut, putty := len(text), strings.LastIndex(text[:strings.LastIndexByte(text, '\n')+1], "Private-MAC:")
	if i := strings.Index(text[putty+1:], "PuTTY-User-Key-File"); i >= 0 {
		cut = putty + 1 + i
	}
	end := lastKeyEnd(text)
	for from := 0; ; {
		i := strings.Index(text[from:cut], "-----BEGIN")
		if i < 0 {
			return cut
		}
		start := from + i
		rest := text[start+len("-----BEGIN"):]
		head, body, ended := strings.Cut(rest, "-----")
		after := len(text) - len(body)
		switch {
		case !ended && len(rest) < headReach:
			return start
		case ended && strings.Contains(head, "PRIVATE KEY") && end < after:
			return start
		}
		from = start + len("-----BEGIN")
	}
}

// lastKeyEnd returns where the last end line of a private key begins that is complete,
// or -1.
func lastKeyEnd(text string) int {
	last := -1
	for from := 0; ; {
		i := strings.Index(text[from:], "-----END ")
		if i < 0 {
			return last
		}
		start := from + i
		from = start + len("-----END ")
		if name, _, ok := strings.Cut(text[from:], "-----"); ok && strings.Contains(name, "PRIVATE KEY") {
			last = start
		}
	}
}

var (
	cookieWord        = regexp.MustCompile(`(?i)cookie`)
	authorizationWord = regexp.MustCompile(`(?i)authorization|bearer|basic`)
)

// openHeader returns where a header begins whose credential may still come: a
// cookie up to the end of its line, an authorization for a few words.
func openHeader(text string) int {
	cut := len(text)
	// Places are those of text itself: a small letter may be longer than its capital.
	line := strings.LastIndexAny(text, "\r\n") + 1
	if at := cookieWord.FindStringIndex(text[line:]); at != nil {
		cut = line + at[0]
	}
	near := max(0, len(text)-authorizationReach)
	if at := authorizationWord.FindStringIndex(text[near:]); at != nil {
		cut = min(cut, near+at[0])
	}
	return cut
}

// openAssignment returns where the name stands whose value has not ended.
func (m *matcher) openAssignment(text string) int {
	near := max(0, len(text)-maxValue)
	for at := near; ; at++ {
		i := strings.IndexAny(text[at:], "=:")
		if i < 0 {
			return len(text)
		}
		at += i
		name := nameBefore(text, at)
		if !strings.EqualFold(name, "token") && !m.keys.names.denied(name) {
			continue
		}
		if _, end, _ := valueAfter(text, at); end == len(text) {
			return max(0, at-len(name)-8) // quotes and blanks may stand between them
		}
	}
}

// wordEnd returns the last place up to cut where a word has ended: behind a blank,
// or behind a character of a script without blanks.
func wordEnd(text string, cut int) int {
	for cut > 0 && cut < len(text) && !utf8.RuneStart(text[cut]) {
		cut--
	}
	for at := cut; at > 0; {
		r, size := utf8.DecodeLastRuneInString(text[:at])
		if r == ' ' || r == '\n' || r == '\t' || r == '\r' || r >= 0x2e80 && r != utf8.RuneError && loose(text[:at]) {
			return at
		}
		at -= size
	}
	return 0
}

// loose reports whether the word that text ends in has no sign of an address, an
// assignment or an escape in it.
func loose(text string) bool {
	word := text[strings.LastIndexAny(text, " \t\r\n")+1:]
	return len(word) < 4<<10 && !strings.ContainsAny(word, `=:@/?&%\"'#`)
}

// beforeDigits returns where the number begins that text[:at] ends in: the number
// of a card has blanks in it.
func beforeDigits(text string, at int) int {
	start, any := at, false
	for start > 0 && (isDigit(text[start-1]) || text[start-1] == ' ' || text[start-1] == '-') {
		start--
		any = any || isDigit(text[start])
	}
	if !any {
		return at
	}
	for start < at && !isDigit(text[start]) {
		start++
	}
	return start
}
