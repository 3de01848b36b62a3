package tools

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxQuery is how many bytes of a query are read, and maxQueryWords how many
// different words of it count: who asks with a whole document has said what it
// is about by then.
const (
	maxQuery      = 4 << 10
	maxQueryWords = 128
)

// words calls yield for each word of s that says something: in lower case, the
// plural taken off, without stop words. A word in camel case is itself and its
// parts; a run of Chinese or Japanese characters, which nothing divides, is its
// pairs. What is no UTF-8 divides words.
func words(s string, yield func(string)) {
	start, camel := -1, false
	before := rune(0)
	flush := func(end int) {
		if start >= 0 {
			word(s[start:end], camel, yield)
		}
		start, camel = -1, false
	}
	for i, r := range s {
		switch {
		case unscribed(r):
			if start >= 0 && !unscribed(before) {
				flush(i)
			}
			if start < 0 {
				start = i
			}
		case unicode.IsLetter(r) || unicode.IsDigit(r) || start >= 0 && unicode.IsMark(r):
			if start >= 0 && unscribed(before) {
				flush(i)
			}
			if start < 0 {
				start = i
			} else if unicode.IsUpper(r) && !unicode.IsUpper(before) {
				camel = true
			}
		default:
			flush(i)
		}
		before = r
	}
	flush(len(s))
}

// unscribed reports whether r is of a script that writes no spaces.
func unscribed(r rune) bool {
	return r >= 0x3040 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

func word(w string, camel bool, yield func(string)) {
	if r, _ := utf8.DecodeRuneInString(w); unscribed(r) {
		pairs(w, yield)
		return
	}
	emit := func(part string) {
		if part = strings.ToLower(part); !stopWords[part] {
			yield(singular(part))
		}
	}
	emit(w)
	if !camel {
		return
	}
	from, before := 0, rune(0)
	for i, r := range w {
		if unicode.IsUpper(r) && i > 0 && !unicode.IsUpper(before) {
			emit(w[from:i])
			from = i
		}
		before = r
	}
	emit(w[from:])
}

func pairs(w string, yield func(string)) {
	if utf8.RuneCountInString(w) == 1 {
		yield(w)
		return
	}
	before := -1
	for i := range w {
		if before >= 0 {
			_, size := utf8.DecodeRuneInString(w[i:])
			yield(w[before : i+size])
		}
		before = i
	}
}

// singular takes the plural, or the third person, off an English word: notes,
// recipes, stories, searches. It errs on both sides alike, so a word that it
// spoils still meets itself.
func singular(w string) string {
	n := len(w)
	switch {
	case n < 4 || w[n-1] != 's' || w[n-2] == 's' || w[n-2] == 'u' || w[n-2] == 'i':
		return w
	case strings.HasSuffix(w, "ies") && n > 4:
		return w[:n-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "zes"):
		return w[:n-2]
	}
	return w[:n-1]
}

// wordSet returns the different words of s, in no order that means anything.
func wordSet(s string) map[string]bool {
	set := map[string]bool{}
	words(s, func(w string) { set[w] = true })
	return set
}

// stopWords are in every description and every question; they single nothing out.
var stopWords = setOf("s t a an and any are as at be been but by can could did do does for from give had has have how i if in into is it its " +
	"just let like may me need no not of on one only or our please should so some tell than that the their them then there these they " +
	"this those to up us use used uses using want was we were what when where which who whom whose why will with would you your")

func setOf(list string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}
