// Package model is what the runtime asks of a language model: one request, one
// answer, what it cost. Whoever answers is a package of its own on its shelf: so
// far scripted.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Role says who speaks.
type Role string

// Roles.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Message is one entry of the transcript.
type Message struct {
	Role Role   `json:"role"`
	Text string `json:"text,omitempty"`
	// Calls are what an assistant message asks for.
	Calls []Call `json:"calls,omitempty"`
	// Results answer the calls of the assistant message before, in request order (Role Tool).
	Results []Result `json:"results,omitempty"`
}

// Call is a tool call in the transcript. ID is ours ("t1.c0"), unique in the run.
type Call struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Result is what the model is told about a call.
type Result struct {
	CallID string `json:"call_id"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	Failed bool   `json:"failed,omitempty"`
	// Repeated: the result is an earlier one, the tool was not run again.
	Repeated bool `json:"repeated,omitempty"`
}

// Spec declares a tool to a model.
type Spec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"` // JSON Schema of the arguments object
}

// Request is one call to a model. The same request hashes the same.
type Request struct {
	Model     string    `json:"model"`
	System    string    `json:"system,omitempty"`
	Messages  []Message `json:"messages"`
	Tools     []Spec    `json:"tools,omitempty"`
	MaxTokens int       `json:"max_tokens,omitempty"` // 0 = the provider's default
	// AttemptID is ours for this wire call ("RUN.e1.t3.a1": epoch, turn, attempt): clients send it along
	// where the provider takes a request id, so that a line of its invoice can be
	// told from any other. It is not part of the hash.
	AttemptID string `json:"-"`
}

// Response is a model's answer.
type Response struct {
	// Model is the model that served, which prices and usage follow.
	Model      string
	Text       string
	Calls      []events.ToolCall
	StopReason string // end_turn, tool_use, max_tokens, refusal
	Usage      events.Usage
}

// Model answers requests. Safe for concurrent use. It never retries: every
// wire call is the runtime's to record. An error is an [*Error] where the
// provider said something about it.
type Model interface {
	Call(ctx context.Context, r Request) (Response, error)
}

// Error is a call that gave no usable answer.
type Error struct {
	// Kind is stored: rate_limited, overloaded, timeout, invalid_request,
	// unauthorized, malformed_answer, script_exhausted, unavailable.
	Kind      string
	Retryable bool
	// RetryAfter is the provider's wish; zero = none.
	RetryAfter time.Duration
	// Usage is what was billed all the same; nil = nothing known.
	Usage *events.Usage
	Model string // that served, if known
	Err   error
}

func (e *Error) Error() string { return fmt.Sprintf("model call: %s: %v", e.Kind, e.Err) }

// Unwrap returns what happened underneath.
func (e *Error) Unwrap() error { return e.Err }

// AsError returns err as an [*Error]; anything else is retryable and "unavailable".
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: "unavailable", Retryable: true, Err: err}
}
