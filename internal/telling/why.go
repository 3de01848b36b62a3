package telling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Source is what an explanation reads: a ledger, or as much of one as whoever asks
// may see. What may not be seen is [ledger.ErrNotFound], or not in a list.
type Source interface {
	RunSource
	WaitSource
	CallSource
}

// RunSource reads runs.
type RunSource interface {
	Run(ctx context.Context, id events.RunID) (ledger.Run, error)
	Events(ctx context.Context, run events.RunID, from uint64, f func(events.Sealed) error) error
	Pending(ctx context.Context, run events.RunID) ([]events.Fact, error)
	Descendants(ctx context.Context, run events.RunID, limit int) ([]ledger.Run, error)
	// Session lists the runs of the session that the run is in, in their order.
	Session(ctx context.Context, run events.RunID) ([]ledger.Summary, error)
	// RolledBack is [ledger.ErrRolledBack] while nobody may work.
	RolledBack(ctx context.Context) error
}

// WaitSource reads what a run can wait for.
type WaitSource interface {
	// Handoffs lists calls of the run whose outcome comes from outside.
	Handoffs(ctx context.Context, run events.RunID, states ...ledger.HandoffState) ([]ledger.Handoff, error)
	// Switches lists the switches of the run's tenant that are not on.
	Switches(ctx context.Context, run events.RunID) ([]ledger.Switch, error)
	// Budgets lists those that bound the run.
	Budgets(ctx context.Context, run events.RunID) ([]ledger.Budget, error)
	// Queue is how the run's queue stands; its name is empty if nothing is known of it.
	Queue(ctx context.Context, run events.RunID) (ledger.QueueStats, error)
	// Holders lists the runs that hold a place in the run's queue.
	Holders(ctx context.Context, run events.RunID) ([]ledger.Run, error)
	Approvals(ctx context.Context, f ledger.ApprovalFilter) ([]ledger.Approval, error)
}

// CallSource reads calls and their effects.
type CallSource interface {
	Calls(ctx context.Context, f ledger.CallFilter) ([]ledger.CallRecord, error)
	Effects(ctx context.Context, f ledger.EffectFilter) ([]ledger.Effect, error)
	Attempts(ctx context.Context, opKey events.Hash) ([]ledger.Attempt, error)
	Waiting(ctx context.Context, opKey events.Hash) ([]ledger.Run, error)
}

// Explainer says in sentences why a run or a call is where it is. All fields are
// required, but Limited and Grace.
type Explainer struct {
	From Source
	Now  func() time.Time
	// Since is a moment in words.
	Since func(time.Time) string
	// Where says in a sentence where more is to be found, given in the words of a
	// command line.
	Where func(words ...string) string
	// Force is what settles an effect before no attempt can act any more.
	Force string
	// Grace is how long after its deadline an attempt may still act; 0 = as the
	// ledger says.
	Grace time.Duration
	// Limited: From does not show everything. What it does not show is not named.
	Limited bool
}

// Explanation says why a run or a call is where it is, and what can be done next.
// Below the sentences is what they are about.
type Explanation struct {
	Run   events.RunID
	Call  string // empty: of the run
	State string
	Why   []string
	Next  []Next

	Handoffs  []ledger.Handoff  // awaited
	Children  []ledger.Run      // that did not finish
	Approvals []ledger.Approval // that nobody has decided
	Switches  []ledger.Switch   // that stop the run
	Queue     *ledger.QueueStats
	Holders   []ledger.Run // of its places, if it has none left
	Budgets   []ledger.Budget
	Effects   []Effect // in doubt, or with something wrong
	Pending   []events.Fact
}

// Next is something to do: the words of a command line, and what it is for.
type Next struct {
	Words []string
	For   string
}

func (e *Explanation) say(format string, args ...any) {
	e.Why = append(e.Why, fmt.Sprintf(format, args...))
}

