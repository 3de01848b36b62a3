package bogus

import (
	"context"

	"github.com/daybookhq/daybook/tools"
)

// Dictionary returns dictionary, which is readonly.
func Dictionary() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "dictionary",
		Description: "Defines a word as the Bogus Dictionary does. Its meanings are its own and not those in general use, so they have to be looked up.",
		Aliases:     []string{"define", "definition", "meaning", "word"},
		Effect:      tools.Readonly,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Word string `json:"word" jsonschema:"one word"`
	},
	) (map[string]any, error) {
		meanings := map[string]string{
			"ladder":  "a promise with gaps in it",
			"pelican": "one who keeps other people's post",
			"tuesday": "the part of a loaf that is left for birds",
		}
		word := folded(in.Word)
		meaning, ok := meanings[word]
		reply := map[string]any{"found": ok, "word": word, "receipt": Receipt("dictionary", word)}
		if ok {
			reply["meaning"] = meaning
		} else {
			reply["known"] = keys(meanings)
		}
		return reply, nil
	}))
}
