package main

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/agents/pathtrust"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/agents/promptfile"
	"github.com/daybookhq/daybook/agents/skill"
	"github.com/daybookhq/daybook/tools"
)

// promptFlags say what is put upon the agents' own texts.
type promptFlags struct {
	config, workspace, global string
	agentsMD, systemMD        string
	noAgentsMD, noSystemMD    bool
	system                    string
	trust                     []string
	skills                    []string
}

// add adds the flags; workspace is the default of --workspace.
func (p *promptFlags) add(f *pflag.FlagSet, workspace string) {
	f.StringVar(&p.config, "agents-config", "", "instead of --agents: directory with agents/NAME/AGENT.md and agents/SYSTEM.md; links that lead out of it are not read")
	f.StringVar(&p.system, "system", "", "text that comes before everything in each agent's prompt, also before its own text")
	f.StringVar(&p.workspace, "workspace", workspace, "directory with AGENTS.md, which is added to each agent's prompt if --trust says so; empty for none")
	f.StringSliceVar(&p.trust, "trust", nil, "directory whose AGENTS.md and skills may be read, links resolved (repeatable); default none")
	f.StringSliceVar(&p.skills, "skills", nil, "directory with NAME/SKILL.md, for agents that name such a skill and have none of their own; --trust must name it too (repeatable)")
	f.StringVar(&p.agentsMD, "agents-md-file", "", "file to read instead of the workspace's AGENTS.md; --trust holds for it too")
	f.BoolVar(&p.noAgentsMD, "no-agents-md", false, "leave AGENTS.md out")
	f.StringVar(&p.global, "global-root", "", "directory with "+promptfile.SystemMD+", which is added to each agent's prompt")
	f.StringVar(&p.systemMD, "system-md-file", "", "file to read instead of it")
	f.BoolVar(&p.noSystemMD, "no-system-md", false, "leave SYSTEM.md out")
}

// finder finds the skills that agents name: their own, then those of --skills, which
// are read only where --trust says so, and are no more trusted than what strangers
// write.
func (p *promptFlags) finder() (func(file, name string) (*skill.Skill, error), error) {
	trust, err := pathtrust.New(p.trust...)
	if err != nil {
		return nil, usagef("--trust: %w", err)
	}
	var dirs []skill.Dir
	for _, d := range p.skills {
		dirs = append(dirs, skill.Dir{Path: d, Allowed: trust, Trust: tools.External})
	}
	find := agents.SkillsOf(dirs...)
	return func(file, name string) (*skill.Skill, error) {
		s, err := find(file, name)
		if errors.Is(err, pathtrust.ErrUntrusted) {
			err = fmt.Errorf("%w: it may be read from the agent's own directory, or from one that --trust names, links resolved", err)
		}
		return s, err
	}, nil
}

// files reads the layers that all agents have.
func (p *promptFlags) files(log *slog.Logger) ([]prompt.Layer, error) {
	switch {
	case p.noAgentsMD && p.agentsMD != "":
		return nil, usagef("--no-agents-md and --agents-md-file exclude each other")
	case p.noSystemMD && p.systemMD != "":
		return nil, usagef("--no-system-md and --system-md-file exclude each other")
	}
	trust, err := pathtrust.New(p.trust...)
	if err != nil {
		return nil, usagef("--trust: %w", err)
	}
	f := promptfile.Files{Global: p.global, Workspace: p.workspace, SystemPath: p.systemMD, AgentsPath: p.agentsMD, Trust: trust}
	if p.noAgentsMD {
		f.Workspace = ""
	}
	if p.noSystemMD {
		f.Global = ""
	}
	loaded, err := f.Load()
	for _, path := range loaded.Untrusted {
		log.Info("not read: its directory is not trusted; name it with --trust if it may be part of prompts", "file", path)
	}
	return loaded.Layers, err
}

// agentsOf is the folder that the agents of --agents-config are in.
func (p *promptFlags) agentsOf() string { return filepath.Join(p.config, "agents") }

// apply puts the layers upon an agent. One of --agents-config is a bundle: its own
// text is a layer too, as is everybody's where there is a text below it.
func (p *promptFlags) apply(a *agents.Agent, all []prompt.Layer) error {
	a.Layers = slices.Clone(all)
	own := prompt.Layer{ID: promptfile.AgentID, Source: prompt.Package, Mode: prompt.Append, Text: a.Prompt}
	switch dir := filepath.Dir(a.Path); {
	case p.config != "" && dir == p.agentsOf():
		return usagef("--agents-config: want it in a folder of its own, %s", filepath.Join(dir, a.Name, agents.FileName))
	case p.config != "" && filepath.Dir(dir) == p.agentsOf():
		trust, err := pathtrust.New(p.config)
		if err != nil {
			return usagef("--agents-config: %w", err)
		}
		loaded, err := promptfile.Bundle{Name: filepath.Base(dir), Config: p.config, ConfigTrust: trust}.Load()
		if err != nil {
			return err
		}
		if len(loaded.Untrusted) > 0 {
			return usagef("--agents-config: %s leads out of %s: put the file itself there", loaded.Untrusted[0], p.config)
		}
		a.Layers = append(a.Layers, loaded.Layers...)
		a.Prompt = p.system
	case p.system != "":
		a.Layers = append(a.Layers, own)
		a.Prompt = p.system
	}
	_, err := prompt.Compose(a.Prompt, a.Layers...)
	return err
}
