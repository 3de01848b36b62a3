package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/loops/revise"
)

// maxFaults is how many faults of an input are told at once.
const maxFaults = 10

// checkInput holds an input against the schema that the agent's file in dir states, and
// says what does not fit and where. An agent that states none takes anything.
func checkInput(ctx context.Context, dir, agent, flag string, input json.RawMessage) error {
	as, err := agents.LoadDir(dir)
	if err != nil {
		return usagef("--agents: %w", err)
	}
	i := slices.IndexFunc(as, func(a *agents.Agent) bool { return a.Name == agent })
	if i < 0 {
		var names []string
		for _, a := range as {
			names = append(names, a.Name)
		}
		return usagef("--agents %s has no agent %q; it has %s", dir, agent, strings.Join(names, ", "))
	}
	a := as[i]
	if len(a.Input) == 0 {
		return nil
	}
	check, err := revise.Schema(a.Input)
	if err != nil {
		return usagef("%s: input: %w", a.Path, err)
	}
	v, err := check(ctx, revise.Context{}, input)
	if err != nil {
		return fmt.Errorf("check the input against %s: %w", a.Path, err)
	}
	if v.OK {
		return nil
	}
	what := "--input"
	switch {
	case flag == "-":
		what = "standard input"
	case strings.HasPrefix(flag, "@"):
		what = flag[1:]
	}
	faults := []error{fmt.Errorf("nothing was queued: %s is not what %s says that agent %q takes (input)", what, a.Path, agent)}
	for n, issue := range v.Issues {
		if n == maxFaults {
			faults = append(faults, fmt.Errorf("  and %d more", len(v.Issues)-n))
			break
		}
		at := issue.Path
		if at == "" {
			at = "/"
		}
		faults = append(faults, fmt.Errorf("  %s: %s", at, issue.Message))
	}
	return usageError{errors.Join(faults...)}
}
