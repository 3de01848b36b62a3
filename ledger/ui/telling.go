package ui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/ledger"
)

// maxSaid bounds how much of one text a page shows; the event holds all of it.
const maxSaid = 4000

// long: a text that does not stand there as a whole until it is scrolled.
func long(s string) bool { return len(s) > maxSaid || strings.Count(s, "\n") > 20 }

// scrolls: a text that may have to be scrolled on the narrowest screen, so it can be
// reached by keyboard.
func scrolls(s string) bool { return len(s) > 150 || strings.Count(s, "\n") > 8 }

func sortArguments(as []argument) {
	slices.SortFunc(as, func(a, b argument) int { return cmp.Compare(a.name, b.name) })
}

// readable is a JSON value as a person reads it: a string is its text, the rest is
// indented. No two values look alike: a string keeps its quotes if its text is
// nothing, or could be a value of another kind ("100", "{}").
func readable(raw json.RawMessage) string {
	var s string
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte(`"`)) && json.Unmarshal(raw, &s) == nil {
		if s == "" || json.Valid([]byte(s)) {
			return string(raw)
		}
		return s
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

func outcomeWords(o ledger.OutcomeKind) string {
	switch o {
	case "":
		return "none known"
	case ledger.Applied:
		return "took effect"
	case ledger.NotApplied:
		return "took no effect"
	case ledger.Unclear:
		return "unclear"
	}
	return string(o)
}
