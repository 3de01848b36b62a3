package builtin

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// WaitForSignal returns wait_for_signal, with which the model waits for a
// message from outside and gets its data. A signal that came before and that no
// call has taken counts, the oldest first. longest bounds the wait; 0 means
// [DefaultMaxWait].
func WaitForSignal(longest time.Duration) tools.Tool {
	if longest <= 0 {
		longest = DefaultMaxWait
	}
	most := int64(longest / time.Second)
	return must(tools.New(tools.Definition{
		Name:        "wait_for_signal",
		Description: fmt.Sprintf("Waits until a signal with the given name arrives from outside and returns its data. It fails after timeout_seconds, at most %d.", most),
		Aliases:     []string{"await signal", "receive"},
		Effect:      tools.Readonly,
		Trust:       tools.External,
	}, func(_ context.Context, _ *tools.Invocation, in struct {
		Name    string `json:"name" jsonschema:"the name of the signal"`
		Timeout int64  `json:"timeout_seconds,omitempty" jsonschema:"how long to wait for it"`
	},
	) (tools.HandedOff, error) {
		var problem string
		switch {
		case !signalName(in.Name):
			problem = "name: want 1 to 128 letters, digits, dots, - or _, a letter or digit first"
		case in.Timeout < 0 || in.Timeout > most:
			problem = fmt.Sprintf("timeout_seconds is %d: want 1 to %d", in.Timeout, most)
		}
		if problem != "" {
			return tools.HandedOff{}, &tools.ArgumentError{Tool: "wait_for_signal", Problems: []string{problem}}
		}
		d := longest
		if in.Timeout > 0 {
			d = time.Duration(in.Timeout) * time.Second
		}
		return tools.HandedOff{Reason: events.ParkSignal, Signal: in.Name, For: d}, nil
	}))
}

// signalName reports whether a signal can have that name.
func signalName(s string) bool {
	if s == "" || len(s) > 128 {
		return false
	}
	for i, r := range s {
		alnum := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !alnum && (i == 0 || r != '.' && r != '-' && r != '_') {
			return false
		}
	}
	return true
}
