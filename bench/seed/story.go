package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// tell is what a fresh run does until it ends or waits.
func (h *holder) tell(k kind) {
	for range 1 + h.r.IntN(3) {
		h.turnWith(1 + h.r.IntN(5))
	}
	switch k {
	case refund:
		h.refunds()
	case artifact:
		h.publishes()
	case dies, retried:
		h.fails(k)
	case doubtful:
		h.asks(1, h.f.destructive(h.agent))
		v := h.begin(false)
		h.end(v, ledger.Outcome{Kind: ledger.Unclear, Cause: "timeout", Error: events.ErrorInfo{Kind: "timeout", Message: "no answer from the payments service in 10s"}})
		h.flush()
		h.park(ledger.Parking{Reason: events.ParkInDoubt, Detail: "it may have taken effect", OpKey: v.Ref.OpKey})
		h.f.later(h, 3*time.Hour, func() error { return h.f.resolve(h.ctx, v.Ref.OpKey) })
	case approved:
		h.asks(1, h.f.destructive(h.agent))
		v := h.begin(true)
		h.park(ledger.Parking{Reason: events.ParkApproval, Detail: "a person is asked first", Approval: v.Approval})
		h.f.later(h, 2*time.Hour, func() error { return h.f.decide(h.ctx, v.Approval) })
	case waits:
		h.park(ledger.Parking{Reason: events.ParkModelRetry, Detail: "the provider asked to wait", After: 10 * time.Minute})
	case signalled:
		h.park(ledger.Parking{Reason: events.ParkSignal, Detail: "for the goods to come back"})
	case parent:
		h.delegates()
	case abandoned: // whoever takes it over goes on
		h.asks(0, "")
		h.flush()
	default:
		h.goOn()
	}
}

// goOn does some more and ends well.
func (h *holder) goOn() {
	for range 1 + h.r.IntN(2) {
		h.turnWith(1 + h.r.IntN(5))
	}
	h.asks(0, "")
	answer := h.answer()
	h.finish(events.RunFinished{StoppedBy: events.StoppedBySilent, Output: answer, Turns: h.turn},
		ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedBySilent, Result: answer})
}

func (h *holder) answer() json.RawMessage {
	b, err := json.Marshal(prose(h.r, 120))
	h.check(err)
	return b
}

func (h *holder) refunds() {
	h.asks(1, h.f.destructive(h.agent))
	h.applies(h.begin(false))
	h.goOn()
}

// applies executes what Begin allowed.
func (h *holder) applies(v ledger.Verdict) {
	switch v.Kind {
	case ledger.Execute:
		cost := events.PicoUSD(30_000_000_000)
		h.end(v, ledger.Outcome{Kind: ledger.Applied, LatencyMS: 1800, Result: events.ToolResult{Status: "completed", Output: "done: " + prose(h.r, 40), Trust: "external", Cost: &cost}})
	case ledger.Refused:
		h.note(events.ToolExecutionBlocked{
			Call: events.CallID{Turn: h.turn}, Tool: h.f.destructive(h.agent), Arguments: json.RawMessage(`{}`), Reason: events.BlockedPermissionDenied, Detail: v.Detail,
			Result: events.ToolResult{Status: "failed", Error: v.Text}, At: h.now,
		})
	case ledger.Replay:
		h.note(events.ToolExecutionFinished{Call: events.CallID{Turn: h.turn}, Attempt: 1, Tool: h.f.destructive(h.agent), Result: v.Result, Ref: &v.Ref, Repeated: true, Of: &v.Of, At: h.now})
	default:
		h.check(fmt.Errorf("begin said %d", v.Kind))
	}
}

func (h *holder) publishes() {
	h.asks(0, "")
	for revision := 0; ; revision++ {
		text := []byte(prose(h.r, 900))
		content := events.Hash(sha256.Sum256(text))
		h.f.now = h.now
		if h.err == nil {
			_, err := h.f.st.PutBlob(h.ctx, h.run.Tenant, "text/markdown", text)
			h.check(err)
		}
		h.note(events.ArtifactValidationStarted{Turn: h.turn, Artifact: "report", Revision: revision, Parser: "markdown", Validators: []string{"numbers"}})
		ok := h.r.IntN(3) > 0 || revision == 2
		v := events.ArtifactValidationFinished{Turn: h.turn, Artifact: "report", Revision: revision, OK: ok, Content: content, Bytes: int64(len(text))}
		if !ok {
			v.Validator, v.Issues = "numbers", []events.ArtifactIssue{{Path: "/total", Message: "the total is not the sum of its lines"}}
		}
		h.note(v)
		if ok {
			h.note(events.ArtifactFinished{Name: "report", Revision: revision, Content: content, Bytes: int64(len(text))})
			break
		}
		h.asks(0, "")
	}
	h.finish(events.RunFinished{StoppedBy: events.StoppedByArtifactFinished, Output: json.RawMessage(`"report"`), Turns: h.turn},
		ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedByArtifactFinished, Result: json.RawMessage(`"report"`)})
}

func (h *holder) fails(k kind) {
	e := events.ErrorInfo{Kind: "model", Message: "the provider refused the request five times"}
	by, end := events.StoppedByError, ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError, Error: e.Message}
	if k == retried && h.run.Attempt == 1 {
		end.Retry = ledger.Retry{MaxAttempts: 2, Backoff: time.Minute}
	} else if h.r.IntN(3) == 0 {
		e = events.ErrorInfo{Kind: "max_turns", Message: "20 turns were not enough"}
		by, end.StoppedBy, end.Error = events.StoppedByMaxTurns, events.StoppedByMaxTurns, e.Message
	}
	h.finish(events.RunFailed{StoppedBy: by, Error: e, Turns: h.turn}, end)
}

func (h *holder) delegates() {
	call := events.CallID{Turn: h.turn + 1}
	h.asks(1, "delegate")
	h.note(events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: "delegate", Effect: "idempotent", Arguments: json.RawMessage(`{}`), At: h.now})
	h.barrier(func(p ledger.Prefix) ([]events.Fact, error) {
		_, fs, err := h.f.st.Spawn(h.ctx, h.lease, p, ledger.Submission{
			Agent: "research", Queue: "batch", ClientKey: "child/" + h.run.ID.String(), Input: h.seal("look further"), InputMAC: []byte("seed"),
		}, ledger.Handoff{Token: events.CallToken(h.run.ID, call, "delegate", []byte(`{}`)), Call: call, CallAttempt: 1, Tool: "delegate", Trust: "own"})
		return fs, err
	})
	h.park(ledger.Parking{Reason: events.ParkChild, Detail: "for research"})
}

// resume is what a run does that has waited.
func (h *holder) resume(k kind) {
	if k == approved {
		h.applies(h.begin(true))
	}
	h.goOn()
}
