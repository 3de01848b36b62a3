package redact

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plainCards and plainUserinfo look at the whole text with their expressions: slow,
// and what the detectors that skip most of it must agree with.
func plainCards() func(string) [][2]int {
	word := regexp.MustCompile(`(?i)\b(?:(?:credit|debit)?[ _-]?card|visa|mastercard|amex|pan)`)
	number := regexp.MustCompile(`\b\d(?:[ -]?\d){12,18}\b`)
	return func(text string) (found [][2]int) {
		last := 0
		for _, w := range word.FindAllStringIndex(text, -1) {
			from, to := max(w[1], last), min(len(text), w[1]+64)
			if from >= to {
				continue
			}
			if n := number.FindStringIndex(text[from:to]); n != nil && n[0] <= 40 && isCard(text[from+n[0]:from+n[1]]) {
				found = append(found, [2]int{from + n[0], from + n[1]})
				last = from + n[1]
			}
		}
		return found
	}
}

func plainUserinfo() func(string) [][2]int {
	re := regexp.MustCompile(`\b[a-zA-Z][a-zA-Z0-9+.-]*://(?:([^\s/:@?#"'<>]{16,})@|[^\s/:@?"'<>]*:([^\s"'<>]*?)@[A-Za-z0-9_.\[-])`)
	return func(text string) (found [][2]int) {
		for _, at := range re.FindAllStringSubmatchIndex(text, -1) {
			switch {
			case at[2] >= 0 && hasDigit(text[at[2]:at[3]]) && !isPlaceholder(text[at[2]:at[3]]):
				found = append(found, [2]int{at[2], at[3]})
			case at[4] >= 0 && at[5]-at[4] >= 3 && !isPlaceholder(text[at[4]:at[5]]) && isPassword(text[at[4]:at[5]]):
				found = append(found, [2]int{at[4], at[5]})
			}
		}
		return found
	}
}

// Texts are made of the pieces that the expressions are about.
func TestDetectorsAgreeWithTheirExpressions(t *testing.T) {
	pieces := []string{
		"4111111111111111", "4111 1111 1111 1111", "5500-0000-0000-0004", "411111111111111", "1234567890123", "4", "card", "Card", "credit card", "debit_card", "creditcard",
		"visa", "viſa", "amex", "pan", "PAN:", "discard", "_", "-", " ", "  ", ".", ":", "é", "\xff", "\n", "x", "number is ", strings.Repeat("y", 30), strings.Repeat(" ", 15),
		"https://", "postgres://", "://", "//", "@", "@host", "user:", "hunter2", "tok3n-0123456789abcdef", "/", "?", "#", "'", `"`, "<", ">", "a", "1", "+ssh", "[", "]",
	}
	r := rand.New(rand.NewPCG(1, 2))
	cards, users := findCards(), findUserinfo()
	plainCards, plainUserinfo := plainCards(), plainUserinfo()
	hits := 0
	for range 60_000 {
		var b strings.Builder
		for range 1 + r.IntN(24) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		text := b.String()
		for _, d := range []struct {
			name       string
			got, plain [][2]int
		}{{"cards", cards(text), plainCards(text)}, {"userinfo", users(text), plainUserinfo(text)}} {
			hits += len(d.plain)
			if !slices.Equal(d.got, d.plain) {
				t.Fatalf("%s in %q: %v, want %v", d.name, text, d.got, d.plain)
			}
		}
	}
	if hits < 1000 {
		t.Errorf("%d findings: the texts are not about what is looked for", hits)
	}
}
