package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/redact"
)

// holder writes the history of a run that it holds, as a worker records it. Its
// first error stays, and makes all that follows do nothing.
type holder struct {
	ctx   context.Context
	f     *filler
	r     *rand.Rand
	run   ledger.Run
	agent *agent
	lease ledger.Lease
	now   time.Time // of the run's next event
	seq   uint64
	prev  events.Hash
	// told is not in the archive yet.
	told []events.Sealed
	seen map[events.ID]bool
	turn int
	err  error
}

func (h *holder) check(err error) bool {
	if err != nil && h.err == nil {
		h.err = fmt.Errorf("run %s: %w", h.run.ID, err)
	}
	return h.err == nil
}

func (h *holder) seal(v any) redact.JSON {
	j, err := h.f.redactor.JSON(v)
	h.check(err)
	return j
}

// pass lets up to d go by.
func (h *holder) pass(d time.Duration) { h.now = h.now.Add(time.Duration(h.r.Int64N(int64(d)))) }

func (h *holder) record(id events.ID, data any, t events.Type) {
	if h.err != nil {
		return
	}
	v, _ := events.CurrentVersion(t)
	s, err := events.Seal(events.Envelope{
		ID: id, RunID: h.run.ID, Seq: h.seq + 1, Epoch: h.lease.Epoch, Type: t, Version: v, Time: events.Timestamp(h.now),
		Tenant: h.run.Tenant, SessionID: h.run.SessionID, Prev: h.prev,
	}, h.seal(data))
	if !h.check(err) {
		return
	}
	h.seq, h.prev = h.seq+1, s.Hash()
	h.told = append(h.told, s)
	h.seen[id] = true
}

func (h *holder) note(p events.Payload) {
	h.f.now = h.now
	h.record(h.f.ids.Event(), p, events.TypeOf(p))
}

// absorb numbers the facts that are not in the history yet.
func (h *holder) absorb(fs ...events.Fact) {
	for _, fact := range fs {
		if !h.seen[fact.ID] {
			h.record(fact.ID, fact.Data, fact.Type)
		}
	}
}

// barrier calls f with what is not in the archive yet, at the run's own time.
func (h *holder) barrier(f func(ledger.Prefix) ([]events.Fact, error)) {
	if h.err != nil {
		return
	}
	h.f.now = h.now
	fs, err := f(h.told)
	if h.check(err) {
		h.told = nil
		h.absorb(fs...)
	}
}

func (h *holder) flush() {
	h.barrier(func(p ledger.Prefix) ([]events.Fact, error) { return h.f.st.Flush(h.ctx, h.lease, p) })
}

func (h *holder) park(p ledger.Parking) {
	h.note(events.RunParked{Reason: p.Reason, Detail: p.Detail, OpKey: p.OpKey})
	h.barrier(func(prefix ledger.Prefix) ([]events.Fact, error) { return nil, h.f.st.Park(h.ctx, h.lease, prefix, p) })
}

// finish ends the run. What it told is projected with that of others first: then
// the barrier carries nothing.
func (h *holder) finish(p events.Payload, e ledger.Ending) {
	h.note(p)
	if h.err == nil {
		h.f.ending = append(h.f.ending, ended{h, e})
	}
}

// opening is how a history begins.
func (h *holder) opening(worker string) {
	r := h.run
	queued := events.RunQueued{
		Agent: r.Agent, Input: r.Input, ClientKey: r.ClientKey, Queue: r.Queue, Owner: r.Owner, Priority: r.Priority, Root: r.Root, Parent: r.Parent,
		QueuedAt: r.CreatedAt, RetryOf: r.RetryOf,
	}
	if !r.RetryOf.IsZero() {
		queued.Attempt = r.Attempt
	}
	if !r.ForkOf.IsZero() {
		queued.Fork = &events.Fork{Run: r.ForkOf, Seq: r.ForkSeq, Hash: h.hashOf(r.ForkOf, r.ForkSeq), Effects: string(r.ForkEffects)}
	}
	h.note(queued)
	bound := make([]events.ToolBinding, len(h.agent.tools))
	for i, t := range h.agent.tools {
		bound[i].Name = t.name
	}
	h.note(events.RunStarted{
		Worker: worker, Agent: r.Agent, PromptHash: h.f.prompts[r.Agent], Model: models[h.agent.models[0]].name, Loop: h.agent.loop, LoopVersion: 1,
		Tools: bound, Limits: events.Limits{MaxTurns: 20},
	})
}

// hashOf is that of an event in the archive.
func (h *holder) hashOf(run events.RunID, seq uint64) (hash events.Hash) {
	errFound := errors.New("found")
	err := h.f.st.Events(h.ctx, run, seq, func(e events.Sealed) error {
		hash = e.Hash()
		return errFound
	})
	if !errors.Is(err, errFound) {
		h.check(fmt.Errorf("read event %d of run %s: %w", seq, run, err))
	}
	return hash
}

// turnWith is a model call that asks for tools, which are then called.
func (h *holder) turnWith(calls int) {
	h.asks(calls, "")
	for i := range calls {
		h.readonly(events.CallID{Turn: h.turn, Index: i}, h.agent.tools[h.r.IntN(len(h.agent.tools))])
	}
}

