// Package ledger is the authority for what a run may do and the record of what
// it did: runs and leases, effects, the archive of events, projections and
// queries. It holds the contracts and the rules; the packages on its shelf keep
// the data.
package ledger

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
)

// State is where a run is. Stored; never renamed.
type State string

// Run states.
const (
	Queued     State = "queued"
	Running    State = "running"
	Parked     State = "parked"
	Cancelling State = "cancelling"
	Finished   State = "finished"
	Failed     State = "failed"
	Cancelled  State = "cancelled"
)

// Ended reports whether s is a state that a run never leaves.
func (s State) Ended() bool { return s == Finished || s == Failed || s == Cancelled }

// Submission asks for a run. Tenant, Queue, Agent, ClientKey, Input and InputMAC are required.
type Submission struct {
	// ID is the id the run gets; zero lets the store make one.
	ID     events.RunID
	Tenant string
	Queue  string
	Agent  string
	// ClientKey makes submission idempotent per tenant.
	ClientKey string
	Input     redact.JSON
	// InputMAC is the HMAC-SHA256 of the raw input under [Runs.TenantKey].
	InputMAC  []byte
	Owner     string
	SessionID string
	// Continue has the run share the transcript of SessionID: it waits for the runs
	// that were submitted to it before, and goes on from the last that has ended.
	// False = SessionID is the scope of effects and memory, and no more. Errors of
	// Submit: [ErrSessionOwner], [ErrSessionErased].
	Continue bool
	Parent   events.RunID
	// Root is the head of the lineage; zero means the run itself.
	Root     events.RunID
	Requires []string
	Priority int
	DueAt    time.Time // zero = now
	Deadline time.Time // zero = none
	Trace    string
	// ConcurrencyKey groups runs that a queue's limit per key counts together; empty = none.
	ConcurrencyKey string
	// MaxAttempts is how often the run is tried in all; 0 means as its agent says.
	MaxAttempts int
	// Schedule names the schedule that fired.
	Schedule string
	// Budget limits what the run may spend with its retries, forks and children; nil = no limit of its own.
	Budget *events.PicoUSD
	// Loop chooses the run's loop and its options, for it, its retries and its forks;
	// zero = its agent's. A schedule has none.
	Loop redact.JSON
	// Guard is for [Children.Spawn]: an [events.Guard], sealed; zero = none.
	Guard redact.JSON
	// Prompt is what the run, its retries and its forks are told beside what their
	// agent says; see runtime.Submit. Zero = nothing. A schedule has none.
	Prompt redact.JSON
}

// Run is a row of runs.
type Run struct {
	ID, Root, Parent       events.RunID
	Tenant, Queue, Agent   string
	Owner, SessionID       string
	ClientKey              string
	Input                  json.RawMessage
	Requires               []string
	Priority               int
	Trace                  string
	CreatedAt, DueAt       time.Time
	Deadline               time.Time // zero = none
	State                  State
	ParkReason             events.ParkReason
	ParkDetail             string
	ParkKey                events.Hash
	WakeAt, ParkedAt       time.Time
	Epoch                  uint64
	Worker                 string
	LeaseUntil             time.Time // zero = no lease
	CancelBy, CancelReason string
	CancelAt               time.Time // zero = nobody asked, or an older version
	StoppedBy              events.StoppedBy
	Result                 json.RawMessage
	Error                  string
	EndedAt                time.Time

	ConcurrencyKey string
	StartedAt      time.Time // of the first claim
	// Attempt counts from 1; RetryOf is the run before, Successor the one after.
	// MaxAttempts 0 is as the agent says.
	Attempt, MaxAttempts int
	RetryOf, Successor   events.RunID
	// DeadAt is set when the run failed and no further attempt will be made by itself.
	DeadAt time.Time
	// HeldAt is set while a person holds the run back: nobody claims it, but to
	// cancel it or, when its worker is gone, to park it.
	HeldBy, HeldReason string
	HeldAt             time.Time
	Schedule           string
	// ForkOf and ForkSeq are set for a fork, ForkEffects also for the runs that work for one.
	ForkOf      events.RunID
	ForkSeq     uint64
	ForkEffects ForkEffects
	// Loop is what the submission chose; nil = its agent's.
	Loop json.RawMessage
	// Guard is what a child's parent asks of it, an [events.Guard]; nil = nothing.
	Guard json.RawMessage
	// Prompt is what the submission says about the run's prompt; nil = nothing.
	Prompt json.RawMessage
	// SessionPlace is the run's place among those that share the transcript of its
	// session, from 1; 0 = it takes no part. BehindAt is set while it waits for the
	// runs before it. Continues is what its transcript goes on from, frozen by its
	// first claim.
	SessionPlace uint64
	BehindAt     time.Time
	Continues    Origin
	// Unreadable says why the last holder could not read the run's history.
	Unreadable string
}

