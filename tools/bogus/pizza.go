package bogus

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/tools"
)

// OrderPizza returns order_pizza, which is destructive: it charges the card,
// cannot be undone, and nobody can be asked whether it happened.
func OrderPizza() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "order_pizza",
		Description: "Orders a pizza and charges the user's card; it cannot be undone. The price and the rider are known only from its reply.",
		Aliases:     []string{"pizza", "dinner", "delivery"},
		Args:        []tools.Arg{{Name: "size", Type: tools.Enum, Options: []string{"small", "large"}}},
		Effect:      tools.Destructive,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Pizza string `json:"pizza" jsonschema:"which pizza"`
		Size  string `json:"size" jsonschema:"how big"`
		Count int    `json:"count,omitempty" jsonschema:"how many, 1 if left out"`
	},
	) (map[string]any, error) {
		count := max(in.Count, 1)
		cents := map[string]int{"small": 1130, "large": 1470}[in.Size] * count
		key := fmt.Sprintf("%s/%s/%d", in.Pizza, in.Size, count)
		return map[string]any{
			"ordered": true, "charged_cents": cents, "rider": "Bogdan on the green moped", "receipt": Receipt("order_pizza", key),
		}, nil
	}))
}
