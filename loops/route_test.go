package loops_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
)

// told writes down what the next step would be: "a", "b instead of a (why)",
// "a in 2s", "fail unauthorized".
func told(h *loops.History) string {
	if s, ok := loops.AskModel(h).(loops.Stop); ok {
		return "fail " + s.Err.Kind
	}
	r, ok := h.Route()
	if !ok {
		return "nobody"
	}
	return saidOf(h, r)
}

// story is a run of a chain: what happens in the words below, an event a second.
type story struct {
	ps            []events.Payload
	turn, attempt int
	next          string // endpoint of the next attempt
}

func storyOf(chain ...string) *story {
	return &story{turn: 0, ps: []events.Payload{events.RunQueued{Input: json.RawMessage(`"hi"`)}, events.RunStarted{Loop: "singleshot", Model: chain[0], Chain: chain, Limits: events.Limits{MaxModelAttempts: 4}}}}
}

func (s *story) ask(m string) *story {
	s.attempt++
	if s.turn == 0 {
		s.turn = 1
	}
	s.ps = append(s.ps, events.ModelCallStarted{Turn: s.turn, Attempt: s.attempt, Model: m, Endpoint: s.next})
	return s
}

// fails is a failed attempt that says to wait so long from its own moment on; 0 = it
// is not to be repeated.
func (s *story) fails(m, kind string, wait time.Duration) *story {
	s.ask(m)
	e := events.ModelCallError{Turn: s.turn, Attempt: s.attempt, Model: m, Endpoint: s.next, Error: events.ErrorInfo{Kind: kind}}
	if wait > 0 {
		e.Retryable, e.RetryAt = true, loopstest.Start.Add(time.Duration(len(s.ps))*time.Second+wait)
	}
	s.ps, s.next = append(s.ps, e), ""
	return s
}

func (s *story) answers(m string) *story {
	s.ask(m)
	s.ps = append(s.ps, events.ModelCallFinished{Turn: s.turn, Attempt: s.attempt, Model: m, Endpoint: s.next, Text: "ok", StopReason: "tool_use", ToolCalls: []events.ToolCall{{Name: "x", Arguments: json.RawMessage(`{}`)}}})
	s.ps = append(s.ps, events.ToolExecutionFinished{Call: events.CallID{Turn: s.turn}, Attempt: 1, Tool: "x", Result: events.ToolResult{Status: "completed"}})
	s.turn, s.attempt, s.next = s.turn+1, 0, ""
	return s
}

func (s *story) crash() *story {
	s.ps = append(s.ps, events.RunResumed{Epoch: 2})
	return s
}

func (s *story) seconds(n int) *story {
	for range n {
		s.ps = append(s.ps, events.OperatorActed{Verb: "note"})
	}
	return s
}

