// Package promptfile reads prompt layers out of files at fixed places: SYSTEM.md of
// whoever runs the process, AGENTS.md of a workspace, and the bundle of an agent. It
// looks into no folder and never further up than it was told.
package promptfile

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/daybookhq/daybook/agents/pathtrust"
	"github.com/daybookhq/daybook/agents/prompt"
)

// Where files are, below the folders that [Files] and [Bundle] name.
const (
	AgentsMD = "AGENTS.md"
	SystemMD = ".daybook/agent/SYSTEM.md"
)

// IDs of the layers.
const (
	SystemID = "system-md"
	AgentID  = "agent-md"
	AgentsID = "agents-md"
)

// Files says which prompt files there are. The zero value names none.
type Files struct {
	Global    string // folder with [SystemMD]; empty = none
	Workspace string // folder with [AgentsMD]; empty = none
	// SystemPath and AgentsPath are read instead, if they are set. What the files are
	// and whether they are trusted is the same there.
	SystemPath, AgentsPath string
	// Trust is of AGENTS.md, which may be anybody's; the zero value trusts none.
	// SYSTEM.md belongs to whoever runs the process, and needs no trust.
	Trust pathtrust.Policy
	// Permit is asked before each file is read, with its path; its error ends the
	// loading. Nil permits.
	Permit func(path string) error
}

// Loaded is what was read.
type Loaded struct {
	// Layers: those of SYSTEM.md, AGENT.md and AGENTS.md, in this order.
	Layers []prompt.Layer
	// Untrusted are the paths that were there and gave no layer, since no policy
	// trusts them.
	Untrusted []string
}

// Load reads SYSTEM.md (source [prompt.User]) and AGENTS.md ([prompt.App]), two
// files at most. One that isn't there, or is not trusted, gives no layer and no
// error. Errors name the path: what can't be read, is no text, or is too long.
func (f Files) Load() (Loaded, error) {
	r := reader{permit: f.Permit}
	r.read(SystemID, prompt.User, either(f.SystemPath, f.Global, SystemMD), pathtrust.Read, nil)
	r.read(AgentsID, prompt.App, either(f.AgentsPath, f.Workspace, AgentsMD), f.Trust.Read, nil)
	return r.result()
}

// either is path, else name in the folder dir, else nothing.
func either(path, dir, name string) string {
	if path == "" && dir != "" {
		return filepath.Join(dir, filepath.FromSlash(name))
	}
	return path
}

// reader reads one file after the other, until one has a fault.
type reader struct {
	permit func(path string) error
	loaded Loaded
	err    error
}

// read adds the layer of a file. part takes it out of the text; nil is all of it.
func (r *reader) read(id string, source prompt.Source, path string, read func(string, int) ([]byte, error), part func(path string, text string) (string, error)) {
	if r.err != nil || path == "" {
		return
	}
	text, err := r.text(path, read)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case errors.Is(err, pathtrust.ErrUntrusted):
		r.loaded.Untrusted = append(r.loaded.Untrusted, path)
		return
	case err == nil && part != nil:
		text, err = part(path, text)
	}
	if err != nil {
		r.err = fmt.Errorf("prompt file %q: %w", path, err)
		return
	}
	r.loaded.Layers = append(r.loaded.Layers, prompt.Layer{ID: id, Source: source, Mode: prompt.Append, Text: text})
}

func (r *reader) text(path string, read func(string, int) ([]byte, error)) (string, error) {
	if r.permit != nil {
		if err := r.permit(path); err != nil {
			return "", denied{err}
		}
	}
	b, err := read(path, prompt.MaxBytes)
	if err != nil {
		return "", err
	}
	return prompt.Text(b)
}

// denied keeps a refusal from being taken for a file that isn't there, whatever
// error the host gave for it.
type denied struct{ error }

func (d denied) Error() string { return "it may not be read: " + d.error.Error() }

func (r *reader) result() (Loaded, error) {
	if r.err != nil {
		return Loaded{}, r.err
	}
	return r.loaded, nil
}
