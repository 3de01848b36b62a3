package model

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
)

// Hash returns the SHA-256 of the request's canonical form: equal requests
// hash equally, however their JSON is spaced or ordered and whether empty
// lists are nil. The error is for arguments or a schema that are no JSON.
func (r Request) Hash() (events.Hash, error) {
	if r.Messages == nil {
		r.Messages = []Message{}
	}
	b, err := canonical.Marshal(r)
	if err != nil {
		return events.Hash{}, fmt.Errorf("hash request to %q: %w", r.Model, err)
	}
	return sha256.Sum256(append([]byte("daybook/request/1\x00"), b...)), nil
}

// Arguments returns a model's arguments in the form of [events.ToolCall]: as
// written if they are JSON that can be recorded, else the text as a JSON
// string, and true. No text at all means no arguments: {}.
func Arguments(text string) (raw json.RawMessage, malformed bool) {
	if text == "" {
		return json.RawMessage(`{}`), false
	}
	// The recorded form knows no repeated names, so neither may the arguments.
	if _, err := canonical.JSON([]byte(text)); err == nil {
		return json.RawMessage(text), false
	}
	raw, _ = json.Marshal(text) // a string always encodes
	return raw, true
}
