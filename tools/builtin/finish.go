package builtin

import (
	"context"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// Finish returns finish, with which the model says that it is done, as opposed
// to having stopped talking. It is pinned.
func Finish() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "finish",
		Description: "Ends the task with the final answer. Call it once, when everything that was asked is done.",
		Aliases:     []string{"done", "answer"},
		Pinned:      true,
		Effect:      tools.Readonly,
		Trust:       tools.Own,
		Truncate:    tools.Refuse,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Answer string `json:"answer" jsonschema:"the final answer, complete, as the user should read it"`
	},
	) (tools.Finished, error) {
		return tools.Finish(in.Answer), nil
	}))
}

// IsFinished reports whether r is the result of a call that ended the run with an answer.
func IsFinished(r events.ToolResult) bool { return r.Control == tools.ControlFinish }

// AnswerOf returns the answer of a result that finished.
func AnswerOf(r events.ToolResult) (string, bool) { return r.Output, IsFinished(r) }
