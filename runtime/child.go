package runtime

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/tools"
)

// errNoChild is what a model reads when a child run cannot be started.
var errNoChild = errors.New("child run not started")

// maxGuard is how many bytes what is asked of a child has at most. With the largest
// input, or a fork's note, it fits the first event of a run.
const maxGuard = events.MaxDataBytes * 3 / 8

// spawner starts child runs for the tools of a session.
type spawner struct{ s *session }

// Spawn implements [tools.Spawner].
func (p spawner) Spawn(ctx context.Context, in *tools.Invocation, sp tools.Spawn) (events.RunID, error) {
	s := p.s
	var key []byte
	err := s.retry(ctx, "read tenant key", func() (err error) {
		key, err = s.w.cfg.Ledger.TenantKey(ctx, s.run.Tenant)
		return err
	})
	if err != nil {
		return events.RunID{}, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(sp.Agent + "\x00"))
	mac.Write(sp.Input)
	input, err := s.red.JSON(sp.Input)
	if err != nil {
		return events.RunID{}, fmt.Errorf("%w: input: %w", errNoChild, err)
	}
	if input.Len() > events.MaxDataBytes/2 {
		return events.RunID{}, fmt.Errorf("%w: input has %d bytes, at most %d: pass a reference instead", errNoChild, input.Len(), events.MaxDataBytes/2)
	}
	c, ok := s.pendingCall(in.Call)
	if !ok {
		return events.RunID{}, fmt.Errorf("%w: call %s has an outcome", errNoChild, in.Call)
	}
	guard, err := s.guardChild()
	if err != nil {
		return events.RunID{}, fmt.Errorf("%w: %w", errNoChild, err)
	}
	sub := ledger.Submission{
		Agent: sp.Agent, Queue: sp.Queue, ClientKey: "child/" + in.Token.String(), Input: input, InputMAC: mac.Sum(nil),
		Requires: []string{Capability(sp.Agent)}, Deadline: s.deadline(),
		Budget: s.childBudget(c.Name, sp), Guard: guard,
	}
	h := ledger.Handoff{Token: in.Token, Call: in.Call, CallAttempt: in.Attempt, Tool: c.Name, Trust: string(sp.Trust), Trace: in.Trace, RunLimit: s.agent.Budget}
	var child ledger.Run
	err = s.barrier(ctx, "spawn child", func(pre ledger.Prefix) error {
		got, facts, err := s.w.cfg.Ledger.Spawn(ctx, s.lease, pre, sub, h)
		if err == nil {
			child = got
			s.expect(facts...)
		}
		return err
	})
	if err != nil {
		return events.RunID{}, refusedChild(err)
	}
	if s.w.cfg.Waker != nil {
		s.w.cfg.Waker.Wake(child.Queue)
	}
	return child.ID, nil
}
