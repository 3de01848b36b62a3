package trace

// Names of the GenAI semantic conventions, v0.1.0 (open-telemetry/semantic-conventions-genai,
// status: development). No Go module carries them.
const (
	OperationName    = "gen_ai.operation.name"
	ProviderName     = "gen_ai.provider.name"
	ServerAddress    = "server.address" // where it is not the provider's own
	AgentName        = "gen_ai.agent.name"
	AgentVersion     = "gen_ai.agent.version" // the definition's hash
	ConversationID   = "gen_ai.conversation.id"
	RequestModel     = "gen_ai.request.model"
	RequestMaxTokens = "gen_ai.request.max_tokens"
	ResponseModel    = "gen_ai.response.model"
	ResponseID       = "gen_ai.response.id"
	FinishReasons    = "gen_ai.response.finish_reasons"
	InputTokens      = "gen_ai.usage.input_tokens" // cached ones included, as the conventions have it
	OutputTokens     = "gen_ai.usage.output_tokens"
	CacheReadTokens  = "gen_ai.usage.cache_read.input_tokens"
	CacheWriteTokens = "gen_ai.usage.cache_creation.input_tokens"
	ReasoningTokens  = "gen_ai.usage.reasoning.output_tokens"
	// CachedTokensOld is what cached input was called before.
	CachedTokensOld = "gen_ai.usage.cached_tokens"
	ToolName        = "gen_ai.tool.name"
	ToolType        = "gen_ai.tool.type"
	ToolCallID      = "gen_ai.tool.call.id"
	ToolArguments   = "gen_ai.tool.call.arguments" // opt-in
	ToolResult      = "gen_ai.tool.call.result"    // opt-in
	OutputMessages  = "gen_ai.output.messages"     // opt-in
	ErrorType       = "error.type"
)

// Operations.
const (
	InvokeAgent = "invoke_agent"
	Chat        = "chat"
	ExecuteTool = "execute_tool"
)

// Ours.
const (
	RunID        = "daybook.run.id"
	Tenant       = "daybook.tenant"
	Owner        = "daybook.owner"
	Queue        = "daybook.queue"
	LoopName     = "daybook.loop"
	RunAttempt   = "daybook.run.attempt"
	StoppedBy    = "daybook.stopped_by"
	Turns        = "daybook.turns"
	Worker       = "daybook.worker"
	Epoch        = "daybook.epoch"
	Turn         = "daybook.turn"
	Attempt      = "daybook.attempt"
	Effect       = "daybook.effect"
	OpKey        = "daybook.op_key"
	Recovery     = "daybook.recovery"
	Repeated     = "daybook.repeated"
	RepeatedRun  = "daybook.repeated.of.run"
	Simulated    = "daybook.simulated"
	Blocked      = "daybook.blocked"
	BlockedWhy   = "daybook.blocked.detail"
	DoubtCause   = "daybook.in_doubt.cause"
	Resolved     = "daybook.resolved"
	ResolvedBy   = "daybook.resolved.by"
	ParkReason   = "daybook.park.reason"
	ParkDetail   = "daybook.park.detail"
	Cost         = "daybook.cost.usd" // decimal; absent = unpriced
	UsageMissing = "daybook.usage.missing"
	Artifact     = "daybook.artifact"
	Revision     = "daybook.artifact.revision"
	Accepted     = "daybook.artifact.accepted"
	ChildRun     = "daybook.child.run"
)
