package main

import (
	"os"
	"path/filepath"
)

// newDir makes a directory for a command that keeps its provider's books in it.
// One that something else is in is refused: an earlier log would count too.
func newDir(command, dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "daybook-"+command+"-")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", usagef("--data: %w: give a directory that can be written to", err)
	}
	there, err := os.ReadDir(dir)
	switch {
	case err != nil:
		return "", usagef("--data: %w", err)
	case len(there) > 0:
		return "", usagef("--data %s is not empty (%s): %s needs a directory of its own; give a new one, or remove this one", dir, there[0].Name(), command)
	}
	probe, err := os.CreateTemp(dir, "probe-")
	if err != nil {
		return "", usagef("--data: %w: give a directory that can be written to", err)
	}
	_ = probe.Close() // nothing was written
	return dir, os.Remove(probe.Name())
}
