package ledgertest

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Hostile is what a run says that would act, hide or turn text wherever it were
// shown as it is: markup, and characters that nobody sees.
const Hostile = `<script>window.pwned=1</script><img src=x onerror="window.pwned=1">"'` + "\u202egnp.exe\u2066iso\u2069 zero\u200bwidth nul\x00 \x1b[2J"

// Story is a small ledger in which everything happens that people look at; the
// fields are its runs.
type Story struct {
	Done     events.RunID // refunded an order, with a price, and had an artifact revised
	Doubt    events.RunID // lost its worker inside a refund: nobody can know
	Effect   events.Hash  // which one that is
	Asks     events.RunID // waits for a person's approval
	Approval events.ID    // which one
	Hostile  events.RunID // says [Hostile] wherever a run can say anything
	Parent   events.RunID // waits for Child
	Child    events.RunID
	Failed   events.RunID
	Queued   events.RunID
}

// Tell writes the story into a ledger through its own protocol, and folds it.
func Tell(t *testing.T, h Harness) (s Story) {
	t.Helper()
	s.Done = tellDone(t, h)
	s.Doubt, s.Effect = tellDoubt(t, h)
	s.Asks, s.Approval = tellAsks(t, h)
	s.Hostile = tellHostile(t, h)

	a := start(t, h)
	a.opening()
	a.asks(1, "", "delegate")
	a.note(events.ToolExecutionStarted{Call: events.CallID{Turn: 1}, Attempt: 1, Tool: "delegate", Effect: "readonly", Arguments: json.RawMessage(`{}`)})
	s.Parent, s.Child = a.run.ID, a.mustSpawn(0).ID
	if err := a.parkHere(events.ParkChild); err != nil {
		t.Fatal(err)
	}

	a = start(t, h, ownedBy("u-18"))
	a.opening()
	a.asks(1, "", "search", "shell")
	a.note(events.ToolExecutionBlocked{
		Call: events.CallID{Turn: 1, Index: 1}, Tool: "shell", Arguments: json.RawMessage(`{"cmd":"ls"}`), Reason: events.BlockedToolDenied,
		Result: events.ToolResult{Status: "failed", Error: "denied"},
	})
	s.Failed = a.run.ID
	a.endAs(ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByMaxTurns, Error: "1 turn was not enough"})

	s.Queued = submit(t, h).ID
	h.foldAll(t)
	return s
}

// TellLong writes a run of at least n events.
func TellLong(t *testing.T, h Harness, n int) events.RunID {
	t.Helper()
	a := start(t, h, ownedBy("u-long"))
	a.opening()
	for turn := 1; int(a.seq) < n; turn++ { //nolint:gosec // a count
		a.turn(turn, 3)
		if turn%40 == 0 {
			a.flush()
		}
	}
	a.endAs(ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish})
	h.foldAll(t)
	return a.run.ID
}

// asks is a turn whose answer asks for tools.
func (a *actor) asks(turn int, text string, tools ...string) {
	a.note(events.TurnStarted{Turn: turn})
	a.note(events.ModelCallStarted{Turn: turn, Attempt: 1, Model: "m", Messages: turn})
	cost := events.PicoUSD(12_300_000_000)
	p := events.ModelCallFinished{
		Turn: turn, Attempt: 1, Model: "m", ServedModel: "m-1", StopReason: "end_turn", Text: text,
		Usage: events.Usage{Input: 1200, Output: 80}, Cost: &cost, LatencyMS: 900,
	}
	for _, name := range tools {
		p.StopReason = "tool_use"
		p.ToolCalls = append(p.ToolCalls, events.ToolCall{Name: name, Arguments: json.RawMessage(`{"order":7}`)})
	}
	a.note(p)
}

