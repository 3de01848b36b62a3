package ledger

import (
	"context"
	"encoding/json"
	"math/big"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Archive reads the valid events and keeps large values. Safe for concurrent use.
type Archive interface {
	// Events calls f with the events of a run from seq on, in order.
	Events(ctx context.Context, run events.RunID, from uint64, f func(events.Sealed) error) error
	// PutBlob stores content under its SHA-256; storing it again is no error.
	PutBlob(ctx context.Context, tenant, mediaType string, content []byte) (events.Hash, error)
	// Blob returns content and media type, or [ErrNotFound].
	Blob(ctx context.Context, tenant string, h events.Hash) ([]byte, string, error)
	// TenantKey returns the tenant's random 32 bytes, making them at first use:
	// the key of input digests and of the fingerprints in redaction markers.
	TenantKey(ctx context.Context, tenant string) ([]byte, error)
}

// RunFilter selects runs, newest first; zero fields select all.
type RunFilter struct {
	Tenant, Queue, Agent, Owner, SessionID string
	States                                 []State
	// Since and Until leave only runs that were queued from the one on and before
	// the other, to the millisecond; zero is no bound.
	Since, Until time.Time
	Limit        int          // 0 = 50
	Before       events.RunID // keyset: id of the last row seen
}

// Summary is a row of run_summaries beside its run.
type Summary struct {
	Run
	Events, Turns, ModelCalls, ToolCalls     int64
	Destructive, Repeated, Blocked, Doubtful int64
	Resumes, InputTokens, OutputTokens       int64
	Cost                                     *big.Int // pico-USD of what is priced
	Unpriced, Unmeasured                     int64
	FirstAt, LastAt                          time.Time
}

// CallRecord is one transition of a tool call: a row of tool_call_records.
type CallRecord struct {
	Run       events.RunID
	Seq       uint64
	Tenant    string
	Owner     string
	SessionID string
	Call      events.CallID
	Attempt   int
	Status    string // started, progress, finished, error, blocked, in_doubt, resolved
	Terminal  bool
	Tool      string
	Effect    string
	Recovery  string
	OpKey     events.Hash
	Token     events.ID
	Arguments json.RawMessage
	Result    json.RawMessage
	Reason    string
	Detail    string
	Repeated  bool
	Of        *events.CallRef
	Trust     string
	Cost      *events.PicoUSD // nil = unmeasured
	LatencyMS *int64
	StartedAt time.Time
	At        time.Time
	Trace     string
}

// CallFilter selects tool calls, newest first.
type CallFilter struct {
	Tenant string
	Owner  string
	Run    events.RunID
	Tool   string
	Status string
	OpKey  events.Hash
	// All includes started and progress rows of calls that have a terminal row.
	All       bool
	Limit     int // 0 = 50
	BeforeRun events.RunID
	BeforeSeq uint64
}

// ModelCallRow is a row of model_calls: one billed attempt.
type ModelCallRow struct {
	Run                events.RunID
	Seq                uint64
	Tenant, Owner      string
	Turn, Attempt      int
	Epoch              uint64
	State              string // unsettled, finished, error, late
	Model, ServedModel string
	Usage              *events.Usage   // nil = none known
	Cost               *events.PicoUSD // nil = unpriced
	Rates              json.RawMessage
	ErrorKind          string
	LatencyMS          *int64
	StartedAt, At      time.Time
	Trace              string
}

// Queries is what auditors ask. Safe for concurrent use. Keyset pagination only.
type Queries interface {
	Summaries(ctx context.Context, f RunFilter) ([]Summary, error)
	Calls(ctx context.Context, f CallFilter) ([]CallRecord, error)
	ModelCalls(ctx context.Context, run events.RunID) ([]ModelCallRow, error)
	Costs(ctx context.Context, f CostFilter) ([]CostRow, error)
	// Waiting returns the runs parked on an effect.
	Waiting(ctx context.Context, opKey events.Hash) ([]Run, error)
	// Pending returns the facts of a run that have no number yet.
	Pending(ctx context.Context, run events.RunID) ([]events.Fact, error)
}

// ToolFilter selects of whose calls [ToolUses] tells.
type ToolFilter struct {
	Tenant string
	Owner  string
	// Since leaves only runs that were queued from then on, to the millisecond.
	Since time.Time
}

// ToolUse is what is recorded of a tool in a tenant. What it declares is the
// strictest that a call of it was made under.
type ToolUse struct {
	Tenant, Tool            string
	Effect, Recovery, Trust string   // empty: never known
	Calls                   int64    // that ended, blocked ones among them
	Errors                  int64    // calls that failed
	Blocked                 int64    // calls that were refused
	Repeated                int64    // calls that got an earlier outcome
	InDoubt                 int64    // effects that nobody can know about, now
	Cost                    *big.Int // pico-USD, of what is measured
	Unmeasured              int64    // calls without a cost
	LastUsed                time.Time
	Switch                  SwitchMode // how the tool is switched, by itself or with all of the tenant
}

// ToolUses says how tools were used, by tenant and name. Safe for concurrent use.
type ToolUses interface {
	ToolUses(ctx context.Context, f ToolFilter) ([]ToolUse, error)
}

// ArtifactFilter selects versions of artifacts, newest first; zero fields select all.
type ArtifactFilter struct {
	Tenant string
	Owner  string
	Run    events.RunID
	Name   string
	// Verdict is accepted, refused or none; empty = any.
	Verdict   string
	Limit     int // 0 = 50
	BeforeRun events.RunID
	BeforeSeq uint64
}

// Artifacts lists what was judged. Safe for concurrent use. Their contents are
// blobs, see [Archive].
type Artifacts interface {
	Artifacts(ctx context.Context, f ArtifactFilter) ([]ArtifactVersion, error)
}

// Incoming is one journal message, decoded event by event.
type Incoming struct {
	Message  events.Message
	Events   []events.Sealed
	Rejected []events.Rejected
	// Err is set when the message is no envelope at all.
	Err error
}

// Projection is what the projector writes. Safe for concurrent use.
type Projection interface {
	// Project commits a batch in one transaction: validity by epoch, archive,
	// set-aside, quarantine, fold. It is idempotent.
	Project(ctx context.Context, batch []Incoming) (Projected, error)
	// Quarantine keeps bytes that cannot be projected; the same bytes once.
	Quarantine(ctx context.Context, m events.Message, reason string, data []byte) error
	// FoldBehind folds up to limit runs that barriers moved on and no message
	// came for since age, and returns how many events it folded. Called again it
	// goes on with the next runs.
	FoldBehind(ctx context.Context, age time.Duration, limit int) (folded int, err error)
	// FeedLease makes holder the one that feeds, for ttl from now, and reports
	// whether it is: publishing by two at a time would change the order of a
	// run's events. A ttl of zero gives it back.
	FeedLease(ctx context.Context, holder string, ttl time.Duration) (bool, error)
	// Unfed returns folded events that the feed has not got, in order per run.
	Unfed(ctx context.Context, limit int) ([]events.Sealed, error)
	// Fed moves the feed positions on to the last event of each run in es.
	Fed(ctx context.Context, es []events.Sealed) error
	// Rebuild drops the projections of one run (zero: of all) and folds them again from the archive.
	Rebuild(ctx context.Context, run events.RunID) error
}

// Projected counts what a batch came to.
type Projected struct {
	Events, Duplicates, SetAside, Quarantined, Folded int
}

// Watched is long work that tells how far it has come: done is called with the number
// of events that are done, now and then, by the goroutine that does them. Safe for
// concurrent use.
type Watched interface {
	// VerifyWatched is [Verifier]'s Verify.
	VerifyWatched(ctx context.Context, run events.RunID, done func(events int64), f func(Finding) error) (VerifyReport, error)
	// RebuildWatched is [Projection]'s Rebuild.
	RebuildWatched(ctx context.Context, run events.RunID, done func(events int64)) error
}

// Store is a ledger database: every contract over one set of tables.
type Store interface {
	Runs
	Forks
	Queues
	Schedules
	Holds
	DeadLetters
	Barriers
	Effects
	Approvals
	Switches
	Handoffs
	Children
	Signals
	Budgets
	Seals
	Archive
	Queries
	Artifacts
	ToolUses
	Projection
	Verifier
	Watched
	Exports
	Rollbacks
	Reconciliation
	Watchdog
	Vital
	Maintenance
	Unreadables
	Relations
	Sessions
	Snapshots
	// Migrate brings the schema to this build's version and says what it applied.
	Migrate(ctx context.Context) ([]string, error)
	// Check returns [ErrSchema] if the schema does not fit, [ErrUnavailable] if it cannot be asked.
	Check(ctx context.Context) error
	Close() error
}

// Finding is something verification has to say.
type Finding struct {
	Run  events.RunID
	Seq  uint64 // 0 = the run as a whole
	Kind FindingKind
	Text string
}

// FindingKind sorts findings by what they mean.
type FindingKind string

// Finding kinds.
const (
	Tampered   FindingKind = "tampered"   // changed, reordered or forged
	Incomplete FindingKind = "incomplete" // missing
	Note       FindingKind = "note"       // listed, not a fault: pending facts, epochs without events
)

// VerifyReport counts what was verified.
type VerifyReport struct {
	Runs, Events, SetAside, Pending int64
	Tampered, Incomplete            int64
}

// Verifier proves the record.
type Verifier interface {
	// Verify checks one run (zero: all) and calls f with each finding: hash,
	// density, prev, epochs and times non-decreasing, extracted columns equal
	// the bytes, each run_resumed base equal to run_epochs and the event at it,
	// set-aside rows beyond a later epoch's base, projections folded to the top.
	// For all runs also: sums by day are those of the calls.
	Verify(ctx context.Context, run events.RunID, f func(Finding) error) (VerifyReport, error)
}
