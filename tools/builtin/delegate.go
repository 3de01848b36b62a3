package builtin

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// Delegate returns delegate, with which the model gives work to another agent:
// a child run, whose answer is the result. Several calls in one turn run side by
// side. The model may name the given agents and no others. It panics without any.
func Delegate(agents ...string) tools.Tool {
	if len(agents) == 0 {
		panic("builtin.Delegate: name the agents that may be delegated to")
	}
	return must(tools.New(tools.Definition{
		Name: tools.DelegateName,
		Description: "Gives a task to another agent and returns its answer. Call it several times in one turn to have parts done side by side. " +
			"The agent knows nothing but the input.",
		Aliases: []string{"subagent", "spawn", "child run"},
		Args:    []tools.Arg{{Name: "agent", Type: tools.Enum, Options: agents}},
		Effect:  tools.Idempotent,
		Trust:   tools.External, // what the child has read may have come from anywhere
	}, func(ctx context.Context, inv *tools.Invocation, in struct {
		Agent string `json:"agent" jsonschema:"who does it"`
		Input string `json:"input" jsonschema:"the task, complete: what to do, with which facts, and what to answer"`
	},
	) (tools.HandedOff, error) {
		if inv.Spawner == nil {
			return tools.HandedOff{}, errors.New("child runs cannot be started here")
		}
		input, err := json.Marshal(in.Input)
		if err != nil {
			return tools.HandedOff{}, err
		}
		child, err := inv.Spawner.Spawn(ctx, inv, tools.Spawn{Agent: in.Agent, Input: input, Trust: tools.Own})
		if err != nil {
			return tools.HandedOff{}, err
		}
		return tools.HandedOff{Reason: events.ParkChild, Child: child}, nil
	}))
}
