package ledger

import (
	"context"

	"github.com/daybookhq/daybook/events"
)

// Bounds of a lineage: a model that delegates to itself must come to an end.
const (
	// MaxDepth is how many ancestors a child run has at most.
	MaxDepth = 8
	// MaxChildren is how many children one run starts in all.
	MaxChildren = 1000
)

// Children are runs that work for another run. Safe for concurrent use.
type Children interface {
	// Spawn is a barrier: what asked for the child is in the archive before the
	// child exists. It queues a child of the lease's run together with the
	// hand-off of the call that waits for it, in one transaction. Parent, Root,
	// Tenant, Owner, SessionID, Priority and Trace are the parent's, and its
	// deadline is no later; so is what its destructive calls do, where the parent is, or
	// works for, a fork. With the same client key and input it returns the run of before.
	// What the child may spend counts against h.RunLimit from then on.
	// A Budget is also held, in the same transaction, in the budgets of the parent
	// and of every run that it works for: what the child spends is drawn from that, and
	// what is left of it comes back when the child has ended.
	// The outcome's trust is h.Trust, and external if the child does not end as [Ending.Own].
	// Errors: [ErrFenced], [ErrEnded] when the parent is ending, [ErrTooDeep],
	// [ErrTooManyChildren], [ErrClientKeyConflict], and a [*BudgetError] if the
	// budget cannot be held.
	Spawn(ctx context.Context, l Lease, p Prefix, s Submission, h Handoff) (child Run, facts []events.Fact, err error)
}
