package model

import (
	"slices"

	"github.com/daybookhq/daybook/events"
)

// By names who wrote a message: a model, and the endpoint of it where it has several.
func By(model, endpoint string) string {
	if endpoint == "" {
		return model
	}
	return model + "\x00" + endpoint
}

// OwnBlocks returns the transcript for who is asked next: what a provider added for
// itself (signatures, encrypted reasoning) goes back to the model and endpoint that
// it is from alone. Another one of the same format may refuse it, or read it as what
// it is not; text and calls stay. The messages given are not changed.
func OwnBlocks(ms []Message, by string) []Message {
	foreign := func(m Message) bool {
		return m.Role == Assistant && m.By != by && m.By != "" && slices.ContainsFunc(m.Blocks, func(b events.Block) bool { return b.Data != nil })
	}
	if !slices.ContainsFunc(ms, foreign) {
		return ms
	}
	ms = slices.Clone(ms)
	for i := range ms {
		if !foreign(ms[i]) {
			continue
		}
		var kept []events.Block
		for _, b := range ms[i].Blocks {
			if b.Kind == events.BlockReasoning {
				continue
			}
			b.Data, b.Format = nil, ""
			kept = append(kept, b)
		}
		ms[i].Blocks = kept
	}
	return ms
}
