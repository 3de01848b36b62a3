package tools

import "encoding/json"

// PastCall is a call that has completed: what was asked for, and what the model
// was told, as both are recorded.
type PastCall struct {
	Arguments json.RawMessage
	Output    string
}

// Past is what a run has done in earlier turns, and, of a fork, what it has
// inherited. It comes from the recorded history alone, so a call that is made
// again after a crash sees the same. See [Invocation.Past].
type Past interface {
	// Completed returns the calls of a tool that have completed in earlier turns,
	// the oldest first. Failed and blocked ones are not among them.
	Completed(tool string) []PastCall
}
