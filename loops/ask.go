package loops

import (
	"fmt"

	"github.com/daybookhq/daybook/events"
)

// AskModel is the step of a loop that wants the model's next answer: the call, or
// the end of the run if it has failed for good or too often, or would be one turn
// too many. Where the last attempt may be repeated only from
// [events.ModelCallError].RetryAt on, it is the call all the same: waiting is the
// runtime's, and so is a compaction that is due. Which model is asked says [History.Route]: with several in a chain the
// call has failed for good only when none is left that could answer it. Attempts cut short by a crash are no failures and use up nothing.
func AskModel(h *History) Step {
	if e := h.failedForGood(); e != nil {
		return Fail(e.Error.Kind, fmt.Sprintf("model call of turn %d, attempt %d: %s", e.Turn, e.Attempt, e.Error.Message))
	}
	if h.NextTurn()-h.base > h.MaxTurns() {
		return tooManyTurns(h)
	}
	return CallModel{Turn: h.NextTurn(), Messages: h.Messages()}
}

// failedForGood returns the last error of a model call that will not be made again,
// nil if it may be.
func (h *History) failedForGood() *events.ModelCallError {
	e := h.LastModelError()
	if e == nil || h.mayCompact(e) || h.goesOn(h.inquiry()) && h.ModelFailures() < max(h.MaxModelAttempts(), len(h.Chain())) {
		return nil
	}
	return e
}

func tooManyTurns(h *History) Stop {
	return Stop{By: events.StoppedByMaxTurns, Err: &events.ErrorInfo{
		Kind: string(events.StoppedByMaxTurns), Message: fmt.Sprintf("not done after %d turns", h.MaxTurns()),
	}}
}

// Unusable returns the end of a run whose model gave an answer that nothing can
// be made of: it refused, or was cut off at the token limit, since half an answer
// is none.
func Unusable(a *events.ModelCallFinished) (Stop, bool) {
	switch a.StopReason {
	case "refusal":
		why := a.Text
		if why == "" {
			why = "the model refused to answer"
		}
		return Stop{By: events.StoppedByDeclined, DeclinedBecause: why}, true
	case "max_tokens":
		return Fail("answer_cut", fmt.Sprintf("the answer of turn %d was cut off at the token limit; raise max_tokens", a.Turn)), true
	}
	return Stop{}, false
}

// Fail is the end of a run by an error.
func Fail(kind, message string) Stop {
	return Stop{By: events.StoppedByError, Err: &events.ErrorInfo{Kind: kind, Message: message}}
}
