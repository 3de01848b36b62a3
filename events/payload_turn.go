package events

import (
	"encoding/json"
	"strconv"
	"time"
)

// CallID is the identity of a tool call within its run: ours, not the provider's.
type CallID struct {
	Turn  int `json:"turn"`  // from 1
	Index int `json:"index"` // from 0, in the order the model asked
}

func (c CallID) String() string { return string(c.appendText(make([]byte, 0, 24))) }

func (c CallID) appendText(b []byte) []byte {
	b = strconv.AppendInt(append(b, 't'), int64(c.Turn), 10)
	return strconv.AppendInt(append(b, ".c"...), int64(c.Index), 10)
}

// CallRef names a call of some run.
type CallRef struct {
	Run  RunID  `json:"run"`
	Call CallID `json:"call"`
}

// TurnStarted opens a turn: one model call and the tool calls it asks for.
type TurnStarted struct {
	Turn int `json:"turn"`
}

// ModelCallStarted precedes every wire call to a model, and is acknowledged
// before the request leaves. It never repeats the messages.
type ModelCallStarted struct {
	Turn        int    `json:"turn"`
	Attempt     int    `json:"attempt"` // from 1, over crashes too
	Model       string `json:"model"`
	RequestHash Hash   `json:"request_hash"`
	Messages    int    `json:"messages"`
	// Tools are those that the model was shown. Where a run selects them, a
	// later attempt or turn takes them from here.
	Tools []string `json:"tools"`
	// Endpoint is the one of a pool that is asked; empty = the model has but one.
	Endpoint string `json:"endpoint,omitempty"`
	// Provider is whose the model is, as far as its client knows: openai, anthropic, …;
	// Server is the host that is asked, where that is not the provider's own.
	Provider string `json:"provider,omitempty"`
	Server   string `json:"server,omitempty"`
	// Purpose is what the call is for, other than the turn's answer; empty = that.
	Purpose string `json:"purpose,omitempty"`
	// Compacts is the part of the transcript that a compaction is of.
	Compacts *Span `json:"compacts,omitempty"`
}

// Usage counts tokens as billed. Input is uncached input for every provider.
// Missing is set when the provider sent no usage: then nothing is known, which
// is not zero.
type Usage struct {
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
	CacheRead  int64 `json:"cache_read,omitempty"`
	CacheWrite int64 `json:"cache_write,omitempty"`
	Reasoning  int64 `json:"reasoning,omitempty"`
	Missing    bool  `json:"missing,omitempty"`
}

// Rates are the prices frozen on a row, per million tokens.
type Rates struct {
	Table      string  `json:"table"` // name and date of the price table
	Input      PicoUSD `json:"input"`
	Output     PicoUSD `json:"output"`
	CacheRead  PicoUSD `json:"cache_read,omitempty"`
	CacheWrite PicoUSD `json:"cache_write,omitempty"`
}

// ToolCall is one call that a model asked for.
type ToolCall struct {
	// ProviderID is the provider's id as sent: data that may be missing or repeated.
	ProviderID string `json:"provider_id,omitempty"`
	Name       string `json:"name"`
	// Arguments are as the model wrote them: possibly no JSON object. A text
	// that is not JSON at all is kept as a JSON string, with Malformed set.
	Arguments json.RawMessage `json:"arguments"`
	Malformed bool            `json:"malformed,omitempty"`
}

// Kinds of [Block]. Stored; never renamed.
const (
	BlockText      = "text"
	BlockCall      = "call"
	BlockReasoning = "reasoning"
)

