package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// explanation says in sentences why a run or a call is where it is, and what
// can be done next. Below them is the same in fields, for scripts.
type explanation struct {
	Run   events.RunID `json:"run"`
	Call  string       `json:"call,omitempty"`
	State string       `json:"state"`
	Why   []string     `json:"why"`
	Next  []next       `json:"next"`

	Details   *runView       `json:"details,omitempty"`   // of the run, without its input
	Handoffs  []handoffView  `json:"handoffs,omitempty"`  // awaited
	Children  []relativeView `json:"children,omitempty"`  // that did not finish
	Approvals []approvalView `json:"approvals,omitempty"` // that nobody has decided
	Switches  []switchView   `json:"switches,omitempty"`  // that stop the run
	Queue     *queueView     `json:"queue,omitempty"`     // of a run that waits in it
	Holders   []relativeView `json:"holders,omitempty"`   // of its places, if it has none left
	Budgets   []budgetView   `json:"budgets,omitempty"`   // that bound the run
	Effects   []effectView   `json:"effects,omitempty"`   // in doubt, or with something wrong
	Pending   []factView     `json:"pending,omitempty"`
	Problem   string         `json:"unreadable,omitempty"`
}

// next is a line to type, and what it is for.
type next struct {
	Command string `json:"command"`
	For     string `json:"for"`
}

func (e *explanation) say(format string, args ...any) {
	e.Why = append(e.Why, fmt.Sprintf(format, args...))
}

func (e *explanation) next(command, why string) {
	for _, n := range e.Next {
		if n.Command == command {
			return
		}
	}
	e.Next = append(e.Next, next{command, why})
}

func (a *app) whyCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "why RUN | RUN/t1.c0",
		Short: "Says in plain sentences why a run or a tool call is where it is",
		Long: `Says in plain sentences why a run or a tool call is where it is: what is, since when, by
whom, and what to type. -o json gives the sentences, and the same in fields.`,
		Example: `  ledgerctl why 7W6X5Y
  ledgerctl why 7W6X5Y/t1.c0
  ledgerctl why 7W6X5Y -o json | jq .handoffs`,
		Args: oneArg("a run or a call"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				explain := a.whyRun
				if strings.Contains(args[0], "/") {
					explain = a.whyCall
				}
				e, err := explain(ctx, st, args[0])
				if err != nil {
					return err
				}
				if a.output != formatTable {
					return a.json(e)
				}
				a.printExplanation(e)
				return nil
			})
		},
	}
	a.outputFlag(c, showFormats...)
	return c
}

func (a *app) printExplanation(e explanation) {
	for _, s := range e.Why {
		for i, line := range wrap(clean(s), max(a.term.width-2, 0)) {
			if i > 0 {
				line = "  " + line
			}
			fmt.Fprintln(a.out, line)
		}
	}
	if len(e.Next) == 0 {
		return
	}
	a.section("next")
	for _, n := range e.Next {
		a.toType(n.Command, n.For)
	}
}

func (a *app) whyRun(ctx context.Context, st ledger.Store, name string) (explanation, error) {
	s, err := a.readSummary(ctx, st, name)
	if err != nil {
		return explanation{}, err
	}
	details := a.runView(s)
	e := explanation{Run: s.ID, State: string(s.State), Next: []next{}, Details: &details, Problem: s.Unreadable}
	if err := a.whyState(ctx, st, &e, s); err != nil {
		return e, err
	}
	if !s.State.Ended() && !s.Deadline.IsZero() {
		e.say("It is stopped at %s, whatever it does: that is its deadline.", a.since(s.Deadline))
	}
	if fire := ledger.FireOf(s.Run); !fire.IsZero() {
		e.say("Schedule %s submitted it, for its fire of %s.", s.Schedule, stamp(fire))
	}
	for _, more := range []func(context.Context, ledger.Store, *explanation, ledger.Run) error{a.whyAgain, a.whyChildren, a.whyBudgets} {
		if err := more(ctx, st, &e, s.Run); err != nil {
			return e, err
		}
	}
	a.whyFork(&e, s.Run)
	if s.Unreadable != "" {
		e.say("No worker so far could read its history: %s. It is tried again later and later, since another build may read it; nothing can be added to it before.", s.Unreadable)
		e.next(a.command("verify", s.ID.String()), "whether its record was changed")
	}
	if err := st.RolledBack(ctx); errors.Is(err, ledger.ErrRolledBack) {
		e.say("Nobody works at all: %s.", err)
		e.next(a.command("reconcile"), "give the database what the journal knows")
	}
	if err := a.whyCalls(ctx, st, &e, s); err != nil {
		return e, err
	}
	if err := a.whyPending(ctx, st, &e, s.Run); err != nil {
		return e, err
	}
	e.next(a.command("runs", "show", s.ID.String()), "everything that happened")
	return e, nil
}

