package loops_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
)

func fold(t *testing.T, parts ...[]events.Payload) *loops.History {
	t.Helper()
	return loopstest.MustFold(t, join(append([][]events.Payload{start(`"x"`)}, parts...)...)...)
}

func withTrust(trust, control, status string, c events.CallID) events.Payload {
	return events.ToolExecutionFinished{Call: c, Attempt: 1, Ref: ref, Result: events.ToolResult{Status: status, Output: control, Trust: trust, Control: control}}
}

func TestModelAttemptsOverCrashes(t *testing.T) {
	out := func(n int) events.Payload { return events.ModelCallStarted{Turn: 1, Attempt: n} }
	failed := func(n int) events.Payload { return events.ModelCallError{Turn: 1, Attempt: n, Retryable: true} }
	tests := []struct {
		name               string
		events             []events.Payload
		attempts, failures int
		open               []int
	}{
		{"none", nil, 0, 0, nil},
		{"one is out", one(out(1)), 1, 0, []int{1}},
		{"one failed", one(out(1), failed(1)), 1, 1, []int{}},
		{"a crash closes it and is no failure", one(out(1), events.RunResumed{Epoch: 2}), 1, 0, nil},
		{"a late error is no failure", one(out(1), events.RunResumed{Epoch: 2}, failed(1)), 1, 0, nil},
		{"a late error of a later attempt still uses its number", one(out(1), events.RunResumed{Epoch: 2}, failed(3)), 3, 0, nil},
		{"numbers never go back", one(out(3), failed(3), out(1)), 3, 1, []int{1}},
		{"an answer begins the count anew", ask(1, 4), 0, 0, nil},
		{"a second answer is late", join(one(out(1), out(2)), one(events.ModelCallFinished{Turn: 1, Attempt: 2, Text: "a"}, events.ModelCallFinished{Turn: 1, Attempt: 1, Text: "b"})), 0, 0, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := fold(t, one(events.TurnStarted{Turn: 1}), tt.events)
			if h.ModelAttempts() != tt.attempts || h.ModelFailures() != tt.failures {
				t.Errorf("%d attempts, %d failures, want %d, %d", h.ModelAttempts(), h.ModelFailures(), tt.attempts, tt.failures)
			}
			if d := cmp.Diff(tt.open, h.OpenModelAttempts()); d != "" {
				t.Errorf("open attempts (-want +got):\n%s", d)
			}
			if (h.LastModelError() != nil) != (tt.failures > 0) {
				t.Errorf("last error %+v", h.LastModelError())
			}
			if a := h.Answer(); a != nil && a.Text == "b" {
				t.Error("the late answer stands")
			}
		})
	}
}

func TestNextTurn(t *testing.T) {
	if n := fold(t).NextTurn(); n != 1 {
		t.Errorf("before the first turn: %d", n)
	}
	if h := fold(t, one(events.TurnStarted{Turn: 1})); h.NextTurn() != 1 || h.Turn() != 1 {
		t.Errorf("unanswered: next %d of %d", h.NextTurn(), h.Turn())
	}
	if h := fold(t, ask(1, 1)); h.NextTurn() != 2 || h.Turn() != 1 {
		t.Errorf("answered: next %d of %d", h.NextTurn(), h.Turn())
	}
}

func TestOpenCallsAfterATakeover(t *testing.T) {
	h := fold(t, ask(1, 1, "a", "b"), one(began(id(1, 0), nil), began(id(1, 1), ref), events.RunResumed{Epoch: 2}))
	if d := cmp.Diff([]loops.OpenCall{{ID: id(1, 1), Attempt: 1, Tool: "x", Ref: ref}}, h.OpenCalls()); d != "" {
		t.Errorf("open calls (-want +got):\n%s", d)
	}
	ps := h.Pending()
	if len(ps) != 2 || ps[0].Attempt != 2 || ps[1].Attempt != 2 {
		t.Errorf("pending = %+v, want both as attempt 2", ps)
	}
	h = fold(t, ask(1, 1, "a"), one(events.ToolExecutionInDoubt{Call: id(1, 0), Attempt: 3, Ref: *ref}))
	if ps := h.Pending(); ps[0].Attempt != 4 {
		t.Errorf("after doubt about attempt 3: %+v", ps)
	}
}

