package model

import (
	"strings"

	"github.com/daybookhq/daybook/events"
)

// Family says how a provider counts input tokens.
type Family string

// Families.
const (
	// Inclusive providers count what came from a cache, or went into one, as input
	// too: OpenAI, and all that answer in its formats.
	Inclusive Family = "inclusive"
	// Exclusive providers count it beside the input: Anthropic.
	Exclusive Family = "exclusive"
)

// FamilyOf returns the family of a model by its name, for counts of which nothing
// else is known. The clients of this module know better: what counts is the wire
// format that the numbers came in.
func FamilyOf(model string) Family {
	if strings.Contains(strings.ToLower(model), "claude") {
		return Exclusive
	}
	return Inclusive
}

// Uncached returns u with Input as [events.Usage] means it, without what was read
// from a cache or written to one, if u was counted by a provider of family f.
// That is the family of who served, not of who was asked: after a fallback they
// differ. Nothing else is touched. Counts that cannot include their cache's are
// left as they are.
func Uncached(f Family, u events.Usage) events.Usage {
	if cached := u.CacheRead + u.CacheWrite; f == Inclusive && !u.Missing && cached > 0 && cached <= u.Input {
		u.Input -= cached
	}
	return u
}
