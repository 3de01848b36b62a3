package sqlstore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Complete implements ledger.Handoffs.
func (s *Store) Complete(ctx context.Context, c ledger.Completion) (ledger.Settlement, error) {
	fail := func(err error) (ledger.Settlement, error) {
		return ledger.Settlement{}, fmt.Errorf("complete %s as %s: %w", c.Token, c.Kind, err)
	}
	c, err := s.normalCompletion(c)
	if err != nil {
		return fail(err)
	}
	digest, err := digestOf(c)
	if err != nil {
		return fail(err)
	}
	var set ledger.Settlement
	var refusal error // committed all the same: what contradicts is kept
	err = s.db.Write(ctx, func(ctx context.Context, tx Tx) error {
		set, refusal, err = s.complete(ctx, tx, c, digest)
		return err
	})
	if err != nil {
		return fail(err)
	}
	if refusal != nil {
		_, err := fail(refusal)
		return set, err
	}
	return set, nil
}

// normalCompletion redacts what comes from outside, cuts it to what an event
// can hold and refuses what nobody may mean.
func (s *Store) normalCompletion(c ledger.Completion) (ledger.Completion, error) {
	switch {
	case c.Token.IsZero():
		return c, errors.New("no token: it is what the tool was given when it handed off")
	case c.By == "":
		return c, errors.New("nobody is named: the record says who completed the call")
	case c.Kind == ledger.Applied:
		c.Error = events.ErrorInfo{}
	case c.Kind != ledger.NotApplied && c.Kind != ledger.Unclear:
		return c, fmt.Errorf("unknown outcome: want %s, %s or %s", ledger.Applied, ledger.NotApplied, ledger.Unclear)
	case c.Error.Message == "":
		return c, errors.New("no error: say why it failed")
	case c.Error.Kind == "":
		c.Error.Kind = "tool_error"
	}
	if c.Result.Control != "" {
		return c, errors.New("a completion does not end the run: leave Control empty")
	}
	c.By = cut(s.cfg.Redactor.String(c.By))
	out := s.fitting(ledger.Outcome{Token: c.Token, Kind: c.Kind, Result: c.Result, Error: c.Error})
	c.Result, c.Error = out.Result, out.Error
	return c, nil
}

// digestOf tells one outcome from another.
func digestOf(c ledger.Completion) (events.Hash, error) {
	b, err := json.Marshal(struct {
		Kind   ledger.OutcomeKind
		Result events.ToolResult
		Error  events.ErrorInfo
	}{c.Kind, c.Result, c.Error})
	if err != nil {
		return events.Hash{}, err
	}
	return sha256.Sum256(b), nil
}

func (s *Store) complete(ctx context.Context, tx Tx, c ledger.Completion, digest events.Hash) (set ledger.Settlement, refusal, err error) {
	a, isEffect, err := attemptByToken(ctx, tx, c.Token)
	if err != nil {
		return set, nil, err
	}
	if isEffect {
		return s.completeEffect(ctx, tx, a, c, digest)
	}
	h, ok, err := lockHandoff(ctx, tx, c.Token)
	if err != nil {
		return set, nil, err
	}
	if !ok {
		return set, nil, fmt.Errorf("no call was handed off under this token, or not yet: %w", ledger.ErrNotFound)
	}
	set = ledger.Settlement{State: events.EffectApplied, Result: c.Result, Error: c.Error}
	if c.Kind != ledger.Applied {
		set.State = events.EffectNotApplied
	}
	switch {
	case h.State == ledger.HandoffCompleted && h.digest == digest:
		return set, nil, nil
	case h.State == ledger.HandoffCompleted:
		return ledger.Settlement{}, nil, completedBy(h)
	case h.State == ledger.HandoffExpired:
		return ledger.Settlement{}, nil, fmt.Errorf("call %s of run %s, since %s: %w", h.Call, h.Run, h.CompletedAt.Format(time.RFC3339), ledger.ErrNotAwaited)
	}
	return set, nil, s.completeCall(ctx, tx, h, c, digest)
}

func completedBy(h handoffRow) error {
	return fmt.Errorf("call %s of run %s, by %s at %s: %w", h.Call, h.Run, h.CompletedBy, h.CompletedAt.Format(time.RFC3339), ledger.ErrCompleted)
}

// completeCall ends a call without an effect whose hand-off is locked and open.
// It locks no run: a run that parks meanwhile is woken by the fact.
func (s *Store) completeCall(ctx context.Context, tx Tx, h handoffRow, c ledger.Completion, digest events.Hash) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	closed, err := closeHandoff(ctx, tx, h, ledger.HandoffCompleted, c.By, digest, now)
	if err != nil {
		return err
	}
	if !closed {
		return fmt.Errorf("hand-off %s changed while it was locked", h.Token)
	}
	return s.tellCall(ctx, tx, h, c, now)
}

// completeEffect is an End that names who says so.
func (s *Store) completeEffect(ctx context.Context, tx Tx, a attemptRow, c ledger.Completion, digest events.Hash) (set ledger.Settlement, refusal, err error) {
	run, err := lockRun(ctx, tx, a.Run)
	if err != nil {
		return set, nil, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return set, nil, err
	}
	out := ledger.Outcome{Token: c.Token, Kind: c.Kind, Result: c.Result, Error: c.Error, LatencyMS: max(now.Sub(a.StartedAt).Milliseconds(), 0)}
	if out.Result.Status = "completed"; c.Kind != ledger.Applied {
		out.Result.Status, out.Result.Error, out.Cause = "failed", c.Error.Message, "unclear_error"
	}
	// Only who holds the run's lock changes it, so its own lock is not needed.
	var h handoffRow
	hs, err := readHandoffs(ctx, tx, `h.token = $1`, c.Token)
	if err != nil {
		return set, nil, err
	}
	ok := len(hs) > 0 // else it was not handed off yet, or never: late evidence all the same
	if ok {
		h = hs[0]
	}
	if ok && out.Result.Trust == "" {
		out.Result.Trust = h.Trust
	}
	if set, err = s.settle(ctx, tx, a, out, now); err != nil {
		return set, nil, err
	}
	if ok && h.State == ledger.HandoffCompleted {
		if h.digest != digest {
			refusal = completedBy(h)
		}
		return set, refusal, nil
	}
	acted := events.OperatorActed{Verb: "complete", By: c.By, Detail: fmt.Sprintf("%s: %s", a.Call, c.Kind)}
	if _, _, err := s.addFact(ctx, tx, a.Run, events.DerivedID(c.Token, events.TypeOf(acted)), acted, run.Trace); err != nil {
		return set, nil, err
	}
	if ok {
		_, err = closeHandoff(ctx, tx, h, ledger.HandoffCompleted, c.By, digest, now)
	}
	return set, nil, err
}
