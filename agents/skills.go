package agents

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/daybookhq/daybook/agents/pathtrust"
	"github.com/daybookhq/daybook/agents/skill"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
)

// Skill is a skill of an agent. An active one is part of the prompt of every run;
// the others a run may load, or be submitted with.
type Skill struct {
	*skill.Skill
	Active bool
}

// LoadSkill is the tool with which a model loads a skill. An agent with skills that
// can be loaded has it.
const LoadSkill = "load_skill"

// SkillsDir is the folder beside an agent's file that its own skills are in.
const SkillsDir = "skills"

// maxSkills bounds what an agent has: run_started names each.
const maxSkills = 32

// OwnSkills finds skills in the folder [SkillsDir] beside an agent's file. They are
// part of the agent, so their text is as trusted as its own; a link that leads out of
// the agent's folder is not followed.
func OwnSkills(file, name string) (*skill.Skill, error) {
	dir, err := ownDir(file)
	if err != nil {
		return nil, err
	}
	return dir.Load(name)
}

func ownDir(file string) (skill.Dir, error) {
	home := filepath.Dir(file)
	policy, err := pathtrust.New(home)
	return skill.Dir{Path: filepath.Join(home, SkillsDir), Allowed: policy, Trust: tools.Own}, err
}

// SkillsOf finds an agent's own skills, then those of dirs, in their order.
func SkillsOf(dirs ...skill.Dir) func(file, name string) (*skill.Skill, error) {
	return func(file, name string) (*skill.Skill, error) {
		own, err := ownDir(file)
		if err != nil {
			return nil, err
		}
		var known []string
		for _, d := range append([]skill.Dir{own}, dirs...) {
			s, err := d.Load(name)
			if !errors.Is(err, skill.ErrNoSkill) {
				return s, err
			}
			known = append(known, d.Names()...)
		}
		if len(known) == 0 {
			return nil, fmt.Errorf("%w %q: put it into %s", skill.ErrNoSkill, name, filepath.Join(own.Path, name, skill.FileName))
		}
		return nil, fmt.Errorf("%w %q; %s", skill.ErrNoSkill, name, choice(name, known))
	}
}

// readSkills reads the skills of an agent whose tools are known.
func (l Loader) readSkills(m *strictyaml.Map, a *Agent, file string) {
	find := l.Skills
	if find == nil {
		find = SkillsOf()
	}
	if !m.IsMap("skills") {
		l.addSkills(m, "skills", a, false, func(name string) (*skill.Skill, error) { return find(file, name) })
	} else if sm := m.Map("skills"); sm != nil {
		for _, field := range []string{"active", "available"} {
			l.addSkills(sm, field, a, field == "active", func(name string) (*skill.Skill, error) { return find(file, name) })
		}
		sm.Done("skills")
	}
	if len(a.Skills) > maxSkills {
		m.Fault("skills", "there are %d, at most %d", len(a.Skills), maxSkills)
	}
	loadable := slices.ContainsFunc(a.Skills, func(s Skill) bool { return !s.Active && !s.Chosen })
	switch {
	case !loadable || slices.Contains(a.Tools, LoadSkill):
	case l.Tools != nil && !slices.Contains(l.Tools, LoadSkill):
		m.Fault("skills", "they are loaded with tool %s, which this process does not have", LoadSkill)
	default:
		a.Tools = append(a.Tools, LoadSkill)
	}
}

// addSkills adds those that a field lists.
func (l Loader) addSkills(m *strictyaml.Map, field string, a *Agent, active bool, find func(name string) (*skill.Skill, error)) {
	for _, name := range m.Texts(field) {
		if slices.ContainsFunc(a.Skills, func(s Skill) bool { return s.Name == name }) {
			m.Fault(field, "%q is written twice; keep one", name)
			continue
		}
		s, err := find(name)
		if err != nil {
			m.Fault(field, "%v", err)
			continue
		}
		if active {
			for _, tool := range s.Missing(func(name string) bool { return slices.Contains(a.Tools, name) }) {
				m.Fault(field, "skill %q needs tool %q, which is none of the agent's: a skill grants none; write it into tools", name, tool)
			}
		}
		a.Skills = append(a.Skills, Skill{s, active})
	}
}
