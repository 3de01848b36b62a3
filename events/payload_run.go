package events

import (
	"encoding/json"
	"time"
)

// StoppedBy says why a run ended. Stored; never renamed.
type StoppedBy string

// Stop reasons.
const (
	StoppedByFinish           StoppedBy = "finish"
	StoppedByDeclined         StoppedBy = "declined"
	StoppedBySilent           StoppedBy = "silent"
	StoppedByArtifactFinished StoppedBy = "artifact_finished"
	StoppedByArtifactFailed   StoppedBy = "artifact_failed"
	StoppedByMaxTurns         StoppedBy = "max_turns"
	StoppedByBudget           StoppedBy = "budget"
	StoppedByDeadline         StoppedBy = "deadline"
	StoppedByCancelled        StoppedBy = "cancelled"
	StoppedByError            StoppedBy = "error"
)

// ParkReason names what a parked run waits for. Stored; never renamed.
type ParkReason string

// Park reasons.
const (
	ParkInDoubt         ParkReason = "in_doubt"          // an effect of this run that nobody can know about
	ParkEffectBusy      ParkReason = "effect_busy"       // an effect that another run has begun or has in doubt
	ParkTimer           ParkReason = "timer"             // a moment
	ParkModelRetry      ParkReason = "model_retry"       // a moment: the model provider asked to wait
	ParkApproval        ParkReason = "approval"          // a person's decision
	ParkSignal          ParkReason = "signal"            // a message from outside
	ParkChild           ParkReason = "child"             // child runs
	ParkAsyncTool       ParkReason = "async_tool"        // whoever completes the call
	ParkAuditBehind     ParkReason = "audit_behind"      // the record of earlier effects
	ParkNoCapableWorker ParkReason = "no_capable_worker" // a worker that has the run's tools
	ParkHandover        ParkReason = "handover"          // any worker: the last one shut down
	ParkDiverged        ParkReason = "diverged"          // a worker with code that fits the run's history
	ParkPaused          ParkReason = "paused"            // whoever paused the run, or its tool, to resume it
)

// RunQueued is the first event of every run; its holder makes it from the runs row.
type RunQueued struct {
	Agent     string          `json:"agent"`
	Input     json.RawMessage `json:"input"`
	ClientKey string          `json:"client_key"`
	Queue     string          `json:"queue"`
	Owner     string          `json:"owner,omitempty"`
	Priority  int             `json:"priority,omitempty"`
	// Root is the run at the head of the lineage (retries, forks, children); a run of its own names itself.
	Root     RunID     `json:"root"`
	Parent   RunID     `json:"parent,omitzero"`
	QueuedAt time.Time `json:"queued_at"`
	// Deadline is zero for none.
	Deadline time.Time `json:"deadline,omitzero"`
	// Fork is set for a run that begins with another one's history.
	Fork *Fork `json:"fork,omitempty"`
	// RetryOf is the failed run that this one tries again, Attempt its number (0 = 1).
	RetryOf RunID `json:"retry_of,omitzero"`
	Attempt int   `json:"attempt,omitempty"`
	// Schedule names the schedule that submitted the run.
	Schedule string `json:"schedule,omitempty"`
	// Loop is the loop that the submission chose, with its options; nil = its agent's.
	Loop json.RawMessage `json:"loop,omitempty"`
	// Prompt is what the submission says about the run's prompt: its text, the skills
	// that it wants active, that configured layers are off; nil = nothing.
	Prompt json.RawMessage `json:"prompt,omitempty"`
	// Guard is set for a child run: what its parent asks of it.
	Guard *Guard `json:"guard,omitempty"`
	// Session is set for a run that shares the transcript of its session.
	Session *SessionPlace `json:"session,omitempty"`
}

// SessionPlace is a run's place among those that share the transcript of a session,
// and what it goes on from: the events of Run up to Seq, whose hash is Hash. They stay
// where they are. The zero Run = nothing: it is the first, or had not begun when it was
// cancelled.
type SessionPlace struct {
	Place uint64 `json:"place"` // from 1
	Run   RunID  `json:"run,omitzero"`
	Seq   uint64 `json:"seq,omitempty"`
	Hash  Hash   `json:"hash,omitzero"`
}

