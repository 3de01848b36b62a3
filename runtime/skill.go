package runtime

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
)

// Kinds of errors that end a run before its first turn. Stored; never renamed.
const (
	kindLoopSelection   = "loop_selection"
	kindPrompt          = "prompt"           // what the submission says makes no prompt
	kindSkillSelection  = "skill_selection"  // the submission chose a skill that the agent does not have
	kindSkillDependency = "skill_dependency" // an active skill needs a tool that the run does not have
)

// Layers of skills: the list of those that can be loaded, and each active one.
const (
	skillList   = "skills"
	skillPrefix = "skill/"
)

// active are the agent's skills that are part of the prompt, in the agent's order.
func active(a *agents.Agent, chosen []string) []agents.Skill {
	var all []agents.Skill
	for _, sk := range a.Skills {
		if sk.Active || slices.Contains(chosen, sk.Name) {
			all = append(all, sk)
		}
	}
	return all
}

// loadable are those that a model may load.
func loadable(a *agents.Agent, chosen []string) []agents.Skill {
	var all []agents.Skill
	for _, sk := range a.Skills {
		if !sk.Active && !sk.Chosen && !slices.Contains(chosen, sk.Name) {
			all = append(all, sk)
		}
	}
	return all
}

// skillLayers are the layers of an agent's skills.
func skillLayers(a *agents.Agent, chosen []string) []prompt.Layer {
	var layers []prompt.Layer
	if ls := loadable(a, chosen); len(ls) > 0 {
		var b strings.Builder
		fmt.Fprintf(&b, "Skills that you can load with %s, each for what it says. Load one before you do what it is for.\n", agents.LoadSkill)
		for _, sk := range ls {
			fmt.Fprintf(&b, "\n- %s", sk.Name)
			if sk.Trust == tools.Own { // what strangers wrote comes in by a call, which taints
				fmt.Fprintf(&b, ": %s", sk.Description)
			}
		}
		layers = append(layers, prompt.Layer{ID: skillList, Source: prompt.Skill, Text: b.String()})
	}
	for _, sk := range active(a, chosen) {
		layers = append(layers, prompt.Layer{ID: skillPrefix + sk.Name, Source: prompt.Skill, Text: sk.Text()})
	}
	return layers
}

// asks is what the run's submission says about its prompt, or of what kind of error
// that, or the agent's skills, are for this run.
func (s *session) asks(a agents.Agent) (in asked, kind string, err error) {
	if in, err = s.submitted(); err != nil {
		return in, kindPrompt, err
	}
	if kind, err = s.checkSkills(&a, in.Skills); err != nil {
		return in, kind, err
	}
	if _, err = compose(&a, in); err != nil {
		return in, kindPrompt, err
	}
	return in, "", nil
}

// checkSkills says why a run cannot begin with the skills that are active, and of
// what kind that is. A skill never brings a tool along: what it needs
// must be among those that the run has without it.
func (s *session) checkSkills(a *agents.Agent, chosen []string) (kind string, err error) {
	for _, name := range chosen {
		if !slices.ContainsFunc(a.Skills, func(sk agents.Skill) bool { return sk.Name == name }) {
			return kindSkillSelection, fmt.Errorf("the submission chose skill %q, which agent %q does not have; it has %s", name, a.Name, named(a.Skills))
		}
	}
	for _, sk := range active(a, chosen) {
		if lacks := sk.Missing(s.has()); len(lacks) > 0 {
			return kindSkillDependency, fmt.Errorf("skill %q needs %s, which the run does not have: a skill grants no tool, the agent must have it", sk.Name, strings.Join(lacks, ", "))
		}
	}
	return "", nil
}

// checkSkills finds what an agent could never be given. What an active skill needs is
// checked as each run begins.
func checkSkills(a *agents.Agent) (errs []error) {
	for i, sk := range a.Skills {
		switch {
		case sk.Skill == nil:
			errs = append(errs, fmt.Errorf("agent %q has a skill that was not loaded", a.Name))
			return errs // its fields cannot be asked for
		case slices.ContainsFunc(a.Skills[:i], func(o agents.Skill) bool { return o.Name == sk.Name }):
			errs = append(errs, fmt.Errorf("agent %q has skill %q twice", a.Name, sk.Name))
		}
	}
	if len(loadable(a, nil)) > 0 && !slices.Contains(a.Tools, agents.LoadSkill) {
		errs = append(errs, fmt.Errorf("agent %q has skills to load and not the tool %s: give it builtin.LoadSkill", a.Name, agents.LoadSkill))
	}
	return errs
}

// has reports whether the run has a tool that it may call.
func (s *session) has() func(tool string) bool {
	bound := s.disp.Bindings()
	return func(tool string) bool {
		return slices.ContainsFunc(bound, func(b events.ToolBinding) bool { return b.Name == tool })
	}
}

func named(all []agents.Skill) string {
	var names []string
	for _, sk := range all {
		names = append(names, sk.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// freezeSkills is what run_started says of the skills. The text of one that can be
// loaded is stored, so that whoever goes on reads the same; that of an active one
// stands in the prompt.
func (s *session) freezeSkills(ctx context.Context, a *agents.Agent, chosen []string) ([]events.Skill, error) {
	var all []events.Skill
	for _, sk := range active(a, chosen) {
		by := "agent"
		if !sk.Active {
			by = "run"
		}
		all = append(all, events.Skill{Name: sk.Name, Digest: sha256.Sum256([]byte(s.red.String(sk.Text()))), Active: by, Trust: string(sk.Trust), Tools: sk.Needs()})
	}
	for _, sk := range loadable(a, chosen) {
		text, err := s.putBlob(ctx, "text/markdown", []byte(s.red.String(sk.Text())))
		if err != nil {
			return nil, err
		}
		all = append(all, events.Skill{Name: sk.Name, Digest: text, Trust: string(sk.Trust), Tools: sk.Needs()})
	}
	return all, nil
}

// sessionSkills are the skills that the run was bound to, for its tools.
type sessionSkills struct{ s *session }

// Skill implements [tools.Skills].
func (k sessionSkills) Skill(ctx context.Context, name string) (tools.SkillText, error) {
	s := k.s
	s.mu.Lock()
	bound := s.hist.Started().Skills
	s.mu.Unlock()
	i := slices.IndexFunc(bound, func(sk events.Skill) bool { return sk.Name == name })
	if i < 0 {
		var names []string
		for _, sk := range bound {
			if sk.Active == "" {
				names = append(names, sk.Name)
			}
		}
		if len(names) == 0 {
			return tools.SkillText{}, fmt.Errorf("there is no skill %q: there are none to load", name)
		}
		return tools.SkillText{}, fmt.Errorf("there is no skill %q: there are %s", name, strings.Join(names, ", "))
	}
	sk := bound[i]
	if sk.Active != "" {
		return tools.SkillText{}, fmt.Errorf("skill %q is active: its instructions stand in what you were told at the beginning", name)
	}
	has := s.has()
	var lacks []string
	for _, needed := range sk.Tools {
		if name, _, _ := strings.Cut(needed, "("); !has(name) {
			lacks = append(lacks, name)
		}
	}
	if len(lacks) > 0 {
		return tools.SkillText{}, fmt.Errorf("skill %q needs %s, which you do not have: do without the skill", name, strings.Join(lacks, ", "))
	}
	text, err := s.blob(ctx, sk.Digest)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return tools.SkillText{}, fmt.Errorf("read skill %q: %w", name, err)
	}
	return tools.SkillText{Text: string(text), Trust: tools.Trust(sk.Trust)}, nil
}
