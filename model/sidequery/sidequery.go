// Package sidequery is one question to a model outside any run: no session, no
// loop, no tools that run, nothing recorded. Whoever asks accounts for it.
package sidequery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
)

// DefaultRole is asked where a spec names neither a model nor a role.
const DefaultRole = "default"

// Spec is what to ask.
type Spec struct {
	// Model is a name of [Deps.Models] or [Deps.Roles], with or without an @ before it.
	Model string
	// Role is asked if Model is empty; empty = [DefaultRole].
	Role     string
	Thinking string // see [model.Request.Thinking]
	System   string
	Messages []Message
	// Tools are declared to the model and never run: its calls come back.
	Tools []model.Spec
	// MaxTokens bounds the answer; 0 = the provider's default.
	MaxTokens int
	Format    *model.Format
}

// Deps is what a side query needs: a part of what a worker has.
type Deps struct {
	Models map[string]model.Model
	// Roles name chains of models: the first that answers serves.
	Roles map[string][]string
	// Prices tell the cost; nil = nobody knows it.
	Prices *model.Prices
	// Redactor reads what errors say; nil = they are passed on as they are.
	Redactor *redact.Redactor
	Now      func() time.Time // nil = time.Now
}

// ToolCall is a call that the model asks for.
type ToolCall struct {
	// ID is unique in the result: the provider's where that is.
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"` // a JSON string if Malformed
	// Malformed is set for arguments that are no JSON.
	Malformed bool `json:"malformed,omitempty"`
}

