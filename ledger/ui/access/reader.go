package access

import (
	"context"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Reader is what the page asks the ledger. What [Scoped] returns answers about
// what its principal may see alone: all else is [ledger.ErrNotFound], or not in
// the list, as if it did not exist. Safe for concurrent use. A method that is
// added here needs its test in TestEveryMethodIsScoped.
type Reader interface {
	RunReader
	KinReader
	CallReader
	EffectReader
	DecisionReader
	WaitReader
	ContentReader
	LedgerReader
}

// RunReader reads runs and their histories.
type RunReader interface {
	Summaries(ctx context.Context, f ledger.RunFilter) ([]ledger.Summary, error)
	Run(ctx context.Context, id events.RunID) (ledger.Run, error)
	// Events is [ledger.Archive.Events]; [ledger.ErrNotFound] for an unknown run.
	Events(ctx context.Context, run events.RunID, from uint64, f func(events.Sealed) error) error
	Pending(ctx context.Context, run events.RunID) ([]events.Fact, error)
	// Verify checks one run; the zero run, which is all of them, is only for those
	// who see everything.
	Verify(ctx context.Context, run events.RunID, f func(ledger.Finding) error) (ledger.VerifyReport, error)
}

// KinReader reads which runs belong to a run.
type KinReader interface {
	Descendants(ctx context.Context, run events.RunID, limit int) ([]ledger.Run, error)
	// Session lists the runs of the session that the run is in, in their order; none
	// without a session.
	Session(ctx context.Context, run events.RunID) ([]ledger.Summary, error)
}

// WaitReader reads what a run can wait for, or be held back by.
type WaitReader interface {
	// Handoffs lists calls of the run whose outcome comes from outside; no states are all.
	Handoffs(ctx context.Context, run events.RunID, states ...ledger.HandoffState) ([]ledger.Handoff, error)
	// Switches lists those of the run's tenant that are not on.
	Switches(ctx context.Context, run events.RunID) ([]ledger.Switch, error)
	// Budgets lists those that bound the run.
	Budgets(ctx context.Context, run events.RunID) ([]ledger.Budget, error)
	// Queue is how the run's queue stands; the zero value if nothing is known of it.
	Queue(ctx context.Context, run events.RunID) (ledger.QueueStats, error)
	// Holders lists the runs that hold a place in the run's queue.
	Holders(ctx context.Context, run events.RunID) ([]ledger.Run, error)
}

// CallReader reads calls and what they cost.
type CallReader interface {
	Calls(ctx context.Context, f ledger.CallFilter) ([]ledger.CallRecord, error)
	ModelCalls(ctx context.Context, run events.RunID) ([]ledger.ModelCallRow, error)
	Costs(ctx context.Context, f ledger.CostFilter) ([]ledger.CostRow, error)
	ToolUses(ctx context.Context, f ledger.ToolFilter) ([]ledger.ToolUse, error)
}

// EffectReader reads effects. An effect is seen by whoever sees the run that has it.
type EffectReader interface {
	Effects(ctx context.Context, f ledger.EffectFilter) ([]ledger.Effect, error)
	Attempts(ctx context.Context, opKey events.Hash) ([]ledger.Attempt, error)
	Waiting(ctx context.Context, opKey events.Hash) ([]ledger.Run, error)
}

// DecisionReader reads what people are asked.
type DecisionReader interface {
	Approvals(ctx context.Context, f ledger.ApprovalFilter) ([]ledger.Approval, error)
	Approval(ctx context.Context, id events.ID) (ledger.Approval, error)
}

// ContentReader reads artifacts and large values.
type ContentReader interface {
	Artifacts(ctx context.Context, f ledger.ArtifactFilter) ([]ledger.ArtifactVersion, error)
	// Blob returns content and media type of a blob that the run refers to.
	Blob(ctx context.Context, run events.RunID, h events.Hash) ([]byte, string, error)
}

// LedgerReader reads how the ledger as a whole stands: only for those who see
// everything, [ledger.ErrNotFound] for others.
type LedgerReader interface {
	QueueStats(ctx context.Context, name string) ([]ledger.QueueStats, error)
	Vitals(ctx context.Context) (ledger.Vitals, error)
	// RolledBack is [ledger.ErrRolledBack] while nobody may work.
	RolledBack(ctx context.Context) error
}
