// Package bug holds seeded bugs: wrong designs that the tests must find. Each is
// one condition in product code,
//
//	if bug.On(bug.EarlyProbe) { … }
//
// which is constantly false, and compiled away, unless the binary is built with
// the tag daybook_bugs. With it, the environment variable DAYBOOK_BUG switches
// one of them on. make mutations runs the tests against each and prints which
// layer found it: a test programme that lets one live proves less than it says.
package bug

// A Bug is a seeded one, by the name that DAYBOOK_BUG takes.
type Bug string

// The protocol of effects: what a model in models/ showed to be wrong, and more
// of its kind.
const (
	// RereadDecides: what a second read finds decides, not Begin's transaction.
	RereadDecides Bug = "reread_decides"
	// ReexecStarted: an attempt without an outcome is run again, whatever the tool says about recovery.
	ReexecStarted Bug = "reexec_started"
	// ExpireStarted: an attempt is forgotten once its deadline has passed.
	ExpireStarted Bug = "expire_started"
	// BeginNotDurable: Begin says execute, and its transaction is rolled back.
	BeginNotDurable Bug = "begin_not_durable"
	// ExecuteUnavailable: the worker runs a call although the database did not answer.
	ExecuteUnavailable Bug = "execute_unavailable"
	// NoBegin: a destructive call is run like an idempotent one.
	NoBegin Bug = "no_begin"
	// RecordFirst: a call is recorded as applied before it runs.
	RecordFirst Bug = "record_first"
	// TimeoutIsFailure: a call that ran out of time is told as not applied.
	TimeoutIsFailure Bug = "timeout_is_failure"
	// EarlyProbe: "it did not happen" is believed while an attempt may still act.
	EarlyProbe Bug = "early_probe"
	// DefiniteAfterUnclear: a definite error settles, although an earlier attempt is unclear.
	DefiniteAfterUnclear Bug = "definite_error_after_unclear"
	// KeyedForever: a keyed call is run again however old its key is.
	KeyedForever Bug = "keyed_forever"
	// TokenBlind: a token asked again executes without a look at what happened to it.
	TokenBlind Bug = "token_blind"
	// ConflictReplays: the outcome of other arguments is handed back as this call's.
	ConflictReplays Bug = "conflict_replays"
	// EndNeedsLease: an outcome that comes after the lease is lost is dropped.
	EndNeedsLease Bug = "end_needs_lease"
	// WaitersNotWoken: a run that waits for an effect is not told that it is decided.
	WaitersNotWoken Bug = "waiters_not_woken"
	// ApprovalNotConsumed: an approval is good for any number of executions.
	ApprovalNotConsumed Bug = "approval_not_consumed"
	// ApprovalNoDigest: an approval is good for whatever arguments the call has now.
	ApprovalNoDigest Bug = "approval_no_digest"
	// BudgetNotReserved: a priced call is begun without a look at what it may cost.
	BudgetNotReserved Bug = "budget_not_reserved"
	// BudgetOfChildAlone: a budget that was put on a child run is not its descendants'.
	BudgetOfChildAlone Bug = "budget_of_child_alone"
	// BudgetGrantNotDrawn: what is held for a child is held once more when the child reserves it.
	BudgetGrantNotDrawn Bug = "budget_grant_not_drawn"
	// BudgetGrantKept: what a child leaves of what was held for it does not come back.
	BudgetGrantKept Bug = "budget_grant_kept"
	// TaintLaundered: a child run is not told that its input comes from a run that has
	// read text from outside, nor held to its parent's policy.
	TaintLaundered Bug = "taint_laundered"
	// SwitchIgnored: a tool that was switched off is called all the same.
	SwitchIgnored Bug = "switch_ignored"
)

// Leases, the journal and the record.
const (
	// NoFence: a barrier does not look at the epoch.
	NoFence Bug = "no_fence"
	// HeartbeatIgnoresEpoch: a heartbeat renews whoever's lease it is.
	HeartbeatIgnoresEpoch Bug = "epoch_not_checked_in_heartbeat"
	// NoEpochBase: what a former holder wrote beyond a later epoch's base is valid.
	NoEpochBase Bug = "no_epoch_base_check"
	// AckBeforeCommit: the projector confirms a message before its rows are committed.
	AckBeforeCommit Bug = "ack_before_commit"
	// FactsTrusted: a barrier deletes facts that the archive does not have.
	FactsTrusted Bug = "facts_deleted_unarchived"
	// DuplicateKey: a client key used before with another input makes no error.
	DuplicateKey Bug = "client_key_ignores_input"
	// CostLost: what a takeover sets aside is not counted.
	CostLost Bug = "set_aside_cost_lost"
	// RedactorSkipsKeys: secrets in keys of objects are not looked for.
	RedactorSkipsKeys Bug = "redactor_skips_map_keys"
	// VerifyIgnoresTail: verification does not miss events at the end.
	VerifyIgnoresTail Bug = "verify_ignores_tail"
)

// All lists them.
func All() []Bug {
	return []Bug{
		RereadDecides, ReexecStarted, ExpireStarted, BeginNotDurable, ExecuteUnavailable, NoBegin, RecordFirst, TimeoutIsFailure,
		EarlyProbe, DefiniteAfterUnclear, KeyedForever, TokenBlind, ConflictReplays, EndNeedsLease, WaitersNotWoken,
		ApprovalNotConsumed, ApprovalNoDigest, BudgetNotReserved, BudgetOfChildAlone, BudgetGrantNotDrawn, BudgetGrantKept, TaintLaundered, SwitchIgnored,
		NoFence, HeartbeatIgnoresEpoch, NoEpochBase, AckBeforeCommit, FactsTrusted, DuplicateKey, CostLost, RedactorSkipsKeys,
		VerifyIgnoresTail,
	}
}