// Guard is what goes down from a run to the runs that work for it, so that nothing is
// done through a child that would have been asked about or refused above it.
type Guard struct {
	// Policy is the parent's; of it and the child's own the stricter counts.
	Policy *Policy `json:"policy,omitempty"`
	// Taint says what had brought text from outside into the parent when it wrote the
	// child's input; empty = nothing had.
	Taint string `json:"taint,omitempty"`
	// Levels is how many levels of children there may be below the child; nil = no
	// bound but that of every lineage.
	Levels *int `json:"levels,omitempty"`
	// Effects says what destructive calls do, as in [Fork]: those of a child that works
	// for a fork do what the fork's do. Empty = the parent is no part of one.
	Effects string `json:"effects,omitempty"`
	// Depth is how far below a run that is nobody's child the child is, from 1; 0 = a run
	// of before this was recorded.
	Depth int `json:"depth,omitempty"`
}

// Fork names the history that a run begins with: the events of Run up to Seq,
// whose hash is Hash. They stay where they are; the fork has a chain of its own.
type Fork struct {
	Run  RunID  `json:"run"`
	Seq  uint64 `json:"seq"`
	Hash Hash   `json:"hash"`
	// Effects says what destructive calls do: replay, simulate or ask.
	Effects string `json:"effects"`
}

// ToolBinding freezes what a run relies on about one tool. After a crash the
// stricter of the recorded and the current declaration applies.
type ToolBinding struct {
	Name     string `json:"name"`
	Hash     Hash   `json:"hash"` // of the whole declaration
	Effect   string `json:"effect"`
	Recovery string `json:"recovery"`
	Scope    string `json:"scope,omitempty"`
	// Trust says who can write what comes back, own, external or unknown, and Pinned that
	// the tool is always shown. Trust is empty, and neither counts, in what releases
	// before these were recorded have left.
	Trust  string `json:"trust,omitempty"`
	Pinned bool   `json:"pinned,omitempty"`
	// Agent is set for a tool that is another agent: a call of it is a child run.
	Agent string `json:"agent,omitempty"`
	// Budget is what one such call may spend; nil = what the agents' own budgets allow.
	Budget *PicoUSD `json:"budget,omitempty"`
}

// Limits bound a run. Zero means the default of the agent package.
type Limits struct {
	MaxTurns  int `json:"max_turns,omitempty"`
	MaxTokens int `json:"max_tokens,omitempty"`
	// MaxModelAttempts bounds the tries of one model call.
	MaxModelAttempts int `json:"max_model_attempts,omitempty"`
	// MaxChildren is how many child runs may be under way at once, MaxDepth how many
	// levels of them there may be below the run; 0 = no bound but those of a lineage.
	MaxChildren int `json:"max_children,omitempty"`
	MaxDepth    int `json:"max_depth,omitempty"`
}

// KindOutputMismatch is the kind of the error that ends a run whose answer does not fit
// the schema that its agent states. Stored; never renamed.
const KindOutputMismatch = "output_mismatch"

// RunStarted freezes what the run is bound to, by hash; the bodies are blobs.
type RunStarted struct {
	Worker     string `json:"worker"`
	Agent      string `json:"agent"`
	AgentHash  Hash   `json:"agent_hash"`
	PromptHash Hash   `json:"prompt_hash"` // blob: the composed system prompt
	Model      string `json:"model"`
	// Chain are the models that are asked in order until one answers, Model first;
	// nil = Model alone. ModelRole is the role that the agent names them by.
	Chain     []string `json:"chain,omitempty"`
	ModelRole string   `json:"model_role,omitempty"`
	// Thinking is how much the model may think: off, minimal, low, medium, high; empty =
	// as it is configured.
	Thinking string `json:"thinking,omitempty"`
	// OutputHash is the blob with the JSON Schema of what the run ends with; zero = text.
	OutputHash  Hash   `json:"output_hash,omitzero"`
	Loop        string `json:"loop"`
	LoopVersion int    `json:"loop_version"`
	// LoopOptions are those of the loop, as it reads them; nil = none.
	LoopOptions json.RawMessage `json:"loop_options,omitempty"`
	Validators  []string        `json:"validators,omitempty"`
	Tools       []ToolBinding   `json:"tools"`
	Limits      Limits          `json:"limits"`
	// Policy is nil for one that asks for nothing and denies nothing.
	Policy *Policy `json:"policy,omitempty"`
	// Select is how many of Tools a model call is shown; 0 = all.
	Select int `json:"select,omitempty"`
	// PromptLayers are what the prompt was composed of, lowest first; nil = of the
	// agent's own text alone.
	PromptLayers []PromptLayer `json:"prompt_layers,omitempty"`
	// Compaction is nil for a run whose transcript is never compacted.
	Compaction *Compaction `json:"compaction,omitempty"`
	// Skills are those that the run follows, and those that it may load.
	Skills []Skill `json:"skills,omitempty"`
	// CallValidator and Middleware name the host's code that looks at tool calls.
	CallValidator string   `json:"call_validator,omitempty"`
	Middleware    []string `json:"middleware,omitempty"`
}

