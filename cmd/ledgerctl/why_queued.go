package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/ledger"
)

// whyQueued says what keeps a queued run from being taken: a person, its time,
// the queue's pause or limits, or that nobody has its tools.
func (a *app) whyQueued(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) error {
	begun := !r.StartedAt.IsZero()
	if !r.HeldAt.IsZero() {
		e.say("Run %s of agent %s is in queue %s and no worker takes it, since it is paused.", r.ID, r.Agent, r.Queue)
		a.whyHeld(e, r)
		return nil
	}
	if !r.BehindAt.IsZero() {
		return a.whyBehind(ctx, st, e, r)
	}
	if r.DueAt.After(a.now()) {
		e.say("Run %s of agent %s waits in queue %s: it is not due before %s.", r.ID, r.Agent, r.Queue, a.since(r.DueAt))
		e.next(a.command("cancel", r.ID.String(), "--reason", "TEXT"), "if it shall not go on")
		return nil
	}
	e.say("Run %s of agent %s waits in queue %s since %s: no worker has taken it.", r.ID, r.Agent, r.Queue, a.since(r.DueAt))
	if begun {
		e.say("It had begun, and its worker handed it over when it shut down: pauses and limits of the queue do not hold it back.")
	} else {
		back, err := a.whyHeldBack(ctx, st, e, r)
		if err != nil || back {
			return err
		}
	}
	if len(r.Requires) > 0 {
		e.say("Only a worker that has these tools can take it: %s.", strings.Join(r.Requires, ", "))
	}
	e.say("Nothing in the ledger holds it back. Check that a worker works on queue %s and has agent %s (runner worker -h).", r.Queue, r.Agent)
	return nil
}

// whyHeldBack says what of its queue holds a run back that has not begun; back is
// whether anything does.
func (a *app) whyHeldBack(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) (back bool, err error) {
	stats, err := st.QueueStats(ctx, r.Queue)
	if err != nil || len(stats) == 0 {
		return false, err
	}
	q := stats[0]
	v := viewOfQueue(q)
	e.Queue = &v
	if !q.Paused.At.IsZero() {
		back = true
		e.say("The whole queue is paused since %s, by %s: %s", a.since(q.Paused.At), q.Paused.By, q.Paused.Reason)
		e.next(a.command("queues", "resume", r.Queue, "--reason", "TEXT"), "let the queue start runs again")
	}
	if q.Limit.Rate > 0 && !q.NextStart.IsZero() {
		back = true
		_, per, _ := strings.Cut(v.Rate, "/")
		e.say("The queue starts %s in any %s at most, and that is used up: the next one may start at %s.", plural(int64(q.Limit.Rate), "run"), per, a.since(q.NextStart))
	}
	places, err := a.whyNoPlace(ctx, st, e, r, q.Limit)
	if err != nil {
		return back, err
	}
	if back = back || places; back {
		if q.Due > 1 {
			e.say("%d runs of the queue are due, of %s.", q.Due, plural(q.Tenants, "tenant"))
		}
		e.next(a.command("queues", "list", r.Queue), "the queue as it stands")
		e.next(a.command("queues", "acts", r.Queue), "who limited or paused it")
	}
	return back, nil
}

// whyNoPlace names who holds the places that a run waits for.
func (a *app) whyNoPlace(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run, l ledger.QueueLimit) (bool, error) {
	if l.MaxRunning == 0 && (l.MaxPerKey == 0 || r.ConcurrencyKey == "") {
		return false, nil
	}
	holders, err := st.Holders(ctx, r.Queue, 1000)
	if err != nil {
		return false, err
	}
	var same []ledger.Run
	for _, h := range holders {
		if r.ConcurrencyKey != "" && h.ConcurrencyKey == r.ConcurrencyKey {
			same = append(same, h)
		}
	}
	full := false
	if l.MaxRunning > 0 && len(holders) >= l.MaxRunning {
		full = true
		e.say("The queue runs %d at once at most, and %s held: %s.", l.MaxRunning, are(len(holders), "place"), a.holders(e, holders))
	}
	if l.MaxPerKey > 0 && len(same) >= l.MaxPerKey {
		full = true
		e.say("The queue runs %d at once with the same key at most, and %s held with key %q: %s.", l.MaxPerKey, are(len(same), "place"), r.ConcurrencyKey, a.holders(e, same))
	}
	if full {
		e.next(a.command("queues", "limit", r.Queue, "-h"), "raise the limit (all limits of the queue are set at once)")
	}
	return full, nil
}

// maxHolders is how many holders of places a sentence names.
const maxHolders = 3

func (a *app) holders(e *explanation, hs []ledger.Run) string {
	var names []string
	for i, h := range hs {
		if i == maxHolders {
			names = append(names, fmt.Sprintf("and %d more", len(hs)-maxHolders))
			break
		}
		names = append(names, fmt.Sprintf("run %s (worker %s, since %s)", h.ID, h.Worker, a.since(h.StartedAt)))
		if len(e.Holders) < len(hs) {
			e.Holders = append(e.Holders, a.relative("holder", h))
		}
		e.next(a.command("why", h.ID.String()), "what a run does that holds a place")
	}
	return strings.Join(names, ", ")
}
