package bogus

import (
	"context"

	"github.com/daybookhq/daybook/tools"
)

// BookTaxi returns book_taxi, which is destructive: the car comes, and its
// waiting is billed.
func BookTaxi() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "book_taxi",
		Description: "Sends a taxi to the door at once; its waiting is billed and it cannot be called back. Number plate and driver are known only from its reply.",
		Aliases:     []string{"taxi", "cab", "ride"},
		Effect:      tools.Destructive,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		From string `json:"from" jsonschema:"where it picks up"`
		To   string `json:"to" jsonschema:"where it goes"`
	},
	) (map[string]any, error) {
		return map[string]any{
			"booked": true, "plate": "QU 1177 LL", "driver": "Ludmila", "waiting_cents_per_minute": 45,
			"receipt": Receipt("book_taxi", folded(in.From)+" > "+folded(in.To)),
		}, nil
	}))
}