func TestRoute(t *testing.T) {
	const hour = time.Hour
	for _, tt := range []struct {
		name string
		run  *story
		want string
	}{
		{"the first", storyOf("a", "b"), "a"},
		{"the next one where the first is down", storyOf("a", "b").fails("a", "unavailable", time.Second), "b instead of a (unavailable)"},
		{"a long limit moves on rather than park", storyOf("a", "b").fails("a", "rate_limited", hour), "b instead of a (rate_limited)"},
		{"a short limit is waited for", storyOf("a", "b").fails("a", "rate_limited", 2*time.Second), "a in 2s, rate_limited"},
		{"once", storyOf("a", "b").fails("a", "rate_limited", time.Second).fails("a", "rate_limited", time.Second), "b instead of a (rate_limited)"},
		{"a refused key moves on", storyOf("a", "b").fails("a", "unauthorized", 0), "b instead of a (unauthorized)"},
		{"a client that panics moves on", storyOf("a", "b").fails("a", "panic", 0), "b instead of a (panic)"},
		{"a window that is full moves on: the next may be larger", storyOf("a", "b").fails("a", "context_full", 0), "b instead of a (context_full)"},
		{"after a crash too", storyOf("a", "b").fails("a", "context_full", 0).crash().seconds(100), "b instead of a (context_full)"},
		{"full windows all along", storyOf("a", "b", "c").fails("a", "context_full", 0).fails("b", "context_full", 0).fails("c", "context_full", 0), "fail context_full"},
		{"the window of one model alone", storyOf("a").fails("a", "context_full", 0), "fail context_full"},
		{"one that is full stays behind for a while", storyOf("a", "b").fails("a", "context_full", 0).answers("b").seconds(296), "b instead of a (context_full)"},
		{"a full window, and one that waits", storyOf("a", "b").fails("a", "context_full", 0).fails("b", "unavailable", time.Minute), "b instead of a (context_full) in 1m0s, unavailable"},
		{"a bad request does not", storyOf("a", "b").fails("a", "invalid_request", 0), "fail invalid_request"},
		{"nor does an answer that is too large", storyOf("a", "b").fails("a", "answer_too_large", 0), "fail answer_too_large"},
		{"all refused", storyOf("a", "b").fails("a", "unauthorized", 0).fails("b", "unauthorized", 0), "fail unauthorized"},
		{"all wait: who may be asked first", storyOf("a", "b", "c").fails("a", "unavailable", hour).fails("b", "overloaded", 5*time.Minute).fails("c", "timeout", 2*hour), "b instead of a (unavailable) in 4m58s, overloaded"},
		{"the first is back before the others", storyOf("a", "b").fails("a", "unavailable", time.Second).fails("b", "unavailable", hour), "a"},
		{"one is refused, one waits", storyOf("a", "b").fails("a", "unauthorized", 0).fails("b", "unavailable", time.Minute), "b instead of a (unauthorized) in 1m0s, unavailable"},
		{"too often", storyOf("a", "b").fails("a", "timeout", 1).fails("b", "timeout", 1).fails("a", "timeout", 1).fails("b", "timeout", 1), "fail timeout"},
		{"each of the chain has a try", storyOf("a", "b", "c", "d", "e").fails("a", "timeout", 1).fails("b", "timeout", hour).fails("c", "timeout", hour).fails("d", "timeout", hour), "a"},
		{"a later turn leaves the first alone as long as it asked", storyOf("a", "b").fails("a", "overloaded", hour).answers("b"), "b instead of a (overloaded)"},
		{"and then asks it again", storyOf("a", "b").fails("a", "overloaded", 3*time.Second).answers("b"), "a"},
		{"a refused key is tried again in a while", storyOf("a", "b").fails("a", "unauthorized", 0).answers("b").seconds(298), "a"},
		{"not before", storyOf("a", "b").fails("a", "unauthorized", 0).answers("b").seconds(296), "b instead of a (unauthorized)"},
		{"an attempt cut short is made where it was made", storyOf("a", "b").fails("a", "unavailable", time.Second).ask("b").crash().seconds(100), "b instead of a (unavailable)"},
		{"also the first", storyOf("a", "b").ask("a").crash(), "a"},
		{"a takeover after an error decides as before it", storyOf("a", "b").fails("a", "unavailable", time.Second).crash().seconds(100), "b instead of a (unavailable)"},
		{"one model alone", storyOf("a").fails("a", "unavailable", time.Minute), "a in 1m0s, unavailable"},
		{"one model alone, refused", storyOf("a").fails("a", "unauthorized", 0), "fail unauthorized"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := told(loopstest.MustFold(t, tt.run.ps...)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestRouteOfAPool: an endpoint that failed names the next one, and the model has not
// failed as long as there is one.
func TestRouteOfAPool(t *testing.T) {
	s := storyOf("a", "b")
	for i, at := range []string{"x", "y"} {
		s.next = at
		s.ask("a")
		s.ps = append(s.ps, events.ModelCallError{Turn: 1, Attempt: i + 1, Model: "a", Endpoint: at, NextEndpoint: string(at[0] + 1), Error: events.ErrorInfo{Kind: "rate_limited"}, Retryable: true, RetryAt: loopstest.Start.Add(time.Hour)})
	}
	h := loopstest.MustFold(t, s.ps...)
	if got := told(h); got != "a at z" || h.ModelFailures() != 0 || fmt.Sprint(h.TriedEndpoints("a")) != "[x y]" {
		t.Errorf("%s after %d failures, tried %v", got, h.ModelFailures(), h.TriedEndpoints("a"))
	}
	s.next = "z"
	cut := *s
	if got := told(loopstest.MustFold(t, cut.ask("a").crash().ps...)); got != "a at z" {
		t.Errorf("cut short: %s", got)
	}
	s.fails("a", "rate_limited", time.Hour)
	if got := told(loopstest.MustFold(t, s.ps...)); got != "b instead of a (rate_limited)" {
		t.Errorf("with no endpoint left: %s", got)
	}
	s.next = "q"
	s.answers("b")
	h = loopstest.MustFold(t, s.ps...)
	if h.LastEndpoint("b") != "q" || h.LastEndpoint("a") != "" || h.TriedEndpoints("a") != nil || h.Streak("a") != 1 {
		t.Errorf("last %q and %q, tried %v, %d failures", h.LastEndpoint("b"), h.LastEndpoint("a"), h.TriedEndpoints("a"), h.Streak("a"))
	}
}
