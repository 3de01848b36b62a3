package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/loops"
)

// checkLoop says what is wrong with the loop and the options that something
// selects, and what it needs of the host's code that this worker does not have.
func (w *Worker) checkLoop(name string, options json.RawMessage) (loops.Loop, loops.Needs, error) {
	l, ok := w.loops[name]
	if !ok {
		return nil, loops.Needs{}, fmt.Errorf("there is no loop %q; this worker has %s", name, strings.Join(slices.Sorted(maps.Keys(w.loops)), ", "))
	}
	needs, err := loops.CheckOptions(l, options)
	if err != nil {
		return nil, needs, fmt.Errorf("options of loop %s: %w", name, err)
	}
	if lacks := w.host.Lacks(needs); len(lacks) > 0 {
		return nil, needs, fmt.Errorf("loop %s wants the %s, which this worker does not have", name, strings.Join(lacks, " and the "))
	}
	return l, needs, nil
}

// errSelection is a loop that a submission chose and that cannot be had.
var errSelection = errors.New("the loop that the submission chose cannot be had")

// selection is what a new run works by: what its submission chose, else what its
// agent says.
func (s *session) selection(a agents.Agent) (loops.Selection, error) {
	if len(s.run.Loop) == 0 {
		return loops.Selection{Strategy: a.Loop, Options: a.LoopOptions}, nil
	}
	var sel loops.Selection
	if err := json.Unmarshal(s.run.Loop, &sel); err != nil {
		return sel, fmt.Errorf("%w: %w", errSelection, err)
	}
	if _, _, err := s.w.checkLoop(sel.Strategy, sel.Options); err != nil {
		return sel, fmt.Errorf("%w: %w", errSelection, err)
	}
	return sel, nil
}