func (e *Explanation) next(why string, words ...string) {
	for _, n := range e.Next {
		if strings.Join(n.Words, "\x00") == strings.Join(words, "\x00") {
			return
		}
	}
	e.Next = append(e.Next, Next{words, why})
}

// WhyRun explains a run.
func (t Explainer) WhyRun(ctx context.Context, s ledger.Summary) (Explanation, error) {
	e := Explanation{Run: s.ID, State: string(s.State)}
	if err := t.whyState(ctx, &e, s); err != nil {
		return e, err
	}
	if !s.State.Ended() && !s.Deadline.IsZero() {
		e.say("It is stopped at %s, whatever it does: that is its deadline.", t.Since(s.Deadline))
	}
	if fire := ledger.FireOf(s.Run); !fire.IsZero() {
		e.say("Schedule %s submitted it, for its fire of %s.", s.Schedule, Stamp(fire))
	}
	for _, more := range []func(context.Context, *Explanation, ledger.Run) error{t.whyAgain, t.whyChildren, t.whyBudgets} {
		if err := more(ctx, &e, s.Run); err != nil {
			return e, err
		}
	}
	if err := t.whyFork(ctx, &e, s.Run); err != nil {
		return e, err
	}
	if s.Unreadable != "" {
		e.say("No worker so far could read its history: %s. It is tried again later and later, since another build may read it; nothing can be added to it before.", s.Unreadable)
		e.next("whether its record was changed", "verify", s.ID.String())
	}
	if err := t.From.RolledBack(ctx); errors.Is(err, ledger.ErrRolledBack) {
		e.say("Nobody works at all: %s.", err)
		e.next("give the database what the journal knows", "reconcile")
	}
	if err := t.whyCalls(ctx, &e, s); err != nil {
		return e, err
	}
	if err := t.whyPending(ctx, &e, s.Run); err != nil {
		return e, err
	}
	e.next("everything that happened", "runs", "show", s.ID.String())
	return e, nil
}

// whyState says what the run's state means.
func (t Explainer) whyState(ctx context.Context, e *Explanation, s ledger.Summary) error {
	switch s.State {
	case ledger.Queued:
		return t.whyQueued(ctx, e, s.Run)
	case ledger.Running:
		e.say("Run %s of agent %s is running since %s.", s.ID, s.Agent, t.Since(s.StartedAt))
		if s.Unreadable == "" { // else its last worker gave it back
			t.whyLease(e, s.Run)
		}
		if !s.HeldAt.IsZero() {
			t.whyHeld(e, s.Run)
			e.say("Its worker parks it after the act in hand.")
		}
		return t.whyHandoffs(ctx, e, s.Run)
	case ledger.Cancelling:
		t.whyCancelling(e, s.Run)
		return nil
	case ledger.Parked:
		return t.whyParked(ctx, e, s.Run)
	}
	t.whyEnded(e, s)
	return nil
}

// whyPending names facts that nobody has put into the timeline.
func (t Explainer) whyPending(ctx context.Context, e *Explanation, r ledger.Run) error {
	fs, err := t.From.Pending(ctx, r.ID)
	if err != nil || len(fs) == 0 {
		return err
	}
	kinds := make([]string, len(fs))
	oldest := fs[0].At
	for i, f := range fs {
		kinds[i] = string(f.Type)
		if f.At.Before(oldest) {
			oldest = f.At
		}
		e.Pending = append(e.Pending, f)
	}
	e.say("%s not in the timeline yet (%s), the oldest since %s: the next worker that takes the run puts what is pending there.",
		are(len(fs), "fact"), strings.Join(kinds, ", "), t.Since(oldest))
	return nil
}

