package bogus

import (
	"context"

	"github.com/daybookhq/daybook/tools"
)

// AskMum returns ask_mum, which is destructive: a mother that was rung up cannot
// be not rung up. She always answers, seldom what was asked, and takes
// forty-one minutes by her own account; the call returns at once.
func AskMum() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "ask_mum",
		Description: "Rings up the user's mother and asks her something. She always answers, seldom that question, and it cannot be undone. What she says nobody can know before.",
		Aliases:     []string{"mum", "mother", "phone", "advice"},
		Effect:      tools.Destructive,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Question string `json:"question" jsonschema:"what to ask her"`
	},
	) (map[string]any, error) {
		sayings := []string{
			"Are you eating enough? The plums are ripe, come on Sunday.",
			"Your cousin Edda has a new coat, and no gloves, in this weather.",
			"I have put the letter behind the clock, where it always is.",
		}
		question := folded(in.Question)
		n := 0
		for _, b := range []byte(question) {
			n += int(b)
		}
		return map[string]any{"answer": sayings[n%len(sayings)], "minutes": 41, "receipt": Receipt("ask_mum", question)}, nil
	}))
}
