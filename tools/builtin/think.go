package builtin

import (
	"context"

	"github.com/daybookhq/daybook/tools"
)

// Think returns think, a place for the model to reason: the thought stays in
// the arguments of the recorded call, the reply is "noted".
func Think() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "think",
		Description: "Writes down a thought while working something out. Nothing happens and nothing new is learnt.",
		Aliases:     []string{"reason", "plan"},
		Effect:      tools.Readonly,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, _ struct {
		Thought string `json:"thought" jsonschema:"what to keep in mind"`
	},
	) (string, error) {
		return "noted", nil
	}))
}
