// Package revise is the loop that makes an artifact: the model answers, host code
// parses and judges the answer, and what it finds goes back to the model, until a
// version is accepted or the revisions are used up. It uses no tools; see
// [github.com/daybookhq/daybook/loops/singleshot] for agents that do.
//
// The loop only decides. Parsers, validators and repairers are functions of the
// host's that it names ([Callbacks]); the runtime runs them and records what they
// said: a recorded verdict is never computed again, and what a repairer asked for
// is read out of the record. A function may run twice around a crash, so it should
// have no effects; if it must have some, they are for a tool.
package revise

import (
	"encoding/json"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
)

// Name is what agents call this loop.
const Name = "revise"

// New returns the loop. It holds no state. Its options are [Options].
func New() loops.Configured { return loop{} }

type loop struct{}

func (loop) Name() string { return Name }

func (loop) Version() int { return 1 }

// Options implements [loops.Configured].
func (loop) Options(raw json.RawMessage) (loops.Needs, error) {
	o, err := ParseOptions(raw)
	return loops.Needs{Parsers: []string{o.Parser}, Validators: o.Validators, Repairers: []string{o.Repairer}}, err
}

// Next decides in this order:
//
//  1. a request to cancel stops the run;
//  2. what was accepted, or given up, ends it: giving up is no error;
//  3. an answer that the model refused to give ends it as declined, one that was
//     cut off at the token limit as an error;
//  4. an answer without a verdict is checked;
//  5. a check that came to no verdict is an error: of the host's code, not of the
//     artifact;
//  6. an accepted version is the artifact. A refused one is revised, or given up
//     if it was the last;
//  7. the next turn is the model's.
//
// Calls that the model asks for although it was shown no tool are not performed;
// the text beside them is the answer.
func (loop) Next(h *loops.History) (loops.Step, error) {
	if h.Queued() == nil || h.Started() == nil {
		return nil, fmt.Errorf("decide run %s seq %d: the run has not been queued and started", h.Run(), h.Seq())
	}
	if h.CancelRequested() != nil {
		return loops.Stop{By: events.StoppedByCancelled}, nil
	}
	if f := h.Accepted(); f != nil {
		return loops.Stop{By: events.StoppedByArtifactFinished, Output: output(f)}, nil
	}
	if h.Rejected() != nil {
		return loops.Stop{By: events.StoppedByArtifactFailed}, nil
	}
	o, err := ParseOptions(h.Started().LoopOptions)
	if err != nil {
		return nil, fmt.Errorf("decide run %s: options: %w", h.Run(), err)
	}
	if a := h.Answer(); a != nil && !h.Revised() {
		return judge(h, a, o), nil
	}
	step := loops.AskModel(h)
	if ask, ok := step.(loops.CallModel); ok {
		ask.WithoutTools = true
		return ask, nil
	}
	return step, nil
}

// judge is the step that an answer leads to.
func judge(h *loops.History, a *events.ModelCallFinished, o Options) loops.Step {
	if stop, ok := loops.Unusable(a); ok {
		return stop
	}
	v := h.Validation()
	switch {
	case v == nil:
		return loops.CheckArtifact{Turn: a.Turn, Artifact: o.Artifact, Revision: h.Revision(), Parser: o.Parser, Validators: o.Validators, Text: a.Text}
	case v.Error != nil:
		return loops.Fail(v.Error.Kind, v.Error.Message)
	case v.OK:
		return loops.AcceptArtifact{Artifact: events.ArtifactFinished{Name: v.Artifact, Revision: v.Revision, Content: v.Content, Bytes: v.Bytes}}
	case h.Revision() >= *o.MaxRevisions:
		return loops.RejectArtifact{Artifact: events.ArtifactFailed{Name: v.Artifact, Revisions: h.Revision(), Issues: v.Issues}}
	}
	return loops.ReviseArtifact{
		Turn: a.Turn, Artifact: o.Artifact, Revision: h.Revision() + 1, Parser: o.Parser, Repairer: o.Repairer, Text: a.Text, Verdict: *v,
	}
}

// output says what was accepted. The content is in the ledger, under the hash
// that artifact_finished names: an output that repeated it would be redacted,
// stored and sent a second time.
func output(f *events.ArtifactFinished) json.RawMessage {
	b, err := json.Marshal(struct {
		Artifact string `json:"artifact"`
		Revision int    `json:"revision"`
		Bytes    int64  `json:"bytes"`
	}{f.Name, f.Revision, f.Bytes})
	if err != nil {
		panic(err) // a string and two numbers always encode
	}
	return b
}