// whyState says what the run's state means.
func (a *app) whyState(ctx context.Context, st ledger.Store, e *explanation, s ledger.Summary) error {
	switch s.State {
	case ledger.Queued:
		return a.whyQueued(ctx, st, e, s.Run)
	case ledger.Running:
		e.say("Run %s of agent %s is running since %s.", s.ID, s.Agent, a.since(s.StartedAt))
		if s.Unreadable == "" { // else its last worker gave it back
			a.whyLease(e, s.Run)
		}
		if !s.HeldAt.IsZero() {
			a.whyHeld(e, s.Run)
			e.say("Its worker parks it after the act in hand.")
		}
		return a.whyHandoffs(ctx, st, e, s.Run)
	case ledger.Cancelling:
		a.whyCancelling(e, s.Run)
		return nil
	case ledger.Parked:
		return a.whyParked(ctx, st, e, s.Run)
	}
	a.whyEnded(e, s)
	return nil
}

// whyPending names facts that nobody has put into the timeline.
func (a *app) whyPending(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) error {
	fs, err := st.Pending(ctx, r.ID)
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
		e.Pending = append(e.Pending, newFactView(f))
	}
	e.say("%s not in the timeline yet (%s), the oldest since %s: the next worker that takes the run puts what is pending there.",
		are(len(fs), "fact"), strings.Join(kinds, ", "), a.since(oldest))
	return nil
}

// whyCancelling says who wants the run to end, and what keeps it from it.
// ablative-io/aion#230: it is not cancelled before its worker says so.
func (a *app) whyCancelling(e *explanation, r ledger.Run) {
	e.say("Run %s of agent %s is being cancelled: %s asked for it%s (%s). It begins nothing new, and is cancelled once its worker confirms or its lease ends.",
		r.ID, r.Agent, r.CancelBy, at(a, r.CancelAt), orNo(r.CancelReason, "no reason given"))
	a.whyLease(e, r)
	if r.LeaseUntil.After(a.now()) {
		e.say("What it waits for is worker %s: it ends the act in hand, or its lease ends.", r.Worker)
	}
}

// whyHeld says who holds a run back. Workers that die with it are told from a
// person who wants to look.
func (a *app) whyHeld(e *explanation, r ledger.Run) {
	if r.HeldBy == ledger.ByDaybook {
		e.say("No person paused it. It is held back since %s because it seems to kill its workers: %s.", a.since(r.HeldAt), r.HeldReason)
		e.say("Look at the log of its last worker, and at its memory. Resuming tries it once more, on any worker.")
	} else {
		e.say("%s paused it at %s: %s", r.HeldBy, a.since(r.HeldAt), r.HeldReason)
	}
	e.next(a.resumeLine(r.ID.String()), "to let it go on")
	e.next(a.command("cancel", r.ID.String(), "--reason", "TEXT"), "if it shall not go on")
}

// whyFork says where a fork comes from and what that means for its calls.
func (a *app) whyFork(e *explanation, r ledger.Run) {
	if r.ForkEffects == "" {
		return
	}
	words := map[ledger.ForkEffects]string{
		ledger.ForkReplay:   "other destructive calls are executed",
		ledger.ForkSimulate: "other destructive calls are not executed, and the model is told so",
		ledger.ForkAsk:      "each other destructive call needs a person's approval",
	}[r.ForkEffects]
	if r.ForkOf.IsZero() {
		e.say("It works for a fork, and does what that does: %s (%s).", orNo(words, "nothing is known of destructive calls"), r.ForkEffects)
		return
	}
	e.say("It is a fork: it begins with the history of run %s up to event %d. What that run has done is handed back and not done again; %s (%s).",
		r.ForkOf, r.ForkSeq, orNo(words, "nothing is known of other destructive calls"), r.ForkEffects)
	e.next(a.command("runs", "show", r.ForkOf.String()), "the run that it comes from")
	e.next(a.command("rehearse", r.ID.String()), "where today's loop would decide otherwise")
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
func (a *app) whyLease(e *explanation, r ledger.Run) {
	switch {
	case r.LeaseUntil.IsZero():
		e.say("No worker holds its lease: any worker that has its tools takes it at its next look at the queue.")
	case r.LeaseUntil.After(a.now()):
		e.say("Worker %s holds its lease (epoch %d) until %s, and extends it while it lives.", r.Worker, r.Epoch, a.since(r.LeaseUntil))
		e.next(a.command("runs", "tail", r.ID.String()), "watch it")
	default:
		e.say("The lease of worker %s (epoch %d) ran out at %s: that worker is dead or cut off, and any other that has the run's tools takes over at its next look at the queue.", r.Worker, r.Epoch, a.since(r.LeaseUntil))
	}
}
