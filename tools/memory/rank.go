package memory

import "strings"

// Tokens are what texts are compared by: runs of more than two ASCII letters and
// digits, in lower case.
func Tokens(text string) map[string]bool {
	set := map[string]bool{}
	for _, t := range strings.FieldsFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) {
		if len(t) > 2 {
			set[strings.ToLower(t)] = true
		}
	}
	return set
}

// NoteTokens are those that a note is found by: of its text and of its context.
func NoteTokens(text, contextID string) map[string]bool {
	return Tokens(text + " " + strings.Replace(contextID, ":", " ", 1))
}

// SourceWeight is how much a source is believed, 0 to 100.
func SourceWeight(source string) int {
	switch source {
	case "policy":
		return 95
	case "verified":
		return 90
	case "tool":
		return 80
	case "document":
		return 75
	case "user":
		return 70
	case "assistant":
		return 60
	case "derived":
		return 55
	}
	return 50 // system, and what nobody knows
}

// Score is how well a note matches, 0 to 1: shared of the tokens that were asked
// for are its own. It is 0 if none is.
func Score(shared, asked int, source string) float64 {
	if shared == 0 || asked == 0 {
		return 0
	}
	overlap := float64(shared) / float64(asked)
	return float64(.75*overlap) + float64(.25*(float64(SourceWeight(source))/100))
}
