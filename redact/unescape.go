package redact

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// decoded is a text with one layer of escaping taken off. Byte i of text was
// written as source[from[i]:to[i]].
type decoded struct {
	text     string
	from, to []int32
}

// maxUnescape is how many layers of escaping are looked through.
const maxUnescape = 5

// escapeStarts are what something that unescape takes off begins with.
func escapeStarts() []string {
	return []string{"\\", "%", "&", "\x1b", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u00ad"}
}

// escapeKind is what one call of unescape takes off. Kinds can be added up.
type escapeKind uint8

const (
	invisible   escapeKind = 1 << iota // ANSI sequences, zero-width runes
	backslashes                        // JSON, Go, shell
	percents
	entities
	spelled = backslashes | percents | entities
)

// chains are the orders in which layers are taken off. One kind at a time,
// because a secret may itself hold what looks like an escape of another kind;
// all kinds, because layers may differ. Something invisible may divide what
// spells a character, so it goes first.
func chains() [4]escapeKind { return [...]escapeKind{spelled, backslashes, percents, entities} }

// unescape takes one layer of escapes of kind off s. It reports false, and
// does no work, if there is nothing to take off.
func unescape(s string, kind escapeKind) (decoded, bool) {
	at := nextEscape(s, 0, kind)
	if at < 0 {
		return decoded{}, false
	}
	b := make([]byte, 0, len(s))
	d := decoded{from: make([]int32, 0, len(s)), to: make([]int32, 0, len(s))}
	var unit [utf8.UTFMax]byte
	for i := 0; i < len(s); {
		if at < 0 || i < at {
			b = append(b, s[i])
			d.from, d.to = append(d.from, int32(i)), append(d.to, int32(i+1))
			i++
			continue
		}
		out, n := escapeAt(s[i:], unit[:0], kind)
		for _, c := range out {
			b = append(b, c)
			d.from, d.to = append(d.from, int32(i)), append(d.to, int32(i+n))
		}
		i += n
		at = nextEscape(s, i, kind)
	}
	d.text = string(b)
	return d, true
}

// over makes d, which was decoded from inner's text, point into inner's source.
func (d decoded) over(inner decoded) decoded {
	if inner.from == nil {
		return d // inner is the source itself
	}
	for i := range d.from {
		d.from[i] = inner.from[d.from[i]]
		d.to[i] = inner.to[d.to[i]-1]
	}
	return d
}

func nextEscape(s string, i int, kind escapeKind) int {
	var first string
	switch kind {
	case invisible:
		first = "\x1b\u200b\u200c\u200d\u2060\ufeff\u00ad"
	case backslashes:
		first = "\\"
	case percents:
		first = "%"
	case entities:
		first = "&"
	default:
		first = "\\%&"
	}
	for i < len(s) {
		j := strings.IndexAny(s[i:], first)
		if j < 0 {
			return -1
		}
		i += j
		if _, n := escapeAt(s[i:], nil, kind); n > 0 {
			return i
		}
		i++
	}
	return -1
}

// escapeAt decodes the escape at the beginning of s and appends what it
// stands for to out. n is its length, 0 if there is none.
func escapeAt(s string, out []byte, kind escapeKind) (_ []byte, n int) {
	if kind == invisible {
		return out, invisibleAt(s)
	}
	switch s[0] {
	case '\\':
		return backslash(s, out)
	case '%':
		if v, ok := hexValue(s, 1, 2); ok {
			return append(out, byte(v)), 3
		}
	case '&':
		return entity(s, out)
	}
	return out, 0
}

// invisibleAt returns the length of the invisible sequence that s begins with.
func invisibleAt(s string) int {
	if s[0] == 0x1b {
		return ansi(s)
	}
	switch r, size := utf8.DecodeRuneInString(s); r {
	case '\u200b', '\u200c', '\u200d', '\u2060', '\ufeff', '\u00ad':
		return size
	}
	return 0
}

func backslash(s string, out []byte) ([]byte, int) {
	if len(s) < 2 {
		return out, 0
	}
	const letters, values = "abfnrtv\n", "\a\b\f\n\r\t\v\n"
	if i := strings.IndexByte(letters, s[1]); i >= 0 {
		return append(out, values[i]), 2
	}
	switch s[1] {
	case 'u':
		v, ok := hexValue(s, 2, 4)
		if !ok {
			break
		}
		if r := rune(v); utf16.IsSurrogate(r) {
			if low, ok := hexValue(s, 8, 4); ok && s[6] == '\\' && s[7] == 'u' {
				return utf8.AppendRune(out, utf16.DecodeRune(r, rune(low))), 12
			}
		}
		return utf8.AppendRune(out, rune(v)), 6
	case 'U':
		if v, ok := hexValue(s, 2, 8); ok {
			return utf8.AppendRune(out, rune(v)), 10
		}
	case 'x':
		if v, ok := hexValue(s, 2, 2); ok {
			return append(out, byte(v)), 4
		}
	case '0', '1', '2', '3':
		if len(s) >= 4 && isOctal(s[2]) && isOctal(s[3]) {
			return append(out, (s[1]-'0')<<6|(s[2]-'0')<<3|(s[3]-'0')), 4
		}
	}
	if s[1] >= utf8.RuneSelf {
		return out, 1
	}
	return append(out, s[1]), 2
}

func isOctal(b byte) bool { return '0' <= b && b <= '7' }

// hexValue reads n hexadecimal digits of s at i.
func hexValue(s string, i, n int) (v uint32, ok bool) {
	if len(s) < i+n {
		return 0, false
	}
	for _, c := range []byte(s[i : i+n]) {
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | uint32(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | uint32(c-'a'+10)
		case 'A' <= c && c <= 'F':
			v = v<<4 | uint32(c-'A'+10)
		default:
			return 0, false
		}
	}
	return v, true
}

func entity(s string, out []byte) ([]byte, int) {
	end := strings.IndexByte(s[:min(len(s), 11)], ';')
	if end < 3 {
		return out, 0
	}
	switch body := s[1:end]; body {
	case "amp":
		return append(out, '&'), end + 1
	case "lt":
		return append(out, '<'), end + 1
	case "gt":
		return append(out, '>'), end + 1
	case "quot":
		return append(out, '"'), end + 1
	case "apos":
		return append(out, '\''), end + 1
	case "nbsp":
		return append(out, ' '), end + 1
	default:
		if v, ok := charRef(body); ok {
			return utf8.AppendRune(out, v), end + 1
		}
	}
	return out, 0
}

// charRef reads #39 or #x27.
func charRef(body string) (rune, bool) {
	if body[0] != '#' {
		return 0, false
	}
	if body[1] == 'x' || body[1] == 'X' {
		v, ok := hexValue(body, 2, len(body)-2)
		return rune(v), ok && len(body) > 2
	}
	v := rune(0)
	for _, c := range []byte(body[1:]) {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + rune(c-'0')
	}
	return v, true
}

// ansi returns the length of the terminal sequence at the beginning of s: CSI
// (colours, cursor) or OSC (titles, links). A lone escape byte counts as one.
func ansi(s string) int {
	if len(s) < 2 {
		return 1
	}
	switch s[1] {
	case '[':
		for i := 2; i < len(s) && i < 64; i++ {
			if '@' <= s[i] && s[i] <= '~' {
				return i + 1
			}
		}
	case ']':
		for i := 2; i < len(s) && i < 512; i++ {
			if s[i] == '\a' {
				return i + 1
			}
			if s[i] == 0x1b && i+1 < len(s) && s[i+1] == '\\' {
				return i + 2
			}
		}
	}
	return 1
}
