// Package wasm runs programs as WebAssembly with wazero, in the process: either
// modules of WASI preview 1 that are the code themselves, or one language runtime
// that the host supplies and that reads the code from its standard input. A
// program has no files, no network, no environment and no clock.
//
// A module that is the code itself is decoded and compiled in the process, where
// no limit of memory or time holds. It is looked through before that, and refused
// if it is over 1 MiB, declares more than it holds, or has functions of over 32
// KiB or with very many locals. That is a guard against what is known, not a
// border like that of a process.
package wasm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/daybookhq/daybook/tools/sandbox"
)

// Config is what programs may use. The zero value has limits for short programs.
type Config struct {
	// Runtime is the module of a language, such as a JavaScript or Python
	// interpreter for WASI; it is trusted. It gets Args and reads the code from
	// standard input. Nil: the code is itself a module, in base64.
	Runtime []byte
	Args    []string
	// Timeout bounds a program. Zero means 10 seconds.
	Timeout time.Duration
	// MaxMemory bounds a program's memory, in bytes. Zero means 64 MiB.
	MaxMemory int
	// MaxOutput bounds what is kept of each of its outputs, in bytes. Zero means 16 KiB.
	MaxOutput int
}

// Sandbox is a [sandbox.Sandbox]. Close it when it is not needed any more.
type Sandbox struct {
	cfg     Config
	runtime wazero.Runtime        // of Config.Runtime, nil without one: each program gets its own
	module  wazero.CompiledModule // likewise

	mu      sync.Mutex
	closed  bool
	stops   map[*program]context.CancelCauseFunc
	running sync.WaitGroup
}

type program struct{ sandbox.Program }

const page = 64 << 10

var (
	errTimeout = errors.New("time is up")
	errClosed  = errors.New("wasm: the sandbox is closed")
)

// New prepares a sandbox, and compiles the language runtime if there is one.
func New(ctx context.Context, cfg Config) (*Sandbox, error) {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	if cfg.MaxMemory <= 0 {
		cfg.MaxMemory = 64 << 20
	}
	if cfg.MaxOutput <= 0 {
		cfg.MaxOutput = 16 << 10
	}
	s := &Sandbox{cfg: cfg, stops: map[*program]context.CancelCauseFunc{}}
	if cfg.Runtime == nil {
		return s, nil
	}
	r, err := s.open(ctx)
	if err == nil {
		s.runtime = r
		s.module, err = r.CompileModule(ctx, cfg.Runtime)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wasm: prepare: %w", err), s.Close(ctx))
	}
	return s, nil
}

// open makes a runtime of wazero with WASI in it.
func (s *Sandbox) open(ctx context.Context) (wazero.Runtime, error) {
	features := api.CoreFeaturesV2
	if s.cfg.Runtime == nil {
		// Reference types would let a stranger's module grow tables, which no limit
		// of memory counts.
		features = features.SetEnabled(api.CoreFeatureReferenceTypes, false)
	}
	pages := uint32(min(max(s.cfg.MaxMemory/page, 1), 1<<16))
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCloseOnContextDone(true).WithMemoryLimitPages(pages).WithCoreFeatures(features))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return nil, errors.Join(err, r.Close(context.WithoutCancel(ctx)))
	}
	return r, nil
}

// Close ends programs that still run, waits for them, and frees what the sandbox
// holds. Programs that are given to it later get an error.
func (s *Sandbox) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	for _, stop := range s.stops {
		stop(errClosed)
	}
	s.mu.Unlock()
	s.running.Wait()
	if s.runtime == nil {
		return nil
	}
	return s.runtime.Close(ctx)
}

// begin notes a program that runs; stop ends it. The program must be ended.
func (s *Sandbox) begin(p *program, stop context.CancelCauseFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	s.stops[p] = stop
	s.running.Add(1)
	return nil
}

func (s *Sandbox) end(p *program) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stops, p)
	s.running.Done()
}

// Execute implements [sandbox.Sandbox].
func (s *Sandbox) Execute(ctx context.Context, code sandbox.Program) (out sandbox.Output, err error) {
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	p := &program{code}
	if err := s.begin(p, stop); err != nil {
		return out, err
	}
	defer s.end(p)
	limit := s.cfg.Timeout
	if p.Timeout > 0 {
		limit = min(limit, p.Timeout)
	}
	inner, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	stdout, stderr := &sandbox.Buffer{Max: s.cfg.MaxOutput}, &sandbox.Buffer{Max: s.cfg.MaxOutput}
	cfg := wazero.NewModuleConfig().WithName("").WithStdout(stdout).WithStderr(stderr).WithArgs(append([]string{"program"}, s.cfg.Args...)...)
	var problem error
	if s.module != nil {
		problem = run(inner, s.runtime, s.module, cfg.WithStdin(strings.NewReader(p.Code)))
	} else {
		problem = s.runModule(inner, p.Code, cfg)
	}
	if ctx.Err() != nil {
		return sandbox.Output{}, context.Cause(ctx)
	}
	out = sandbox.Output{OK: problem == nil, Stdout: stdout.String(), Stderr: stderr.String()}
	switch {
	case problem == nil:
	case inner.Err() != nil:
		out.Stderr += fmt.Sprintf("stopped after %v: time is up\n", limit)
	default:
		out.Stderr += clip(problem.Error()) + "\n"
	}
	return out, nil
}

// runModule runs a module in a runtime of its own: a runtime keeps something of
// every module that it has ever seen.
func (s *Sandbox) runModule(ctx context.Context, code string, cfg wazero.ModuleConfig) error {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(code))
	if err != nil {
		return fmt.Errorf("want a WASI module in base64: %w", err)
	}
	if b, err = check(b); err != nil {
		return err
	}
	r, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer r.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing of it is left to lose
	m, err := r.CompileModule(ctx, b)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	if _, ok := m.ExportedFunctions()["_start"]; !ok {
		return errors.New("the module exports no _start: want a command of WASI preview 1")
	}
	return run(ctx, r, m, cfg)
}

// run instantiates a module, which runs it; exit code 0 is no error.
func run(ctx context.Context, r wazero.Runtime, m wazero.CompiledModule, cfg wazero.ModuleConfig) error {
	mod, err := r.InstantiateModule(ctx, m, cfg)
	if mod != nil {
		defer mod.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing of it is left to lose
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 0 {
		return nil
	}
	return err
}

// clip keeps a module's stack trace from filling the answer.
func clip(s string) string {
	if len(s) > 2000 {
		return strings.ToValidUTF8(s[:2000], "") + "…"
	}
	return s
}
