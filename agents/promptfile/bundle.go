package promptfile

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/agents/pathtrust"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/events"
)

// Bundle is the prompt files of one agent: SYSTEM.md that all agents of a
// configuration share, the agent's own AGENT.md, and AGENTS.md of a workspace.
type Bundle struct {
	Name string // of the agent, and of its folder
	// Config is a folder with agents/SYSTEM.md and agents/NAME/AGENT.md; Workspace one
	// with AGENTS.md. Empty = none.
	Config, Workspace string
	// Trust in the two folders is given apart; the zero value trusts nothing.
	ConfigTrust, WorkspaceTrust pathtrust.Policy
	// Leave names the files to leave out by the IDs of their layers.
	Leave []string
	// Permit is that of [Files].
	Permit func(path string) error
}

// Load reads the layers of the bundle, three files at most: SYSTEM.md (source
// [prompt.User]), what stands below the front matter of AGENT.md ([prompt.Package]),
// and AGENTS.md ([prompt.App]). Missing and untrusted files are as in [Files.Load].
func (b Bundle) Load() (Loaded, error) {
	if b.Config != "" && !events.ValidName(b.Name) {
		return Loaded{}, fmt.Errorf("bundle of agent %q: want as name 1 to 64 letters, digits, \"_\" and \"-\"", b.Name)
	}
	for _, id := range b.Leave {
		if id != SystemID && id != AgentID && id != AgentsID {
			return Loaded{}, fmt.Errorf("bundle of agent %q: leave %q out: want %s, %s or %s", b.Name, id, SystemID, AgentID, AgentsID)
		}
	}
	r := reader{permit: b.Permit}
	for _, f := range []struct {
		id     string
		source prompt.Source
		dir    string
		path   string
		trust  pathtrust.Policy
		part   func(string, string) (string, error)
	}{
		{SystemID, prompt.User, b.Config, "agents/SYSTEM.md", b.ConfigTrust, nil},
		{AgentID, prompt.Package, b.Config, "agents/" + b.Name + "/" + agents.FileName, b.ConfigTrust, func(path, text string) (string, error) {
			return agents.Body(filepath.Base(path), []byte(text))
		}},
		{AgentsID, prompt.App, b.Workspace, AgentsMD, b.WorkspaceTrust, nil},
	} {
		if !slices.Contains(b.Leave, f.id) {
			r.read(f.id, f.source, either("", f.dir, f.path), f.trust.Read, f.part)
		}
	}
	return r.result()
}