func tellDone(t *testing.T, h Harness) events.RunID {
	a := start(t, h, ownedBy("u-17"), inSession("s-1"))
	a.opening()
	a.asks(1, "I refund it.", "search", "refund")
	a.note(events.ToolExecutionStarted{Call: events.CallID{Turn: 1}, Attempt: 1, Tool: "search", Effect: "readonly", Arguments: json.RawMessage(`{"q":"order 7"}`)})
	a.note(events.ToolExecutionFinished{Call: events.CallID{Turn: 1}, Attempt: 1, Tool: "search", Result: events.ToolResult{Status: "completed", Output: "order 7, paid", Trust: "external"}, LatencyMS: 7})
	in := refund(call(1, 1))
	a.end(a.want(ledger.Execute, in).Ref.Token, ledger.Applied)
	for i, content := range []string{"Dear customer,\nwe paid.\nBye", "Dear customer,\nwe paid back 50.00 EUR.\nBye"} {
		a.asks(2+i, content)
		b, err := h.Store.PutBlob(t.Context(), a.run.Tenant, "text/plain", []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		p := events.ArtifactValidationFinished{Turn: 2 + i, Artifact: "letter", Revision: i, OK: i == 1, Content: b, Bytes: int64(len(content))}
		a.note(events.ArtifactValidationStarted{Turn: 2 + i, Artifact: "letter", Revision: i, Parser: "text", Validators: []string{"amount"}})
		if !p.OK {
			p.Validator, p.Issues = "amount", []events.ArtifactIssue{{Path: "line 2", Message: "the amount is missing"}}
		}
		a.note(p)
		if !p.OK {
			a.note(events.ArtifactRevisionStarted{Turn: 2, Artifact: "letter", Revision: 1, Repairer: "model", Input: "Name the amount."})
			continue
		}
		a.note(events.ArtifactFinished{Name: "letter", Revision: 1, Content: b, Bytes: p.Bytes})
	}
	a.endAs(ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByFinish, Result: json.RawMessage(`"paid back"`)})
	return a.run.ID
}

func tellDoubt(t *testing.T, h Harness) (events.RunID, events.Hash) {
	a := start(t, h, ownedBy("u-17"), inSession("s-2"))
	a.opening()
	a.asks(1, "I refund it.", "refund")
	v := a.want(ledger.Execute, refund(order(8)))
	a.flush()
	a.crash()
	b := tryTake(t, h, a.run)
	if b == nil {
		t.Fatal("nobody can take the run over")
	}
	b.note(events.RunResumed{Worker: b.worker, Epoch: b.lease.Epoch, BaseSeq: b.seq, BaseHash: b.prev})
	b.absorb(b.facts...)
	b.flush()
	h.Advance(callTimeout) // nobody can act for it any more
	b.note(events.RunParked{Reason: events.ParkInDoubt, OpKey: v.Ref.OpKey})
	if err := b.park(events.ParkInDoubt, v.Ref.OpKey); err != nil {
		t.Fatal(err)
	}
	return a.run.ID, v.Ref.OpKey
}

func tellAsks(t *testing.T, h Harness) (events.RunID, events.ID) {
	a := start(t, h, ownedBy("u-19"))
	a.opening()
	a.asks(1, "I refund it, if I may.", "refund")
	v := a.asked(refund(order(9), func(in *ledger.Intent) { in.Ask, in.AskRule = true, "above 100 EUR a person decides" }))
	a.note(events.RunParked{Reason: events.ParkApproval, Detail: "refund t1.c0"})
	if err := a.parkFor(v); err != nil {
		t.Fatal(err)
	}
	return a.run.ID, v.Approval
}

func tellHostile(t *testing.T, h Harness) events.RunID {
	name := strings.ReplaceAll(Hostile, "\x00", "") // no column of PostgreSQL has one
	a := start(t, h, ownedBy(name), inSession(name))
	a.opening()
	a.asks(1, strings.Repeat(Hostile+"\n", 3), Hostile)
	args, err := json.Marshal(map[string]string{"note": Hostile})
	if err != nil {
		t.Fatal(err)
	}
	id := events.CallID{Turn: 1}
	a.note(events.ToolExecutionStarted{Call: id, Attempt: 1, Tool: Hostile, Effect: "readonly", Arguments: args})
	a.note(events.ToolExecutionProgress{Call: id, Attempt: 1, Tool: Hostile, Progress: Hostile})
	a.note(events.ToolExecutionFinished{Call: id, Attempt: 1, Tool: Hostile, Result: events.ToolResult{Status: "completed", Output: Hostile}, LatencyMS: 1})
	a.note(events.SignalReceived{Name: Hostile, From: Hostile, Data: json.RawMessage(`"x"`)})
	b, err := h.Store.PutBlob(t.Context(), a.run.Tenant, "text/html", []byte(Hostile))
	if err != nil {
		t.Fatal(err)
	}
	a.note(events.ArtifactValidationStarted{Turn: 1, Artifact: Hostile, Parser: Hostile})
	a.note(events.ArtifactValidationFinished{Turn: 1, Artifact: Hostile, Validator: Hostile, Content: b, Bytes: int64(len(Hostile)), Issues: []events.ArtifactIssue{{Path: Hostile, Message: Hostile}}})
	a.note(events.RunFailed{StoppedBy: events.StoppedByError, Error: events.ErrorInfo{Kind: "odd", Message: Hostile}, Turns: 1})
	a.flush()
	if err := h.Store.Finish(t.Context(), a.lease, a.prefix, ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError, Error: "odd: " + name}); err != nil {
		t.Fatal(err)
	}
	return a.run.ID
}