// Block is a piece of a model's answer, in the order in which the model wrote
// it. What people may read stands in Text, which is redacted like any text; Data
// is the provider's own (a signature, encrypted reasoning), is redacted of
// registered secrets and key names alone, and goes back to no other format.
type Block struct {
	Kind string `json:"kind"` // text, call, reasoning
	// Text is what a reasoning block shows, and of a text block its part of the
	// answer's text; empty there = all of it.
	Text string `json:"text,omitempty"`
	// Call is the index among the answer's calls, of kind call.
	Call int `json:"call,omitempty"`
	// Format names the wire format that Data belongs to.
	Format string          `json:"format,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// Degraded says that another model answered than the one that was first in line.
type Degraded struct {
	From   string   `json:"from"`
	To     string   `json:"to"`
	Reason string   `json:"reason"` // kind of the error that From is left alone for
	Chain  []string `json:"chain"`
}

// ModelCallFinished is a model's answer. It is never paid for twice.
type ModelCallFinished struct {
	Turn        int        `json:"turn"`
	Attempt     int        `json:"attempt"`
	Model       string     `json:"model"`
	ServedModel string     `json:"served_model"`
	Text        string     `json:"text,omitempty"`
	ToolCalls   []ToolCall `json:"tool_calls,omitempty"`
	// Blocks are there if text followed by calls is not all there is to say.
	Blocks     []Block `json:"blocks,omitempty"`
	StopReason string  `json:"stop_reason"` // end_turn, tool_use, max_tokens, refusal, …
	Usage      Usage   `json:"usage"`
	// RawUsage is what the provider said of usage, as it said it; nil = nothing.
	RawUsage json.RawMessage `json:"raw_usage,omitempty"`
	// RequestID is the provider's name for this call.
	RequestID string    `json:"request_id,omitempty"`
	Degraded  *Degraded `json:"degraded,omitempty"`
	// Endpoint is the one of a pool that answered; empty = the model has but one.
	Endpoint string `json:"endpoint,omitempty"`
	// Cost is nil when the model that served has no known price: unpriced, not free.
	Cost      *PicoUSD `json:"cost,omitempty"`
	Rates     *Rates   `json:"rates,omitempty"`
	LatencyMS int64    `json:"latency_ms"`
	// Purpose is that of the call, as it was started.
	Purpose string `json:"purpose,omitempty"`
}

// ModelCallError is an attempt without a usable answer. Usage and cost stand
// here too when the provider billed it.
type ModelCallError struct {
	Turn      int       `json:"turn"`
	Attempt   int       `json:"attempt"`
	Model     string    `json:"model"`
	Error     ErrorInfo `json:"error"`
	Retryable bool      `json:"retryable"`
	// RetryAt is when the next attempt may start; zero when there is none.
	RetryAt time.Time `json:"retry_at,omitzero"`
	// ServedModel is the one that usage and cost belong to; empty = unknown, or Model.
	ServedModel string   `json:"served_model,omitempty"`
	Usage       *Usage   `json:"usage,omitempty"`
	Cost        *PicoUSD `json:"cost,omitempty"`
	Rates       *Rates   `json:"rates,omitempty"`
	// Endpoint is the one of a pool that failed. NextEndpoint is another one of the
	// same model, which is asked next; empty = none is left to ask.
	Endpoint     string `json:"endpoint,omitempty"`
	NextEndpoint string `json:"next_endpoint,omitempty"`
	LatencyMS    int64  `json:"latency_ms"`
	// Purpose is that of the call, as it was started.
	Purpose string `json:"purpose,omitempty"`
}

// Source is where an answer came from.
type Source struct {
	Title string `json:"title,omitempty"`
	URL   string `json:"url,omitempty"`
}

// Truncated says how much of an output was kept, in bytes. Its absence is a
// claim that the output is whole.
type Truncated struct {
	Kept int `json:"kept"`
	Of   int `json:"of"`
}

// ToolResult is what a call gave: what the model reads, and what it cost.
type ToolResult struct {
	Status    string     `json:"status"` // "completed" or "failed"
	Output    string     `json:"output,omitempty"`
	Error     string     `json:"error,omitempty"`
	Trust     string     `json:"trust,omitempty"` // "own" or "external"; empty = unknown
	Sources   []Source   `json:"sources,omitempty"`
	Truncated *Truncated `json:"truncated,omitempty"`
	// Cost is the price of the call itself; nil = unmeasured, which is not free.
	Cost *PicoUSD `json:"cost,omitempty"`
	// Control is set by tools that end the run: "finish" or "decline".
	Control string `json:"control,omitempty"`
}

// EffectRef ties a tool event to its effect. Only destructive calls have one.
type EffectRef struct {
	OpKey      Hash   `json:"op_key"`
	Generation int    `json:"generation"` // from 1
	Attempt    int    `json:"attempt"`    // of the op key, from 1: the fence of fenced tools
	Token      ID     `json:"token"`
	Recovery   string `json:"recovery"`
}

// ToolExecutionStarted precedes every execution. For a destructive call it is
// the fact that Begin inserted.
type ToolExecutionStarted struct {
	Call      CallID          `json:"call"`
	Attempt   int             `json:"attempt"` // of the call, from 1
	Tool      string          `json:"tool"`
	Effect    string          `json:"effect"`
	Arguments json.RawMessage `json:"arguments"`
	Ref       *EffectRef      `json:"ref,omitempty"`
	At        time.Time       `json:"at"`
	Deadline  time.Time       `json:"deadline,omitzero"`
	// Approval is the one that this execution used up; Taint is the policy that
	// let a call through although foreign text had come in.
	Approval ID     `json:"approval,omitzero"`
	Taint    string `json:"taint,omitempty"`
}

// ToolExecutionProgress is what a running tool says of itself.
type ToolExecutionProgress struct {
	Call     CallID          `json:"call"`
	Attempt  int             `json:"attempt"`
	Tool     string          `json:"tool"`
	Progress string          `json:"progress"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	At       time.Time       `json:"at"`
	// HandedOff is set when the outcome will come from outside, later.
	HandedOff *HandedOff `json:"handed_off,omitempty"`
}

