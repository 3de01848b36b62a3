//go:build unix

// Package child is what sandboxes share that run each program in a confined
// process of its own: limits, what is said to the child, and what becomes of a
// child that is stopped.
package child

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/tools/internal/confined"
	"github.com/daybookhq/daybook/tools/sandbox"
)

// Config bounds programs. Zero fields have defaults.
type Config struct {
	Name      string // of the sandbox, in errors
	Command   []string
	Timeout   time.Duration // 10 seconds
	MaxMemory int           // bytes; 64 MiB
	MaxOutput int           // bytes of each output; 16 KiB
	Parallel  int           // children at a time; 4
}

// Host is the worker's side. Safe for concurrent use.
type Host struct {
	cfg     Config
	program *confined.Program
}

// New checks a configuration; without a Command it is an error.
func New(c Config) (*Host, error) {
	if len(c.Command) == 0 {
		return nil, fmt.Errorf("%s.New: name the program that calls %s.Serve", c.Name, c.Name)
	}
	if c.Timeout <= 0 {
		c.Timeout = 10 * time.Second
	}
	if c.MaxMemory <= 0 {
		c.MaxMemory = 64 << 20
	}
	if c.MaxOutput <= 0 {
		c.MaxOutput = 16 << 10
	}
	if c.Parallel <= 0 {
		c.Parallel = 4
	}
	p, err := confined.New(c.Command, c.Parallel)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	return &Host{c, p}, nil
}

// Order is what a child is told; its code follows.
type Order struct {
	Timeout   time.Duration `json:"timeout"`
	MaxMemory int           `json:"max_memory"`
	MaxOutput int           `json:"max_output"`

	// Of a language runtime that the host supplies, if there is one.
	Language *Language `json:"language,omitempty"`
	Code     []byte    `json:"-"`
}

// Language is a trusted interpreter.
type Language struct {
	Args  []string `json:"args"`
	Cache string   `json:"cache"` // a directory; may be empty
	Size  int      `json:"size"`  // bytes of its module, which stands before the code
	// Check has it prepared, and no program run.
	Check  bool   `json:"check"`
	Module []byte `json:"-"`
}

// answer is what a child says. Problem is why no program could be run.
type answer struct {
	OK      bool   `json:"ok"`
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr"`
	Problem string `json:"problem,omitempty"`
}

const (
	// startAndEnd is what a child may take beyond its program's time: to start,
	// and to say what came of it.
	startAndEnd = 5 * time.Second
	// prepareTime is what a child may take to prepare a language runtime.
	prepareTime = 2 * time.Minute
)

// Execute runs a program in a child, as [sandbox.Sandbox] says.
func (h *Host) Execute(ctx context.Context, p sandbox.Program, lang *Language) (sandbox.Output, error) {
	if ctx.Err() != nil {
		return sandbox.Output{}, context.Cause(ctx)
	}
	o := Order{Timeout: h.cfg.Timeout, MaxMemory: h.cfg.MaxMemory, MaxOutput: h.cfg.MaxOutput, Language: lang}
	if p.Timeout > 0 {
		o.Timeout = min(o.Timeout, p.Timeout)
	}
	body, wall := []byte(p.Code), o.Timeout+startAndEnd
	if lang != nil {
		body = append(append(make([]byte, 0, len(lang.Module)+len(body)), lang.Module...), body...)
		wall += prepareTime
	}
	var a answer
	err := h.program.Do(ctx, confined.Order{
		Head: o, Body: body, Time: wall, MaxAnswer: 12*int64(h.cfg.MaxOutput) + 32<<10, // JSON may take six bytes for one
	}, &a)
	switch {
	case err == nil && a.Problem != "":
		return sandbox.Output{}, fmt.Errorf("%s: %s", h.cfg.Name, a.Problem)
	case err == nil:
		return sandbox.Output{OK: a.OK, Stdout: a.Stdout, Stderr: a.Stderr}, nil
	case ctx.Err() != nil:
		return sandbox.Output{}, err
	case errors.Is(err, confined.ErrTime):
		return sandbox.Output{Stderr: timeUp(o)}, nil
	case errors.Is(err, confined.ErrMemory):
		return sandbox.Output{Stderr: "stopped: the program took too much memory\n"}, nil
	case errors.Is(err, confined.ErrKilled):
		return sandbox.Output{Stderr: "stopped: the program took too much processor time or memory\n"}, nil
	}
	return sandbox.Output{}, fmt.Errorf("%s: %w; does the command call %s.Serve?", h.cfg.Name, err, h.cfg.Name)
}

func timeUp(o Order) string { return fmt.Sprintf("stopped after %v: time is up\n", o.Timeout) }
