//go:build unix

// Package javascript runs JavaScript with goja in a process of its own. An
// interpreter inside the worker could be interrupted, but not while it is in one
// long built-in operation, and its memory has no bound: "a".repeat(2**30) would
// take the worker with it. A child is confined, and killed. Programs have console.log,
// console.error and print, and nothing of the host: no files, no network, no modules.
package javascript

import (
	"context"
	"time"

	"github.com/daybookhq/daybook/tools/sandbox"
	"github.com/daybookhq/daybook/tools/sandbox/internal/child"
)

// Config is what programs may use. All fields but Command have defaults.
type Config struct {
	// Command is the program, and its arguments, that calls [Serve] and nothing
	// else. It gets an empty environment.
	Command []string
	// Timeout bounds a program. Zero means 10 seconds.
	Timeout time.Duration
	// MaxMemory bounds a program's memory, in bytes. Zero means 64 MiB. It is looked
	// at every few milliseconds; one operation may go above it up to what the
	// kernel allows: three times as much and 256 MiB, on Linux.
	MaxMemory int
	// MaxOutput bounds what is kept of each of its outputs, in bytes. Zero means 16 KiB.
	MaxOutput int
	// Parallel bounds the children that are there at a time; further programs
	// wait. Zero means 4.
	Parallel int
}

// Sandbox is a [sandbox.Sandbox].
type Sandbox struct{ host *child.Host }

// New returns a sandbox; without a Command it is an error.
func New(cfg Config) (*Sandbox, error) {
	h, err := child.New(child.Config{
		Name: "javascript", Command: cfg.Command, Timeout: cfg.Timeout, MaxMemory: cfg.MaxMemory, MaxOutput: cfg.MaxOutput, Parallel: cfg.Parallel,
	})
	if err != nil {
		return nil, err
	}
	return &Sandbox{h}, nil
}

// Execute implements [sandbox.Sandbox].
func (s *Sandbox) Execute(ctx context.Context, p sandbox.Program) (sandbox.Output, error) {
	return s.host.Execute(ctx, p, nil)
}