// HandedOff says how a call's outcome will come: somebody completes Token, at
// the latest by Until, or Child ends.
type HandedOff struct {
	Token ID        `json:"token"`
	Until time.Time `json:"until,omitzero"`
	Child RunID     `json:"child,omitzero"`
	// Reason is what a run that waits for it parks with: async_tool, timer, signal or child.
	Reason ParkReason `json:"reason,omitempty"`
}

// Completion says by what hand-off the outcome of a call came, and from whom.
// It stands behind the outcome as an effect does: the outcome counts whichever
// attempt of the call handed off.
type Completion struct {
	Token ID     `json:"token"`
	By    string `json:"by,omitempty"`
}

// ToolExecutionFinished is the outcome of a call that gave a result.
type ToolExecutionFinished struct {
	Call    CallID     `json:"call"`
	Attempt int        `json:"attempt"`
	Tool    string     `json:"tool"`
	Result  ToolResult `json:"result"`
	Ref     *EffectRef `json:"ref,omitempty"`
	// Repeated marks an earlier outcome handed to another call; Of names the call that took effect.
	Repeated bool     `json:"repeated,omitempty"`
	Of       *CallRef `json:"of,omitempty"`
	// Redacted says that the replayed outcome is the redacted one because no seal key kept the exact bytes.
	Redacted bool `json:"redacted,omitempty"`
	// Simulated marks a destructive call of a fork that was not executed.
	Simulated bool `json:"simulated,omitempty"`
	// Completion is set when the call was handed off and has no effect of its own.
	Completion *Completion `json:"completion,omitempty"`
	LatencyMS  int64       `json:"latency_ms"`
	At         time.Time   `json:"at"`
}

// ToolExecutionError is the outcome of a call that certainly failed. For a
// destructive call: it took no effect.
type ToolExecutionError struct {
	Call    CallID     `json:"call"`
	Attempt int        `json:"attempt"`
	Tool    string     `json:"tool"`
	Result  ToolResult `json:"result"` // Status "failed"
	Error   ErrorInfo  `json:"error"`
	Ref     *EffectRef `json:"ref,omitempty"`
	// Repeated marks the outcome of a call of an earlier run in the session, found out
	// after that run had ended; Of names the call.
	Repeated bool     `json:"repeated,omitempty"`
	Of       *CallRef `json:"of,omitempty"`
	// Completion is set when the call was handed off and has no effect of its own.
	Completion *Completion `json:"completion,omitempty"`
	LatencyMS  int64       `json:"latency_ms"`
	At         time.Time   `json:"at"`
}