// Skill is one that a run is bound to. It grants nothing.
type Skill struct {
	Name string `json:"name"`
	// Digest is the SHA-256 of its text, redacted: of an active one the layer
	// skill/NAME of the prompt, else a blob.
	Digest Hash `json:"digest"`
	// Active says who made it part of the prompt: agent or run; empty = it can be loaded.
	Active string `json:"active,omitempty"`
	Trust  string `json:"trust,omitempty"` // own or external: who can write it
	// Tools are those that it needs the run to have, as they were written.
	Tools []string `json:"tools,omitempty"`
}

// PromptLayer is one layer of a composed prompt. The texts stand in the prompt.
type PromptLayer struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	Mode   string `json:"mode"`
	Digest Hash   `json:"digest"` // SHA-256 of its text, redacted
	// Off is the ID of the layer that took this one out of the prompt; empty = it is in.
	Off string `json:"off,omitempty"`
}

// Policy says what stands between a run's destructive calls and the world.
type Policy struct {
	// Approve lists the tools that a person must approve each call of; "*" = all.
	Approve []string `json:"approve,omitempty"`
	// Taint says what becomes of a call after foreign text has come in: allow (or
	// empty), ask or deny.
	Taint string `json:"taint,omitempty"`
	// ApprovalSeconds is how long a person may take; 0 = a day.
	ApprovalSeconds int64 `json:"approval_seconds,omitempty"`
	// Unpriced says what becomes of a call whose price nobody knows: refuse, or
	// empty, which allows it.
	Unpriced string `json:"unpriced,omitempty"`
	// Rules are what agent, operator and parent say about calls: in a list the
	// first rule that holds decides, and of the lists the strictest.
	Rules []PolicyList `json:"rules,omitempty"`
	// Limit is what the run may spend, as Rules see it; nil = no limit, or no rules.
	Limit *PicoUSD `json:"limit,omitempty"`
}

// PolicyList is a list of rules.
type PolicyList struct {
	Source string       `json:"source"` // whose it is, for people
	Rules  []PolicyRule `json:"rules"`
}

// PolicyRule says what becomes of the calls that it holds for.
type PolicyRule struct {
	When    string `json:"when"` // an expression
	Then    string `json:"then"` // allow, ask or deny
	Because string `json:"because,omitempty"`
}

// RunResumed is the first event of every holder after the first.
type RunResumed struct {
	Worker   string `json:"worker"`
	Epoch    uint64 `json:"epoch"`
	BaseSeq  uint64 `json:"base_seq"`
	BaseHash Hash   `json:"base_hash"`
	// SetAside counts rows beyond the base that this takeover made invalid.
	SetAside int `json:"set_aside,omitempty"`
}

// RunParked says what the run waits for; it holds no worker, goroutine or lease meanwhile.
type RunParked struct {
	Reason ParkReason `json:"reason"`
	// Detail says it for a person.
	Detail string  `json:"detail,omitempty"`
	OpKey  Hash    `json:"op_key,omitzero"`
	Call   *CallID `json:"call,omitempty"`
	// Until is when the run is looked at again whatever happens; zero means never by itself.
	Until time.Time `json:"until,omitzero"`
}

// RunUnparked is the fact that ends a wait.
type RunUnparked struct {
	Reason ParkReason `json:"reason"`
	Detail string     `json:"detail,omitempty"`
	OpKey  Hash       `json:"op_key,omitzero"`
}

// RunFinished ends a run that did what it was asked, or declined to.
type RunFinished struct {
	StoppedBy       StoppedBy       `json:"stopped_by"`
	Output          json.RawMessage `json:"output,omitempty"`
	DeclinedBecause string          `json:"declined_because,omitempty"`
	Turns           int             `json:"turns"`
}

