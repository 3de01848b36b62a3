package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
)

// exact is a moment with all that is stored of it.
func exact(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// age is how long ago t was, in its largest unit.
func (a *app) age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return span(a.now().Sub(t))
}

// since is a moment and how long ago it was.
func (a *app) since(t time.Time) string {
	switch a.times {
	case timesISO:
		return stamp(t)
	case timesRelative:
		return a.ago(t)
	}
	return fmt.Sprintf("%s (%s)", stamp(t), a.ago(t))
}

// span is a duration in its largest unit.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

func latency(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return (time.Duration(*ms) * time.Millisecond).String()
}

// unknown is a number of amounts that nobody knows, and the word for them.
type unknown struct {
	n    int64
	word string // unpriced, unmeasured, unsettled
}

// money is a sum of dollars with what is not in it, in words: an unknown price
// is never shown as 0. The unit is put behind the dollars where no head says it.
func money(v *big.Int, unit string, us ...unknown) string {
	var parts []string
	if v != nil && v.Sign() != 0 {
		parts = append(parts, events.FormatPico(v)+unit)
	}
	for _, u := range us {
		if u.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", u.n, u.word))
		}
	}
	if len(parts) == 0 {
		return "0" + unit
	}
	return strings.Join(parts, " + ")
}

// What the commands and the page say alike.
func shortKey(h events.Hash) string { return telling.ShortKey(h) }

func callName(run events.RunID, call events.CallID) string { return telling.CallName(run, call) }

func resultOf(raw json.RawMessage) (r events.ToolResult, progress string) {
	return telling.ResultOf(raw)
}
func stamp(t time.Time) string                  { return telling.Stamp(t) }
func plural(n int64, one string) string         { return telling.Plural(n, one) }
func either(sep string, parts ...string) string { return telling.Either(sep, parts...) }
func said(r events.ToolResult) string           { return telling.Said(r) }
func refName(r *events.CallRef) string          { return telling.RefName(r) }
func when(so bool, s string) string             { return telling.When(so, s) }
func with(before, s string) string              { return telling.With(before, s) }
