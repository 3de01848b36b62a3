package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
)

// Bounds of what host code may say about an artifact, in bytes: it all stands in
// one event. What is cut says so.
const (
	maxIssues       = 50
	maxIssuePath    = 512
	maxIssueMessage = 2 << 10
	maxMetadata     = 8 << 10 // of one validator
	maxRepairInput  = 64 << 10
)

// checkArtifact makes a version of an artifact of an answer, stores it and has it
// judged. Only then is the verdict recorded: a worker that dies before leaves
// nothing but a blob that may be used again, and the check is made again.
func (s *session) checkArtifact(ctx context.Context, step loops.CheckArtifact) error {
	err := s.Record(ctx, events.ArtifactValidationStarted{
		Turn: step.Turn, Artifact: step.Artifact, Revision: step.Revision, Parser: step.Parser, Validators: step.Validators,
	})
	if err != nil {
		return err
	}
	out := events.ArtifactValidationFinished{Turn: step.Turn, Artifact: step.Artifact, Revision: step.Revision}
	if err := s.judge(ctx, step, &out); err != nil {
		return err
	}
	if err := fault.Err("artifact.before_event"); err != nil {
		return err
	}
	err = s.Record(ctx, out)
	if errors.Is(err, events.ErrTooLarge) { // every character of it was escaped
		out.Metadata, out.Issues = nil, append(out.Issues[:min(len(out.Issues), 5)], events.ArtifactIssue{Message: "and more, which is too long to be recorded"})
		err = s.Record(ctx, out)
	}
	return err
}

// judge fills in what a check comes to. An error is one of the session, not of the
// artifact or the host's code.
func (s *session) judge(ctx context.Context, step loops.CheckArtifact, out *events.ArtifactValidationFinished) error {
	at := s.artifactContext(step.Turn, step.Artifact, step.Revision)
	v, fail := s.parse(ctx, at, step.Parser, step.Text)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case fail != nil:
		out.Error = &events.ErrorInfo{Kind: "parser", Message: fail.Error()}
		return nil
	case v.fault != nil:
		out.Issues = s.bounded([]events.ArtifactIssue{{Message: v.fault.Error()}})
		return nil
	case len(v.content) > s.w.cfg.MaxArtifactBytes:
		out.Issues = []events.ArtifactIssue{{Message: fmt.Sprintf("it has %d bytes, at most %d are allowed", len(v.content), s.w.cfg.MaxArtifactBytes)}}
		return nil
	}
	err := s.retry(ctx, "store artifact", func() (err error) {
		if out.Content, err = s.w.cfg.Ledger.PutBlob(ctx, s.run.Tenant, v.mediaType, v.content); err == nil {
			err = fault.Err("artifact.after_blob")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("store artifact %q of run %s: %w", step.Artifact, s.run.ID, err)
	}
	out.Bytes = int64(len(v.content))
	var issues []events.ArtifactIssue // of those that accept: notes
	metadata := map[string]json.RawMessage{}
	out.OK = len(step.Validators) == 0 // nobody refuses it
	for _, name := range step.Validators {
		verdict, fail := s.validate(ctx, at, name, v.value)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case fail != nil:
			// Those before may have accepted it, but without this one there is no verdict.
			out.OK, out.Error = false, &events.ErrorInfo{Kind: "validator", Message: fail.Error()}
			return nil
		}
		if verdict.metadata != nil {
			metadata[name] = verdict.metadata
		}
		if out.OK = verdict.OK; !out.OK {
			out.Validator, issues = name, verdict.Issues
			break
		}
		issues = append(issues, verdict.Issues...)
	}
	out.Issues = s.bounded(issues)
	if len(metadata) == 0 {
		return nil
	}
	out.Metadata, err = json.Marshal(metadata)
	return err
}

func (s *session) artifactContext(turn int, name string, revision int) revise.Context {
	return revise.Context{
		Session: s.run.SessionID, Run: s.run.ID, Tenant: s.run.Tenant, Turn: turn, Artifact: name, Revision: revision, Input: s.hist.Queued().Input,
	}
}

// version is what a parser made of an answer.
type version struct {
	value     any
	content   []byte // redacted, as it is stored
	mediaType string
	fault     error // of the answer
}

