package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/model"
)

// output is what the answer that a run ends with has to fit.
type output struct {
	name   string
	schema json.RawMessage
	check  revise.Validator
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// newOutput returns nil for an agent without a schema.
func newOutput(agent string, schema json.RawMessage) (*output, error) {
	if len(schema) == 0 {
		return nil, nil //nolint:nilnil // text is no fault
	}
	check, err := revise.Schema(schema)
	if err != nil {
		return nil, err
	}
	return &output{name: fmt.Sprintf("%.64s", notInName.ReplaceAllString(agent, "_")), schema: schema, check: check}, nil
}

// format is what a request says of it; nil = nothing.
func (o *output) format() *model.Format {
	if o == nil {
		return nil
	}
	return &model.Format{Name: o.name, Schema: o.schema}
}

// freezeOutput stores the schema that a new run is bound to.
func (s *session) freezeOutput(ctx context.Context) (h events.Hash, err error) {
	if s.output, err = newOutput(s.agent.Name, s.agent.Output); s.output == nil || err != nil {
		return events.Hash{}, err
	}
	return s.putBlob(ctx, "application/schema+json", s.output.schema)
}

// bindOutput is the schema that the run was bound to.
func (s *session) bindOutput(ctx context.Context, h events.Hash) error {
	s.output = nil
	if h.IsZero() {
		return nil
	}
	b, err := s.blob(ctx, h)
	if err != nil {
		return fmt.Errorf("read the output schema that run %s is bound to: %w", s.run.ID, err)
	}
	if s.output, err = newOutput(s.agent.Name, b); err != nil {
		return fmt.Errorf("the output schema that run %s is bound to: %w: %w", s.run.ID, err, errUnworkable)
	}
	return nil
}

// fitting is the end of a run, or of one whose answer does not fit its schema: that is
// an error, and the run has no output. What was said stands in the transcript.
func (s *session) fitting(ctx context.Context, p events.Payload) events.Payload {
	f, ok := p.(events.RunFinished)
	if !ok || s.output == nil || f.StoppedBy != events.StoppedByFinish {
		return p
	}
	answer := f.Output
	if len(answer) == 0 {
		answer = json.RawMessage("null")
	}
	v, err := s.output.check(ctx, revise.Context{}, answer)
	if err == nil && v.OK {
		return p
	}
	why := "the answer does not fit the agent's output schema"
	if err != nil {
		why += ": " + err.Error()
	}
	for i, issue := range v.Issues {
		if i == 0 {
			why += ": "
		} else {
			why += "; "
		}
		why += strings.TrimPrefix(issue.Path+": "+issue.Message, ": ")
	}
	return events.RunFailed{
		StoppedBy: events.StoppedByError, Turns: f.Turns,
		Error: events.ErrorInfo{Kind: events.KindOutputMismatch, Message: s.red.String(why)}.Fit(),
	}
}
