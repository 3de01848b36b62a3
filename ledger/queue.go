package ledger

import (
	"context"
	"time"

	"github.com/daybookhq/daybook/events"
)

// QueueLimit bounds one queue. It holds for runs that have not begun; a run
// that has begun goes on, and counts. A zero field is no limit.
type QueueLimit struct {
	// MaxRunning is how many runs of the queue may be held at once, over all
	// workers; MaxPerKey how many with the same concurrency key.
	MaxRunning, MaxPerKey int
	// Rate is how many runs may start within any time of length Per.
	Rate int
	Per  time.Duration
}

// Pause says who stopped something, when and why. The zero value is not paused.
type Pause struct {
	At     time.Time
	By     string
	Reason string
}

// QueueStats is a queue as it stands.
type QueueStats struct {
	Queue string
	// Queued waits to be claimed, Due of it could be now but for limits and
	// pauses, and Tenants have something due.
	Queued, Due, Tenants int64
	// Running is held by a worker or was until its lease lapsed, Parked waits
	// for something named, Held is held back by a person, Dead has failed for good.
	Running, Parked, Held, Dead int64
	// Behind waits for the runs before it in its session; it is not among Queued.
	Behind int64
	// OldestDue is since when the run that waits longest could have been
	// claimed, OldestLease since when the run that is held longest has been
	// running, LapsedLease since when the lease that lapsed first has been over; zero = none.
	OldestDue, OldestLease, LapsedLease time.Time
	// Started counts the starts that the rate counts now. NextStart is when one of
	// them stops counting; zero while the rate allows a start, or there is none.
	Started   int64
	NextStart time.Time
	Limit     QueueLimit
	Paused    Pause
}

// Act is something that a person did to a queue, a schedule or the ledger as a
// whole. What persons do to a run is an event of the run.
type Act struct {
	Kind, Name       string // "queue", "schedule" or "ledger"
	Verb, By, Detail string
	At               time.Time
}

// Queues are limits and pauses of queues. A queue exists as soon as something
// names it. Safe for concurrent use.
type Queues interface {
	// QueueStats returns the queue called name, or all, sorted, if name is empty.
	QueueStats(ctx context.Context, name string) ([]QueueStats, error)
	// LimitQueue sets all limits of a queue; the zero limit removes them.
	LimitQueue(ctx context.Context, queue string, l QueueLimit, by string) error
	// PauseQueue stops the claiming of runs that have not begun. The first pause
	// stands: p is the one that does, and done whether it was this one.
	PauseQueue(ctx context.Context, queue, by, reason string) (p Pause, done bool, err error)
	// ResumeQueue ends a pause. Error: [ErrNotPaused].
	ResumeQueue(ctx context.Context, queue, by, reason string) error
	// Acts lists what was done to a queue or schedule, or to all of a kind if
	// name is empty, latest first.
	Acts(ctx context.Context, kind, name string, limit int) ([]Act, error)
}

// ByDaybook is who acts where no person does: it holds back a run whose workers die.
const ByDaybook = "daybook"

// Holds stop and restart single runs.
type Holds interface {
	// Pause holds a run back and inserts the fact operator_acted. A run that is
	// queued or parked is not claimed any more, whatever comes in for it; the
	// worker of a running one learns it at its next heartbeat and parks it after
	// the act in hand. The first pause stands. Errors: [ErrEnded], [ErrCancelling].
	Pause(ctx context.Context, id events.RunID, by, reason string) (run Run, done bool, err error)
	// Resume lets it go on, with a fact that wakes it. Errors: [ErrNotPaused], [ErrEnded].
	Resume(ctx context.Context, id events.RunID, by, reason string) (Run, error)
}

// Retry is how often and when a failed run is tried again.
type Retry struct {
	// MaxAttempts counts the first one too; 0 means 1. The run's own, if set, wins.
	MaxAttempts int
	// Backoff is the wait before the second attempt; it doubles with each, up to
	// MaxBackoff. The database allows nothing below 1 s and nothing above 24 h;
	// zero means 5 s and 15 minutes.
	Backoff, MaxBackoff time.Duration
}

// DeadFilter selects dead runs; zero fields select all.
type DeadFilter struct {
	Tenant, Queue, Agent string
	Limit                int          // 0 = 100
	Before               events.RunID // keyset: the last one seen
}

// DeadLetters are the runs that failed and that nothing tries again by itself.
type DeadLetters interface {
	// Dead lists them, newest first.
	Dead(ctx context.Context, f DeadFilter) ([]Run, error)
	// Requeue tries a dead run again, as a new run of the same lineage: what has
	// taken effect is replayed. It may have attempts further attempts in all (0 = 1).
	// The dead run gets the fact operator_acted. Errors: [ErrNotDead].
	Requeue(ctx context.Context, id events.RunID, attempts int, by, reason string) (Run, error)
}
