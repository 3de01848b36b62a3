package events

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// A bound that is too low would let an event grow over what it may have.
func TestEncodedAtMostIsABound(t *testing.T) {
	pieces := []string{"a", "tea ", "é", "天", "😀", "\x00", "<", "&", "\x7f", `"`, `\`, "\u2028", "\u2029", "\uFFFD", "\xff", "\xe2\x80", "…", "ﬁ"}
	r := rand.New(rand.NewPCG(3, 4))
	tight := 0
	for range 20_000 {
		var b strings.Builder
		for range r.IntN(12) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		s := b.String()
		if got, least := encodedAtMost(s), encoded(s); got < least {
			t.Fatalf("%q: %d, and it is %d", s, got, least)
		} else if got == least {
			tight++
		}
	}
	if tight == 0 {
		t.Error("the bound is never what the text has")
	}
}
