package runtime

import (
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/agents"
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
	bus, err := s.w.bus(s.disp, &s.agent)
	if err != nil {
		return nil, fmt.Errorf("group tools of run %s: %w", s.run.ID, err)
	}
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

// bus picks tools among those that d permits, of exactly the agent's tools, by
// its groups if it has any.
func (w *Worker) bus(d *tools.Dispatcher, a *agents.Agent) (*tools.Bus, error) {
	key := strings.Join(a.Tools, "\x00")
	if len(a.Groups) > 0 {
		key = a.Name + "\x00\x00" + key // groups are the agent's, and do not change while the worker runs
	}
	if b, ok := w.buses.Load(key); ok {
		return b.(*tools.Bus), nil
	}
	b := tools.BusOf(d, tools.BusConfig{Logger: w.log})
	if len(a.Groups) > 0 {
		var err error
		if b, err = w.group(w.registry(a), a.Groups, a.Tools, b.Names()); err != nil {
			return nil, err
		}
	}
	made, _ := w.buses.LoadOrStore(key, b)
	return made.(*tools.Bus), nil
}

// group is a bus of a bus for each group, and one without a name of the tools
// that are in none: no query can name that one. What is not permitted is in none.
func (w *Worker) group(reg *tools.Registry, groups []agents.Group, own, permitted []string) (*tools.Bus, error) {
	var members []tools.Member
	rest := slices.Clone(own)
	for _, g := range groups {
		bus, err := w.group(reg, g.Groups, g.Tools, permitted)
		if err != nil {
			return nil, err
		}
		all := toolsOf(g)
		rest = slices.DeleteFunc(rest, func(name string) bool { return slices.Contains(all, name) })
		members = append(members, tools.Member{Name: g.Name, Description: g.Description, Bus: bus})
	}
	rest = slices.DeleteFunc(rest, func(name string) bool { return !slices.Contains(permitted, name) })
	if len(rest) == 0 {
		rest = []string{""} // an empty list would allow every tool
	}
	cfg := tools.Config{Filters: append(slices.Clone(w.cfg.Dispatch.Filters), tools.Filter{Allow: rest})}
	plain := tools.BusOf(tools.NewDispatcher(reg, cfg), tools.BusConfig{AllowOverlap: true})
	if len(groups) == 0 {
		return plain, nil
	}
	members = append(members, tools.Member{Name: "_", Bus: plain})
	return tools.NewGroup(members, tools.GroupConfig{BusConfig: tools.BusConfig{Logger: w.log}})
}

// toolsOf are the tools of a group and of the groups in it.
func toolsOf(g agents.Group) []string {
	all := slices.Clone(g.Tools)
	for _, sub := range g.Groups {
		all = append(all, toolsOf(sub)...)
	}
	return all
}