// DeclinedBecause is the reason of a run that declined, empty if it did not. The
// result of such a run is the reason, or an object that has it as because or
// declined_because: so declined runs can be counted by it.
func (r Run) DeclinedBecause() string {
	if r.StoppedBy != events.StoppedByDeclined {
		return ""
	}
	var text string
	if json.Unmarshal(r.Result, &text) == nil {
		return text
	}
	var o struct {
		DeclinedBecause string `json:"declined_because"`
		Because         string `json:"because"`
	}
	if json.Unmarshal(r.Result, &o) != nil {
		return ""
	}
	return cmp.Or(o.DeclinedBecause, o.Because)
}

// ForkEffects says what destructive calls of a fork do. Stored; never renamed.
type ForkEffects string

// Effects of a fork. Whatever was applied is replayed in every mode.
const (
	ForkReplay   ForkEffects = "replay"   // calls that nobody made are executed
	ForkSimulate ForkEffects = "simulate" // they are not executed, and say so
	ForkAsk      ForkEffects = "ask"      // each needs an approval
)

// Lease is the right to act for a run. The epoch only grows; the database
// refuses every barrier of an older one.
type Lease struct {
	RunID  events.RunID
	Epoch  uint64
	Worker string
	// TTL is the lease's full length: Begin wants a third of it left.
	TTL time.Duration
	// Remaining is what was left in database time when the answer was made. The
	// holder counts it from before it sent the request.
	Remaining time.Duration
}

// ClaimKind says what the holder has to do before the first step.
type ClaimKind int

// Claim kinds.
const (
	// ClaimFresh: no history yet; record run_queued and run_started.
	ClaimFresh ClaimKind = iota + 1
	// ClaimResume: the last holder left cleanly; the base is written.
	ClaimResume
	// ClaimTakeover: the journal tail of LastWorker must be projected, then Base
	// called. The run may have no history, or have ended (then settle it).
	ClaimTakeover
	// ClaimSettle: the run has ended and facts came in: append them, Flush, Release.
	ClaimSettle
)

// ClaimRequest asks for runs. Worker and TTL are required; Limit 0 means 1.
type ClaimRequest struct {
	Worker       string
	Queues       []string // empty = every queue
	Capabilities []string // tool names this worker has
	Limit        int
	TTL          time.Duration
	// OwnTokens are attempts still running in this worker: a claim does not put them in doubt.
	OwnTokens []events.ID
}

// Claim is a run together with the lease on it.
type Claim struct {
	Run   Run
	Lease Lease
	Kind  ClaimKind
	// LastWorker is the last holder that had a base and so may have recorded
	// events; its journal tail matters for ClaimTakeover. Holders after it wrote nothing.
	LastWorker string
	// Base is set unless Kind is ClaimTakeover.
	Base Base
	// Facts are pending, in insertion order; the holder appends them at once.
	Facts []events.Fact
}

// Base is where an epoch starts: the top of the chain that counts.
type Base struct {
	Seq      uint64      // 0 = no event yet
	Hash     events.Hash // Genesis for Seq 0
	SetAside int
	Facts    []events.Fact
}

// Beat is a heartbeat's answer for one lease.
type Beat struct {
	RunID events.RunID
	// Held is false when another epoch holds the run, or nobody does: stop acting for it.
	Held         bool
	Remaining    time.Duration
	Cancelling   bool
	CancelBy     string
	CancelReason string
	// Paused: a person holds the run back; park it after the act in hand.
	Paused                 bool
	PausedBy, PausedReason string
	// Folded is up to which sequence the projector has folded the run.
	Folded uint64
	Facts  []events.Fact
}

