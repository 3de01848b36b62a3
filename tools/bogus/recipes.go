package bogus

import (
	"context"

	"github.com/daybookhq/daybook/tools"
)

// MyRecipes returns my_recipes, which is readonly.
func MyRecipes() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "my_recipes",
		Description: "Looks up a recipe that the user saved. It is no cookbook: only the user's own recipes, with the user's own amounts, which nobody else knows.",
		Aliases:     []string{"recipe", "cook", "dish", "ingredients"},
		Effect:      tools.Readonly,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Dish string `json:"dish" jsonschema:"name of the dish"`
	},
	) (map[string]any, error) {
		saved := map[string]string{
			"lentil soup": "310 g lentils, 3 carrots, a spoon of vinegar at the end; 37 minutes",
			"plum cake":   "9 plums, 140 g of sugar, never more; 52 minutes at 175 degrees",
			"khichuri":    "2 cups of rice, 1 of dal, 7 cloves; lid on for 23 minutes",
		}
		dish := folded(in.Dish)
		recipe, ok := saved[dish]
		reply := map[string]any{"found": ok, "dish": dish, "receipt": Receipt("my_recipes", dish)}
		if ok {
			reply["recipe"] = recipe
		} else {
			reply["saved"] = keys(saved)
		}
		return reply, nil
	}))
}
