package ledger

import (
	"context"
	"time"
)

// Backlog counts what waits for something to be done about it, and since when the
// oldest has waited; zero = nothing waits.
type Backlog struct {
	Count int64
	Since time.Time
}

// Vitals is how the ledger as a whole stands, over all tenants: what a watch needs
// to see without a list. Queues are [QueueStats]'.
type Vitals struct {
	Now time.Time // the database's
	// InDoubt are effects that nobody can know about; Approvals are those that a
	// person has not decided and still can: their run has not ended nor their time run out.
	InDoubt, Approvals Backlog
	// Facts are transitions that no history has yet.
	Facts Backlog
	// Unfolded counts events in the archive that the projections do not have, Unfed
	// events that the feed has not got, Since of it that of the run folded longest ago.
	Unfolded Backlog
	Unfed    int64
	// Quarantined counts bytes that could not be projected.
	Quarantined int64
}

// Vital says how the ledger stands. Each question is answered by a partial index,
// whatever the ledger holds. Safe for concurrent use.
type Vital interface {
	Vitals(ctx context.Context) (Vitals, error)
}
