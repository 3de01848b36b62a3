package events

// Ways in which a part of a transcript is compacted. Stored; never renamed.
const (
	// CompactedBySummary: a model wrote a summary of it.
	CompactedBySummary = "summary"
	// CompactedByObservations: a model wrote one observation a line, each with the
	// turns that it is from.
	CompactedByObservations = "observations"
	// CompactedByCut: it was left out; no summary was wanted, or none could be made.
	CompactedByCut = "cut"
)

// KindContextFull is the kind of a model's error for a request that does not fit
// its window. Stored; never renamed.
const KindContextFull = "context_full"

// PurposeCompaction marks the model calls that compact a transcript. They have
// numbers among the attempts of the turn that they make room for, and are no
// answers of it. Stored; never renamed.
const PurposeCompaction = "compaction"

// Compaction says when and how a run's transcript is compacted.
type Compaction struct {
	// At is how much of the window may be filled, in percent.
	At int `json:"at"`
	// Keep is how many turns stay as they are.
	Keep int `json:"keep"`
	// With is a way in which it is done.
	With string `json:"with"`
	// Model writes the summaries; empty = the run's own.
	Model string `json:"model,omitempty"`
	// Window is how many tokens the run's model takes; 0 = nobody knows: then only a
	// request that was refused as too long brings a compaction about.
	Window int64 `json:"window,omitempty"`
}

// Span is a part of a transcript: the messages from From up to, not including, To,
// counted from 0 as the transcript was then.
type Span struct {
	From int `json:"from"`
	To   int `json:"to"`
	// FirstTurn and LastTurn are the turns that it has messages of; 0 = of none.
	FirstTurn int `json:"first_turn,omitempty"`
	LastTurn  int `json:"last_turn,omitempty"`
	// Digest is the SHA-256 of these messages, in canonical form.
	Digest Hash `json:"digest"`
}

// TranscriptCompacted replaces a part of the transcript. What it replaces stays in
// the record: the events that it came from are where they were.
type TranscriptCompacted struct {
	// Turn is the one that it makes room for.
	Turn int  `json:"turn"`
	Span Span `json:"span"`
	// By is the way in which it was done, Because why: "full" (the window), or
	// "refused" (the model took no request that long).
	By      string `json:"by"`
	Because string `json:"because"`
	// Text is the summary; empty if the part was left out.
	Text string `json:"text,omitempty"`
	// Failed says why there is no summary where one was wanted.
	Failed string `json:"failed,omitempty"`
	// Attempt is the model call of the turn that wrote the text; 0 = none.
	Attempt int `json:"attempt,omitempty"`
	// Trust is "external" if text from outside had come in by then, else "own".
	Trust string `json:"trust"`
	// Tokens is how much of the window was taken to be filled.
	Tokens int64 `json:"tokens,omitempty"`
	// Snapshot is the blob with the transcript as it is from here on, for runs of a
	// session: those after it begin from there. Zero = there is none.
	Snapshot Hash `json:"snapshot,omitzero"`
}

func (TranscriptCompacted) eventType() Type { return "transcript_compacted" }
