package telling

import (
	"context"

	"github.com/daybookhq/daybook/ledger"
)

// whyBehind says which run of its session a run waits for.
func (t Explainer) whyBehind(ctx context.Context, e *Explanation, r ledger.Run) error {
	rs, err := t.From.Session(ctx, r.ID)
	if err != nil {
		return err
	}
	var before []ledger.Summary
	for _, b := range rs {
		if b.SessionPlace < r.SessionPlace && !b.State.Ended() {
			before = append(before, b)
		}
	}
	e.say("Run %s of agent %s waits in queue %s since %s: it goes on with the transcript of session %s, in which runs go one after another.", r.ID, r.Agent, r.Queue, t.Since(r.BehindAt), r.SessionID)
	e.next("the session as one conversation", "sessions", "show", r.SessionID, "--tenant", r.Tenant)
	if len(before) == 0 && t.Limited {
		e.say("None of the runs before it that you may see is still to end: it waits for one that you may not see, or for the next run of the session to let it go.")
		return nil
	}
	if len(before) == 0 {
		e.say("The runs before it have all ended, and nobody let it go: a worker of an earlier version ended one. The next run that is submitted to the session, or ends in it, does.")
		return nil
	}
	b := before[0]
	at := "is " + string(b.State)
	if b.ParkReason != "" {
		at += " (" + string(b.ParkReason) + ")"
	}
	e.say("The one whose turn it is, run %s, %s.", b.ID, at)
	if n := len(before); n > 1 {
		e.say("%s before this one in all.", are(n, "run"))
	}
	e.next("what that run waits for", "why", b.ID.String())
	e.next("pass that run over", "cancel", b.ID.String(), "--reason", "TEXT")
	return nil
}
