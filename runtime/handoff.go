package runtime

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/tools"
)

// handOff registers a call whose outcome comes from outside: first in the
// database, which knows from then on that nobody here is acting, then in the
// history. A crash between the two is made good by rememberHandedOff.
func (s *session) handOff(ctx context.Context, eff *sessionEffects, c loops.PendingCall, out tools.Disposition) error {
	h := ledger.Handoff{
		Token: out.Token, Call: c.ID, CallAttempt: c.Attempt, Tool: c.Name, Reason: out.HandedOff.Reason, OpKey: out.Verdict.Ref.OpKey,
		Child: out.HandedOff.Child, Signal: out.HandedOff.Signal, Trust: string(out.Trust), Trace: s.run.Trace,
		For: out.HandedOff.For, ExpiresAs: out.HandedOff.ExpiresAs,
	}
	if eff != nil && !h.OpKey.IsZero() {
		defer eff.forget(out.Token) // it is nobody's here any more
	}
	var facts []events.Fact
	err := s.barrier(ctx, "hand off "+c.Name, func(p ledger.Prefix) (err error) {
		facts, err = s.w.cfg.Ledger.HandOff(ctx, s.lease, p, h)
		return err
	})
	if err != nil {
		return fmt.Errorf("hand off %s of run %s: %w", c.ID, s.run.ID, err)
	}
	if h.For > 0 {
		h.Until = events.Timestamp(s.w.cfg.Now().Add(h.For))
	}
	if err := s.recordHandedOff(ctx, h); err != nil {
		return err
	}
	s.expect(facts...)
	return nil
}

func (s *session) recordHandedOff(ctx context.Context, h ledger.Handoff) error {
	return s.Record(ctx, events.ToolExecutionProgress{
		Call: h.Call, Attempt: h.CallAttempt, Tool: h.Tool, Progress: "handed off", At: s.w.cfg.Now(),
		HandedOff: &events.HandedOff{Token: h.Token, Until: h.Until, Child: h.Child, Reason: h.Reason},
	})
}

// rememberHandedOff makes part of the history what a holder that died had
// registered and not recorded, once per takeover.
func (s *session) rememberHandedOff(ctx context.Context) error {
	if s.claim.Kind != ledger.ClaimTakeover || s.remembered {
		return nil
	}
	s.mu.Lock()
	pending := s.hist.Pending()
	s.mu.Unlock()
	if len(pending) > 0 {
		var hs []ledger.Handoff
		err := s.retry(ctx, "read hand-offs", func() (err error) {
			hs, err = s.w.cfg.Ledger.Handoffs(ctx, ledger.HandoffFilter{Run: s.run.ID, States: []ledger.HandoffState{ledger.HandoffOpen}, Limit: len(pending) + 1000})
			return err
		})
		if err != nil {
			return err
		}
		for _, h := range hs {
			if !slices.ContainsFunc(pending, func(c loops.PendingCall) bool { return c.ID == h.Call && s.sameCall(c, h) }) {
				continue
			}
			if err := s.recordHandedOff(ctx, h); err != nil {
				return err
			}
		}
	}
	s.remembered = true
	return nil
}

// sameCall reports whether h is a hand-off of call c, and not of one that stood
// in its place in a turn that was lost. An effect is told apart by its own key.
func (s *session) sameCall(c loops.PendingCall, h ledger.Handoff) bool {
	if h.Tool != c.Name {
		return false
	}
	if h.OpKey.IsZero() {
		return true // its barrier carried the turn that asked for it
	}
	ref, begun := s.begun(c.ID)
	return begun && ref.Token == h.Token
}

func (s *session) handedOff() []loops.HandedOff {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hist.HandedOff()
}

// awaitHandedOff parks a run that has nothing to do but wait for calls that
// were handed off. done means that the loop may be asked.
func (s *session) awaitHandedOff(ctx context.Context) (done bool, err error) {
	if err := s.rememberHandedOff(ctx); err != nil {
		return false, err
	}
	hs := s.handedOff()
	if len(hs) == 0 {
		return true, nil
	}
	if facts, err := s.expireHandedOff(ctx, hs); err != nil || facts {
		return false, err
	}
	if s.besides(hs) {
		return true, nil
	}
	p := events.RunParked{Reason: parkReason(hs), Detail: waitsFor(hs)}
	if len(hs) == 1 {
		p.Call = &hs[0].ID
	}
	for _, h := range hs {
		if !h.Until.IsZero() && (p.Until.IsZero() || h.Until.Before(p.Until)) {
			p.Until = h.Until
		}
	}
	return false, s.park(ctx, p, 0)
}

// besides reports whether calls beside those handed off may be made now: the
// rest of their group. What stands behind them in the turn waits for them.
func (s *session) besides(hs []loops.HandedOff) bool {
	s.mu.Lock()
	pending := s.hist.Pending()
	s.mu.Unlock()
	if len(pending) == 0 || s.destructiveCall(pending[0]) {
		return false
	}
	if slices.ContainsFunc(hs, func(h loops.HandedOff) bool { return h.Ref != nil || !h.OwnTool() && s.destructive(h.Tool) }) {
		return false
	}
	n := 1
	for n < len(pending) && !s.destructiveCall(pending[n]) {
		n++
	}
	return len(s.withinTeam(pending[:n])) > 0
}

func (s *session) destructive(tool string) bool {
	return s.disp.Destructive(tool, s.hist.Started().Tools...)
}

// expireHandedOff closes calls whose time is up: once per session, since the
// run may have been woken for it, and whenever this worker's clock says so.
func (s *session) expireHandedOff(ctx context.Context, hs []loops.HandedOff) (facts bool, err error) {
	now := s.w.cfg.Now()
	timed := func(h loops.HandedOff) bool { return !h.Until.IsZero() && (!s.expired || !now.Before(h.Until)) }
	if !slices.ContainsFunc(hs, timed) {
		return false, nil
	}
	s.expired = true
	var fs []events.Fact
	err = s.barrier(ctx, "expire hand-offs", func(p ledger.Prefix) (err error) {
		fs, err = s.w.cfg.Ledger.Expire(ctx, s.lease, p)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("expire hand-offs of run %s: %w", s.run.ID, err)
	}
	s.expect(fs...)
	return len(fs) > 0, nil
}

// parkReason is the reason of all, or async_tool for several kinds of wait.
func parkReason(hs []loops.HandedOff) events.ParkReason {
	r := hs[0].Reason
	for _, h := range hs[1:] {
		if h.Reason != r {
			return events.ParkAsyncTool
		}
	}
	return r
}

// waitsFor says it for a person, with what can be typed.
func waitsFor(hs []loops.HandedOff) string {
	h := hs[0]
	var what string
	switch h.Reason {
	case events.ParkTimer:
		what = fmt.Sprintf("%s (%s) waits until %s", h.Tool, h.ID, h.Until.UTC().Format(time.RFC3339))
	case events.ParkSignal:
		what = fmt.Sprintf("%s (%s) waits for a signal: ledgerctl signal", h.Tool, h.ID)
	case events.ParkChild:
		what = fmt.Sprintf("%s (%s) waits for run %s", h.Tool, h.ID, h.Child)
	default:
		what = fmt.Sprintf("%s (%s) is done outside: ledgerctl complete %s", h.Tool, h.ID, h.Token)
	}
	if n := len(hs) - 1; n > 0 {
		what += fmt.Sprintf(", and %d more", n)
	}
	return what
}
