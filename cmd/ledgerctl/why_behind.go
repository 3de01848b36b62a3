package main

import (
	"context"

	"github.com/daybookhq/daybook/ledger"
)

// whyBehind says which run of its session a run waits for.
func (a *app) whyBehind(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) error {
	rs, err := st.SessionRuns(ctx, r.Tenant, r.SessionID, 0, 10_000)
	if err != nil {
		return err
	}
	var before []ledger.Summary
	for _, b := range rs {
		if b.SessionPlace < r.SessionPlace && !b.State.Ended() {
			before = append(before, b)
		}
	}
	e.say("Run %s of agent %s waits in queue %s since %s: it goes on with the transcript of session %s, in which runs go one after another.", r.ID, r.Agent, r.Queue, a.since(r.BehindAt), r.SessionID)
	e.next(a.command("sessions", "show", r.SessionID, "--tenant", r.Tenant), "the session as one conversation")
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
	e.next(a.command("why", b.ID.String()), "what that run waits for")
	e.next(a.command("cancel", b.ID.String(), "--reason", "TEXT"), "pass that run over")
	return nil
}
