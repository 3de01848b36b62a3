//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
)

// tell says an event in words; empty for one that a newcomer needs not see.
func tell(p events.Payload) string {
	switch e := p.(type) {
	case events.RunStarted:
		return fmt.Sprintf("a worker takes the run: script %s, version %d", e.Loop, e.LoopVersion)
	case events.RunResumed:
		return "another worker takes the run over: the script is run again from its top, over the record"
	case events.RunParked:
		return "the run waits: " + e.Detail
	case events.StepPlanned:
		return fmt.Sprintf("step %d: the script asks for %s", e.Step, loops.DescribeStep(e))
	case events.ModelCallFinished:
		return "  the model says " + strings.TrimSpace(e.Text)
	case events.ToolExecutionFinished:
		first, _, more := strings.Cut(e.Result.Output, "\n")
		if more {
			first += " …"
		}
		return fmt.Sprintf("  %s says: %s", e.Tool, first)
	case events.ToolExecutionInDoubt:
		return fmt.Sprintf("  nobody can know whether %s took effect (%s)", e.Tool, e.Cause)
	case events.ToolExecutionStarted:
		if e.Ref != nil {
			return fmt.Sprintf("  %s begins, under the key %.12s, attempt %d of it", e.Tool, e.Ref.OpKey, e.Ref.Attempt)
		}
	case events.ApprovalDecided:
		return fmt.Sprintf("  %s by %s: %s", e.Decision, e.By, e.Reason)
	case events.ArtifactFinished:
		return fmt.Sprintf("  %s is kept, %d bytes", e.Name, e.Bytes)
	case events.RunFinished:
		return fmt.Sprintf("the run is over: %s %s", e.StoppedBy, e.Output)
	case events.RunFailed:
		return "the run has failed: " + e.Error.Kind + ": " + e.Error.Message
	}
	return ""
}

// follow returns the events after from, in words, each behind its sequence.
func follow(ctx context.Context, st ledger.Store, run events.RunID, from uint64) (lines []string, last uint64, err error) {
	last = from
	err = st.Events(ctx, run, from+1, func(s events.Sealed) error {
		e, err := s.Decode()
		if err != nil {
			return err
		}
		last = e.Seq
		if words := tell(e.Data); words != "" {
			lines = append(lines, fmt.Sprintf("%3d  %s", e.Seq, words))
		}
		return nil
	})
	return lines, last, err
}
