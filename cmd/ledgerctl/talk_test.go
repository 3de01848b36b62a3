package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// talk is a ledger with runs in which everything happens that a transcript
// tells; names are of the runs.
type talk struct {
	*filler
	names map[string]events.RunID
}

const talkPrompt = "You work for a shop's support team.\n\n1. Look first.\n2. Then refund.\n"

func (w talk) fill() {
	hash, err := w.st.PutBlob(w.ctx, "acme", "text/plain", []byte(talkPrompt))
	w.check(err)
	w.bind = func(s *events.RunStarted) {
		s.PromptHash = hash
		s.PromptLayers = []events.PromptLayer{{ID: "base", Source: "text"}, {ID: "old", Off: "agent"}, {ID: "agent", Source: "AGENT.md"}}
	}
	w.long()
	w.doubt()
	w.hostile()
	w.family()
	w.compacted()
}

func (w talk) submitted(name string, s ledger.Submission) *holder {
	s.Queue = name
	h := w.take(w.submit(s), "w1", 48*time.Hour)
	w.names[name] = h.run.ID
	return h
}

func price(pico int64) *events.PicoUSD { return new(events.PicoUSD(pico)) }

// asks is a model call whose answer is p, which lacks what all of them share.
func (h *holder) asks(p events.ModelCallFinished) {
	if p.Attempt <= 1 {
		p.Attempt = 1
		h.note(events.TurnStarted{Turn: p.Turn})
	}
	h.note(events.ModelCallStarted{Turn: p.Turn, Attempt: p.Attempt, Model: "claude-x", Messages: 2 * p.Turn, Tools: []string{"search", "refund"}})
	p.Model, p.ServedModel = "claude-x", "claude-x-2026-01"
	if p.StopReason == "" {
		p.StopReason = "tool_use"
	}
	h.note(p)
}

func calls(names ...string) (out []events.ToolCall) {
	for _, n := range names {
		name, args, _ := strings.Cut(n, " ")
		out = append(out, events.ToolCall{Name: name, Arguments: json.RawMessage(args)})
	}
	return out
}

