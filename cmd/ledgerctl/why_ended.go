package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

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

// declineWords says what a reason of the tool decline means; the keys are stored.
// Other reasons are the words of a model or a loop.
func declineWords(because string) string {
	words := map[string]string{
		"unknowable":   "nobody can know",
		"not_covered":  "the sources at hand do not say",
		"out_of_scope": "this agent is not for it",
		"unsafe":       "it should not be done",
	}[because]
	if words == "" {
		return because
	}
	return fmt.Sprintf("%s (%s).", words, because)
}

func (a *app) whyEnded(e *explanation, s ledger.Summary) {
	e.say("Run %s of agent %s %s at %s, after %s: %s (%s).", s.ID, s.Agent,
		map[ledger.State]string{ledger.Finished: "finished", ledger.Failed: "failed", ledger.Cancelled: "was cancelled"}[s.State],
		a.since(s.EndedAt), plural(s.Turns, "turn"), stopWords(s.StoppedBy), orNo(string(s.StoppedBy), "-"))
	if because := s.DeclinedBecause(); because != "" {
		e.say("It gave as its reason: %s", declineWords(because))
	}
	if s.CancelBy != "" {
		e.say("%s asked for it%s: %s.", s.CancelBy, at(a, s.CancelAt), orNo(s.CancelReason, "no reason given"))
	}
	if s.Error != "" {
		e.say("Its error: %s", s.Error)
	}
}

// whyAgain says which attempt a run is, what came before it and after it, and
// what can be done with one that nothing tries again.
func (a *app) whyAgain(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) error {
	of := ""
	if r.MaxAttempts > 0 {
		of = fmt.Sprintf(" of %d", r.MaxAttempts)
	}
	if !r.RetryOf.IsZero() {
		before, err := st.Run(ctx, r.RetryOf)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		e.say("It is attempt %d%s: run %s before it %s. What took effect in an earlier attempt is handed back and not done again.",
			r.Attempt, of, r.RetryOf, a.howEnded(before))
		e.next(a.command("why", r.RetryOf.String()), "why the attempt before ended")
	}
	if !r.Successor.IsZero() {
		after, err := st.Run(ctx, r.Successor)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		e.say("It was tried again as run %s, attempt %d, which %s.", r.Successor, after.Attempt, a.howEnded(after))
		e.next(a.command("why", r.Successor.String()), "how the next attempt stands")
	}
	if !r.DeadAt.IsZero() {
		why := "runs that end like this are not tried again by themselves"
		if r.StoppedBy == events.StoppedByError {
			why = fmt.Sprintf("attempt %d%s was the last", r.Attempt, of)
			if r.Attempt < r.MaxAttempts {
				why = "the next attempt would have come after its deadline, or it was being cancelled"
			}
		}
		e.say("It is a dead letter since %s: nothing tries it again, since %s.", a.since(r.DeadAt), why)
		e.next(a.command("runs", "requeue", r.ID.String(), "--reason", "TEXT"), "try it again, once the cause is gone; what took effect is not done again")
	}
	return nil
}

// howEnded is a clause about another run.
func (a *app) howEnded(r ledger.Run) string {
	switch {
	case r.ID.IsZero():
		return "is not in this ledger any more"
	case r.State == ledger.Queued && r.DueAt.After(a.now()):
		return "is queued and due at " + a.since(r.DueAt)
	case r.State == ledger.Parked:
		return fmt.Sprintf("waits since %s for %s", a.since(r.ParkedAt), parkWords(r.ParkReason))
	case !r.State.Ended():
		return "is " + string(r.State)
	}
	verb := map[ledger.State]string{ledger.Finished: "finished", ledger.Failed: "failed", ledger.Cancelled: "was cancelled"}[r.State]
	return either(": ", verb+" at "+a.since(r.EndedAt), r.Error)
}

// relativeView is another run that matters to the one in question.
type relativeView struct {
	Relation string            `json:"relation,omitempty"`
	Run      events.RunID      `json:"run"`
	Agent    string            `json:"agent"`
	State    ledger.State      `json:"state"`
	WaitsFor events.ParkReason `json:"waits_for,omitempty"`
	Worker   string            `json:"worker,omitempty"`
	Attempt  int               `json:"attempt,omitempty"`
	Error    string            `json:"error,omitempty"`
	// Cost is of a child in a run's report: with all runs below it.
	Cost      *dollars `json:"cost,omitempty"`
	how, cost string
}

func (a *app) relative(relation string, r ledger.Run) relativeView {
	return relativeView{
		Relation: relation, Run: r.ID, Agent: r.Agent, State: r.State, WaitsFor: r.ParkReason, Worker: r.Worker, Attempt: r.Attempt, Error: r.Error,
		how: a.howEnded(r),
	}
}

// whyChildren names the child runs that did not finish, and says whom the run
// itself works for.
func (a *app) whyChildren(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) error {
	if !r.Parent.IsZero() {
		e.say("It works for run %s, which gets its result.", r.Parent)
		e.next(a.command("why", r.Parent.String()), "how the run stands that it works for")
	}
	below, err := st.Descendants(ctx, r.ID, ledger.MaxChildren)
	if err != nil {
		return err
	}
	children, finished, named := 0, 0, 0
	for _, c := range below {
		if c.Parent != r.ID {
			continue
		}
		children++
		if c.State == ledger.Finished {
			finished++
		} else if c.Successor.IsZero() { // else its next attempt stands for it
			e.Children = append(e.Children, a.relative("child", c))
		}
	}
	if children == 0 {
		return nil
	}
	e.say("It has started %s; %d finished, and %d did not or not yet.", plural(int64(children), "child run"), finished, len(e.Children))
	for _, c := range e.Children {
		if named++; named > maxNamed {
			e.say("And %d more.", len(e.Children)-maxNamed)
			break
		}
		e.say("Child run %s of agent %s %s.", c.Run, c.Agent, c.how)
		e.next(a.command("why", c.Run.String()), "more about that child")
	}
	return nil
}
