package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/redact"
)

const (
	// CompleteSubject is where a call that was handed off is completed, by request
	// and reply. Any worker answers.
	CompleteSubject = "daybook.complete"
	completeGroup   = "daybook-workers"

	// maxRequest bounds a completion, in bytes.
	maxRequest = 512 << 10
	// completeTry bounds one try to complete a call.
	completeTry = 10 * time.Second
	// earlyFor is how long a completion may be ahead of the hand-off it is for.
	earlyFor = 5 * time.Second
)

// Complete is a request on [CompleteSubject], in JSON. Token, Status and By are
// required.
type Complete struct {
	Token  events.ID `json:"token"`
	Status string    `json:"status"` // "completed" or "failed"
	Output string    `json:"output,omitempty"`
	// Error says why it failed.
	Error string `json:"error,omitempty"`
	// NotApplied says of a destructive call that failed that it certainly took no
	// effect; without it the call is in doubt.
	NotApplied bool `json:"not_applied,omitempty"`
	// By names who says so, for the record.
	By string `json:"by"`
}

// Completion checks the request and returns what it means.
func (r Complete) Completion() (ledger.Completion, error) {
	c := ledger.Completion{Token: r.Token, By: r.By, Result: events.ToolResult{Output: r.Output}}
	switch {
	case r.Token.IsZero():
		return c, errors.New("token is missing: it is what the tool was given")
	case r.By == "":
		return c, errors.New("by is missing: the record says who completed the call")
	case r.Status == "completed" && (r.Error != "" || r.NotApplied):
		return c, errors.New(`status "completed" has neither error nor not_applied`)
	case r.Status == "completed":
		c.Kind = ledger.Applied
		return c, nil
	case r.Status != "failed":
		return c, fmt.Errorf("status %q: want completed or failed", r.Status)
	case r.Error == "":
		return c, errors.New("error is missing: say why it failed")
	}
	c.Kind, c.Error = ledger.Unclear, events.ErrorInfo{Kind: "tool_error", Message: r.Error}
	if r.NotApplied {
		c.Kind = ledger.NotApplied
	}
	return c, nil
}

// completed is the reply: State on success, else Code and Error.
type completed struct {
	State events.EffectState `json:"state,omitempty"`
	Code  string             `json:"code,omitempty"`
	Error string             `json:"error,omitempty"`
}

// codes are the errors that a client can tell apart.
var codes = []struct {
	code string
	err  error
}{
	{"not_found", ledger.ErrNotFound},
	{"completed_otherwise", ledger.ErrCompleted},
	{"not_awaited", ledger.ErrNotAwaited},
	{"unavailable", ledger.ErrUnavailable},
}

// Completer ends calls that were handed off. It is part of ledger.Handoffs.
type Completer interface {
	Complete(ctx context.Context, c ledger.Completion) (ledger.Settlement, error)
}

// ServeCompletions answers requests on [CompleteSubject] until stop is called,
// together with every other worker that does.
func (n *NATS) ServeCompletions(c Completer, r *redact.Redactor) (stop func(), err error) {
	sub, err := n.nc.QueueSubscribe(CompleteSubject, completeGroup, func(m *nats.Msg) {
		reply := serve(m.Data, c, r)
		if b, err := json.Marshal(reply); err == nil && m.Reply != "" {
			_ = m.Respond(b) // an answer that is lost is asked for again
		}
	})
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", CompleteSubject, err)
	}
	return func() { _ = sub.Drain() }, nil
}

func serve(data []byte, c Completer, r *redact.Redactor) completed {
	in, err := parseComplete(data)
	if err != nil {
		return completed{Code: "invalid", Error: r.Error(err).Error()}
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeTry)
	defer cancel()
	set, err := c.Complete(ctx, in)
	if err == nil {
		return completed{State: set.State}
	}
	out := completed{Code: "failed", Error: r.Error(err).Error()}
	for _, k := range codes {
		if errors.Is(err, k.err) {
			out.Code = k.code
		}
	}
	return out
}

func parseComplete(data []byte) (ledger.Completion, error) {
	if len(data) > maxRequest {
		return ledger.Completion{}, fmt.Errorf("the request has %d bytes, at most %d: store large outputs outside and send a reference", len(data), maxRequest)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var in Complete
	if err := d.Decode(&in); err != nil {
		return ledger.Completion{}, fmt.Errorf("read request: want one JSON object with token, status, output or error, and by: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return ledger.Completion{}, errors.New("read request: something follows the JSON object")
	}
	return in.Completion()
}

// Complete asks the workers to complete a call. While nobody answers or the
// database is away it tries again until ctx ends; a call that is not known yet
// gets a few seconds, since its work can be done before it is registered.
// Errors: [ledger.ErrNotFound], [ledger.ErrCompleted], [ledger.ErrNotAwaited].
func (n *NATS) Complete(ctx context.Context, in Complete) (events.EffectState, error) {
	if _, err := in.Completion(); err != nil {
		return "", fmt.Errorf("complete %s: %w", in.Token, err)
	}
	data, err := json.Marshal(in)
	if err != nil {
		return "", fmt.Errorf("complete %s: %w", in.Token, err)
	}
	if len(data) > maxRequest {
		return "", fmt.Errorf("complete %s: it has %d bytes, at most %d: store large outputs outside and send a reference", in.Token, len(data), maxRequest)
	}
	early, stop := context.WithTimeout(ctx, earlyFor)
	defer stop()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		state, err := n.completeOnce(ctx, data)
		again := errors.Is(err, ledger.ErrUnavailable) || errors.Is(err, ledger.ErrNotFound) && early.Err() == nil
		if err == nil || !again {
			return state, wrap(in.Token, err)
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return "", wrap(in.Token, errors.Join(context.Cause(ctx), err))
		}
	}
}

func wrap(token events.ID, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("complete %s: %w", token, err)
}

func (n *NATS) completeOnce(ctx context.Context, data []byte) (events.EffectState, error) {
	ctx, cancel := context.WithTimeout(ctx, completeTry+time.Second)
	defer cancel()
	m, err := n.nc.RequestWithContext(ctx, CompleteSubject, data)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return "", fmt.Errorf("%w: no worker answers on NATS: %w", ledger.ErrUnavailable, err)
	case err != nil:
		return "", fmt.Errorf("%w: no answer: %w", ledger.ErrUnavailable, err)
	}
	var out completed
	if err := json.Unmarshal(m.Data, &out); err != nil {
		return "", fmt.Errorf("read reply: %w", err)
	}
	if out.Code == "" {
		return out.State, nil
	}
	for _, k := range codes {
		if out.Code == k.code {
			return "", fmt.Errorf("%w: %s", k.err, out.Error)
		}
	}
	return "", errors.New(out.Error)
}
