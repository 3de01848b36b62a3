package main

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// whyHandoffs says which calls of a run wait for whom outside.
func (a *app) whyHandoffs(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) error {
	hs, err := st.Handoffs(ctx, ledger.HandoffFilter{Run: r.ID, States: []ledger.HandoffState{ledger.HandoffOpen}, Limit: ledger.MaxChildren})
	if err != nil {
		return err
	}
	for i, h := range hs {
		e.Handoffs = append(e.Handoffs, viewHandoff(h))
		if i == maxNamed {
			e.say("And %d more calls that wait for somebody outside (%s).", len(hs)-maxNamed, a.command("handoffs", "--run", r.ID.String()))
		}
		if i >= maxNamed {
			continue
		}
		if err := a.whyHandoff(ctx, st, e, h); err != nil {
			return err
		}
	}
	return nil
}

// whyHandoff is what one call waits for, since when, until when, and what ends it.
func (a *app) whyHandoff(ctx context.Context, st ledger.Store, e *explanation, h ledger.Handoff) error {
	call := fmt.Sprintf("Call %s of %s", h.Call, h.Tool)
	switch h.Reason {
	case events.ParkTimer:
		e.say("%s waits since %s for a moment: %s.", call, a.since(h.CreatedAt), a.until(h))
		return nil
	case events.ParkSignal:
		e.say("%s waits since %s for a signal named %q; %s.", call, a.since(h.CreatedAt), h.Signal, a.until(h))
		e.next(a.command("signal", h.Run.String(), h.Signal, "--data", "JSON"), "give it that signal")
		return nil
	case events.ParkChild:
		c, err := st.Run(ctx, h.Child)
		if err != nil {
			return err
		}
		e.say("%s waits since %s for child run %s of agent %s, which %s; %s.", call, a.since(h.CreatedAt), h.Child, c.Agent, a.howEnded(c), a.until(h))
		e.next(a.command("why", h.Child.String()), "more about that child")
		return a.whyBelow(ctx, st, e, c, 1)
	}
	e.say("%s was handed off at %s: somebody outside does the work and says what became of it, with token %s; %s.", call, a.since(h.CreatedAt), h.Token, a.until(h))
	e.next(a.command("complete", h.Token.String(), "--result", "TEXT"), "if it is done")
	failed := []string{"complete", h.Token.String(), "--failed", "TEXT"}
	if !h.OpKey.IsZero() {
		e.next(a.command(append(failed, "--not-applied")...), "if it failed and certainly took no effect (else leave --not-applied away)")
		return nil
	}
	e.next(a.command(failed...), "if it failed")
	return nil
}

// until says how long a call is awaited, and what comes then.
func (a *app) until(h ledger.Handoff) string {
	switch {
	case h.Until.IsZero():
		return "there is no time limit"
	case !h.Until.After(a.now()):
		return fmt.Sprintf("its time was up at %s, and the next worker that takes the run sees to that", a.since(h.Until))
	case h.Reason == events.ParkTimer:
		return "it goes on at " + a.since(h.Until)
	case !h.OpKey.IsZero():
		return fmt.Sprintf("from %s nobody can know whether it took effect, and a person has to say", a.since(h.Until))
	}
	return fmt.Sprintf("from %s the model is told that nothing came", a.since(h.Until))
}

// whyToolPaused names the switch that a run waits for.
func (a *app) whyToolPaused(ctx context.Context, st ledger.Store, e *explanation, r ledger.Run) error {
	ws, err := st.Switches(ctx, ledger.SwitchFilter{Tenant: r.Tenant, Limit: 1000})
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
		v := newSwitchView(w)
		e.Switches = append(e.Switches, v)
		e.say("%s of tenant %s is %s since %s, by %s: %s", what, w.Tenant, w.Mode, a.since(w.At), switchedBy(v), w.Reason)
		e.next(a.command("tools", "on", w.Tool, "--tenant", w.Tenant, "--reason", "TEXT"), "let its calls go ahead; every run that waits for it goes on")
	}
	if len(e.Switches) == 0 {
		e.say("No tool of tenant %s is paused any more: a worker takes the run at its next look at the queue.", r.Tenant)
	}
	return nil
}

func switchedBy(v switchView) string {
	if v.Role == "" {
		return v.By
	}
	return v.By + " (database role " + v.Role + ")"
}

// probes counts how often a run waited for the tool's answer about an effect in
// doubt, once no attempt could act any more, and says since when the last wait is.
func probes(ctx context.Context, st ledger.Store, v effectView) (n int, last events.Envelope, err error) {
	err = st.Events(ctx, v.Run, 1, func(s events.Sealed) error {
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
