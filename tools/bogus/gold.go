package bogus

import (
	"context"

	"github.com/daybookhq/daybook/tools"
)

// GoldPrice returns gold_price, which is readonly.
func GoldPrice() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "gold_price",
		Description: "Quotes gold per bhori on the Bogus Exchange. This is not the market's rate and agrees with none; only the reply has it.",
		Aliases:     []string{"gold", "bhori", "price", "rate"},
		Args:        []tools.Arg{{Name: "karat", Type: tools.Enum, Options: []string{"18", "21", "22"}}},
		Effect:      tools.Readonly,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Karat string `json:"karat" jsonschema:"how pure"`
	},
	) (map[string]any, error) {
		taka := map[string]int{"18": 61_207, "21": 71_413, "22": 74_819}[in.Karat]
		return map[string]any{
			"karat": in.Karat, "taka_per_bhori": taka, "exchange": "Bogus Exchange", "receipt": Receipt("gold_price", in.Karat),
		}, nil
	}))
}
