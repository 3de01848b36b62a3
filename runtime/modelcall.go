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

// callModel makes the wire call of a turn, or what makes room for it first.
func (s *session) callModel(ctx context.Context, step loops.CallModel) error {
	if done, err := s.compact(ctx, step.Turn); done || err != nil {
		return err
	}
	route, m, later, err := s.route(ctx, s.hist.Route)
	if later || err != nil {
		return err
	}
	var specs []tools.Spec
	if !step.WithoutTools {
		if specs, err = s.specs(step.Messages); err != nil {
			return err
		}
	}
	req := model.Request{
		Model: route.Model, System: s.prompt, MaxTokens: s.agent.Limits.MaxTokens, Thinking: s.agent.Thinking, Format: s.output.format(),
		Messages: model.OwnBlocks(step.Messages, model.By(route.Model, route.Endpoint)),
	}
	names := make([]string, 0, len(specs))
	for _, sp := range specs {
		req.Tools = append(req.Tools, model.Spec{Name: sp.Name, Description: sp.Description, Schema: sp.Schema})
		names = append(names, sp.Name)
	}
	return s.ask(ctx, wireCall{turn: step.Turn, route: route, model: m, req: req, tools: names})
}

// wireCall is one call of a model, the answer of a turn or what makes room for it.
type wireCall struct {
	turn     int
	route    loops.Route
	model    model.Model
	req      model.Request
	tools    []string     // that it is shown
	compacts *events.Span // nil unless it is a compaction
}

func (c wireCall) purpose() string {
	if c.compacts != nil {
		return events.PurposeCompaction
	}
	return ""
}

// ask makes a wire call. Its start is acknowledged by the journal before the
// request leaves, so whatever is billed has a row.
func (s *session) ask(ctx context.Context, c wireCall) error {
	req, route := c.req, c.route
	release, ok, err := s.w.slots.take(ctx, route.Model, s.run.ID, s.w.cfg.Now(), s.w.cfg.StayFor)
	if err != nil {
		return err
	}
	if !ok {
		return s.park(ctx, events.RunParked{Reason: events.ParkModelRetry, Detail: fmt.Sprintf(
			"model %s has %d calls under way here, as many as max_concurrent allows", route.Model, s.w.cfg.ModelLimits[route.Model])}, s.w.cfg.StayFor)
	}
	defer release()
	s.mu.Lock()
	attempt, begun := s.hist.ModelAttempts()+1, s.hist.Turn()
	s.mu.Unlock()
	held, allowed, err := s.reserveModel(ctx, c, attempt, &req)
	if err != nil || !allowed {
		return err
	}
	hash, err := req.Hash()
	if err != nil {
		s.settleCost(s.w.life, held, new(events.PicoUSD)) // nothing will be asked
		return fmt.Errorf("hash model request of run %s: %w", s.run.ID, err)
	}
	req.Endpoint = route.Endpoint
	req.AttemptID = fmt.Sprintf("%s.e%d.t%d.a%d", s.run.ID, s.lease.Epoch, c.turn, attempt)
	provider := model.ProviderOf(c.model, route.Endpoint)
	ps := []events.Payload{events.ModelCallStarted{
		Turn: c.turn, Attempt: attempt, Model: req.Model, RequestHash: hash, Messages: len(req.Messages), Tools: c.tools,
		Endpoint: route.Endpoint, Provider: provider.Name, Server: provider.Server, Purpose: c.purpose(), Compacts: c.compacts,
	}}
	if begun < c.turn {
		ps = append([]events.Payload{events.TurnStarted{Turn: c.turn}}, ps...)
	}
	if err := s.recordAcked(ctx, ps...); err != nil {
		s.settleCost(s.w.life, held, new(events.PicoUSD)) // nothing was asked
		return err
	}
	began := s.w.cfg.Now()
	mctx, cancel := context.WithTimeoutCause(ctx, s.w.cfg.ModelTimeout, errModelTimeout)
	resp, ended, err := s.askModel(mctx, c, req, attempt, release)
	cancel()
	fault.Point("model.after_reply")
	// An answer is recorded whatever happened to the session meanwhile.
	rctx := s.w.life
	try := failedCall{turn: c.turn, attempt: attempt, route: route, held: held, began: began, ended: ended, purpose: c.purpose()}
	if err != nil {
		return s.recordModelError(rctx, try, model.AsError(err))
	}
	if resp.Degraded == nil || route.Degraded != nil {
		resp.Degraded = route.Degraded
	}
	if resp.Model == "" {
		resp.Model = req.Model
	}
	resp.Recordable()
	cost, rates := s.w.cfg.Prices.Price(resp.Model, began, resp.Usage)
	e := events.ModelCallFinished{
		Turn: c.turn, Attempt: attempt, Model: req.Model, ServedModel: resp.Model, Text: resp.Text, ToolCalls: resp.Calls, Blocks: resp.Blocks,
		StopReason: resp.StopReason, Usage: resp.Usage, RawUsage: resp.RawUsage, RequestID: resp.RequestID, Degraded: resp.Degraded,
		Endpoint: route.Endpoint, Cost: cost, Rates: rates, LatencyMS: ended.Sub(began).Milliseconds(), Purpose: c.purpose(),
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
		return s.recordModelError(rctx, try, me)
	}
	s.settleCost(rctx, held, cost)
	return err
}