// long: retries, reasoning, calls beside each other, an approval, an artifact,
// a child, a signal, a takeover during a model call and its late answer.
func (w talk) long() {
	h := w.submitted("long", ledger.Submission{SessionID: "s-1", Owner: "u-17"})
	h.note(events.TurnStarted{Turn: 1})
	h.note(events.ModelCallStarted{Turn: 1, Attempt: 1, Model: "claude-x", Messages: 1})
	h.note(events.ModelCallError{Turn: 1, Attempt: 1, Model: "claude-x", Error: events.ErrorInfo{Kind: "overloaded", Message: "529: try later"}, Retryable: true, RetryAt: w.now.Add(time.Second), LatencyMS: 310})
	h.asks(events.ModelCallFinished{
		Turn: 1, Attempt: 2, Text: "I look for the order and for the customer.\n\nBoth at once.", ToolCalls: calls(`search {"for":"order 7"}`, `search {"for":"customer 17"}`),
		Blocks: []events.Block{{Kind: events.BlockReasoning, Text: "The order has to exist\nbefore I refund it."}, {Kind: events.BlockText}, {Kind: events.BlockCall}, {Kind: events.BlockCall, Call: 1}},
		Usage:  events.Usage{Input: 1200, Output: 80, CacheRead: 4096, Reasoning: 40}, Cost: price(12_300_000_000), LatencyMS: 1900,
	})
	first, second := events.CallID{Turn: 1}, events.CallID{Turn: 1, Index: 1}
	h.note(events.ToolExecutionStarted{Call: first, Attempt: 1, Tool: "search", Effect: "readonly", Arguments: json.RawMessage(`{"for":"order 7"}`), At: w.now})
	h.note(events.ToolExecutionStarted{Call: second, Attempt: 1, Tool: "search", Effect: "readonly", Arguments: json.RawMessage(`{"for":"customer 17"}`), At: w.now})
	h.note(events.ToolExecutionProgress{Call: second, Attempt: 1, Tool: "search", Progress: "page 2 of 3", At: w.now})
	h.note(events.ToolExecutionFinished{Call: first, Attempt: 1, Tool: "search", Result: events.ToolResult{Status: "completed", Output: `{"order":7,"paid":"50.00","note":"said \"a, b: c\""}`, Cost: price(1_000_000)}, LatencyMS: 12, At: w.now})
	h.note(events.ToolExecutionError{Call: second, Attempt: 1, Tool: "search", Error: events.ErrorInfo{Kind: "timeout", Message: "no answer in 10s"}, Result: events.ToolResult{Status: "failed", Error: "no answer in 10s"}, LatencyMS: 10_000, At: w.now})

	// An approval, an hour later.
	h.asks(events.ModelCallFinished{Turn: 2, ToolCalls: calls(`wire {"amount":"50.00","to":"acme"}`, `launch {}`), Usage: events.Usage{Missing: true}, LatencyMS: 800})
	v := h.wires(func(in *ledger.Intent) { in.Call.Turn, in.Ask, in.ApprovalTTL = 2, true, 8*time.Hour })
	h.park(ledger.Parking{Reason: events.ParkApproval, Detail: "wire t2.c0", Approval: v.Approval})
	w.now = w.now.Add(time.Hour)
	_, err := w.st.Decide(w.ctx, ledger.Decision{Approval: v.Approval, Approve: true, By: "ada", Reason: "I know them"})
	w.check(err)
	h = w.take(h.run, "w2", 48*time.Hour)
	v = h.wires(func(in *ledger.Intent) { in.Call.Turn, in.Ask = 2, true })
	h.end(ledger.Outcome{Token: v.Ref.Token, Kind: ledger.Applied, LatencyMS: 2000, Result: events.ToolResult{Status: "completed", Output: "wired", Cost: price(250_000_000_000)}})
	h.note(events.ToolExecutionBlocked{Call: events.CallID{Turn: 2, Index: 1}, Tool: "launch", Arguments: json.RawMessage(`{}`), Reason: events.BlockedUnknownTool, Result: events.ToolResult{Status: "failed", Error: "there is no tool launch"}, At: w.now})

	// Another worker goes on in the middle of an answer, which comes in late.
	h.note(events.TurnStarted{Turn: 3})
	h.note(events.ModelCallStarted{Turn: 3, Attempt: 1, Model: "claude-x", Messages: 5})
	h.flush()
	w.now = w.now.Add(49 * time.Hour)
	h = w.take(h.run, "w3", 48*time.Hour)
	h.asks(events.ModelCallFinished{Turn: 3, Attempt: 2, Text: strings.Repeat("A long answer is told whole. ", 12), StopReason: "max_tokens", Usage: events.Usage{Input: 2000, Output: 100}, LatencyMS: 2100, Cost: price(20_000_000_000)})
	h.note(events.ModelCallFinished{Turn: 3, Attempt: 1, Model: "claude-x", ServedModel: "claude-x-2026-01", Text: "never used", StopReason: "end_turn", Usage: events.Usage{Input: 2000, Output: 9}, LatencyMS: 900, Cost: price(19_000_000_000)})
	h.judged(4, 0, "a first answer", "schema", "title is missing")
	h.note(events.ModelCallStarted{Turn: 4, Attempt: 1, Model: "claude-x", Messages: 9})
	h.note(events.SignalReceived{Name: "hurry", From: "ada", Data: json.RawMessage(`{"by":"noon"}`)})
	h.note(events.BudgetExceeded{Budget: "owner u-17 per day", Limit: 1, Wanted: 2})
	h.note(events.OperatorActed{Verb: "fork", By: "ada", Detail: "run X up to event 4"})
	h.finish(events.RunFailed{StoppedBy: events.StoppedByBudget, Error: events.ErrorInfo{Kind: "budget", Message: "owner u-17 has spent what a day allows"}, Turns: 4},
		ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByBudget, Error: "owner u-17 has spent what a day allows"})
}

