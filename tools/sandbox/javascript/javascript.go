// Package javascript runs JavaScript with goja in a process of its own. An
// interpreter inside the worker could be interrupted, but not while it is in one
// long built-in operation, and its memory has no bound: "a".repeat(2**30) would
// take the worker with it. A child is killed. Programs have console.log,
// console.error and print, and nothing of the host: no files, no network, no modules.
package javascript

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/daybookhq/daybook/tools/internal/process"
	"github.com/daybookhq/daybook/tools/sandbox"
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
}

// Sandbox is a [sandbox.Sandbox].
type Sandbox struct{ cfg Config }

// New returns a sandbox; without a Command it is an error.
func New(cfg Config) (*Sandbox, error) {
	if len(cfg.Command) == 0 {
		return nil, errors.New("javascript.New: name the program that calls javascript.Serve")
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.MaxMemory <= 0 {
		cfg.MaxMemory = 64 << 20
	}
	if cfg.MaxOutput <= 0 {
		cfg.MaxOutput = 16 << 10
	}
	return &Sandbox{cfg: cfg}, nil
}

// order is what a child is told, answer what it says.
type order struct {
	Code      string        `json:"code"`
	Timeout   time.Duration `json:"timeout"`
	MaxMemory int           `json:"max_memory"`
	MaxOutput int           `json:"max_output"`
}

type answer struct {
	OK     bool   `json:"ok"`
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}

// startAndEnd is what a child may take beyond its program's time: to start, and
// to say what came of it.
const startAndEnd = 5 * time.Second

// Execute implements [sandbox.Sandbox].
func (s *Sandbox) Execute(ctx context.Context, p sandbox.Program) (sandbox.Output, error) {
	if ctx.Err() != nil {
		return sandbox.Output{}, context.Cause(ctx)
	}
	limit := s.cfg.Timeout
	if p.Timeout > 0 {
		limit = min(limit, p.Timeout)
	}
	in, err := json.Marshal(order{p.Code, limit, s.cfg.MaxMemory, s.cfg.MaxOutput})
	if err != nil {
		return sandbox.Output{}, err
	}
	inner, cancel := context.WithTimeout(ctx, limit+startAndEnd)
	defer cancel()
	c := exec.CommandContext(inner, s.cfg.Command[0], s.cfg.Command[1:]...)
	c.Env = []string{}
	// JSON may take six bytes for one.
	stdout, stderr := &sandbox.Buffer{Max: 16*s.cfg.MaxOutput + 4096}, &sandbox.Buffer{Max: 4096}
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(in), stdout, stderr
	err = process.Run(c)
	if ctx.Err() != nil {
		return sandbox.Output{}, context.Cause(ctx)
	}
	var exit *exec.ExitError
	switch {
	case inner.Err() != nil:
		return sandbox.Output{Stderr: fmt.Sprintf("stopped after %v: time is up\n", limit)}, nil
	case errors.As(err, &exit) && (exit.ExitCode() == exitMemory || memoryEnded(stderr.String())):
		return sandbox.Output{Stderr: "stopped: the program took too much memory\n"}, nil
	case err != nil:
		return sandbox.Output{}, fmt.Errorf("javascript: run %s: %w: %s", s.cfg.Command[0], err, stderr)
	}
	var a answer
	if err := json.Unmarshal([]byte(stdout.String()), &a); err != nil {
		return sandbox.Output{}, fmt.Errorf("javascript: the answer of %s: %w; does it call javascript.Serve?", s.cfg.Command[0], err)
	}
	return sandbox.Output{OK: a.OK, Stdout: a.Stdout, Stderr: a.Stderr}, nil
}

// exitMemory is what a child exits with that is above its limit.
const exitMemory = 90

// memoryEnded reports whether Go, or its race detector, said that the kernel
// gave it no more; nothing but their last words tells that from another crash.
func memoryEnded(last string) bool {
	for _, words := range []string{"out of memory", "cannot allocate memory", "failed to allocate", "stack exceeds"} {
		if strings.Contains(last, words) {
			return true
		}
	}
	return false
}