// askModel makes the call. It has ended, and its slot is free, before the rest is told to
// viewers and the answer recorded, which takes time of its own.
func (s *session) askModel(ctx context.Context, c wireCall, req model.Request, attempt int, release func()) (resp model.Response, ended time.Time, err error) {
	var told *telling
	defer func() {
		if v := recover(); v != nil {
			err = &model.Error{Kind: "panic", Err: fmt.Errorf("model client panicked: %v", v)}
		}
		ended = s.w.cfg.Now()
		release()
		told.end(err == nil)
	}()
	if st, ok := c.model.(model.Streamer); ok && s.w.cfg.Live != nil && c.compacts == nil {
		told = s.tell(c.turn, attempt, req.Model)
		resp, err = st.Stream(ctx, req, told.delta)
	} else {
		resp, err = c.model.Call(ctx, req)
	}
	if err != nil && ctx.Err() != nil {
		late := &model.Error{Kind: "timeout", Retryable: true, Err: errors.Join(context.Cause(ctx), err)}
		var known *model.Error
		if errors.As(err, &known) { // what was billed until then stays billed
			late.Usage, late.Model = known.Usage, known.Model
		}
		err = late
	}
	return resp, ended, err
}

// maxServedModel is how much of a model's name is kept of a failed attempt.
const maxServedModel = 256

// failedCall is an attempt that gave no usable answer.
type failedCall struct {
	turn, attempt int
	route         loops.Route
	held          events.ID // what is reserved for it; zero = nothing
	began, ended  time.Time
	purpose       string
}

// recordModelError records a failed attempt. Whatever the provider said, the event
// fits: words are redacted before they are cut, lest half of a secret be left.
func (s *session) recordModelError(ctx context.Context, c failedCall, me *model.Error) error {
	e := events.ModelCallError{
		Turn: c.turn, Attempt: c.attempt, Model: c.route.Model, Endpoint: c.route.Endpoint, Purpose: c.purpose, Retryable: me.Retryable, LatencyMS: c.ended.Sub(c.began).Milliseconds(),
		Error: events.ErrorInfo{Kind: me.Kind, Message: s.red.String(me.Error())}.Fit(), ServedModel: s.red.String(me.Model), Usage: me.Usage,
	}
	if len(e.ServedModel) > maxServedModel {
		e.ServedModel = strings.ToValidUTF8(e.ServedModel[:maxServedModel], "")
	}
	if me.Usage != nil {
		served := me.Model
		if served == "" {
			served = c.route.Model
		}
		e.Cost, e.Rates = s.w.cfg.Prices.Price(served, c.began, *me.Usage)
	}
	if me.Retryable {
		e.RetryAt = events.Timestamp(s.w.cfg.Now().Add(max(model.Backoff(s.failures(c), me.RetryAfter, s.w.cfg.Random), time.Microsecond)))
	}
	e.NextEndpoint = s.nextEndpoint(c, me)
	err := s.Record(ctx, e)
	s.settleCost(ctx, c.held, ledger.ErrorCost(e))
	return err
}
