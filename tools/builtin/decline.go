package builtin

import (
	"context"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// Reasons to decline. Stored as declined_because; never renamed.
const (
	Unknowable = "unknowable"
	NotCovered = "not_covered"
	OutOfScope = "out_of_scope"
	Unsafe     = "unsafe"
)

// Decline returns decline, a formal no-answer for one of four reasons.
func Decline() tools.Tool {
	return must(tools.New(tools.Definition{
		Name: "decline",
		Description: "Ends the task without an answer, for a stated reason: unknowable (nobody can know), not_covered (the sources at hand " +
			"don't say), out_of_scope (not what this agent is for), unsafe (it should not be done).",
		Aliases: []string{"refuse", "no answer"},
		Args:    []tools.Arg{{Name: "because", Type: tools.Enum, Options: []string{Unknowable, NotCovered, OutOfScope, Unsafe}}},
		Effect:  tools.Readonly,
		Trust:   tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Because string `json:"because" jsonschema:"why there is no answer"`
	},
	) (tools.Declined, error) {
		return tools.Decline(in.Because), nil
	}))
}

// IsDeclined reports whether r is the result of a call that ended the run without an answer.
func IsDeclined(r events.ToolResult) bool { return r.Control == tools.ControlDecline }

// DeclinedFor returns the reason of a result that declined.
func DeclinedFor(r events.ToolResult) (string, bool) { return r.Output, IsDeclined(r) }
