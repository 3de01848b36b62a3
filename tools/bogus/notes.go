package bogus

import (
	"context"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/tools"
)

// note is the reply of my_notes.
type note struct {
	Found   bool     `json:"found"`
	Note    string   `json:"note,omitempty"`
	Written string   `json:"written,omitempty"`
	Topics  []string `json:"topics,omitempty"` // of a note that isn't there
	Receipt string   `json:"receipt"`
}

// MyNotes returns my_notes, which is readonly.
func MyNotes() tools.Tool {
	return must(tools.New(tools.Definition{
		Name:        "my_notes",
		Description: "Looks up a private note of the user by its topic: passwords, plans, codes. The notes exist nowhere else.",
		Aliases:     []string{"note", "password", "wifi", "remember"},
		Effect:      tools.Readonly,
		Trust:       tools.Own,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Topic string `json:"topic" jsonschema:"what the note is about, one word"`
	},
	) (note, error) {
		notes := map[string]note{
			"wifi":   {Note: "the guest network is PelicanAttic, ask Oona for the phrase", Written: "2026-08-01"},
			"garage": {Note: "the spare key hangs behind the blue oar", Written: "2026-05-19"},
			"trip":   {Note: "ferry to Lower Quill on the 14th, cabin 6B", Written: "2026-07-23"},
		}
		topic := strings.ToLower(strings.TrimSpace(in.Topic))
		n, ok := notes[topic]
		if !ok {
			for t := range notes {
				n.Topics = append(n.Topics, t)
			}
			slices.Sort(n.Topics)
		}
		n.Found, n.Receipt = ok, Receipt("my_notes", topic)
		return n, nil
	}))
}
