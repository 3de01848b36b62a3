//go:build unix

// Package wasm runs programs as WebAssembly with wazero in a process of its own:
// either modules of WASI preview 1 that are the code themselves, or one language
// runtime that the host supplies and that reads the code from its standard input.
// A program has no files, no network, no environment and no clock.
//
// wazero bounds the memory and the time of a program that runs, but not what
// decoding and compiling its module take, nor its tables. That is why it is done
// by a child, which the kernel confines and which is killed. A module that is the
// code itself is also looked through before it is compiled, and refused if it is
// over 1 MiB, declares more than it holds, or has functions of over 32 KiB or with
// very many locals: most of what would take the child down is told from a program
// that failed, and the compiler sees less of what was made to break it.
package wasm

import (
	"context"
	"fmt"
	"time"

	"github.com/daybookhq/daybook/tools/sandbox"
	"github.com/daybookhq/daybook/tools/sandbox/internal/child"
)

// Config is what programs may use. All fields but Command have defaults for short
// programs.
type Config struct {
	// Command is the program, and its arguments, that calls [Serve] and nothing
	// else. It gets nothing of this process's environment.
	Command []string
	// Runtime is the module of a language, such as a JavaScript or Python
	// interpreter for WASI; it is trusted. It gets Args and reads the code from
	// standard input. Nil: the code is itself a module, in base64.
	Runtime []byte
	Args    []string
	// CacheDir is where children keep Runtime compiled, and read it without a
	// further look: let nobody else write there. Empty: it is compiled for each
	// program, which takes seconds for a large one. Neither counts as the program's
	// time.
	CacheDir string
	// Timeout bounds a program. Zero means 10 seconds.
	Timeout time.Duration
	// MaxMemory bounds a program's memory, in bytes. Zero means 64 MiB. A child as a
	// whole may take three times as much and 256 MiB, which Linux enforces.
	MaxMemory int
	// MaxOutput bounds what is kept of each of its outputs, in bytes. Zero means 16 KiB.
	MaxOutput int
	// Parallel bounds the children that are there at a time; further programs
	// wait. Zero means 4.
	Parallel int
}

// Sandbox is a [sandbox.Sandbox].
type Sandbox struct {
	host *child.Host
	lang *child.Language // nil without Config.Runtime
}

// New returns a sandbox; without a Command it is an error. If there is a language
// runtime, a child compiles it now, to see that it can be.
func New(ctx context.Context, cfg Config) (*Sandbox, error) {
	h, err := child.New(child.Config{
		Name: "wasm", Command: cfg.Command, Timeout: cfg.Timeout, MaxMemory: cfg.MaxMemory, MaxOutput: cfg.MaxOutput, Parallel: cfg.Parallel,
	})
	if err != nil {
		return nil, err
	}
	s := &Sandbox{host: h}
	if cfg.Runtime == nil {
		return s, nil
	}
	s.lang = &child.Language{Args: cfg.Args, Cache: cfg.CacheDir, Size: len(cfg.Runtime), Module: cfg.Runtime}
	check := *s.lang
	check.Check = true
	out, err := h.Execute(ctx, sandbox.Program{}, &check)
	if err == nil && !out.OK {
		err = fmt.Errorf("wasm: %s", out.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("prepare the language runtime: %w", err)
	}
	return s, nil
}

// Execute implements [sandbox.Sandbox].
func (s *Sandbox) Execute(ctx context.Context, p sandbox.Program) (sandbox.Output, error) {
	return s.host.Execute(ctx, p, s.lang)
}