// BlockedReason is one of the five reasons why a call was not run.
type BlockedReason string

// Blocked reasons.
const (
	BlockedUnknownTool      BlockedReason = "unknown_tool"
	BlockedToolDenied       BlockedReason = "tool_denied"
	BlockedInvalidArguments BlockedReason = "invalid_arguments"
	BlockedPermissionDenied BlockedReason = "permission_denied"
	BlockedValidationFailed BlockedReason = "validation_failed"
)

// ToolExecutionBlocked is the outcome of a call that was not run.
type ToolExecutionBlocked struct {
	Call      CallID          `json:"call"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"`
	Reason    BlockedReason   `json:"reason"`
	// Detail refines the reason: redacted_argument, identity_conflict, abandoned, …
	Detail string     `json:"detail,omitempty"`
	Result ToolResult `json:"result"` // Status "failed"
	OpKey  Hash       `json:"op_key,omitzero"`
	Of     *CallRef   `json:"of,omitempty"` // identity_conflict: the call that took effect
	At     time.Time  `json:"at"`
	// Rule names the rule that denied it (detail policy).
	Rule string `json:"rule,omitempty"`
}

// ToolExecutionInDoubt says that nobody can know whether a call took effect.
type ToolExecutionInDoubt struct {
	Call    CallID    `json:"call"`
	Attempt int       `json:"attempt"`
	Tool    string    `json:"tool"`
	Ref     EffectRef `json:"ref"`
	// Cause: takeover, timeout, panic, unclear_error, lease_lost, cancelled, restored.
	Cause    string    `json:"cause"`
	Evidence string    `json:"evidence,omitempty"`
	Deadline time.Time `json:"deadline"`
	// Continue is set when the tool declares that the model may go on: it is told "unknown, do not retry".
	Continue bool      `json:"continue,omitempty"`
	At       time.Time `json:"at"`
}

// EffectState is the state of an effect. Stored; never renamed.
type EffectState string

// Effect states.
const (
	EffectStarted    EffectState = "started"
	EffectApplied    EffectState = "applied"
	EffectNotApplied EffectState = "not_applied"
	EffectInDoubt    EffectState = "in_doubt"
	EffectAbandoned  EffectState = "abandoned"
)

// ResolvedByProbe and ResolvedByLateEvidence are who settles an effect when no
// person does. Stored; never renamed.
const (
	ResolvedByProbe        = "probe"
	ResolvedByLateEvidence = "late_evidence"
)

// EffectResolved is the fact that settles an effect in doubt: by a person, a
// probe or late evidence. For the call it is the outcome.
type EffectResolved struct {
	Call   CallID      `json:"call"`
	Tool   string      `json:"tool"`
	Ref    EffectRef   `json:"ref"`
	State  EffectState `json:"state"` // applied, not_applied or abandoned
	Result ToolResult  `json:"result"`
	By     string      `json:"by"` // "probe", "late_evidence" or a person
	Note   string      `json:"note,omitempty"`
	Forced bool        `json:"forced,omitempty"`
	At     time.Time   `json:"at"`
}

func (TurnStarted) eventType() Type           { return "turn_started" }
func (ModelCallStarted) eventType() Type      { return "model_call_started" }
func (ModelCallFinished) eventType() Type     { return "model_call_finished" }
func (ModelCallError) eventType() Type        { return "model_call_error" }
func (ToolExecutionStarted) eventType() Type  { return "tool_execution_started" }
func (ToolExecutionProgress) eventType() Type { return "tool_execution_progress" }
func (ToolExecutionFinished) eventType() Type { return "tool_execution_finished" }
func (ToolExecutionError) eventType() Type    { return "tool_execution_error" }
func (ToolExecutionBlocked) eventType() Type  { return "tool_execution_blocked" }
func (ToolExecutionInDoubt) eventType() Type  { return "tool_execution_in_doubt" }
func (EffectResolved) eventType() Type        { return "effect_resolved" }