func TestControl(t *testing.T) {
	both := ask(1, 1, "a", "b")
	tests := []struct {
		name   string
		events []events.Payload
		want   string
	}{
		{"none", one(ended(id(1, 0), "out", ref)), ""},
		{"one", one(withTrust("own", "finish", "completed", id(1, 1))), "finish"},
		{"the first in request order", one(withTrust("own", "finish", "completed", id(1, 1)), withTrust("own", "decline", "completed", id(1, 0))), "decline"},
		{"whatever comes last", one(withTrust("own", "decline", "completed", id(1, 0)), withTrust("own", "finish", "completed", id(1, 1))), "decline"},
		{"a failed finish ends nothing", one(withTrust("own", "finish", "failed", id(1, 0))), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if r := fold(t, both, tt.events).Control(); r != nil {
				got = r.Control
			}
			if got != tt.want {
				t.Errorf("control %q, want %q", got, tt.want)
			}
		})
	}
}

func TestSawExternal(t *testing.T) {
	tests := []struct {
		name   string
		events []events.Payload
		want   bool
	}{
		{"nothing came in", nil, false},
		{"own", one(withTrust("own", "", "completed", id(1, 0))), false},
		{"external", one(withTrust("external", "", "completed", id(1, 0))), true},
		{"unknown is not safe", one(withTrust("", "", "completed", id(1, 0))), true},
		{"late results did not come in", one(withTrust("own", "", "completed", id(1, 0)), withTrust("external", "", "completed", id(1, 0))), false},
		{"blocked is the dispatcher's word", one(events.ToolExecutionBlocked{Call: id(1, 0)}), false},
		{"unless it quotes", one(events.ToolExecutionBlocked{Call: id(1, 0), Result: events.ToolResult{Trust: "external"}}), true},
		{"an unknown outcome is ours", one(doubt(id(1, 0), true)), false},
		{"what settles it may not be", one(doubt(id(1, 0), true), withTrust("external", "", "completed", id(1, 0))), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := fold(t, ask(1, 1, "a"), tt.events).SawExternal(); got != tt.want {
				t.Errorf("SawExternal = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestParkedUntilSomethingStarts(t *testing.T) {
	park := one(events.RunParked{Reason: events.ParkApproval}, events.RunResumed{Epoch: 2})
	tests := []struct {
		name   string
		events []events.Payload
		want   bool
	}{
		{"a takeover alone leaves it", nil, true},
		{"unparked", one(events.RunUnparked{}), false},
		{"a turn", one(events.TurnStarted{Turn: 2}), false},
		{"a tool", one(began(id(1, 0), ref)), false},
		{"a late outcome leaves it", one(events.ModelCallFinished{Turn: 1, Attempt: 9}), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := fold(t, ask(1, 1, "a"), park, tt.events).Parked() != nil; got != tt.want {
				t.Errorf("parked: %t, want %t", got, tt.want)
			}
		})
	}
}

func TestCancelRequested(t *testing.T) {
	by := func(verb, who string) events.Payload { return events.OperatorActed{Verb: verb, By: who} }
	if c := fold(t, one(by("resolve", "ann"))).CancelRequested(); c != nil {
		t.Errorf("cancelled by %+v", c)
	}
	if c := fold(t, one(by("cancel", "ann"), by("cancel", "bob"))).CancelRequested(); c == nil || c.By != "ann" {
		t.Errorf("cancel request %+v, want ann's", c)
	}
}

func TestUsageCountsLateCalls(t *testing.T) {
	h := fold(t, ask(1, 1), one(
		events.RunFinished{},
		events.ModelCallFinished{Turn: 9, Attempt: 1, Usage: events.Usage{Input: 10, CacheRead: 5}},
		events.ModelCallError{Usage: &events.Usage{Missing: true}},
		events.ModelCallError{},
	))
	if d := cmp.Diff(events.Usage{Input: 11, Output: 1, CacheRead: 5, Missing: true}, h.Usage()); d != "" {
		t.Errorf("usage (-want +got):\n%s", d)
	}
	if typ, ok := h.Terminal(); !ok || typ != "run_finished" {
		t.Errorf("terminal %q, %t", typ, ok)
	}
}

func TestCallsLeftBehind(t *testing.T) {
	// The loop asks for a revision and performs no call of the turn; one had begun.
	h := fold(t, ask(1, 1, "a", "b"), one(began(id(1, 1), ref), events.TurnStarted{Turn: 2}))
	want := []string{
		`! a t1.c0: not run: calls of "a" are not performed in this turn`,
		`! b t1.c1: unknown whether it took effect; do not retry it and do not rely on it either way`,
	}
	if d := cmp.Diff(want, lastTexts(h)); d != "" {
		t.Errorf("last message (-want +got):\n%s", d)
	}
	if u := h.Unknown(); len(u) != 1 || u[0].Call != id(1, 1) {
		t.Errorf("unknown: %+v", u)
	}
}

func TestTold(t *testing.T) {
	gone := events.ToolResult{Status: "failed"}
	tests := []struct {
		name string
		p    events.Payload
		want string
	}{
		{"cut", events.ToolExecutionFinished{Repeated: true, Redacted: true, Result: events.ToolResult{Output: "A", Truncated: &events.Truncated{Kept: 1, Of: 9}}}, "x: (earlier result, not run again; secrets are redacted) A\n(cut: the first 1 of 9 bytes)"},
		{"failed with output", events.ToolExecutionFinished{Ref: ref, Result: events.ToolResult{Status: "failed", Error: "exit 1", Output: "log"}}, "! x: failed: exit 1\nlog"},
		{"failed without a word", events.ToolExecutionFinished{Ref: ref, Result: gone}, "! x: failed: the tool gave no reason"},
		{"abandoned before", events.ToolExecutionBlocked{Reason: events.BlockedPermissionDenied, Detail: "abandoned", Result: events.ToolResult{Error: "given up by ann"}}, "! x: unknown whether an earlier call took effect, given up by a person; not run, do not retry it: given up by ann"},
		{"blocked with a detail", events.ToolExecutionBlocked{Reason: events.BlockedInvalidArguments, Detail: "redacted_argument"}, "! x: not run (invalid_arguments, redacted_argument): the arguments do not fit the tool's schema"},
		{"denied", events.ToolExecutionBlocked{Reason: events.BlockedPermissionDenied}, "! x: not run (permission_denied): permission was denied"},
		{"applied is no failure, whatever the evidence says", events.EffectResolved{State: events.EffectApplied, Result: events.ToolResult{Status: "failed", Error: "timeout"}}, "x: it took effect; of its result is known: timeout"},
		{"applied without a result", events.EffectResolved{State: events.EffectApplied}, "x: it took effect; of its result is known: nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			switch p := tt.p.(type) {
			case events.ToolExecutionFinished:
				p.Call = id(1, 0)
				tt.p = p
			case events.ToolExecutionBlocked:
				p.Call = id(1, 0)
				tt.p = p
			case events.EffectResolved:
				p.Call = id(1, 0)
				tt.p = p
			}
			h := fold(t, ask(1, 1, "x"), one(tt.p))
			if got := strings.Replace(lastTexts(h)[0], "x t1.c0:", "x:", 1); got != tt.want {
				t.Errorf("told %q, want %q", got, tt.want)
			}
		})
	}
}
