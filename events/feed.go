package events

import (
	"regexp"
	"strings"
)

// validName is what tenants and workers may be called: one token of a subject.
var validName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// ValidName reports whether s may name a tenant or a worker: 1 to 64 letters,
// digits, "_" and "-", so that it is one token of a subject.
func ValidName(s string) bool { return validName.MatchString(s) }

// FeedSubject returns the subject of an event in the feed:
// daybook.feed.<tenant>.<type>.<run>. A character that may not stand in a token
// becomes "_", so that no event can block the feed or reach another's subject.
func FeedSubject(e Envelope) string {
	return "daybook.feed." + token(e.Tenant) + "." + token(string(e.Type)) + "." + e.RunID.String()
}

func token(s string) string {
	if s == "" {
		return "_"
	}
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, s)
}