// doubt: a takeover in the middle of an effect, which a person settles; forks
// of it before and after, and what they get of it.
func (w talk) doubt() {
	h := w.submitted("doubt", ledger.Submission{SessionID: "s-2"})
	h.asks(events.ModelCallFinished{Turn: 1, Text: "I refund it.", ToolCalls: calls(`refund {"amount":"50.00","order":8}`), Usage: events.Usage{Input: 100, Output: 10}, Cost: price(1_000_000_000)})
	v := h.begin(events.CallID{Turn: 1}, 8, 10*time.Second)
	w.now = w.now.Add(49 * time.Hour)
	h = w.take(h.run, "w2", 48*time.Hour)
	h.flush()
	h.park(ledger.Parking{Reason: events.ParkInDoubt, Detail: "refund t1.c0 may have taken effect", OpKey: v.Ref.OpKey})
	w.now = w.now.Add(90 * time.Minute)
	_, err := w.st.Resolve(w.ctx, ledger.Resolution{OpKey: v.Ref.OpKey, State: events.EffectApplied, By: "ada", Note: "it is in the provider's list", Result: events.ToolResult{Status: "completed", Output: "refund re_8 made"}})
	w.check(err)
	h = w.take(h.run, "w3", 48*time.Hour)
	h.asks(events.ModelCallFinished{Turn: 2, Text: "Refunded.", StopReason: "end_turn", Usage: events.Usage{Input: 120, Output: 2}, Cost: price(900_000_000)})
	h.finish(events.RunFinished{StoppedBy: events.StoppedBySilent, Output: json.RawMessage(`"Refunded."`), Turns: 2},
		ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedBySilent, Result: json.RawMessage(`"Refunded."`)})

	// The fork has the answer that asks for the refund, and gets what came of it.
	r, _, err := w.st.Fork(w.ctx, ledger.ForkRequest{Run: h.run.ID, Seq: 5, Effects: ledger.ForkReplay, By: "ada", Note: w.json("Say it politely.")})
	w.check(err)
	w.names["fork"] = r.ID
	w.take(h.run, "w4", time.Minute).flush() // what was done to it after its end
	h = w.take(r, "w1", 48*time.Hour)
	v = h.begin(events.CallID{Turn: 1}, 8, 10*time.Second)
	h.note(events.ToolExecutionFinished{Call: events.CallID{Turn: 1}, Attempt: 1, Tool: "refund", Result: v.Result, Ref: &v.Ref, Repeated: true, Of: &v.Of, At: w.now})
	h.asks(events.ModelCallFinished{Turn: 2, Text: "Done, with pleasure.", StopReason: "end_turn", Usage: events.Usage{Input: 130, Output: 5}})
	h.flush()
}

// hostile: texts that would take over a terminal, or hide what they say.
func (w talk) hostile() {
	h := w.submitted("hostile", ledger.Submission{Owner: "\x1b]0;owned\a"})
	bad := "\x1b[2J\x1b[31mred\x1b[0m \u202etxt.exe\u202c zero\u200bwidth \u2066iso\u2069 bell\a back\b nul\x00 C1\u009b31m tag\U000e0041 sel\U000e0101 fill\u3164 line\u2028sep cr\rover"
	h.asks(events.ModelCallFinished{
		Turn: 1, Text: bad, ToolCalls: calls("refund\x1b[5m " + `{"note":"\u202egnp.exe"}`), Usage: events.Usage{Input: 1, Output: 1}, Cost: price(1),
		Blocks: []events.Block{{Kind: events.BlockReasoning, Text: bad}},
	})
	call := events.CallID{Turn: 1}
	h.note(events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: "refund\x1b[5m", Effect: "readonly", Arguments: json.RawMessage(`{"note":"` + "\u202egnp.exe\u200b" + `"}`), At: w.now})
	h.note(events.ToolExecutionProgress{Call: call, Attempt: 1, Tool: "refund", Progress: bad, At: w.now})
	h.note(events.ToolExecutionFinished{Call: call, Attempt: 1, Tool: "refund", Result: events.ToolResult{Status: "completed", Output: strings.Repeat(bad+"\n", 20)}, At: w.now})
	h.note(events.SignalReceived{Name: bad, From: bad, Data: json.RawMessage(`"\u001b[2J"`)})
	h.finish(events.RunFailed{StoppedBy: events.StoppedByError, Error: events.ErrorInfo{Kind: "odd", Message: bad}, Turns: 1}, ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError, Error: "odd"})
}

