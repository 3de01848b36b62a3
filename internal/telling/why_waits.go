package telling

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// whyHandoffs says which calls of a run wait for whom outside.
func (t Explainer) whyHandoffs(ctx context.Context, e *Explanation, r ledger.Run) error {
	hs, err := t.From.Handoffs(ctx, r.ID, ledger.HandoffOpen)
	if err != nil {
		return err
	}
	for i, h := range hs {
		e.Handoffs = append(e.Handoffs, h)
		if i == maxNamed {
			e.say("And %d more calls that wait for somebody outside (%s).", len(hs)-maxNamed, t.Where("handoffs", "--run", r.ID.String()))
		}
		if i >= maxNamed {
			continue
		}
		if err := t.whyHandoff(ctx, e, h); err != nil {
			return err
		}
	}
	return nil
}

// whyHandoff is what one call waits for, since when, until when, and what ends it.
func (t Explainer) whyHandoff(ctx context.Context, e *Explanation, h ledger.Handoff) error {
	call := fmt.Sprintf("Call %s of %s", h.Call, h.Tool)
	switch h.Reason {
	case events.ParkTimer:
		e.say("%s waits since %s for a moment: %s.", call, t.Since(h.CreatedAt), t.until(h))
		return nil
	case events.ParkSignal:
		e.say("%s waits since %s for a signal named %q; %s.", call, t.Since(h.CreatedAt), h.Signal, t.until(h))
		e.next("give it that signal", "signal", h.Run.String(), h.Signal, "--data", "JSON")
		return nil
	case events.ParkChild:
		c, err := t.other(ctx, h.Child)
		if err != nil {
			return err
		}
		if t.Limited && c.ID.IsZero() {
			e.say("%s waits since %s for a child run that you may not see; %s.", call, t.Since(h.CreatedAt), t.until(h))
			return nil
		}
		e.say("%s waits since %s for child run %s of agent %s, which %s; %s.", call, t.Since(h.CreatedAt), h.Child, c.Agent, t.HowEnded(c), t.until(h))
		e.next("more about that child", "why", h.Child.String())
		return t.whyBelow(ctx, e, c, 1)
	}
	e.say("%s was handed off at %s: somebody outside does the work and says what became of it, with token %s; %s.", call, t.Since(h.CreatedAt), h.Token, t.until(h))
	e.next("if it is done", "complete", h.Token.String(), "--result", "TEXT")
	failed := []string{"complete", h.Token.String(), "--failed", "TEXT"}
	if !h.OpKey.IsZero() {
		e.next("if it failed and certainly took no effect (else leave --not-applied away)", append(failed, "--not-applied")...)
		return nil
	}
	e.next("if it failed", failed...)
	return nil
}

// until says how long a call is awaited, and what comes then.
func (t Explainer) until(h ledger.Handoff) string {
	switch {
	case h.Until.IsZero():
		return "there is no time limit"
	case !h.Until.After(t.Now()):
		return fmt.Sprintf("its time was up at %s, and the next worker that takes the run sees to that", t.Since(h.Until))
	case h.Reason == events.ParkTimer:
		return "it goes on at " + t.Since(h.Until)
	case !h.OpKey.IsZero():
		return fmt.Sprintf("from %s nobody can know whether it took effect, and a person has to say", t.Since(h.Until))
	}
	return fmt.Sprintf("from %s the model is told that nothing came", t.Since(h.Until))
}

// whyToolPaused names the switch that a run waits for.
func (t Explainer) whyToolPaused(ctx context.Context, e *Explanation, r ledger.Run) error {
	ws, err := t.From.Switches(ctx, r.ID)
	if err != nil {
		return err
	}
	for _, w := range ws {
		if r.ParkKey != ledger.SwitchKey(w.Tenant, w.Tool) && w.Tool != ledger.EveryTool || w.Mode == ledger.SwitchOn {
			continue
		}
		what := "Tool " + w.Tool
		if w.Tool == ledger.EveryTool {
			what = "Every tool"
		}
		e.Switches = append(e.Switches, w)
		e.say("%s of tenant %s is %s since %s, by %s: %s", what, w.Tenant, w.Mode, t.Since(w.At), switchedBy(w), w.Reason)
		e.next("let its calls go ahead; every run that waits for it goes on", "tools", "on", w.Tool, "--tenant", w.Tenant, "--reason", "TEXT")
	}
	if len(e.Switches) == 0 {
		e.say("No tool of tenant %s is paused any more: a worker takes the run at its next look at the queue.", r.Tenant)
	}
	return nil
}

func switchedBy(v ledger.Switch) string {
	if v.Role == "" {
		return v.By
	}
	return v.By + " (database role " + v.Role + ")"
}

// probes counts how often a run waited for the tool's answer about an effect in
// doubt, once no attempt could act any more, and says since when the last wait is.
func (t Explainer) probes(ctx context.Context, v Effect) (n int, last events.Envelope, err error) {
	err = t.From.Events(ctx, v.Run, 1, func(s events.Sealed) error {
		env := s.Envelope()
		if env.Type != events.TypeOf(events.RunParked{}) || env.Time.Before(v.QuiescentAt) {
			return nil
		}
		data, err := s.Data()
		if err != nil {
			return err
		}
		p, err := events.DecodePayload(env.Type, env.Version, data)
		if park, ok := p.(events.RunParked); err == nil && ok && park.Reason == events.ParkInDoubt && park.OpKey == v.OpKey {
			n, last = n+1, env
		}
		return err
	})
	return n, last, err
}

// whyBelow follows what a child waits for down to the run that nobody below holds
// up: an approval there holds up all of them.
func (t Explainer) whyBelow(ctx context.Context, e *Explanation, c ledger.Run, depth int) error {
	if c.State != ledger.Parked || depth > ledger.MaxDepth {
		return nil
	}
	switch c.ParkReason {
	case events.ParkApproval:
		as, err := t.From.Approvals(ctx, ledger.ApprovalFilter{Run: c.ID, Open: true, Limit: maxNamed})
		if err != nil {
			return err
		}
		for _, x := range as {
			e.say("Run %s of agent %s waits for approval %s:", c.ID, c.Agent, x.ID)
			t.whyApproval(e, x)
			decideLines(e, x)
		}
	case events.ParkChild:
		hs, err := t.From.Handoffs(ctx, c.ID, ledger.HandoffOpen)
		if err != nil {
			return err
		}
		for _, h := range hs[:min(len(hs), maxNamed)] {
			if h.Child.IsZero() {
				continue
			}
			below, err := t.other(ctx, h.Child)
			if err != nil {
				return err
			}
			if below.ID.IsZero() {
				continue
			}
			e.say("That one waits for child run %s of agent %s, which %s.", below.ID, below.Agent, t.HowEnded(below))
			if err := t.whyBelow(ctx, e, below, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
