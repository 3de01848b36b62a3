package ui

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a part of a text from a run: shown as it is, or the name of a character
// that would show as nothing, or turn what follows.
type piece struct {
	text   string
	hidden bool
}

// pieces parts a text. Line ends and tabs are kept: they are shown as what they are.
func pieces(s string) []piece {
	var out []piece
	from := 0
	for i, r := range s {
		if i < from || shows(r) || r == '\n' || r == '\t' {
			if r != utf8.RuneError || validAt(s, i) {
				continue
			}
		}
		if i > from {
			out = append(out, piece{text: s[from:i]})
		}
		size := utf8.RuneLen(r)
		name := fmt.Sprintf("U+%04X", r)
		if r == utf8.RuneError && !validAt(s, i) {
			size, name = 1, fmt.Sprintf("0x%02X", s[i])
		}
		out = append(out, piece{name, true})
		from = i + size
	}
	if from < len(s) {
		out = append(out, piece{text: s[from:]})
	}
	return out
}

func validAt(s string, i int) bool {
	r, n := utf8.DecodeRuneInString(s[i:])
	return r != utf8.RuneError || n > 1
}

// plain is a text for attributes and titles: hidden characters stand as their names.
func plain(s string) string {
	var b strings.Builder
	for _, p := range pieces(s) {
		if p.hidden {
			b.WriteString("⟨" + p.text + "⟩")
		} else {
			b.WriteString(p.text)
		}
	}
	return b.String()
}

// shows reports whether a character shows itself and nothing else. Those that turn
// the direction of text do not: they are no graphic characters.
func shows(r rune) bool {
	return r == ' ' || unicode.IsGraphic(r) && !blank(r)
}

// blank reports whether r counts as a letter or a mark and shows as nothing.
func blank(r rune) bool {
	switch r {
	case '\u034f', '\u115f', '\u1160', '\u17b4', '\u17b5', '\u2800', '\u3164', '\uffa0':
		return true
	}
	return unicode.Is(unicode.Variation_Selector, r) && r != '\ufe0f'
}

// cut shortens a text to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
