package tools

import (
	"context"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
)

// Invoked is what [Bus.Invoke] came to. Look at Status first.
type Invoked struct {
	Name string `json:"name"`
	events.ToolResult
	LatencyMS int64 `json:"latency_ms"`
	// Repeated: it is the outcome of an earlier call that did the same.
	Repeated bool `json:"repeated,omitempty"`
	// Blocked and Detail say why the tool was not run.
	Blocked events.BlockedReason `json:"blocked,omitempty"`
	Detail  string               `json:"detail,omitempty"`
	// State is how the call stands; only StateDone is an end.
	State State `json:"-"`
	// Err is what Dispatch returned, nil if the call has an outcome.
	Err error `json:"-"`
}

// Invoke performs a call in a program that has no runtime around it, and never
// fails: whatever is wrong is an outcome with status failed, and an error that a
// model can act on. It goes through the same checks as Dispatch. Events go to
// env.Recorder if there is one. A destructive call needs env.Effects: without a
// ledger nobody could promise that it takes effect once.
func (b *Bus) Invoke(ctx context.Context, env Env, c Call) Invoked {
	if env.Recorder == nil {
		env.Recorder = nowhere{}
	}
	o := Invoked{Name: c.Name}
	began := b.disp.cfg.Now()
	var disp Disposition
	err := guard("call", func() (err error) {
		disp, err = b.disp.Dispatch(ctx, env, c)
		return err
	})
	o.LatencyMS = latency(began, b.disp.cfg.Now())
	o.ToolResult, o.State, o.Blocked, o.Detail, o.Err = disp.Result, disp.State, disp.Blocked, disp.Detail, err
	o.Repeated = disp.Verdict.Kind == Replay
	switch {
	case err != nil:
		o.ToolResult = failed(b.disp.entries[c.Name], b.disp.clean(rawErrorText(err), maxOwnError))
	case disp.State != StateDone:
		o.ToolResult = failed(b.disp.entries[c.Name], unfinished[disp.State])
	}
	return o
}

// unfinished is told of calls that have no outcome yet.
var unfinished = map[State]string{
	StateInDoubt:       "unknown whether this took effect; do not retry",
	StateBusy:          "another run is doing this; its outcome is not known yet",
	StateHandedOff:     "this was begun, and its outcome comes later",
	StateNeedsApproval: "not done: a person has to approve it first",
	StatePaused:        "not done: an operator has paused this tool",
}

type nowhere struct{}

func (nowhere) Record(context.Context, events.Payload) error { return nil }

// RolloutStep is one call of a [Trace]: what a rollout keeps of it.
type RolloutStep struct {
	Index int    `json:"index"`
	Tool  string `json:"tool"`
	// Offered says whether the model had been shown the tool. A call of another
	// one is no fault: it may have been offered in an earlier turn.
	Offered bool `json:"offered"`
	// Rank is the tool's place among those offered, from 1; 0 if it was not.
	Rank     int             `json:"rank,omitempty"`
	Status   string          `json:"status"`
	Error    string          `json:"error,omitempty"`
	Trust    string          `json:"trust,omitempty"`
	Repeated bool            `json:"repeated,omitempty"`
	Cost     *events.PicoUSD `json:"cost,omitempty"` // nil = unmeasured
	Latency  time.Duration   `json:"latency"`
}

// Step turns an outcome, the i-th from 0, into an entry of a rollout. In a run
// of the runtime nobody needs it: there the events say the same.
func (t *Trace) Step(o Invoked, i int) RolloutStep {
	rank := slices.Index(t.Offered, o.Name) + 1
	return RolloutStep{
		Index: i, Tool: o.Name, Offered: rank > 0, Rank: rank, Status: o.Status, Error: o.Error, Trust: o.Trust,
		Repeated: o.Repeated, Cost: o.Cost, Latency: time.Duration(o.LatencyMS) * time.Millisecond,
	}
}
