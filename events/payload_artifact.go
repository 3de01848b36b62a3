package events

import "encoding/json"

// KindRepairer is the kind of the error that ends a run whose repairer gave no
// answer. Stored; never renamed.
const KindRepairer = "repairer"

// ArtifactIssue is one thing a validator found.
type ArtifactIssue struct {
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// ArtifactValidationStarted precedes the parser and the validators of an answer.
type ArtifactValidationStarted struct {
	Turn       int      `json:"turn"`
	Artifact   string   `json:"artifact"`
	Revision   int      `json:"revision"` // 0 = the first answer
	Parser     string   `json:"parser"`
	Validators []string `json:"validators"` // in the order in which they are asked
}

// ArtifactValidationFinished is a verdict on a version of an artifact; it is
// never computed again.
type ArtifactValidationFinished struct {
	Turn     int    `json:"turn"`
	Artifact string `json:"artifact"`
	Revision int    `json:"revision"`
	OK       bool   `json:"ok"`
	// Validator is the one that refused it; empty if none did, or none was asked.
	Validator string `json:"validator,omitempty"`
	// Content is the version as the parser made it of the answer, redacted: a
	// blob. Zero if there is none: it could not be parsed, or is too large.
	Content  Hash            `json:"content,omitzero"`
	Bytes    int64           `json:"bytes,omitempty"`
	Issues   []ArtifactIssue `json:"issues,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Error says why there is no verdict at all: it is no fault of the artifact.
	Error *ErrorInfo `json:"error,omitempty"`
}

// ArtifactRevisionStarted carries what the repairer asks of the model.
type ArtifactRevisionStarted struct {
	Turn     int    `json:"turn"` // of the answer that is to be revised
	Artifact string `json:"artifact"`
	Revision int    `json:"revision"` // from 1
	Repairer string `json:"repairer"`
	Input    string `json:"input"`
}

// ArtifactFinished names the accepted artifact by its content.
type ArtifactFinished struct {
	Name     string `json:"name"`
	Revision int    `json:"revision"`
	Content  Hash   `json:"content"` // blob
	Bytes    int64  `json:"bytes"`
}

// ArtifactFailed ends the revisions without an accepted artifact.
type ArtifactFailed struct {
	Name      string          `json:"name"`
	Revisions int             `json:"revisions"`
	Issues    []ArtifactIssue `json:"issues,omitempty"`
}

func (ArtifactValidationStarted) eventType() Type  { return "artifact_validation_started" }
func (ArtifactValidationFinished) eventType() Type { return "artifact_validation_finished" }
func (ArtifactRevisionStarted) eventType() Type    { return "artifact_revision_started" }
func (ArtifactFinished) eventType() Type           { return "artifact_finished" }
func (ArtifactFailed) eventType() Type             { return "artifact_failed" }
