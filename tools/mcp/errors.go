package mcp

import "fmt"

// Reason says why a server or a call of its tools failed. Never renamed.
type Reason string

// Reasons. Of the first group the call certainly never reached the server.
const (
	Unavailable Reason = "unavailable" // it could not be started or reached, or has ended too often
	Changed     Reason = "changed"     // the declaration is no longer the one that was pinned, or is gone
	Refused     Reason = "refused"     // it was not sent, or the server refused it before doing anything

	Failed        Reason = "failed"         // the tool said that it failed (isError)
	Lost          Reason = "lost"           // it was sent, and there is no answer
	Unreadable    Reason = "unreadable"     // the answer is not what the protocol has
	InputRequired Reason = "input_required" // it asks for something before it goes on
	ServerFault   Reason = "server_fault"   // it answered with an error that says nothing of what was done
)

// Error is every error of a call, and of a server. Its text is meant for a
// model: it holds nothing of the configuration.
type Error struct {
	Server string
	Tool   string // by its own name; empty if it is about the server
	Reason Reason
	text   string
	err    error
}

func (e *Error) Error() string {
	if e.Tool == "" {
		return fmt.Sprintf("mcp server %s: %s", e.Server, e.text)
	}
	return fmt.Sprintf("mcp server %s, tool %s: %s", e.Server, e.Tool, e.text)
}

// Unwrap returns the cause, whose text was not redacted.
func (e *Error) Unwrap() error { return e.err }
