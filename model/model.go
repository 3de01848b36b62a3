// Package model is what the runtime asks of a language model: one request, one
// answer, what it cost. Whoever answers is a package of its own on its shelf:
// anthropic, openai, scripted.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
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
	// Blocks are an assistant message in the order in which it was written, with
	// what its provider wants back; see [Message.Pieces]. Nil = Text, then Calls.
	Blocks []events.Block `json:"blocks,omitempty"`
	// By says which model, and which endpoint of it, wrote an assistant message; see
	// [OwnBlocks]. It is not part of the hash.
	By string `json:"-"`
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
	// Thinking is how much the model may think before it answers: off, minimal,
	// low, medium, high; empty = as the model is configured.
	Thinking string `json:"thinking,omitempty"`
	// Format asks for an answer that is JSON of a schema; nil = text.
	Format *Format `json:"format,omitempty"`
	// AttemptID is ours for this wire call ("RUN.e1.t3.a1": epoch, turn, attempt): clients send it along
	// where the provider takes a request id, so that a line of its invoice can be
	// told from any other. It is not part of the hash.
	AttemptID string `json:"-"`
	// Endpoint is the one of a [Pool] to ask; it is not part of the hash.
	Endpoint string `json:"-"`
}

// Format is a JSON Schema that an answer's text has to fit. Providers hold to it
// as well as they can; whoever asks checks.
type Format struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
}

// Response is a model's answer.
type Response struct {
	// Model is the model that served, which prices and usage follow.
	Model string
	// Route is the configured model that took the call, where that is another
	// than the one asked for; empty = that one.
	Route      string
	Text       string
	Calls      []events.ToolCall
	Blocks     []events.Block // see [events.ModelCallFinished]
	StopReason string         // end_turn, tool_use, max_tokens, refusal
	Usage      events.Usage
	// RawUsage is the provider's own account of usage, nil if it gave none.
	RawUsage json.RawMessage
	// RequestID is the provider's name for the call; empty = none.
	RequestID string
	// LimitedFor is how long nothing is left of one of the provider's limits; 0 = all
	// have something left, as far as it says.
	LimitedFor time.Duration
	Degraded   *events.Degraded
}

// Recordable brings what is a provider's own JSON, RawUsage and the data of Blocks,
// into the form in which it is recorded. What has none (names that are repeated, half
// a surrogate pair, bytes that are no UTF-8) is dropped: the answer is worth more.
func (r *Response) Recordable() {
	r.RawUsage = recordable(r.RawUsage)
	for i := range r.Blocks {
		r.Blocks[i].Data = recordable(r.Blocks[i].Data)
	}
}

func recordable(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return nil
	}
	b, err := canonical.JSON(raw)
	if err != nil {
		return nil
	}
	return b
}

// Model answers requests. Safe for concurrent use. It never retries: every
// wire call is the runtime's to record. An error is an [*Error] where the
// provider said something about it.
type Model interface {
	Call(ctx context.Context, r Request) (Response, error)
}

// Streamer is a [Model] that tells an answer while it is being written, to
// whoever watches. told is called by the goroutine of the call, in order, and
// never after Stream has returned; what it was told of a call that fails is void.
type Streamer interface {
	Model
	Stream(ctx context.Context, r Request, told func(Delta)) (Response, error)
}

// Delta is the next part of an answer. It is not redacted.
type Delta struct {
	Kind  string // a kind of [events.Block]
	Call  int    // of kind call: its index; Text is part of its arguments
	Name  string // of kind call: the tool, told once
	Block int    // of kind reasoning: which block of it, where an answer has several
	Text  string
}

// Error is a call that gave no usable answer.
type Error struct {
	// Kind is stored: rate_limited, overloaded, timeout, invalid_request,
	// unauthorized, malformed_answer, script_exhausted, unavailable, context_full
	// (the request does not fit the model's window: it can be compacted).
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