// family: a run with a child and a hand-off, and a run that is tried again.
func (w talk) family() {
	h := w.submitted("parent", ledger.Submission{})
	h.asks(events.ModelCallFinished{Turn: 1, ToolCalls: calls(`delegate {"task":"sort"}`, `print {}`), Usage: events.Usage{Input: 10, Output: 10}, Cost: price(5_000_000)})
	call := events.CallID{Turn: 1}
	h.note(events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: "delegate", Effect: "readonly", Arguments: json.RawMessage(`{"task":"sort"}`), At: w.now})
	kid, fs, err := w.st.Spawn(w.ctx, h.lease, h.prefix, ledger.Submission{Agent: "clerk", Queue: "kid", ClientKey: "kid", Input: w.json("sort"), InputMAC: []byte("mac")},
		ledger.Handoff{Token: events.CallToken(h.run.ID, call, "tool", nil), Call: call, CallAttempt: 1, Tool: "delegate", Trust: "external"})
	h.done(err)
	h.absorb(fs...)
	h.park(ledger.Parking{Reason: events.ParkChild, Detail: "1 child run"})
	k := w.take(kid, "w2", 48*time.Hour)
	k.finish(events.RunFinished{StoppedBy: events.StoppedBySilent, Output: json.RawMessage(`"sorted"`)}, ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedBySilent, Result: json.RawMessage(`"sorted"`)})
	h = w.take(h.run, "w1", 48*time.Hour)
	h.flush()

	h = w.submitted("tried", ledger.Submission{})
	h.fails(events.StoppedByError, "the provider is down", ledger.Retry{MaxAttempts: 2, Backoff: time.Second})
	r, err := w.st.Run(w.ctx, h.run.ID)
	w.check(err)
	w.now = w.now.Add(time.Minute)
	next, err := w.st.Run(w.ctx, r.Successor)
	w.check(err)
	w.names["again"] = next.ID
	h = w.take(next, "w2", 48*time.Hour)
	h.note(events.TurnStarted{Turn: 1})
	h.note(events.ModelCallStarted{Turn: 1, Attempt: 1, Model: "claude-x", Messages: 1})
	h.flush()
	w.check(w.st.Signal(w.ctx, next.ID, ledger.Signal{Name: "hurry", From: "ada"}))
}

// compacted: a request that is too long, a model that fails to sum up and then does,
// and the answer behind it.
func (w talk) compacted() {
	h := w.submitted("compacted", ledger.Submission{})
	h.asks(events.ModelCallFinished{Turn: 1, Text: "I look.", ToolCalls: calls(`search {"for":"order 9"}`), Usage: events.Usage{Input: 100, Output: 10}, Cost: price(1_000_000_000)})
	h.note(events.ToolExecutionStarted{Call: events.CallID{Turn: 1}, Attempt: 1, Tool: "search", Effect: "readonly", Arguments: json.RawMessage(`{"for":"order 9"}`), At: w.now})
	h.note(events.ToolExecutionFinished{Call: events.CallID{Turn: 1}, Attempt: 1, Tool: "search", Result: events.ToolResult{Status: "completed", Output: "found"}, At: w.now})
	h.note(events.TurnStarted{Turn: 2})
	h.note(events.ModelCallStarted{Turn: 2, Attempt: 1, Model: "claude-x", Messages: 3})
	h.note(events.ModelCallError{Turn: 2, Attempt: 1, Model: "claude-x", Error: events.ErrorInfo{Kind: events.KindContextFull, Message: "prompt is too long"}, LatencyMS: 90})
	span := events.Span{From: 1, To: 3, FirstTurn: 1, LastTurn: 1}
	h.note(events.ModelCallStarted{Turn: 2, Attempt: 2, Model: "claude-x", Messages: 1, Purpose: events.PurposeCompaction, Compacts: &span})
	h.note(events.ModelCallError{Turn: 2, Attempt: 2, Model: "claude-x", Purpose: events.PurposeCompaction, Error: events.ErrorInfo{Kind: "overloaded", Message: "529: try later"}, Retryable: true, LatencyMS: 30})
	h.note(events.ModelCallStarted{Turn: 2, Attempt: 3, Model: "claude-x", Messages: 1, Purpose: events.PurposeCompaction, Compacts: &span})
	h.note(events.ModelCallFinished{
		Turn: 2, Attempt: 3, Model: "claude-x", ServedModel: "claude-x-2026-01", Purpose: events.PurposeCompaction, Text: "Order 9 was found.", StopReason: "end_turn",
		Usage: events.Usage{Input: 90, Output: 5}, LatencyMS: 700, Cost: price(500_000_000),
	})
	h.note(events.TranscriptCompacted{Turn: 2, Span: span, By: events.CompactedBySummary, Because: "refused", Text: "Order 9 was found.", Attempt: 3, Trust: "own"})
	h.asks(events.ModelCallFinished{Turn: 2, Attempt: 4, Text: "It is there.", StopReason: "end_turn", Usage: events.Usage{Input: 40, Output: 4}, Cost: price(300_000_000), LatencyMS: 400})
	h.finish(events.RunFinished{StoppedBy: events.StoppedByFinish, Output: json.RawMessage(`"It is there."`), Turns: 2},
		ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish, Result: json.RawMessage(`"It is there."`)})
}
