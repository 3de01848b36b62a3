package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
)

// BudgetKind says whose spending a budget limits. Stored; never renamed.
type BudgetKind string

// Kinds of budgets.
const (
	BudgetRun    BudgetKind = "run"    // a run with its retries, forks and children
	BudgetOwner  BudgetKind = "owner"  // all runs of an owner
	BudgetTenant BudgetKind = "tenant" // all runs of a tenant
)

// BudgetPeriod says over what a budget counts. Stored; never renamed.
type BudgetPeriod string

// Periods of budgets.
const (
	PerTotal BudgetPeriod = "total" // for ever, from when it was set
	PerDay   BudgetPeriod = "day"   // each UTC day anew, by the database's clock
)

// BudgetKey names a budget.
type BudgetKey struct {
	Tenant string
	Kind   BudgetKind
	// Name is the run's id or the owner; empty for [BudgetTenant].
	Name   string
	Period BudgetPeriod
}

// String is how people are told which budget: `owner "ann" per day of tenant "acme"`.
func (k BudgetKey) String() string {
	s := string(k.Kind)
	switch k.Kind {
	case BudgetRun:
		s += " " + k.Name
	case BudgetOwner:
		s += fmt.Sprintf(" %q", k.Name)
	case BudgetTenant:
		s += fmt.Sprintf(" %q", k.Tenant)
	}
	if k.Period == PerDay {
		s += " per day"
	}
	if k.Kind == BudgetOwner {
		s += fmt.Sprintf(" of tenant %q", k.Tenant)
	}
	return s
}

// Check says what is wrong with the key, if anything is.
func (k BudgetKey) Check() error {
	switch {
	case !events.ValidName(k.Tenant):
		return fmt.Errorf("budget of tenant %q: want 1 to 64 letters, digits, _ and -", k.Tenant)
	case k.Period != PerTotal && k.Period != PerDay:
		return fmt.Errorf("budget per %q: want total or day", k.Period)
	case k.Kind == BudgetTenant && k.Name == "", k.Kind == BudgetOwner && k.Name != "":
		return nil
	case k.Kind == BudgetRun:
		if _, err := events.ParseRunID(k.Name); err != nil {
			return fmt.Errorf("budget of a run: %w", err)
		}
		if k.Period == PerDay {
			return fmt.Errorf("budget of run %s per day: a run's budget is over all of it", k.Name)
		}
		return nil
	}
	return fmt.Errorf("budget of %s %q: want a run, an owner, or a tenant without a name", k.Kind, k.Name)
}

// Reservation is what an attempt may cost at most.
type Reservation struct {
	// Attempt identifies the model call or tool call: [ModelAttempt],
	// [CallAttempt] or the token of an effect.
	Attempt events.ID
	Amount  events.PicoUSD
	// What says it to people: "model m, turn 2 attempt 1".
	What string
	// Unpriced: nobody knows a price. Nothing is held; the attempt is counted.
	Unpriced bool
	// RunLimit becomes the budget of the run if it has none; nil = none.
	RunLimit *events.PicoUSD
}

// Budget is a limit and what counts against it.
type Budget struct {
	BudgetKey
	Limit *events.PicoUSD // nil = none any more
	SetBy string
	SetAt time.Time
	// Day is the UTC day of a [PerDay] budget that the amounts are of.
	Day string
	// Spent is what settled attempts cost, Reserved what attempts under way may
	// cost, Unsettled the same of attempts that nobody will hear of.
	Spent, Reserved, Unsettled events.PicoUSD
	// Unpriced counts attempts without a known price, which the limit does not cover.
	Unpriced int64
}

// Committed is what counts against the limit.
func (b Budget) Committed() events.PicoUSD { return b.Spent + b.Reserved + b.Unsettled }

// OpenReservation is an attempt whose cost nobody knows yet.
type OpenReservation struct {
	Attempt events.ID
	Run     events.RunID
	Epoch   uint64
	What    string
	Amount  events.PicoUSD
	State   string // reserved, unsettled or unpriced
	At      time.Time
	Budgets []BudgetKey
	// Child is set for what is held for a child run: Amount is what is left of it, and
	// it goes back when the child has ended.
	Child events.RunID
}

// BudgetChange sets a limit.
type BudgetChange struct {
	BudgetKey
	Limit *events.PicoUSD // nil takes the limit away
	By    string          // required
}

// BudgetFilter selects budgets; zero fields select all.
type BudgetFilter struct {
	Tenant string
	Kind   BudgetKind
	Name   string
	Limit  int // 0 = 100
	// After is the last budget seen, for the next page.
	After BudgetKey
}

// BudgetError says which budget does not allow an attempt. It wraps [ErrBudget].
type BudgetError struct {
	Budget                   BudgetKey
	Limit, Committed, Wanted events.PicoUSD
}

func (e *BudgetError) Error() string {
	flags := "--tenant " + e.Budget.Tenant
	switch e.Budget.Kind {
	case BudgetRun:
		flags = "--run " + e.Budget.Name
	case BudgetOwner:
		flags += fmt.Sprintf(" --owner %q", e.Budget.Name)
	}
	if e.Budget.Period == PerDay {
		flags += " --per day"
	}
	return fmt.Sprintf("budget of %s: %s USD are committed of %s, and this may cost %s: raise it with ledgerctl budgets set %s --limit AMOUNT, or settle what is unsettled (ledgerctl budgets)",
		e.Budget, e.Committed, e.Limit, e.Wanted, flags)
}

