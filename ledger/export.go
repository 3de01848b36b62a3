package ledger

import (
	"context"
	"time"

	"github.com/daybookhq/daybook/events"
)

// ExportFilter selects the runs that are written out, with all their events; zero
// fields select all.
type ExportFilter struct {
	Run                           events.RunID
	Tenant, Session, Owner, Agent string
	// Tool leaves only runs that called it.
	Tool string
	// Since and Until leave only runs that were queued from the one on and before the
	// other, to the millisecond.
	Since, Until time.Time
	// Upto is the last run; zero is no bound.
	Upto events.RunID
}

// ExportRun is a run as it stands, and how far its calls are folded.
type ExportRun struct {
	Summary
	Folded uint64
}

// ExportSize is what a filter comes to, near the truth while workers write.
type ExportSize struct {
	Runs, Events int64
	Last         events.RunID // the newest of the runs
}

// Exports reads what is written out, oldest run first, in pages that can be gone on
// with after their last row. What a page gave never changes but for the state and the
// sums of runs. Safe for concurrent use.
type Exports interface {
	ExportSize(ctx context.Context, f ExportFilter) (ExportSize, error)
	// ExportRuns returns the next runs behind after.
	ExportRuns(ctx context.Context, f ExportFilter, after events.RunID, limit int) ([]ExportRun, error)
	// ExportEvents returns the next events of a run behind after. There may be a hole
	// between two of them while a worker's journal is on its way. Errors:
	// [events.ErrHash], [events.ErrMalformed], with the events before the one that is
	// damaged.
	ExportEvents(ctx context.Context, run events.RunID, after uint64, limit int) ([]events.Sealed, error)
	// ExportCalls returns the next transitions of calls, of a tool or (empty) of all,
	// behind after, up to and with through. It is an error if the run is not folded up
	// to there any more: somebody rebuilds it.
	ExportCalls(ctx context.Context, run events.RunID, tool string, after, through uint64, limit int) ([]CallRecord, error)
}
