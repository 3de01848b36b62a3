package loops

import (
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
)

// artifact compares a step of the revisions. What parsers, validators and
// repairers said is in the record and not asked for again.
func (r *rehearsal) artifact(seq uint64, p events.Payload) {
	switch p := p.(type) {
	case events.ArtifactValidationStarted:
		want := CheckArtifact{Turn: p.Turn, Artifact: p.Artifact, Revision: p.Revision, Parser: p.Parser, Validators: p.Validators}
		r.want(seq, describe(want), func(s Step) bool { return describe(s) == describe(want) })
	case events.ArtifactRevisionStarted:
		want := ReviseArtifact{Turn: p.Turn, Artifact: p.Artifact, Revision: p.Revision, Repairer: p.Repairer}
		r.want(seq, describe(want), func(s Step) bool { return describe(s) == describe(want) })
	case events.ArtifactFinished:
		r.want(seq, describe(AcceptArtifact{p}), func(s Step) bool { return describe(s) == describe(AcceptArtifact{p}) })
	case events.ArtifactFailed:
		r.want(seq, describe(RejectArtifact{p}), func(s Step) bool { return describe(s) == describe(RejectArtifact{p}) })
	}
}

// describeArtifact says a step of the revisions in words: all that a loop decides
// of it, and nothing of what host code makes of it.
func describeArtifact(s Step) string {
	switch s := s.(type) {
	case CheckArtifact:
		return fmt.Sprintf("check of %q, revision %d, in the answer of turn %d: parser %s, validators %s", s.Artifact, s.Revision, s.Turn, s.Parser, strings.Join(s.Validators, ", "))
	case ReviseArtifact:
		return fmt.Sprintf("ask for revision %d of %q after turn %d: repairer %s", s.Revision, s.Artifact, s.Turn, s.Repairer)
	case AcceptArtifact:
		return fmt.Sprintf("accept revision %d of %q, content %s", s.Artifact.Revision, s.Artifact.Name, s.Artifact.Content)
	case RejectArtifact:
		return fmt.Sprintf("give up %q after %d revisions", s.Artifact.Name, s.Artifact.Revisions)
	}
	return fmt.Sprintf("%T", s)
}