// whyCancelling says who wants the run to end, and what keeps it from it.
// ablative-io/aion#230: it is not cancelled before its worker says so.
func (t Explainer) whyCancelling(e *Explanation, r ledger.Run) {
	e.say("Run %s of agent %s is being cancelled: %s asked for it%s (%s). It begins nothing new, and is cancelled once its worker confirms or its lease ends.",
		r.ID, r.Agent, r.CancelBy, at(t, r.CancelAt), orNo(r.CancelReason, "no reason given"))
	t.whyLease(e, r)
	if r.LeaseUntil.After(t.Now()) {
		e.say("What it waits for is worker %s: it ends the act in hand, or its lease ends.", r.Worker)
	}
}

// whyHeld says who holds a run back. Workers that die with it are told from a
// person who wants to look.
func (t Explainer) whyHeld(e *Explanation, r ledger.Run) {
	if r.HeldBy == ledger.ByDaybook {
		e.say("No person paused it. It is held back since %s because it seems to kill its workers: %s.", t.Since(r.HeldAt), r.HeldReason)
		e.say("Look at the log of its last worker, and at its memory. Resuming tries it once more, on any worker.")
	} else {
		e.say("%s paused it at %s: %s", r.HeldBy, t.Since(r.HeldAt), r.HeldReason)
	}
	e.next("to let it go on", "resume", r.ID.String(), "--reason", "TEXT")
	e.next("if it shall not go on", "cancel", r.ID.String(), "--reason", "TEXT")
}

// whyFork says where a fork comes from and what that means for its calls.
func (t Explainer) whyFork(ctx context.Context, e *Explanation, r ledger.Run) error {
	if r.ForkEffects == "" {
		return nil
	}
	words := map[ledger.ForkEffects]string{
		ledger.ForkReplay:   "other destructive calls are executed",
		ledger.ForkSimulate: "other destructive calls are not executed, and the model is told so",
		ledger.ForkAsk:      "each other destructive call needs a person's approval",
	}[r.ForkEffects]
	if r.ForkOf.IsZero() {
		e.say("It works for a fork, and does what that does: %s (%s).", orNo(words, "nothing is known of destructive calls"), r.ForkEffects)
		return nil
	}
	named, err := t.names(ctx, r.ForkOf)
	if err != nil {
		return err
	}
	if !named {
		e.say("It is a fork of a run that you may not see, up to event %d. What that run has done is handed back and not done again; %s (%s).",
			r.ForkSeq, orNo(words, "nothing is known of other destructive calls"), r.ForkEffects)
		return nil
	}
	e.say("It is a fork: it begins with the history of run %s up to event %d. What that run has done is handed back and not done again; %s (%s).",
		r.ForkOf, r.ForkSeq, orNo(words, "nothing is known of other destructive calls"), r.ForkEffects)
	e.next("the run that it comes from", "runs", "show", r.ForkOf.String())
	e.next("where today's loop would decide otherwise", "rehearse", r.ID.String())
	return nil
}

func orNo(s, no string) string {
	if s == "" {
		return no
	}
	return s
}

// are is "1 call is" or "2 calls are".
func are(n int, one string) string {
	if n == 1 {
		return "1 " + one + " is"
	}
	return fmt.Sprintf("%d %ss are", n, one)
}

// whyLease says who may act for a run at the moment.
func (t Explainer) whyLease(e *Explanation, r ledger.Run) {
	switch {
	case r.LeaseUntil.IsZero():
		e.say("No worker holds its lease: any worker that has its tools takes it at its next look at the queue.")
	case r.LeaseUntil.After(t.Now()):
		e.say("Worker %s holds its lease (epoch %d) until %s, and extends it while it lives.", r.Worker, r.Epoch, t.Since(r.LeaseUntil))
		e.next("watch it", "runs", "tail", r.ID.String())
	default:
		e.say("The lease of worker %s (epoch %d) ran out at %s: that worker is dead or cut off, and any other that has the run's tools takes over at its next look at the queue.", r.Worker, r.Epoch, t.Since(r.LeaseUntil))
	}
}

// at is the moment of something, if it is known.
func at(t Explainer, when time.Time) string {
	if when.IsZero() {
		return ""
	}
	return " at " + t.Since(when)
}
