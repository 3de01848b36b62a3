package ledger

import (
	"context"

	"github.com/daybookhq/daybook/events"
)

// Relations are what stands around a run: what came of it, what holds the
// places of its queue. Safe for concurrent use. Errors mean that the database
// could not be asked and wrap [ErrUnavailable].
type Relations interface {
	// Descendants lists up to limit runs (0 = 100) that were begun for a run or
	// with its history: its children ([Run.Parent]) and its forks ([Run.ForkOf]),
	// oldest first. Attempts are found along [Run.RetryOf] and [Run.Successor].
	Descendants(ctx context.Context, run events.RunID, limit int) ([]Run, error)
	// Holders lists up to limit runs (0 = 100) that hold a place in a queue, as
	// its limits count them, longest first. A lease that has lapsed counts for a
	// minute more: its run is about to be taken over.
	Holders(ctx context.Context, queue string, limit int) ([]Run, error)
	// KeepAct keeps what a person did to the ledger as a whole (kind "ledger"), at
	// the time of the database; [Queues] lists it.
	KeepAct(ctx context.Context, a Act) error
	// Role is who the database has authenticated on this connection; empty if
	// it authenticates nobody, as SQLite.
	Role(ctx context.Context) (string, error)
}