// Runs is the queue and the leases. All methods are safe for concurrent use.
// Errors that mean the database could not be asked wrap [ErrUnavailable].
type Runs interface {
	// Submit commits the run before it returns. existed is true when the client
	// key was used before with the same input; another input is [ErrClientKeyConflict].
	Submit(ctx context.Context, s Submission) (run Run, existed bool, err error)
	// Run returns one run or [ErrNotFound].
	Run(ctx context.Context, id events.RunID) (Run, error)
	// Cancel moves a run that has not ended to cancelling and inserts the fact
	// operator_acted. [ErrEnded] says that there is nothing to cancel.
	Cancel(ctx context.Context, id events.RunID, by, reason string) (Run, error)
	// Claim takes up to Limit runs: due, parked with something to wake them,
	// with a lapsed lease, cancelling without a lease, or ended with facts.
	// In the same transaction it moves started attempts of older epochs to in
	// doubt (not: keyed and fenced ones of a live run, OwnTokens) with their facts.
	Claim(ctx context.Context, r ClaimRequest) ([]Claim, error)
	// Base is step (c) of a takeover: it sets aside what lies beyond the
	// contiguous chain and writes the epoch's base. [ErrFenced] if the epoch is not ours.
	Base(ctx context.Context, l Lease) (Base, error)
	// Heartbeat extends leases of one worker by their TTL, also one that has run
	// out and that nobody has taken, and returns pending facts. Beats are in the order of ls.
	Heartbeat(ctx context.Context, worker string, ls []Lease) ([]Beat, error)
}

// Prefix is every event of the run that the holder numbered and that is not
// known to be in the archive, in order.
type Prefix []events.Sealed

// Parking says what a run waits for.
type Parking struct {
	Reason events.ParkReason
	Detail string
	OpKey  events.Hash // for in_doubt and effect_busy: the effect waited for
	// Approval is waited for with reason approval, Tool's switch with reason paused.
	// With reason in_doubt, Tool is set if its switch keeps the call from being made
	// again: Park refuses if it is on by now.
	Approval events.ID
	Tool     string
	// Held: with [events.ParkPaused], a person holds back the run itself. Park
	// refuses if nobody does any more.
	Held bool
	// After is when the run is looked at again whatever happens, counted from
	// the transaction; zero or negative means never by itself. With
	// [events.ParkHandover] the run goes back to the queue instead. A run that
	// waits for hand-offs is also looked at when the first of them expires.
	After time.Duration
}

// Ending ends a run.
type Ending struct {
	State     State // Finished, Failed or Cancelled
	StoppedBy events.StoppedBy
	Result    json.RawMessage
	Error     string
	// Retry is how the run's agent wants a run tried again that an error stopped.
	Retry Retry
	// Own says that nothing from outside has come into the run. What it brings back
	// to a run that waits for it is own then, and external else.
	Own bool
	// Answer is what a run that waits for it is told instead of Result; empty = Result.
	Answer string
}

// Barriers are the fsynced points of a run. Each locks the run, checks epoch and
// lease ([ErrFenced]: nothing is committed), inserts the prefix, deletes facts
// that are in the archive, then does its own part. A barrier refused for any
// other reason still commits the first two. After an [ErrUnavailable] the same
// barrier is asked again: what was committed is not done twice.
type Barriers interface {
	// Flush has no part of its own; it returns the facts still pending.
	Flush(ctx context.Context, l Lease, p Prefix) ([]events.Fact, error)
	// Park fails with [ErrFactsPending] if facts are still pending after the
	// prefix, the run is cancelling, or what it would wait for is already decided.
	// [events.ParkHandover] waits for nothing: it always succeeds, and a
	// cancelling run stays so, without a lease. [ErrEnded] for an ended run.
	Park(ctx context.Context, l Lease, p Prefix, park Parking) error
	// Finish ends the run; its terminal event is in the prefix or in the archive.
	// It also redoes an end that the row lacks. [ErrEnded]: it has ended otherwise.
	Finish(ctx context.Context, l Lease, p Prefix, end Ending) error
	// Release gives back the lease on an ended run. If its holder recorded
	// nothing, the run is not claimed again for a while.
	Release(ctx context.Context, l Lease, p Prefix) error
}
