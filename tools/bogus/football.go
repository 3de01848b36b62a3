package bogus

import (
	"context"

	"github.com/daybookhq/daybook/tools"
)

// FootballScore returns football_score, which is readonly.
func FootballScore() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "football_score",
		Description: "Tells how a club of the Bogus League last played. These clubs play in no other league, so no result can be remembered from elsewhere.",
		Aliases:     []string{"football", "match", "result", "league", "club"},
		Effect:      tools.Readonly,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Club string `json:"club" jsonschema:"name of the club"`
	},
	) (map[string]any, error) {
		scores := map[string]string{
			"gravel rovers":   "Gravel Rovers 4, Attic Athletic 3",
			"attic athletic":  "Gravel Rovers 4, Attic Athletic 3",
			"upper quill":     "Upper Quill 0, Damp Wanderers 0, called off for fog",
			"damp wanderers":  "Upper Quill 0, Damp Wanderers 0, called off for fog",
			"lantern orients": "Lantern Orients 11, nobody 0",
		}
		club := folded(in.Club)
		score, ok := scores[club]
		reply := map[string]any{"found": ok, "club": club, "receipt": Receipt("football_score", club)}
		if ok {
			reply["score"], reply["round"] = score, 17
		} else {
			reply["clubs"] = keys(scores)
		}
		return reply, nil
	}))
}
