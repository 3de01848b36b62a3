package redact

import (
	"iter"
	"regexp"
	"strings"
)

// findAssignments finds the value in password=…, "api_key": "…" and the like.
func findAssignments() func(string) [][2]int {
	names := newKeyNames(nil)
	return func(text string) (found [][2]int) {
		for at := 0; ; at++ {
			i := strings.IndexAny(text[at:], "=:")
			if i < 0 {
				return found
			}
			at += i
			name := nameBefore(text, at)
			token := strings.EqualFold(name, "token")
			if !token && !names.denied(name) {
				continue
			}
			start, end, quoted := valueAfter(text, at)
			v := text[start:end]
			switch {
			case len(v) < minFound, isPlaceholder(v), strings.Contains(v, "://"),
				token && isIdentifier(v),
				text[at] == ':' && !isValue(v),
				strings.HasSuffix(strings.ToLower(name), "token") && !hasDigit(v),
				!quoted && end < len(text) && text[end] == '(': // a call in source code
			default:
				found = append(found, [2]int{start, end})
			}
			at = max(at, end-1) // no assignment begins inside a value
		}
	}
}

// nameBefore returns the name that text[:at] ends in, perhaps quoted, with the
// word before it: "api key".
func nameBefore(text string, at int) string {
	end := len(strings.TrimRight(text[:at], " \t:\"'\\"))
	if at-end > 8 {
		return ""
	}
	start := end
	for words := 0; start > 0 && end-start < 64; start-- {
		if c := text[start-1]; c == ' ' && words == 0 && start < end {
			words++
		} else if !isNameByte(c) {
			break
		}
	}
	return text[start:end]
}

// maxValue bounds the value of an assignment, and with it the time that a text
// of nothing but assignments takes.
const maxValue = 4096

// valueAfter returns the bounds of the value after the sign at text[at].
func valueAfter(text string, at int) (start, end int, quoted bool) {
	text = text[:min(len(text), at+maxValue)]
	start = at + 1
	for start < len(text) && strings.IndexByte("=> \t", text[start]) >= 0 {
		start++
	}
	open := start
	for open < len(text) && text[open] == '\\' {
		open++
	}
	if open < len(text) && (text[open] == '"' || text[open] == '\'') {
		start = open + 1
		i := strings.IndexAny(text[start:], text[open:open+1]+"\n\\")
		if i < 0 {
			return start, len(text), true
		}
		return start, start + i, true
	}
	end = start
	for end < len(text) && text[end] > ' ' && strings.IndexByte("\"'\\&,;<>{}()[]", text[end]) < 0 {
		end++
	}
	return start, start + len(strings.TrimRight(text[start:end], ".!?")), false
}

// isValue tells a password from the words of a sentence: letters and digits or
// signs together, no time and no number.
func isValue(s string) bool {
	if len(s) < 6 {
		return false
	}
	letters, others := 0, 0
	for i := range len(s) {
		switch {
		case isLetter(s[i]):
			letters++
		case isDigit(s[i]) || strings.IndexByte("!@#$%^*+=&", s[i]) >= 0:
			others++
		}
	}
	return letters > 0 && others > 0 && !isULID(s) && !isTime(s)
}

func isTime(s string) bool {
	return len(s) >= 10 && isDigit(s[0]) && isDigit(s[3]) && s[4] == '-' && s[7] == '-'
}

// findCards finds card numbers within 40 bytes after a word for a card.
func findCards() func(string) [][2]int {
	word := regexp.MustCompile(`(?i)\b(?:(?:credit|debit)?[ _-]?card|visa|mastercard|amex|pan)`)
	number := regexp.MustCompile(`\b\d(?:[ -]?\d){12,18}\b`)
	find := func(text string, found [][2]int, offset int) [][2]int {
		last := 0
		for _, w := range word.FindAllStringIndex(text, -1) {
			from := max(w[1], last)
			to := min(len(text), w[1]+cardReach+24)
			if from >= to {
				continue
			}
			if n := number.FindStringIndex(text[from:to]); n != nil && n[0] <= cardReach && isCard(text[from+n[0]:from+n[1]]) {
				found = append(found, [2]int{offset + from + n[0], offset + from + n[1]})
				last = from + n[1]
			}
		}
		return found
	}
	return func(text string) (found [][2]int) {
		for start, end := range longNumbers(text) { // few texts have one, and the expressions are slow
			found = find(text[start:end], found, start)
		}
		return found
	}
}

// cardReach is how far after a word for a card its number may begin.
const cardReach = 40

// longNumbers ranges over the parts of text where a number with 13 digits or more
// stands, with what is around it that may say what number it is.
func longNumbers(text string) iter.Seq2[int, int] {
	const before, after, digits = cardReach + 16, cardReach + 24, 13
	return func(yield func(start, end int) bool) {
		start, end := 0, -1 // of the part that is not yielded yet
		for i := 0; i < len(text); i++ {
			if !isDigit(text[i]) {
				continue
			}
			first, n := i, 0
			for ; i < len(text) && (isDigit(text[i]) || isDigit(text[i-1]) && (text[i] == ' ' || text[i] == '-')); i++ {
				if isDigit(text[i]) {
					n++
				}
			}
			if n < digits {
				continue
			}
			from := max(0, first-before)
			for from > max(end, 0) && isWordByte(text[from-1]) { // a part does not begin within a word
				from--
			}
			if end < 0 {
				start = from
			} else if from > end {
				if !yield(start, end) {
					return
				}
				start = from
			}
			end = min(len(text), i+after)
		}
		if end >= 0 {
			yield(start, end)
		}
	}
}

func isWordByte(c byte) bool {
	return isDigit(c) || c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// randomReach is how far after its keyword a random word may begin.
const randomReach = 48

// findRandom finds words that look random soon after a keyword, on its line.
func findRandom() func(string) [][2]int {
	return func(text string) (found [][2]int) {
		for i := 0; i < len(text); i++ {
			start := i
			for i < len(text) && (isBase64(text[i]) || strings.IndexByte("=.~", text[i]) >= 0) {
				i++
			}
			if i-start < 20 {
				continue
			}
			v := strings.TrimLeft(text[start:i], "=/.+~-")
			start = i - len(v)
			v = strings.TrimRight(v, ".")
			if isRandom(v) && keywordBefore(text[:start]) {
				found = append(found, [2]int{start, start + len(v)})
			}
		}
		return found
	}
}

// keywordBefore reports whether a word for a credential stands at the end of
// text, at most randomReach bytes away and on the same line.
func keywordBefore(text string) bool {
	near := text[max(0, len(text)-randomReach):]
	near = strings.ToLower(near[strings.LastIndexByte(near, '\n')+1:])
	if strings.HasSuffix(near, "://") {
		return false
	}
	for _, w := range [...]string{"api key", "api_key", "api-key", "apikey", "token", "secret", "credential", "passw", " key", "\"key"} {
		i := strings.LastIndex(near, w)
		if i < 0 {
			continue
		}
		rest := strings.TrimSuffix(near[i+len(w):], "s")
		if rest == "" || w == "credential" || w == "passw" || !isAlnum(rest[0]) && rest[0] != '_' {
			return true
		}
	}
	return false
}
