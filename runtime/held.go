package runtime

import (
	"context"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// heldBack is the pause under which the run stands, says the claim or the last
// heartbeat; zero for none.
func (s *session) heldBack() ledger.Pause {
	s.in.Lock()
	defer s.in.Unlock()
	return s.held
}

// parkHeld gives a run back that a person holds back.
func (s *session) parkHeld(ctx context.Context, h ledger.Pause) error {
	err := s.park(ctx, events.RunParked{Reason: events.ParkPaused, Detail: fmt.Sprintf("by %s: %s", h.By, h.Reason)}, 0)
	if err != nil {
		return err
	}
	// Park refused: something came in, or it was resumed. The row says which
	// before the next heartbeat does.
	return s.retry(ctx, "read the run", func() error {
		r, err := s.w.cfg.Ledger.Run(ctx, s.run.ID)
		if err != nil {
			return err
		}
		s.in.Lock()
		s.held = ledger.Pause{At: r.HeldAt, By: r.HeldBy, Reason: r.HeldReason}
		s.in.Unlock()
		return nil
	})
}

// retryPolicy is what the agent's definition says about trying a failed run again.
func (s *session) retryPolicy() ledger.Retry {
	r := s.w.agents[s.run.Agent].Retry
	return ledger.Retry{MaxAttempts: r.MaxAttempts, Backoff: r.Backoff, MaxBackoff: r.MaxBackoff}
}
