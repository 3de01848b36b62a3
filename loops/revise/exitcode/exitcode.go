//go:build unix

// Package exitcode makes validators of programs: exit code 0 accepts an artifact,
// any other refuses it, and what the program wrote is what is wrong. Unix only.
package exitcode

import (
	"context"
	"fmt"
	"strings"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/tools/command"
)

// maxIssues bounds what one refusal names; the rest is counted.
const maxIssues = 30

// Validator returns the validator that c is: c reads the artifact, as the parser
// made it ([revise.Encode]), from its standard input. Each line that it writes to
// its standard output, or if there is none to its standard error, is an issue. A
// program that cannot be started, takes too long or is killed by a signal has
// found nothing: then there is no verdict.
func Validator(c *command.Check) revise.Validator {
	return func(ctx context.Context, _ revise.Context, value any) (revise.Verdict, error) {
		b, err := revise.Encode(value)
		if err != nil {
			return revise.Verdict{}, err
		}
		f, err := c.Run(ctx, b)
		if err != nil {
			return revise.Verdict{}, err
		}
		v := revise.Verdict{OK: f.ExitCode == 0, Metadata: map[string]int{"exit_code": f.ExitCode}}
		if !v.OK {
			v.Issues = issues(f)
		}
		return v, nil
	}
}

func issues(f command.Finding) (all []events.ArtifactIssue) {
	text := f.Stdout
	if strings.TrimSpace(text) == "" {
		text = f.Stderr
	}
	more := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case len(all) == maxIssues:
			more++
		default:
			all = append(all, events.ArtifactIssue{Message: line})
		}
	}
	if more > 0 {
		all = append(all, events.ArtifactIssue{Message: fmt.Sprintf("and %d more", more)})
	}
	if len(all) == 0 {
		all = []events.ArtifactIssue{{Message: fmt.Sprintf("the check ended with exit code %d and said nothing", f.ExitCode)}}
	}
	return all
}
