package ledger

import (
	"context"
	"time"

	"github.com/daybookhq/daybook/events"
)

// StuckKind says how a run stands still.
type StuckKind string

// Stuck kinds. Stored in logs; never renamed.
const (
	// StuckLease: its lease ran out long ago and no worker has taken it over.
	StuckLease StuckKind = "lease_lapsed"
	// StuckLeaseless: it is running and there is no lease that could run out.
	StuckLeaseless StuckKind = "no_lease"
	// StuckWaiting: it is parked, and what it waits for does not exist or is decided.
	StuckWaiting StuckKind = "nothing_awaited"
	// StuckWake: it is parked, and its time came long ago.
	StuckWake StuckKind = "wake_missed"
	// StuckFacts: facts have been pending for long.
	StuckFacts StuckKind = "facts_pending"
	// StuckEnd: its row says that it ended, its history does not.
	StuckEnd StuckKind = "no_terminal_event"
	// StuckSession: it waits for the runs before it in its session, and there are none.
	StuckSession StuckKind = "nothing_before"
	// StuckUnreadable: no worker so far could read its history.
	StuckUnreadable StuckKind = "unreadable"
)

// Stuck is a run that is neither queued, leased, waiting on something that
// exists, nor ended.
type Stuck struct {
	Run    events.RunID
	Tenant string
	Queue  string
	Kind   StuckKind
	State  State
	Since  time.Time
	Worker string // its last holder
	Text   string // why, for people
}

// StuckFilter selects stuck runs.
type StuckFilter struct {
	Tenant string
	// Patience is how long everything may take that workers do by themselves.
	// Zero means 2 minutes.
	Patience time.Duration
	// FactAge is how long facts may be pending. Zero means 5 minutes.
	FactAge time.Duration
	Limit   int // of each kind, oldest first; 0 = 50
}

// Watchdog names the runs that stand still. Safe for concurrent use.
type Watchdog interface {
	// Stuck lists them, oldest first.
	Stuck(ctx context.Context, f StuckFilter) ([]Stuck, error)
}

// Unreadables keeps runs apart whose history a worker cannot read: nothing may
// be added to it, so the run's row says it.
type Unreadables interface {
	// MarkUnreadable notes why, and gives the lease back: the run is tried again
	// later and later, for another build may read it. An empty reason takes the
	// note back and keeps the lease. Errors: [ErrFenced].
	MarkUnreadable(ctx context.Context, l Lease, reason string) error
}
