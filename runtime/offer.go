package runtime

import (
	"fmt"
	"slices"

	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/tools"
)

// specs are the tools that the next model call is shown: all of the agent's, or
// as many as it selects. What was shown before is taken from the history and not
// selected again, so that whoever resumes shows the same, and a cached prompt
// holds until somebody says something new.
func (s *session) specs(messages []model.Message) ([]tools.Spec, error) {
	if s.agent.Select <= 0 {
		return s.disp.Specs(), nil
	}
	bus := s.w.bus(s.disp, s.agent.Tools)
	names, current := s.offered()
	if current {
		gone := bus.Missing(names)
		names = slices.DeleteFunc(append([]string{}, names...), func(name string) bool { return slices.Contains(gone, name) })
	} else {
		names = bus.Select(about(messages), s.agent.Select)
	}
	specs, err := bus.Declarations(names)
	if err != nil {
		return nil, fmt.Errorf("select tools of run %s: %w", s.run.ID, err)
	}
	return specs, nil
}

func (s *session) offered() (names []string, current bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hist.Offered()
}

// about is what a conversation is about: the last thing that a user said, and
// what the run was asked for.
func about(messages []model.Message) string {
	last, first := "", ""
	for _, m := range messages {
		if m.Role != model.User {
			continue
		}
		if first == "" {
			first = m.Text
		}
		last = m.Text
	}
	if last == first {
		return last
	}
	return last + "\n" + first
}
