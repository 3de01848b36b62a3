//go:build unix

package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// Check is a program of the host's that says by its exit code whether what it
// reads from its standard input is good. It is executed as it is, by no shell, in
// the environment that commands of the tool get. What it is given is data: no part
// of it becomes an argument. Safe for concurrent use. Unix only.
type Check struct {
	// Program is its file, absolute, or a name that [NewCheck] looks up in the host's
	// PATH.
	Program string
	Args    []string
	// Dir is where it runs, and its home: a directory that is there, absolute. Empty
	// means the system's directory for temporary files.
	Dir string
	// Env is added to the environment, as "NAME=value". Nothing comes from the
	// host's own.
	Env []string
	// Timeout bounds it. Zero means 30 seconds.
	Timeout time.Duration
	// MaxOutput bounds what is kept of each of its outputs, in bytes, from their
	// beginning. Zero means 16 KiB.
	MaxOutput int

	env []string
}

// NewCheck looks the program up.
func NewCheck(c Check) (*Check, error) {
	if c.Dir == "" {
		c.Dir = os.TempDir()
	}
	if s, err := os.Stat(c.Dir); err != nil || !s.IsDir() || !filepath.IsAbs(c.Dir) {
		return nil, fmt.Errorf("command.NewCheck: the directory is %q, want an absolute one that is there", c.Dir)
	}
	if c.Program == "" {
		return nil, errors.New("command.NewCheck: name a program")
	}
	path, err := exec.LookPath(c.Program)
	if err != nil {
		return nil, fmt.Errorf("command.NewCheck: look up %s: %w", c.Program, err)
	}
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("command.NewCheck: %s is %s, want an absolute path: what a relative one is depends on who starts the worker", c.Program, path)
	}
	c.Program, c.Args = path, slices.Clone(c.Args)
	if c.Timeout <= 0 {
		c.Timeout = 30 * time.Second
	}
	if c.MaxOutput <= 0 {
		c.MaxOutput = 16 << 10
	}
	c.env = environment(c.Dir, c.Env)
	return &c, nil
}

// Finding is how a check ended.
type Finding struct {
	// ExitCode is 0 for good.
	ExitCode int
	// Stdout and Stderr are valid UTF-8; Cut says that one of them is not whole.
	Stdout, Stderr string
	Cut            bool
}

// Run executes the check. An error means that nothing was found: it could not be
// started, took too long, was killed, or ctx ended.
func (c *Check) Run(ctx context.Context, stdin []byte) (Finding, error) {
	name := filepath.Base(c.Program)
	if stdin == nil {
		stdin = []byte{}
	}
	r, err := job{name, c.Program, append([]string{c.Program}, c.Args...), c.Dir, c.env, stdin, c.Timeout, c.MaxOutput}.run(ctx)
	switch {
	case err != nil:
		return Finding{}, err
	case r.Signal != "":
		return Finding{}, fmt.Errorf("%s was ended by the signal %q", name, r.Signal)
	}
	return Finding{ExitCode: r.ExitCode, Stdout: r.Stdout, Stderr: r.Stderr, Cut: r.Cut}, nil
}
