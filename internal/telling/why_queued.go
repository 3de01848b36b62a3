package telling

import (
	"context"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/ledger"
)

// whyQueued says what keeps a queued run from being taken: a person, its time,
// the queue's pause or limits, or that nobody has its tools.
func (t Explainer) whyQueued(ctx context.Context, e *Explanation, r ledger.Run) error {
	begun := !r.StartedAt.IsZero()
	if !r.HeldAt.IsZero() {
		e.say("Run %s of agent %s is in queue %s and no worker takes it, since it is paused.", r.ID, r.Agent, r.Queue)
		t.whyHeld(e, r)
		return nil
	}
	if !r.BehindAt.IsZero() {
		return t.whyBehind(ctx, e, r)
	}
	if r.DueAt.After(t.Now()) {
		e.say("Run %s of agent %s waits in queue %s: it is not due before %s.", r.ID, r.Agent, r.Queue, t.Since(r.DueAt))
		e.next("if it shall not go on", "cancel", r.ID.String(), "--reason", "TEXT")
		return nil
	}
	e.say("Run %s of agent %s waits in queue %s since %s: no worker has taken it.", r.ID, r.Agent, r.Queue, t.Since(r.DueAt))
	if begun {
		e.say("It had begun, and its worker handed it over when it shut down: pauses and limits of the queue do not hold it back.")
	} else {
		back, err := t.whyHeldBack(ctx, e, r)
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
func (t Explainer) whyHeldBack(ctx context.Context, e *Explanation, r ledger.Run) (back bool, err error) {
	q, err := t.From.Queue(ctx, r.ID)
	if err != nil || q.Queue == "" {
		return false, err
	}
	e.Queue = &q
	if !q.Paused.At.IsZero() {
		back = true
		e.say("The whole queue is paused since %s, by %s: %s", t.Since(q.Paused.At), q.Paused.By, q.Paused.Reason)
		e.next("let the queue start runs again", "queues", "resume", r.Queue, "--reason", "TEXT")
	}
	if q.Limit.Rate > 0 && !q.NextStart.IsZero() {
		back = true
		e.say("The queue starts %s in any %s at most, and that is used up: the next one may start at %s.", Plural(int64(q.Limit.Rate), "run"), Period(q.Limit.Per), t.Since(q.NextStart))
	}
	places, err := t.whyNoPlace(ctx, e, r, q.Limit)
	if err != nil {
		return back, err
	}
	if back = back || places; back {
		if q.Due > 1 {
			e.say("%d runs of the queue are due, of %s.", q.Due, Plural(q.Tenants, "tenant"))
		}
		e.next("the queue as it stands", "queues", "list", r.Queue)
		e.next("who limited or paused it", "queues", "acts", r.Queue)
	}
	return back, nil
}

// whyNoPlace names who holds the places that a run waits for.
func (t Explainer) whyNoPlace(ctx context.Context, e *Explanation, r ledger.Run, l ledger.QueueLimit) (bool, error) {
	if l.MaxRunning == 0 && (l.MaxPerKey == 0 || r.ConcurrencyKey == "") {
		return false, nil
	}
	holders, err := t.From.Holders(ctx, r.ID)
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
		e.say("The queue runs %d at once at most, and %s held: %s.", l.MaxRunning, are(len(holders), "place"), t.holders(e, holders))
	}
	if l.MaxPerKey > 0 && len(same) >= l.MaxPerKey {
		full = true
		e.say("The queue runs %d at once with the same key at most, and %s held with key %q: %s.", l.MaxPerKey, are(len(same), "place"), r.ConcurrencyKey, t.holders(e, same))
	}
	if !full && t.Limited {
		full = true
		e.say("The queue bounds how many runs it runs at once. Whether its places are taken is told to whoever sees the whole ledger.")
		return full, nil
	}
	if full {
		e.next("raise the limit (all limits of the queue are set at once)", "queues", "limit", r.Queue, "-h")
	}
	return full, nil
}

// maxHolders is how many holders of places a sentence names.
const maxHolders = 3

func (t Explainer) holders(e *Explanation, hs []ledger.Run) string {
	var names []string
	for i, h := range hs {
		if i == maxHolders {
			names = append(names, fmt.Sprintf("and %d more", len(hs)-maxHolders))
			break
		}
		names = append(names, fmt.Sprintf("run %s (worker %s, since %s)", h.ID, h.Worker, t.Since(h.StartedAt)))
		if len(e.Holders) < len(hs) {
			e.Holders = append(e.Holders, h)
		}
		e.next("what a run does that holds a place", "why", h.ID.String())
	}
	return strings.Join(names, ", ")
}