// RunFailed ends a run that could not go on.
type RunFailed struct {
	StoppedBy StoppedBy `json:"stopped_by"`
	Error     ErrorInfo `json:"error"`
	Turns     int       `json:"turns"`
}

// RunCancelled ends a run on request.
type RunCancelled struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	Turns  int    `json:"turns"`
}

// ErrorInfo is an error as a value. Kind is for machines and stored, Message is redacted text for people.
type ErrorInfo struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// ApprovalRequested asks a person before a call.
type ApprovalRequested struct {
	Approval ID        `json:"approval"`
	Call     CallID    `json:"call"`
	Tool     string    `json:"tool"`
	Digest   Hash      `json:"digest"`
	Expires  time.Time `json:"expires"`
	// Why says what wants it: policy, taint or fork.
	Why string `json:"why,omitempty"`
	// Rule names the rule that asks, and says why; empty if none does.
	Rule string `json:"rule,omitempty"`
}

// ApprovalDecided is the fact of a person's decision.
type ApprovalDecided struct {
	Approval ID     `json:"approval"`
	Decision string `json:"decision"` // "approved" or "denied"
	By       string `json:"by"`
	Reason   string `json:"reason,omitempty"`
}

// BudgetExceeded says which budget would have been overspent.
type BudgetExceeded struct {
	Budget string  `json:"budget"`
	Limit  PicoUSD `json:"limit"`
	Wanted PicoUSD `json:"wanted"`
	// Committed is what was spent, reserved or unsettled when it was asked for.
	Committed PicoUSD `json:"committed,omitempty"`
}

// SignalReceived is a message from outside.
type SignalReceived struct {
	Name string          `json:"name"`
	Data json.RawMessage `json:"data,omitempty"`
	From string          `json:"from,omitempty"`
	// Call waited for it and gets it as its result; nil for none.
	Call *CallID `json:"call,omitempty"`
}

// TimerFired says that a moment the run waited for has come.
type TimerFired struct {
	Due time.Time `json:"due"`
}

// ChildStarted names a child run.
type ChildStarted struct {
	Child RunID  `json:"child"`
	Call  CallID `json:"call"`
	// Budget is what the call gave the child to spend; nil = nothing of its own.
	Budget *PicoUSD `json:"budget,omitempty"`
}

// ChildFinished carries a child's end to its parent.
type ChildFinished struct {
	Child     RunID           `json:"child"`
	StoppedBy StoppedBy       `json:"stopped_by"`
	Output    json.RawMessage `json:"output,omitempty"`
	Error     string          `json:"error,omitempty"`
}

// OperatorActed records what a person did to a run; every operator verb is an event.
type OperatorActed struct {
	Verb   string `json:"verb"` // cancel, resolve, …
	By     string `json:"by"`
	Detail string `json:"detail,omitempty"`
}

func (RunQueued) eventType() Type         { return "run_queued" }
func (RunStarted) eventType() Type        { return "run_started" }
func (RunResumed) eventType() Type        { return "run_resumed" }
func (RunParked) eventType() Type         { return "run_parked" }
func (RunUnparked) eventType() Type       { return "run_unparked" }
func (RunFinished) eventType() Type       { return "run_finished" }
func (RunFailed) eventType() Type         { return "run_failed" }
func (RunCancelled) eventType() Type      { return "run_cancelled" }
func (ApprovalRequested) eventType() Type { return "approval_requested" }
func (ApprovalDecided) eventType() Type   { return "approval_decided" }
func (BudgetExceeded) eventType() Type    { return "budget_exceeded" }
func (SignalReceived) eventType() Type    { return "signal_received" }
func (TimerFired) eventType() Type        { return "timer_fired" }
func (ChildStarted) eventType() Type      { return "child_started" }
func (ChildFinished) eventType() Type     { return "child_finished" }
func (OperatorActed) eventType() Type     { return "operator_acted" }

// Terminal reports whether a run ends with an event of type t. Facts may follow
// it; nothing else may.
func Terminal(t Type) bool {
	return t == RunFinished{}.eventType() || t == RunFailed{}.eventType() || t == RunCancelled{}.eventType()
}
