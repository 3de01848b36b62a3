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

func sortArguments(as []argument) {
	slices.SortFunc(as, func(a, b argument) int { return cmp.Compare(a.name, b.name) })
}

// readable is a JSON value as a person reads it: a string is its text, the rest is
// indented.
func readable(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// whyAsked says what wants an approval; the keys are stored.
func whyAsked(why string) string {
	parts := strings.Split(why, ",")
	for i, w := range parts {
		switch strings.TrimSpace(w) {
		case ledger.WhyPolicy:
			parts[i] = "the policy of the tool, the agent or the operator"
		case ledger.WhyTaint:
			parts[i] = "foreign text came in before"
		case ledger.WhyFork:
			parts[i] = "a fork asks before each effect"
		}
	}
	return strings.Join(parts, ", and ")
}

func recoveryWords(kind string) string {
	switch kind {
	case ledger.RecoveryKeyed:
		return "the provider tells our attempts apart by their key"
	case ledger.RecoveryFenced:
		return "the provider checks whose turn it is"
	case ledger.RecoveryProbe:
		return "a worker asks the tool itself; a person can be faster"
	}
	return "none: look where it would have taken effect"
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
