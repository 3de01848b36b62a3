package events

import "encoding/json"

// ArtifactIssue is one thing a validator found.
type ArtifactIssue struct {
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

// ArtifactValidationStarted precedes a validator.
type ArtifactValidationStarted struct {
	Turn      int    `json:"turn"`
	Validator string `json:"validator"`
}

// ArtifactValidationFinished is a validator's verdict; it is never computed again.
type ArtifactValidationFinished struct {
	Turn     int             `json:"turn"`
	OK       bool            `json:"ok"`
	Issues   []ArtifactIssue `json:"issues,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

// ArtifactRevisionStarted carries what the repairer asks of the model.
type ArtifactRevisionStarted struct {
	Revision int    `json:"revision"` // from 1
	Input    string `json:"input"`
}

// ArtifactFinished names the accepted artifact by its content.
type ArtifactFinished struct {
	Name    string `json:"name"`
	Content Hash   `json:"content"` // blob
	Bytes   int64  `json:"bytes"`
}

// ArtifactFailed ends the revisions without an accepted artifact.
type ArtifactFailed struct {
	Revisions int             `json:"revisions"`
	Issues    []ArtifactIssue `json:"issues,omitempty"`
}

func (ArtifactValidationStarted) eventType() Type  { return "artifact_validation_started" }
func (ArtifactValidationFinished) eventType() Type { return "artifact_validation_finished" }
func (ArtifactRevisionStarted) eventType() Type    { return "artifact_revision_started" }
func (ArtifactFinished) eventType() Type           { return "artifact_finished" }
func (ArtifactFailed) eventType() Type             { return "artifact_failed" }
