package telling

import (
	"context"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// StopWords say why a run ended; the keys are stored.
func StopWords(s events.StoppedBy) string {
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

// DeclineWords says what a reason of the tool decline means; the keys are stored.
// Other reasons are the words of a model or a loop.
func DeclineWords(because string) string {
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

func (t Explainer) whyEnded(e *Explanation, s ledger.Summary) {
	e.say("Run %s of agent %s %s at %s, after %s: %s (%s).", s.ID, s.Agent,
		map[ledger.State]string{ledger.Finished: "finished", ledger.Failed: "failed", ledger.Cancelled: "was cancelled"}[s.State],
		t.Since(s.EndedAt), Plural(s.Turns, "turn"), StopWords(s.StoppedBy), orNo(string(s.StoppedBy), "-"))
	if because := s.DeclinedBecause(); because != "" {
		e.say("It gave as its reason: %s", DeclineWords(because))
	}
	if s.CancelBy != "" {
		e.say("%s asked for it%s: %s.", s.CancelBy, at(t, s.CancelAt), orNo(s.CancelReason, "no reason given"))
	}
	if s.Error != "" {
		e.say("Its error: %s", s.Error)
	}
}

// whyAgain says which attempt a run is, what came before it and after it, and
// what can be done with one that nothing tries again.
func (t Explainer) whyAgain(ctx context.Context, e *Explanation, r ledger.Run) error {
	of := ""
	if r.MaxAttempts > 0 {
		of = fmt.Sprintf(" of %d", r.MaxAttempts)
	}
	if !r.RetryOf.IsZero() {
		before, err := t.other(ctx, r.RetryOf)
		switch {
		case err != nil:
			return err
		case t.Limited && before.ID.IsZero():
			e.say("It is attempt %d%s. What took effect in an earlier attempt is handed back and not done again.", r.Attempt, of)
		default:
			e.say("It is attempt %d%s: run %s before it %s. What took effect in an earlier attempt is handed back and not done again.",
				r.Attempt, of, r.RetryOf, t.HowEnded(before))
			e.next("why the attempt before ended", "why", r.RetryOf.String())
		}
	}
	if !r.Successor.IsZero() {
		after, err := t.other(ctx, r.Successor)
		switch {
		case err != nil:
			return err
		case t.Limited && after.ID.IsZero():
			e.say("It was tried again.")
		default:
			e.say("It was tried again as run %s, attempt %d, which %s.", r.Successor, after.Attempt, t.HowEnded(after))
			e.next("how the next attempt stands", "why", r.Successor.String())
		}
	}
	if !r.DeadAt.IsZero() {
		why := "runs that end like this are not tried again by themselves"
		if r.StoppedBy == events.StoppedByError {
			why = fmt.Sprintf("attempt %d%s was the last", r.Attempt, of)
			if r.Attempt < r.MaxAttempts {
				why = "the next attempt would have come after its deadline, or it was being cancelled"
			}
		}
		e.say("It is a dead letter since %s: nothing tries it again, since %s.", t.Since(r.DeadAt), why)
		e.next("try it again, once the cause is gone; what took effect is not done again", "runs", "requeue", r.ID.String(), "--reason", "TEXT")
	}
	return nil
}

// HowEnded is a clause about another run.
func (t Explainer) HowEnded(r ledger.Run) string {
	switch {
	case r.ID.IsZero():
		return "is not in this ledger any more"
	case r.State == ledger.Queued && r.DueAt.After(t.Now()):
		return "is queued and due at " + t.Since(r.DueAt)
	case r.State == ledger.Parked:
		return fmt.Sprintf("waits since %s for %s", t.Since(r.ParkedAt), ParkWords(r.ParkReason))
	case !r.State.Ended():
		return "is " + string(r.State)
	}
	verb := map[ledger.State]string{ledger.Finished: "finished", ledger.Failed: "failed", ledger.Cancelled: "was cancelled"}[r.State]
	return Either(": ", verb+" at "+t.Since(r.EndedAt), r.Error)
}

// other reads a run that matters to the one in question; the zero run if there is
// none that may be seen.
func (t Explainer) other(ctx context.Context, id events.RunID) (ledger.Run, error) {
	r, err := t.From.Run(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return ledger.Run{}, nil
	}
	return r, err
}

// names reports whether a run that matters to the one in question may be named.
func (t Explainer) names(ctx context.Context, id events.RunID) (bool, error) {
	if id.IsZero() || !t.Limited {
		return !id.IsZero(), nil
	}
	r, err := t.other(ctx, id)
	return !r.ID.IsZero(), err
}

// whyChildren names the child runs that did not finish, and says whom the run
// itself works for.
func (t Explainer) whyChildren(ctx context.Context, e *Explanation, r ledger.Run) error {
	named, err := t.names(ctx, r.Parent)
	if err != nil {
		return err
	}
	if named {
		e.say("It works for run %s, which gets its result.", r.Parent)
		e.next("how the run stands that it works for", "why", r.Parent.String())
	}
	below, err := t.From.Descendants(ctx, r.ID, ledger.MaxChildren)
	if err != nil {
		return err
	}
	children, finished, told := 0, 0, 0
	for _, c := range below {
		if c.Parent != r.ID {
			continue
		}
		children++
		if c.State == ledger.Finished {
			finished++
		} else if c.Successor.IsZero() { // else its next attempt stands for it
			e.Children = append(e.Children, c)
		}
	}
	if children == 0 {
		return nil
	}
	e.say("It has started %s; %d finished, and %d did not or not yet.", Plural(int64(children), "child run"), finished, len(e.Children))
	for _, c := range e.Children {
		if told++; told > maxNamed {
			e.say("And %d more.", len(e.Children)-maxNamed)
			break
		}
		e.say("Child run %s of agent %s %s.", c.ID, c.Agent, t.HowEnded(c))
		e.next("more about that child", "why", c.ID.String())
	}
	return nil
}
