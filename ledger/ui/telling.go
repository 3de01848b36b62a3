package ui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

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
