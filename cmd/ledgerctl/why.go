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
// can be done next.
type explanation struct {
	Run   events.RunID `json:"run"`
	Call  string       `json:"call,omitempty"`
	State string       `json:"state"`
	Why   []string     `json:"why"`
	Next  []next       `json:"next"`
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
		Example: `  ledgerctl why 7W6X5Y
  ledgerctl why 7W6X5Y/t1.c0`,
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
	e := explanation{Run: s.ID, State: string(s.State), Next: []next{}}
	switch s.State {
	case ledger.Queued:
		a.whyQueued(&e, s.Run)
	case ledger.Running:
		a.whyRunning(&e, s.Run)
	case ledger.Cancelling:
		a.whyCancelling(&e, s.Run)
	case ledger.Parked:
		if err := a.whyParked(ctx, st, &e, s.Run); err != nil {
			return e, err
		}
	default:
		a.whyEnded(&e, s)
	}
	a.whyFork(&e, s.Run)
	if s.Unreadable != "" {
		e.say("No worker so far could read its history: %s. It is tried again later and later; nothing can be added to it before.", s.Unreadable)
		e.next(a.command("verify", s.ID.String()), "whether its record was changed")
	}
	if err := st.RolledBack(ctx); errors.Is(err, ledger.ErrRolledBack) {
		e.say("Nobody works at all: %s.", err)
		e.next(a.command("reconcile"), "give the database what the journal knows")
	}
	if err := a.whyCalls(ctx, st, &e, s); err != nil {
		return e, err
	}
	fs, err := st.Pending(ctx, s.ID)
	if len(fs) > 0 {
		kinds := make([]string, len(fs))
		for i, f := range fs {
			kinds[i] = string(f.Type)
		}
		e.say("%s not in the timeline yet (%s): the next worker that takes the run puts what is pending there.", are(len(fs), "fact"), strings.Join(kinds, ", "))
	}
	e.next(a.command("runs", "show", s.ID.String()), "everything that happened")
	return e, err
}

// whyCancelling says who wants the run to end, and what keeps it from it.
// ablative-io/aion#230: it is not cancelled before its worker says so.
func (a *app) whyCancelling(e *explanation, r ledger.Run) {
	e.say("Run %s of agent %s is being cancelled: %s asked for it%s (%s). It begins nothing new, and is cancelled once its worker confirms or its lease ends.",
		r.ID, r.Agent, r.CancelBy, at(a, r.CancelAt), orNo(r.CancelReason, "no reason given"))
	a.whyLease(e, r)
}

// whyFork says where a fork comes from and what that means for its calls.
func (a *app) whyFork(e *explanation, r ledger.Run) {
	if r.ForkOf.IsZero() {
		return
	}
	words := map[ledger.ForkEffects]string{
		ledger.ForkReplay:   "other destructive calls are executed",
		ledger.ForkSimulate: "other destructive calls are not executed, and the model is told so",
		ledger.ForkAsk:      "each other destructive call needs a person's approval",
	}[r.ForkEffects]
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

func (a *app) whyQueued(e *explanation, r ledger.Run) {
	if r.DueAt.After(a.now()) {
		e.say("Run %s of agent %s waits in queue %s: it is not due before %s.", r.ID, r.Agent, r.Queue, a.since(r.DueAt))
		return
	}
	e.say("Run %s of agent %s waits in queue %s since %s: no worker has taken it.", r.ID, r.Agent, r.Queue, a.since(r.DueAt))
	if len(r.Requires) > 0 {
		e.say("Only a worker that has these tools can take it: %s.", strings.Join(r.Requires, ", "))
	}
	e.say("Check that a worker works on queue %s and has agent %s (runner worker -h).", r.Queue, r.Agent)
}

func (a *app) whyRunning(e *explanation, r ledger.Run) {
	e.say("Run %s of agent %s is running.", r.ID, r.Agent)
	a.whyLease(e, r)
}

// whyLease says who may act for a run at the moment.
func (a *app) whyLease(e *explanation, r ledger.Run) {
	switch {
	case r.LeaseUntil.IsZero():
		e.say("No worker holds its lease: any worker that has its tools takes it at its next look at the queue.")
	case r.LeaseUntil.After(a.now()):
		e.say("Worker %s holds its lease (epoch %d) until %s, and extends it while it lives.", r.Worker, r.Epoch, stamp(r.LeaseUntil))
		e.next(a.command("runs", "tail", r.ID.String()), "watch it")
	default:
		e.say("The lease of worker %s (epoch %d) ran out at %s: that worker is dead or cut off, and any other that has the run's tools takes over at its next look at the queue.", r.Worker, r.Epoch, a.since(r.LeaseUntil))
	}
}

// stopWords say why a run ended; the keys are stored.
func stopWords(s events.StoppedBy) string {
	words := map[events.StoppedBy]string{
		events.StoppedByFinish:           "the model said that it was done",
		events.StoppedByDeclined:         "the model declined the task",
		events.StoppedBySilent:           "the model answered without asking for another tool",
		events.StoppedByArtifactFinished: "the validator accepted its artifact",
		events.StoppedByArtifactFailed:   "the validator accepted none of its artifacts",
		events.StoppedByMaxTurns:         "it used all the turns it was given",
		events.StoppedByBudget:           "its budget was spent",
		events.StoppedByDeadline:         "its deadline passed",
		events.StoppedByCancelled:        "it was cancelled",
		events.StoppedByError:            "of an error",
	}[s]
	return orNo(words, orNo(string(s), "no reason is recorded"))
}

func (a *app) whyEnded(e *explanation, s ledger.Summary) {
	e.say("Run %s of agent %s %s at %s, after %s: %s (%s).", s.ID, s.Agent,
		map[ledger.State]string{ledger.Finished: "finished", ledger.Failed: "failed", ledger.Cancelled: "was cancelled"}[s.State],
		a.since(s.EndedAt), plural(s.Turns, "turn"), stopWords(s.StoppedBy), orNo(string(s.StoppedBy), "-"))
	if s.CancelBy != "" {
		e.say("%s asked for it: %s.", s.CancelBy, orNo(s.CancelReason, "no reason given"))
	}
	if s.Error != "" {
		e.say("Its error: %s", s.Error)
	}
}