func (s *session) parse(ctx context.Context, at revise.Context, name, text string) (version, error) {
	f := s.w.host.Parsers[name]
	return hostCode(ctx, s, fmt.Sprintf("parser %q", name), func(ctx context.Context) (v version, err error) {
		if v.value, err = f(ctx, at, text); err != nil {
			if ctx.Err() != nil {
				return v, err
			}
			return version{fault: err}, nil
		}
		switch x := v.value.(type) {
		case string:
			v.content, v.mediaType = []byte(s.red.String(x)), "text/plain; charset=utf-8"
		case []byte:
			v.content, v.mediaType = []byte(s.red.String(string(x))), "application/octet-stream"
		default:
			j, err := s.red.JSON(x)
			if err != nil {
				return v, fmt.Errorf("encode what it made, a %T: %w", x, err)
			}
			v.mediaType = "application/json"
			if raw, ok := x.(json.RawMessage); ok {
				if c, err := canonical.JSON(raw); err == nil && bytes.Equal(c, j.Bytes()) { // nothing was redacted
					v.content = bytes.Clone(raw)
					return v, nil
				}
			}
			var b bytes.Buffer
			if err := json.Indent(&b, j.Bytes(), "", "  "); err != nil { // for people, and to be compared line by line
				return v, err
			}
			b.WriteByte('\n')
			v.content = b.Bytes()
		}
		return v, nil
	})
}

// judged is a verdict with its metadata as it is recorded.
type judged struct {
	revise.Verdict
	metadata json.RawMessage
}

func (s *session) validate(ctx context.Context, at revise.Context, name string, value any) (judged, error) {
	f := s.w.host.Validators[name]
	return hostCode(ctx, s, fmt.Sprintf("validator %q", name), func(ctx context.Context) (j judged, err error) {
		if j.Verdict, err = f(ctx, at, value); err != nil || j.Metadata == nil {
			return j, err
		}
		if j.metadata, err = json.Marshal(j.Metadata); err != nil {
			return j, fmt.Errorf("encode its metadata: %w", err)
		}
		if n := len(j.metadata); n > maxMetadata {
			j.metadata = fmt.Appendf(nil, `{"left_out_bytes":%d}`, n)
		}
		return j, nil
	})
}

// bounded is what fits an event. It is redacted before it is cut: half a secret is
// not found.
func (s *session) bounded(issues []events.ArtifactIssue) []events.ArtifactIssue {
	more := len(issues) - maxIssues
	out := make([]events.ArtifactIssue, 0, min(len(issues), maxIssues+1))
	for _, i := range issues[:min(len(issues), maxIssues)] {
		out = append(out, events.ArtifactIssue{Path: s.brief(i.Path, maxIssuePath), Message: s.brief(i.Message, maxIssueMessage)})
	}
	if more > 0 {
		out = append(out, events.ArtifactIssue{Message: fmt.Sprintf("and %d more", more)})
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func (s *session) brief(text string, most int) string {
	text = s.red.String(text)
	if len(text) > most {
		return cut(text, most) + "…"
	}
	return text
}

// reviseArtifact asks the repairer what to tell the model, and records it: whoever
// goes on reads it there. A repairer without an answer fails the run.
func (s *session) reviseArtifact(ctx context.Context, step loops.ReviseArtifact) error {
	at := s.artifactContext(step.Turn, step.Artifact, step.Verdict.Revision)
	var value any
	var fail error
	if !step.Verdict.Content.IsZero() { // else there was nothing to parse
		var v version
		v, fail = s.parse(ctx, at, step.Parser, step.Text)
		value = v.value
	}
	refused := revise.Verdict{Issues: step.Verdict.Issues}
	if len(step.Verdict.Metadata) > 0 {
		refused.Metadata = step.Verdict.Metadata
	}
	var input string
	if fail == nil {
		f := s.w.host.Repairers[step.Repairer]
		input, fail = hostCode(ctx, s, fmt.Sprintf("repairer %q", step.Repairer), func(ctx context.Context) (string, error) {
			in, err := f(ctx, at, value, refused)
			switch {
			case err == nil && in == "":
				err = errors.New("it has nothing to say to the model")
			case err == nil && len(in) > maxRepairInput:
				err = fmt.Errorf("it has %d bytes to say to the model, at most %d are allowed", len(in), maxRepairInput)
			}
			return in, err
		})
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case fail != nil:
		return s.repairerFailed(ctx, fail)
	}
	err := s.Record(ctx, events.ArtifactRevisionStarted{
		Turn: step.Turn, Artifact: step.Artifact, Revision: step.Revision, Repairer: step.Repairer, Input: input,
	})
	if errors.Is(err, events.ErrTooLarge) {
		return s.repairerFailed(ctx, fmt.Errorf("repairer %q: %w", step.Repairer, err))
	}
	return err
}

func (s *session) repairerFailed(ctx context.Context, fail error) error {
	return s.end(ctx, events.RunFailed{
		StoppedBy: events.StoppedByError, Turns: s.hist.Turns(), Error: events.ErrorInfo{Kind: events.KindRepairer, Message: fail.Error()},
	})
}
