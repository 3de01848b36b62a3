package ledger

import (
	"context"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Session is a group of runs that share a transcript: they go one after another, in
// the order in which they were submitted, and each goes on from the last one that has
// ended. Runs that only name the session, as the scope of effects, are no part of it.
type Session struct {
	Tenant, ID string
	// Owner is that of its first run; no run of another owner continues it.
	Owner string
	// Places counts the runs that were submitted to it; a run that tries another one
	// again has the place of that.
	Places uint64
	// Head is the run that the next one goes on from, zero before the first has ended.
	Head      events.RunID
	CreatedAt time.Time
	LastAt    time.Time // of the last submission or end
	// ErasedAt is set once its owner was erased: nobody continues it.
	ErasedAt time.Time
}

// Origin names the event that a run's transcript goes on from: Seq of Run, whose hash
// is Hash. Zero = it begins with the run.
type Origin struct {
	Run  events.RunID
	Seq  uint64
	Hash events.Hash
}

// IsZero reports whether there is none.
func (o Origin) IsZero() bool { return o.Run.IsZero() }

// SessionFilter selects sessions; zero fields select all.
type SessionFilter struct {
	Tenant, Owner string
	// Before is the session behind which a list goes on.
	Before *Session
	Limit  int // 0 = 50
}

// Sessions are groups of runs that share a transcript. A run takes part that was
// submitted with [Submission.Continue]. Safe for concurrent use. Errors that mean that
// the database could not be asked wrap [ErrUnavailable].
type Sessions interface {
	// Session returns one, or [ErrNotFound]: that of another tenant is not found.
	Session(ctx context.Context, tenant, id string) (Session, error)
	// Sessions lists them, the one that was last used first.
	Sessions(ctx context.Context, f SessionFilter) ([]Session, error)
	// SessionRuns lists the runs of a session from a place on (0 = the first), in
	// order; attempts of one place as they were made. limit 0 = 100.
	SessionRuns(ctx context.Context, tenant, id string, from uint64, limit int) ([]Summary, error)
}

// Snapshots are where a session's transcript can be read from without what was
// compacted. Safe for concurrent use.
type Snapshots interface {
	// LastSnapshot returns the last event of a run up to seq that replaced a part of
	// the transcript and has it stored as it is from there on; ok is false if there is
	// none.
	LastSnapshot(ctx context.Context, run events.RunID, seq uint64) (e events.Sealed, ok bool, err error)
}
