package ledger

import "errors"

// Errors of the contracts in this package; implementations wrap them with the
// operation and what it was about.
var (
	// ErrNotFound: no such run, effect, attempt or blob.
	ErrNotFound = errors.New("not found")
	// ErrFenced: the lease's epoch is not the run's any more; nothing was committed.
	ErrFenced = errors.New("fenced: another worker holds the run")
	// ErrLeaseTooShort: less than a third of the lease is left; heartbeat first.
	ErrLeaseTooShort = errors.New("lease too short to begin an effect: heartbeat and ask again")
	// ErrAuditBehind: the facts of earlier effects are not recorded yet.
	ErrAuditBehind = errors.New("audit behind: earlier effects are not in the record yet")
	// ErrWindowMissing: the scope needs a declared window.
	ErrWindowMissing = errors.New("scope owner or tenant needs a window: declare a duration or tools.Forever")
	// ErrWouldWaitOnAncestor: a child would wait for an effect that its own ancestor holds.
	ErrWouldWaitOnAncestor = errors.New("effect is held by an ancestor of this run, which waits for this run")
	// ErrDecided: somebody has answered the request already.
	ErrDecided = errors.New("already decided: an approval is answered once")
	// ErrOtherCall: a request is for another call than the one that was shown.
	ErrOtherCall = errors.New("the request is for another call than the one that was shown: look again before you answer")
	// ErrExpired: nobody answered the request in time; its call is refused.
	ErrExpired = errors.New("expired: the call is refused and the model told, it may ask again")
	// ErrBudget: a budget does not allow it; the error is a [*BudgetError].
	ErrBudget = errors.New("budget exceeded")
	// ErrSettled: the attempt's cost is known already.
	ErrSettled = errors.New("attempt is settled already")
	// ErrFactsPending: facts are not in the history yet, or the awaited thing is decided; append and decide again.
	ErrFactsPending = errors.New("facts pending: append them and decide again")
	// ErrClientKeyConflict: the client key was used with another input.
	ErrClientKeyConflict = errors.New("client key was used before with another input: use a new key or send the same input")
	// ErrSessionOwner: the session is another owner's.
	ErrSessionOwner = errors.New("the session is another owner's: submit the run for its owner, or begin a session of its own")
	// ErrSessionErased: the session's owner was erased.
	ErrSessionErased = errors.New("the session's owner was erased, so nobody continues it: begin another one")
	// ErrInvalidSchedule: it could never fire as it is; the text says what to write.
	ErrInvalidSchedule = errors.New("invalid schedule")
	// ErrNoSuchEvent: the archive has no unbroken history of the run up to that event.
	ErrNoSuchEvent = errors.New("the archive does not have the run's events up to there: take an earlier one, or wait until it is recorded")
	// ErrEnded: the run has ended.
	ErrEnded = errors.New("run has ended")
	// ErrCancelling: the run is being cancelled, so it cannot be paused.
	ErrCancelling = errors.New("run is being cancelled: it ends as soon as its worker confirms")
	// ErrNotPaused: there is nothing to resume.
	ErrNotPaused = errors.New("not paused: nothing to resume")
	// ErrNotDead: the run did not fail for good, or has been tried again already.
	ErrNotDead = errors.New("not a dead run: only a failed run without a successor is tried again")
	// ErrNotQuiescent: an attempt might still act.
	ErrNotQuiescent = errors.New("an attempt may still be acting: wait until its deadline and grace have passed, or force")
	// ErrNotInDoubt: there is nothing to resolve.
	ErrNotInDoubt = errors.New("effect is not in doubt")
	// ErrAttemptedSince: who says what became of an effect has not seen its latest attempt.
	ErrAttemptedSince = errors.New("the effect was attempted again, or went to another run, since it was looked at: look again before you say what became of it")
	// ErrCompleted: a hand-off was completed with another outcome.
	ErrCompleted = errors.New("call was completed before with another outcome, which stands")
	// ErrNotAwaited: nobody waits for a hand-off any more.
	ErrNotAwaited = errors.New("call is not waited for any more: its time was up or its run has ended")
	// ErrTooDeep and ErrTooManyChildren bound what one run sets in motion.
	ErrTooDeep         = errors.New("child run is too deep: do the work in this run, or delegate it from one nearer to the first")
	ErrTooManyChildren = errors.New("run has too many children: give each more to do, or submit runs of their own")
	// ErrSignalConflict: the key was used with another signal.
	ErrSignalConflict = errors.New("signal key was used before with another name or data: use a new key or send the same signal")
	// ErrUnavailable: the database could not be asked; nothing is known about the request.
	ErrUnavailable = errors.New("ledger database unavailable: check that it runs and is reachable, the call is tried again")
	// ErrDatabaseFull: the database found no room; it is [ErrUnavailable], too.
	ErrDatabaseFull = errors.New("the disk of the ledger's database is full: free space, and start the server if it went down; nothing is begun meanwhile, and workers go on by themselves")
	// ErrRolledBack: the database is older than its journal; see [RollbackError].
	ErrRolledBack = errors.New("the ledger database is older than its journal: it was restored from a backup, or is a replica that lagged; nothing is begun until ledgerctl reconcile has run")
	// ErrSchema: the database has not been migrated, or by a newer version.
	ErrSchema = errors.New("ledger schema does not fit this version: run ledgerctl migrate")
)

// RollbackError says how it shows that the database went back in time. It is
// [ErrRolledBack], and for whoever is at work it is also [ErrUnavailable]:
// everything waits until the ledger can be trusted again.
type RollbackError struct{ Reason string }

func (e *RollbackError) Error() string { return ErrRolledBack.Error() + " (" + e.Reason + ")" }

// Is reports whether target is [ErrRolledBack] or [ErrUnavailable].
func (e *RollbackError) Is(target error) bool {
	return target == ErrRolledBack || target == ErrUnavailable
}
