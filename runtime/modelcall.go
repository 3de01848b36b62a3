package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/tools"
)

var errModelTimeout = errors.New("model call timed out")

// callModel makes one wire call. Its start is acknowledged by the journal
// before the request leaves, so whatever is billed has a row.
func (s *session) callModel(ctx context.Context, step loops.CallModel) error {
	if last := s.hist.LastModelError(); last != nil && last.Turn == step.Turn && last.RetryAt.After(s.w.cfg.Now()) {
		wait := last.RetryAt.Sub(s.w.cfg.Now())
		if wait > s.w.cfg.StayFor {
			return s.park(ctx, events.RunParked{Reason: events.ParkModelRetry, Detail: "model " + s.agent.Model + " asked to wait: " + last.Error.Kind}, wait)
		}
		select {
		case <-s.handover:
			return nil
		default:
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
	m, ok := s.w.cfg.Models[s.agent.Model]
	if !ok {
		return fmt.Errorf("model %q is not configured here: %w", s.agent.Model, errUnworkable)
	}
	var specs []tools.Spec
	if !step.WithoutTools {
		var err error
		if specs, err = s.specs(step.Messages); err != nil {
			return err
		}
	}
	req := model.Request{Model: s.agent.Model, System: s.prompt, Messages: step.Messages, MaxTokens: s.agent.Limits.MaxTokens}
	names := make([]string, 0, len(specs))
	for _, sp := range specs {
		req.Tools = append(req.Tools, model.Spec{Name: sp.Name, Description: sp.Description, Schema: sp.Schema})
		names = append(names, sp.Name)
	}
	attempt := s.hist.ModelAttempts() + 1
	held, allowed, err := s.reserveModel(ctx, step, attempt, &req)
	if err != nil || !allowed {
		return err
	}
	hash, err := req.Hash()
	if err != nil {
		s.settleCost(s.w.life, held, new(events.PicoUSD)) // nothing will be asked
		return fmt.Errorf("hash model request of run %s: %w", s.run.ID, err)
	}
	req.AttemptID = fmt.Sprintf("%s.e%d.t%d.a%d", s.run.ID, s.lease.Epoch, step.Turn, attempt)
	ps := []events.Payload{events.ModelCallStarted{
		Turn: step.Turn, Attempt: attempt, Model: req.Model, RequestHash: hash, Messages: len(req.Messages), Tools: names,
	}}
	if s.hist.Turn() < step.Turn {
		ps = append([]events.Payload{events.TurnStarted{Turn: step.Turn}}, ps...)
	}
	if err := s.recordAcked(ctx, ps...); err != nil {
		s.settleCost(s.w.life, held, new(events.PicoUSD)) // nothing was asked
		return err
	}
	began := s.w.cfg.Now()
	mctx, cancel := context.WithTimeoutCause(ctx, s.w.cfg.ModelTimeout, errModelTimeout)
	resp, err := s.askModel(mctx, m, req)
	cancel()
	fault.Point("model.after_reply")
	// An answer is recorded whatever happened to the session meanwhile.
	rctx := s.w.life
	if err != nil {
		return s.recordModelError(rctx, step.Turn, attempt, held, model.AsError(err), began)
	}
	if resp.Model == "" {
		resp.Model = req.Model
	}
	resp.Recordable()
	cost, rates := s.w.cfg.Prices.Price(resp.Model, began, resp.Usage)
	e := events.ModelCallFinished{
		Turn: step.Turn, Attempt: attempt, Model: req.Model, ServedModel: resp.Model, Text: resp.Text, ToolCalls: resp.Calls, Blocks: resp.Blocks,
		StopReason: resp.StopReason, Usage: resp.Usage, RawUsage: resp.RawUsage, RequestID: resp.RequestID, Degraded: resp.Degraded,
		Cost: cost, Rates: rates, LatencyMS: s.w.cfg.Now().Sub(began).Milliseconds(),
	}
	err = s.Record(rctx, e)
	if errors.Is(err, errUnrecordable) && (e.Blocks != nil || e.RawUsage != nil) {
		e.Blocks, e.RawUsage = nil, nil // a provider can do without its reasoning; the answer is paid for
		err = s.Record(rctx, e)
	}
	if errors.Is(err, errUnrecordable) {
		// It was paid for, so it has a row: without one the run would pay again for ever.
		me := &model.Error{Kind: "malformed_answer", Retryable: true, Usage: &resp.Usage, Model: resp.Model, Err: err}
		if errors.Is(err, events.ErrTooLarge) {
			me.Kind, me.Retryable = "answer_too_large", false
		}
		return s.recordModelError(rctx, step.Turn, attempt, held, me, began)
	}
	s.settleCost(rctx, held, cost)
	return err
}

func (s *session) askModel(ctx context.Context, m model.Model, req model.Request) (resp model.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &model.Error{Kind: "panic", Err: fmt.Errorf("model client panicked: %v", v)}
		}
	}()
	resp, err = m.Call(ctx, req)
	if err != nil && ctx.Err() != nil {
		late := &model.Error{Kind: "timeout", Retryable: true, Err: errors.Join(context.Cause(ctx), err)}
		var known *model.Error
		if errors.As(err, &known) { // what was billed until then stays billed
			late.Usage, late.Model = known.Usage, known.Model
		}
		err = late
	}
	return resp, err
}

// maxServedModel is how much of a model's name is kept of a failed attempt.
const maxServedModel = 256

// recordModelError records a failed attempt that began then. Whatever the provider
// said, the event fits: words are redacted before they are cut, lest half of a
// secret be left.
func (s *session) recordModelError(ctx context.Context, turn, attempt int, held events.ID, me *model.Error, began time.Time) error {
	e := events.ModelCallError{
		Turn: turn, Attempt: attempt, Model: s.agent.Model, Retryable: me.Retryable, LatencyMS: s.w.cfg.Now().Sub(began).Milliseconds(),
		Error: events.ErrorInfo{Kind: me.Kind, Message: s.red.String(me.Error())}.Fit(), ServedModel: s.red.String(me.Model), Usage: me.Usage,
	}
	if len(e.ServedModel) > maxServedModel {
		e.ServedModel = strings.ToValidUTF8(e.ServedModel[:maxServedModel], "")
	}
	if me.Usage != nil {
		served := me.Model
		if served == "" {
			served = s.agent.Model
		}
		e.Cost, _ = s.w.cfg.Prices.Price(served, began, *me.Usage)
	}
	if me.Retryable {
		e.RetryAt = events.Timestamp(s.w.cfg.Now().Add(max(model.Backoff(attempt, me.RetryAfter, s.w.cfg.Random), time.Microsecond)))
	}
	err := s.Record(ctx, e)
	s.settleCost(ctx, held, ledger.ErrorCost(e))
	return err
}
