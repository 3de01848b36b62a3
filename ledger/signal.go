package ledger

import (
	"context"
	"encoding/json"

	"github.com/daybookhq/daybook/events"
)

// Signal is a message to a run from outside. Name and From are required.
type Signal struct {
	Name string
	Data json.RawMessage // may be empty
	From string
	// Key makes it idempotent: the same key of a run is the same signal. Empty
	// means that every call is a signal of its own.
	Key string
}

// Signals is how runs are told something. Safe for concurrent use.
type Signals interface {
	// Signal records a message as a fact and hands it to the oldest call that
	// waits for a signal of that name; else it is kept for the next one. Errors:
	// [ErrNotFound], [ErrEnded], [ErrSignalConflict] for a key that was used with
	// another name or data, [events.ErrTooLarge].
	Signal(ctx context.Context, run events.RunID, s Signal) error
}
