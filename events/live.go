package events

import (
	"encoding/json"
	"fmt"
)

// LiveKind says what a [Live] message carries. On the wire; never renamed.
type LiveKind string

// Kinds of live messages.
const (
	// LiveReset begins an attempt; what was shown of its turn is void. For somebody who
	// came late or has missed something it comes again, with the answer so far as Text.
	LiveReset     LiveKind = "reset"
	LiveText      LiveKind = "text"      // the next part of the answer
	LiveReasoning LiveKind = "reasoning" // the next part of what the model shows of its thoughts
	LiveCall      LiveKind = "call"      // a call that the answer asks for: begun with empty Text, then once with all its arguments
	LiveWhole     LiveKind = "whole"     // the answer's text so far, which takes the place of what was told of it
	LiveEnd       LiveKind = "end"       // the answer is complete; what is recorded of it follows in the feed
	LiveVoid      LiveKind = "void"      // the attempt failed: what was told of it is void
	LiveProgress  LiveKind = "progress"  // what a running tool says of itself
)

// Live is what people see of a run before it is recorded. It goes over core NATS:
// any message may be lost, none is stored, and what is recorded may differ. All
// text in it is redacted.
type Live struct {
	Run    RunID  `json:"run"`
	Tenant string `json:"tenant"`
	// Epoch, Turn and Attempt are those of the model call; a message of a lower one
	// than was seen is of a holder that has lost the run.
	Epoch   uint64 `json:"epoch"`
	Turn    int    `json:"turn"`
	Attempt int    `json:"attempt,omitempty"`
	// N counts the messages of an attempt, from 1, which is a reset. A gap is a loss.
	N    uint64   `json:"n"`
	Kind LiveKind `json:"kind"`
	Text string   `json:"text,omitempty"`
	// Call and Tool are those of a call or its progress.
	Call string `json:"call,omitempty"`
	Tool string `json:"tool,omitempty"`
	// Model is the one that is asked, of a reset.
	Model string `json:"model,omitempty"`
	// Held is how many bytes of the answer have come in that cannot be told yet.
	Held int `json:"held,omitempty"`
}

// LiveSubject returns the subject of a run's live messages: live.<tenant>.<run>.
func LiveSubject(tenant string, run RunID) string {
	return "live." + token(tenant) + "." + run.String()
}

// LiveWatchSubject returns the subject on which whoever watches a run says so with a
// [LiveWatch] every few seconds: nothing is told while nobody does.
func LiveWatchSubject(tenant string, run RunID) string {
	return "livewatch." + token(tenant) + "." + run.String()
}

// LiveWatch is what a viewer says.
type LiveWatch struct {
	Viewer string `json:"viewer"` // any name of its own
	// Again asks for what is being written from its beginning: something was lost.
	Again bool `json:"again,omitempty"`
}

// DecodeLive reads a message.
func DecodeLive(b []byte) (m Live, err error) {
	if err = json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("read live message: %w: %w", ErrMalformed, err)
	}
	return m, nil
}

// LiveFold is what somebody who watches a run has seen of the answer that is being
// written. The zero value has seen nothing. It is not safe for concurrent use.
type LiveFold struct {
	at      Live
	n       uint64
	started bool
	lost    bool
}

// Lost reports whether something of the attempt is missing: see [LiveWatch].
func (f *LiveFold) Lost() bool { return f.lost }

// LiveStep says what a message means to somebody who has seen those before it.
type LiveStep int

// Steps of a [LiveFold].
const (
	LiveIgnore LiveStep = iota // of an attempt that is over, or told already
	LiveBegin                  // of the first attempt of a turn
	LiveAgain                  // of a new attempt: what was shown of the turn is void
	LiveMore                   // continues what was shown
	LiveLost                   // as LiveMore, but something before it is missing
)

// Apply takes the next message.
func (f *LiveFold) Apply(m Live) LiveStep {
	if m.Kind == LiveProgress {
		if f.started && m.Epoch < f.at.Epoch {
			return LiveIgnore
		}
		return LiveMore
	}
	order := compareLive(m, f.at)
	switch {
	case f.started && order < 0:
		return LiveIgnore
	case !f.started || order > 0:
		again := f.started && m.Turn == f.at.Turn
		f.lost = m.Kind != LiveReset // it came late, and is told again
		f.at, f.n, f.started = m, m.N, true
		switch {
		case again:
			return LiveAgain
		case f.lost:
			return LiveLost
		}
		return LiveBegin
	case m.N <= f.n:
		return LiveIgnore
	case m.Kind == LiveReset: // told again, for somebody who came late
		missed := f.lost || m.N > f.n+1
		f.n, f.lost = m.N, false
		if missed {
			return LiveAgain
		}
		return LiveIgnore
	}
	step := LiveMore
	if m.N > f.n+1 {
		f.lost, step = true, LiveLost
	}
	f.n = m.N
	return step
}

// compareLive orders messages by epoch, turn and attempt.
func compareLive(a, b Live) int {
	switch {
	case a.Epoch != b.Epoch:
		return sign(a.Epoch > b.Epoch)
	case a.Turn != b.Turn:
		return sign(a.Turn > b.Turn)
	case a.Attempt != b.Attempt:
		return sign(a.Attempt > b.Attempt)
	}
	return 0
}

func sign(greater bool) int {
	if greater {
		return 1
	}
	return -1
}