// asks is a model call that asks for calls, of the tool named or of any.
func (h *holder) asks(calls int, name string) {
	h.turn++
	m := models[h.agent.models[skewed(h.r, len(h.agent.models))]]
	h.note(events.TurnStarted{Turn: h.turn})
	attempt := 1
	h.note(events.ModelCallStarted{Turn: h.turn, Attempt: attempt, Model: m.name, Messages: 2*h.turn - 1, Tools: []string{}})
	h.pass(4 * time.Second)
	if h.r.IntN(60) == 0 {
		h.note(events.ModelCallError{Turn: h.turn, Attempt: attempt, Model: m.name, Error: events.ErrorInfo{Kind: "overloaded", Message: "try again"}, Retryable: true})
		attempt++
		h.pass(9 * time.Second)
		h.note(events.ModelCallStarted{Turn: h.turn, Attempt: attempt, Model: m.name, Messages: 2*h.turn - 1, Tools: []string{}})
		h.pass(4 * time.Second)
	}
	e := events.ModelCallFinished{
		Turn: h.turn, Attempt: attempt, Model: m.name, ServedModel: m.name, StopReason: "end_turn", Text: prose(h.r, 240), LatencyMS: int64(300 + h.r.IntN(4000)),
		Usage: events.Usage{Input: int64(400 + h.turn*h.r.IntN(2500)), Output: int64(20 + h.r.IntN(600)), CacheRead: int64(h.r.IntN(2000))},
	}
	if m.input > 0 {
		cost := events.PicoUSD(e.Usage.Input)*m.input + events.PicoUSD(e.Usage.Output)*m.output
		e.Cost, e.Rates = &cost, &events.Rates{Table: "bench 2026-01", Input: m.input, Output: m.output}
	}
	if calls > 0 {
		e.StopReason = "tool_use"
	}
	for range calls {
		n := name
		if n == "" {
			n = h.agent.tools[0].name
		}
		e.ToolCalls = append(e.ToolCalls, events.ToolCall{Name: n, Arguments: json.RawMessage(`{}`)})
	}
	h.note(e)
}

func (h *holder) readonly(call events.CallID, t tool) {
	args, err := json.Marshal(map[string]any{"case": h.r.IntN(100_000), "ask": prose(h.r, 50)})
	if !h.check(err) {
		return
	}
	if h.r.IntN(120) == 0 {
		h.note(events.ToolExecutionBlocked{
			Call: call, Tool: t.name, Arguments: args, Reason: events.BlockedInvalidArguments, At: h.now,
			Result: events.ToolResult{Status: "failed", Error: "case: no such case"},
		})
		return
	}
	h.note(events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: t.name, Effect: "readonly", Arguments: args, At: h.now})
	h.pass(3 * time.Second)
	ms := int64(5 + h.r.IntN(2500))
	if h.r.IntN(40) == 0 {
		kind := events.ErrorInfo{Kind: "timeout", Message: "no answer in 10s"}
		h.note(events.ToolExecutionError{Call: call, Attempt: 1, Tool: t.name, Error: kind, Result: events.ToolResult{Status: "failed", Error: kind.Message, Trust: "external"}, LatencyMS: ms, At: h.now})
		return
	}
	res := events.ToolResult{Status: "completed", Output: prose(h.r, 180), Trust: "external"}
	if t.cost > 0 {
		cost := t.cost
		res.Cost = &cost
	}
	h.note(events.ToolExecutionFinished{Call: call, Attempt: 1, Tool: t.name, Result: res, LatencyMS: ms, At: h.now})
}

// begin asks for a destructive call of its own.
func (h *holder) begin(ask bool) (v ledger.Verdict) {
	name := h.f.destructive(h.agent)
	args := json.RawMessage(fmt.Sprintf(`{"amount":"%d.00","case":"%s"}`, 5+h.run.ID[15], h.run.ClientKey))
	in := ledger.Intent{
		Token: h.f.ids.Event(), Call: events.CallID{Turn: h.turn}, CallAttempt: 1, Tool: name, Effect: "destructive", Scope: ledger.ScopeRun,
		Identity: json.RawMessage(fmt.Sprintf(`{"case":"%s"}`, h.run.ClientKey)), Arguments: args, Timeout: 10 * time.Second,
		Ask: ask, ApprovalTTL: 7 * 24 * time.Hour,
	}
	h.barrier(func(p ledger.Prefix) (_ []events.Fact, err error) {
		if v, err = h.f.st.Begin(h.ctx, h.lease, p, in); err == nil && v.Fact != nil {
			return []events.Fact{*v.Fact}, nil
		}
		return nil, err
	})
	return v
}

// end says how a begun call came out.
func (h *holder) end(v ledger.Verdict, o ledger.Outcome) {
	h.pass(5 * time.Second)
	o.Token = v.Ref.Token
	h.barrier(func(p ledger.Prefix) ([]events.Fact, error) {
		set, err := h.f.st.End(h.ctx, h.lease, p, o)
		if err == nil && set.Fact != nil {
			return []events.Fact{*set.Fact}, nil
		}
		return nil, err
	})
}