// Result is the answer, or why there is none.
type Result struct {
	// Text is all text of the answer, empty if it is calls alone.
	Text      string     `json:"text"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	// Model is what the reference means, ServedModel what answered: another after
	// a fallback. Bill and judge by ServedModel.
	Model       string `json:"model"`
	ServedModel string `json:"served_model"`
	// Degraded is there only if a fallback served.
	Degraded *events.Degraded `json:"degraded,omitempty"`
	// ResponseModel is how the answer names its model, if not as ServedModel.
	ResponseModel string `json:"response_model,omitempty"`
	// Usage is counted by the family of who served. With UsageMissing its numbers
	// are unknown, not zero.
	Usage        events.Usage    `json:"usage"`
	UsageMissing bool            `json:"usage_missing,omitempty"`
	Cost         *events.PicoUSD `json:"cost,omitempty"` // nil = nobody knows
	// StopReason is the answer's, or "error", or "aborted" if the context ended.
	StopReason   string `json:"stop_reason"`
	ErrorMessage string `json:"error_message,omitempty"`
	// Attempts are all wire calls, failed ones too: each may have been billed.
	Attempts []Attempt `json:"attempts"`
	// Sent are the messages as they were taken in.
	Sent []Message `json:"-"`
}

// Attempt is one wire call.
type Attempt struct {
	Model string          `json:"model"`
	Kind  string          `json:"kind,omitempty"` // of its error; empty = it answered
	Usage *events.Usage   `json:"usage,omitempty"`
	Cost  *events.PicoUSD `json:"cost,omitempty"`
}

// ErrNoMessages is the one error of [Run]: there is nothing to ask.
var ErrNoMessages = errors.New("side query: no messages")

// Run asks. Whatever goes wrong with a model is in the result, with what is known
// of the bill; the error is for what cannot be asked at all: [ErrNoMessages].
func Run(ctx context.Context, s Spec, d Deps) (Result, error) {
	if len(s.Messages) == 0 {
		return Result{}, ErrNoMessages
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	r := Result{Sent: intake(s.Messages, d.Now())}
	chain, err := d.resolve(s)
	if err != nil {
		r.fail(d, "error", err)
		return r, nil
	}
	req := model.Request{System: s.System, Tools: s.Tools, MaxTokens: s.MaxTokens, Thinking: s.Thinking, Format: s.Format}
	for _, m := range r.Sent {
		req.Messages = append(req.Messages, m.Message)
	}
	r.Model = chain[0]
	reason := ""
	for _, name := range chain {
		if ctx.Err() != nil { // no call, so no attempt
			r.fail(d, "aborted", ctx.Err())
			return r, nil
		}
		r.ServedModel, req.Model = name, name
		began := d.Now()
		resp, err := ask(ctx, d.Models[name], req)
		if err == nil {
			r.answer(d, resp, began)
			if name != chain[0] {
				r.Degraded = &events.Degraded{From: chain[0], To: name, Reason: reason, Chain: chain}
			}
			return r, nil
		}
		e := model.AsError(err)
		a := Attempt{Model: name, Kind: e.Kind, Usage: e.Usage}
		if e.Usage != nil {
			served := e.Model
			if served == "" {
				served = name
			}
			a.Cost = d.price(served, began, *e.Usage)
		}
		r.Attempts = append(r.Attempts, a)
		r.usage(e.Usage, a.Cost)
		if ctx.Err() != nil {
			r.fail(d, "aborted", err)
			return r, nil
		}
		if reason == "" {
			reason = e.Kind
		}
		r.fail(d, "error", err)
	}
	return r, nil
}

func ask(ctx context.Context, m model.Model, req model.Request) (resp model.Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &model.Error{Kind: "panic", Err: fmt.Errorf("model client panicked: %v", v)}
		}
	}()
	return m.Call(ctx, req)
}

// resolve returns the models that a spec means, in order.
func (d Deps) resolve(s Spec) ([]string, error) {
	ref, what := strings.TrimPrefix(s.Model, "@"), "model"
	if s.Model == "" {
		if ref, what = s.Role, "role"; ref == "" {
			ref = DefaultRole
		}
	}
	if _, ok := d.Models[ref]; ok && what == "model" {
		return []string{ref}, nil
	}
	chain := d.Roles[ref]
	for _, name := range chain {
		if _, ok := d.Models[name]; !ok {
			return nil, fmt.Errorf("role %q names model %q, which is not configured", ref, name)
		}
	}
	if len(chain) == 0 {
		return nil, fmt.Errorf("there is no %s %q", what, ref)
	}
	return chain, nil
}

func (d Deps) price(served string, at time.Time, u events.Usage) *events.PicoUSD {
	if d.Prices == nil {
		return nil
	}
	cost, _ := d.Prices.Price(served, at, u)
	return cost
}

func (r *Result) answer(d Deps, resp model.Response, began time.Time) {
	billed := r.ServedModel
	if resp.Model != "" && resp.Model != r.ServedModel {
		r.ResponseModel, billed = resp.Model, resp.Model
	}
	cost := d.price(billed, began, resp.Usage)
	r.Attempts = append(r.Attempts, Attempt{Model: r.ServedModel, Usage: &resp.Usage, Cost: cost})
	r.usage(&resp.Usage, cost)
	r.Text, r.StopReason, r.ErrorMessage = resp.Text, resp.StopReason, ""
	taken := map[string]bool{"": true}
	for i, c := range resp.Calls {
		id := c.ProviderID
		for n := i; taken[id]; n++ {
			id = fmt.Sprintf("call_%d", n)
		}
		taken[id] = true
		r.ToolCalls = append(r.ToolCalls, ToolCall{ID: id, Name: c.Name, Args: c.Arguments, Malformed: c.Malformed})
	}
}

// usage is that of the last attempt; what came before stands in Attempts.
func (r *Result) usage(u *events.Usage, cost *events.PicoUSD) {
	if u == nil {
		u = &events.Usage{Missing: true}
	}
	r.Usage, r.UsageMissing, r.Cost = *u, u.Missing, cost
}

func (r *Result) fail(d Deps, reason string, err error) {
	if d.Redactor != nil {
		err = d.Redactor.Error(err)
	}
	r.StopReason, r.ErrorMessage = reason, err.Error()
}