// Unwrap returns [ErrBudget].
func (e *BudgetError) Unwrap() error { return ErrBudget }

// DetailBudget is the detail of a [Refused] verdict by a budget. Stored; never renamed.
const DetailBudget = "budget"

// DetailUnpriced is the detail of a [Refused] verdict, and the kind of error of a
// run, for want of a known price. Stored; never renamed.
const DetailUnpriced = "unpriced"

// Event is the record of e.
func (e *BudgetError) Event() events.BudgetExceeded {
	return events.BudgetExceeded{Budget: e.Budget.String(), Limit: e.Limit, Wanted: e.Wanted, Committed: e.Committed}
}

// Who settled a reservation when no person did. Stored; never renamed.
const (
	SettledByUsage    = "usage"    // the holder, from what it was told
	SettledByEvidence = "evidence" // an outcome that was recorded and settled by nobody
	// SettledByReturn is for what was held for a child: the child has ended, and what is
	// left of it has gone back.
	SettledByReturn = "returned"
)

// Budgets keeps what is spent below limits: what an attempt may cost is reserved
// before it is made, and settled at what it cost. Spent, reserved and unsettled
// amounts never exceed a limit, whoever reserves at the same time, as long as no
// attempt costs more than was reserved for it. Safe for concurrent use. Errors
// that mean the database could not be asked wrap [ErrUnavailable].
type Budgets interface {
	// Reserve holds an amount in every budget of the run, or in none: then the
	// error is a [*BudgetError]. It is also [ErrFenced] without the lease, and
	// [ErrEnded]. held is false if the run has no budget; nothing is stored then.
	// The same attempt asked again is held once.
	Reserve(ctx context.Context, l Lease, r Reservation) (held bool, err error)
	// Settle says what an attempt cost; nil says that nobody knows, and it stays
	// unsettled at what was reserved. An attempt without a reservation is no error,
	// and one that is settled already stays as it is.
	Settle(ctx context.Context, attempt events.ID, actual *events.PicoUSD) error
	// SettleBy is Settle by a person, of an attempt whose holder is gone.
	// Errors: [ErrNotFound], [ErrSettled], and [ErrNotQuiescent] while it may be under way.
	SettleBy(ctx context.Context, attempt events.ID, actual events.PicoUSD, by string) (OpenReservation, error)
	// SetBudget sets a limit, below what is committed too; who did is kept.
	SetBudget(ctx context.Context, c BudgetChange) (Budget, error)
	// Budgets lists budgets by tenant, kind, name and period.
	Budgets(ctx context.Context, f BudgetFilter) ([]Budget, error)
	// OpenReservations lists up to limit attempts that are not settled, oldest first.
	OpenReservations(ctx context.Context, f BudgetFilter) ([]OpenReservation, error)
}

// ModelAttempt identifies one wire call to a model. Of two holders that count
// the same attempt each made its own.
func ModelAttempt(run events.RunID, epoch uint64, turn, attempt int) events.ID {
	return attemptID("model", run, epoch, turn, attempt, 0)
}

// CallAttempt identifies one execution of a readonly or idempotent tool call; an
// effect's attempt is its token.
func CallAttempt(run events.RunID, epoch uint64, c events.CallID, attempt int) events.ID {
	return attemptID("tool", run, epoch, c.Turn, c.Index, attempt)
}

func attemptID(kind string, run events.RunID, epoch uint64, numbers ...int) events.ID {
	b := append([]byte("daybook/attempt/1\x00"+kind+"\x00"), run[:]...)
	b = binary.AppendUvarint(b, epoch)
	for _, n := range numbers {
		b = binary.AppendVarint(b, int64(n))
	}
	sum := sha256.Sum256(b)
	var id events.ID
	copy(id[:6], run[:6]) // an id that sorts with its run
	copy(id[6:], sum[:10])
	return id
}

// Billed is the attempt that an event tells the outcome of, and what it cost: nil
// if that is not known. ok is false for events that tell no such thing. run and
// epoch are those of the holder that made the attempt.
func Billed(run events.RunID, epoch uint64, p events.Payload) (attempt events.ID, cost *events.PicoUSD, ok bool) {
	switch p := p.(type) {
	case events.ModelCallFinished:
		return ModelAttempt(run, epoch, p.Turn, p.Attempt), p.Cost, true
	case events.ModelCallError:
		return ModelAttempt(run, epoch, p.Turn, p.Attempt), ErrorCost(p), true
	case events.ToolExecutionFinished:
		if p.Ref == nil {
			return CallAttempt(run, epoch, p.Call, p.Attempt), p.Result.Cost, true
		}
	case events.ToolExecutionError:
		if p.Ref == nil {
			return CallAttempt(run, epoch, p.Call, p.Attempt), p.Result.Cost, true
		}
	}
	return events.ID{}, nil, false
}

// refusals are kinds of model errors that say a provider refused a request
// before it did any work.
var refusals = map[string]bool{"rate_limited": true, "overloaded": true, "invalid_request": true, "unauthorized": true}

// ErrorCost is what a model call without an answer cost: what its usage says, or
// nothing if the provider refused it before it did any work; nil = nobody knows.
func ErrorCost(e events.ModelCallError) *events.PicoUSD {
	if e.Cost == nil && e.Usage == nil && refusals[e.Error.Kind] {
		return new(events.PicoUSD)
	}
	return e.Cost
}
