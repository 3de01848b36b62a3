package events

// Op says what a step of a script is. Stored; never renamed.
type Op string

// Ops.
const (
	OpModel    Op = "model"    // the model is asked
	OpCalls    Op = "calls"    // tools are called that no model asked for
	OpArtifact Op = "artifact" // a version of an artifact is stored and judged
	OpPatch    Op = "patch"    // the code is newer than runs that have passed here
)

// StepPlanned is what the code of a script asks for, before anything of it is
// done: whoever runs the code again compares what it asks for with this.
type StepPlanned struct {
	Step int `json:"step"` // from 1, dense
	Op   Op  `json:"op"`
	Turn int `json:"turn,omitempty"` // which it opens; 0 for a patch
	// Name is that of the artifact, or of the patch.
	Name string `json:"name,omitempty"`
	// Text is what the model is asked, or what is to be the artifact.
	Text string `json:"text,omitempty"`
	// Continue shows the model the conversation of the run so far; Tools the run's tools.
	Continue bool `json:"continue,omitempty"`
	Tools    bool `json:"tools,omitempty"`
	// Calls are performed like those of a model: their identity is (Turn, index).
	Calls      []ToolCall `json:"calls,omitempty"`
	Parser     string     `json:"parser,omitempty"`
	Validators []string   `json:"validators,omitempty"`
}

func (StepPlanned) eventType() Type { return "step_planned" }
