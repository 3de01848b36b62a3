package skill

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/daybookhq/daybook/agents/pathtrust"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
)

// Dir is a folder of skills, each in a folder of its own name. The zero value has
// none.
type Dir struct {
	Path string
	// Allowed says which files may be read; the zero value allows none.
	Allowed pathtrust.Policy
	// Trust says who can write them: that of each skill.
	Trust tools.Trust
}

// ErrNoSkill: there is no skill of that name.
var ErrNoSkill = errors.New("there is no such skill")

// Load reads one skill, and the files that it names as context. Errors: [ErrNoSkill];
// [pathtrust.ErrUntrusted] if it is there and may not be read, or its links lead out
// of what may be; the faults of [Parse]; those of reading.
func (d Dir) Load(name string) (*Skill, error) {
	if d.Path == "" || !events.ValidName(name) {
		return nil, fmt.Errorf("skill %q: %w", name, ErrNoSkill)
	}
	dir := filepath.Join(d.Path, name)
	path := filepath.Join(dir, FileName)
	b, err := d.Allowed.Read(path, MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("skill %q in %s: %w", name, d.Path, ErrNoSkill)
	case err != nil:
		return nil, fmt.Errorf("skill %q: %s: %w", name, path, err)
	}
	s, err := Parse(path, b, func(file string) ([]byte, error) { return d.Allowed.Read(filepath.Join(dir, file), MaxBytes) })
	switch {
	case err != nil:
		return nil, err
	case s.Name != name:
		return nil, &strictyaml.Fault{File: path, Field: "name", Message: fmt.Sprintf("want %q, the name of its folder, got %q", name, s.Name)}
	}
	s.Trust = d.Trust
	return s, nil
}

// Names are those of folders with a skill in them that may be read, sorted. What
// cannot be listed has none.
func (d Dir) Names() []string {
	if d.Path == "" || !d.Allowed.Trusts(d.Path) {
		return nil
	}
	folders, err := os.ReadDir(d.Path)
	if err != nil {
		return nil
	}
	var names []string
	for _, f := range folders {
		if events.ValidName(f.Name()) && d.Allowed.Trusts(filepath.Join(d.Path, f.Name(), FileName)) {
			names = append(names, f.Name())
		}
	}
	return names
}
