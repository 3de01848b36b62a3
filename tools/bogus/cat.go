package bogus

import (
	"context"

	"github.com/daybookhq/daybook/tools"
)

// FeedCat returns feed_cat, which is idempotent: a second portion does no harm.
func FeedCat() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "feed_cat",
		Description: "Drops a portion into the cat's feeder at home. The feeder's level is known only from its reply.",
		Aliases:     []string{"cat", "feeder", "pet"},
		Args:        []tools.Arg{{Name: "portion", Type: tools.Enum, Options: []string{"small", "normal"}}},
		Effect:      tools.Idempotent,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Portion string `json:"portion" jsonschema:"how much"`
	},
	) (map[string]any, error) {
		level := map[string]int{"small": 41, "normal": 67}[in.Portion]
		return map[string]any{"fed": true, "feeder_percent": level, "receipt": Receipt("feed_cat", in.Portion)}, nil
	}))
}
