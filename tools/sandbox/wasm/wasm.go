// Package wasm runs programs as WebAssembly with wazero, in the process: either
// modules of WASI preview 1 that are the code themselves, or one language runtime
// that the host supplies and that reads the code from its standard input. A
// program has no files, no network, no environment and no clock.
package wasm

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
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
	runtime wazero.Runtime
	module  wazero.CompiledModule // of Config.Runtime, nil without one
}

const page = 64 << 10

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
	features := api.CoreFeaturesV2
	if cfg.Runtime == nil {
		// Reference types would let a stranger's module grow tables, which no limit
		// of memory counts.
		features = features.SetEnabled(api.CoreFeatureReferenceTypes, false)
	}
	pages := uint32(min(max(cfg.MaxMemory/page, 1), 1<<16))
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCloseOnContextDone(true).WithMemoryLimitPages(pages).WithCoreFeatures(features))
	s := &Sandbox{cfg: cfg, runtime: r}
	_, err := wasi_snapshot_preview1.Instantiate(ctx, r)
	if err == nil && cfg.Runtime != nil {
		s.module, err = r.CompileModule(ctx, cfg.Runtime)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wasm: prepare: %w", err), r.Close(ctx))
	}
	return s, nil
}

// Close ends programs that still run, and frees what the sandbox holds.
func (s *Sandbox) Close(ctx context.Context) error { return s.runtime.Close(ctx) }

var errTimeout = errors.New("time is up")

// Execute implements [sandbox.Sandbox].
func (s *Sandbox) Execute(ctx context.Context, p sandbox.Program) (out sandbox.Output, err error) {
	if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	limit := s.cfg.Timeout
	if p.Timeout > 0 {
		limit = min(limit, p.Timeout)
	}
	inner, cancel := context.WithTimeoutCause(ctx, limit, errTimeout)
	defer cancel()
	stdout, stderr := &sandbox.Buffer{Max: s.cfg.MaxOutput}, &sandbox.Buffer{Max: s.cfg.MaxOutput}
	cfg := wazero.NewModuleConfig().WithName("").WithStdout(stdout).WithStderr(stderr).WithArgs(append([]string{"program"}, s.cfg.Args...)...)
	module, problem := s.module, error(nil)
	if module == nil {
		if module, problem = s.compile(inner, p.Code); problem == nil {
			defer func() { err = errors.Join(err, module.Close(context.WithoutCancel(ctx))) }()
		}
	} else {
		cfg = cfg.WithStdin(strings.NewReader(p.Code))
	}
	if problem == nil {
		problem = s.run(inner, module, cfg)
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

// run instantiates a module, which runs it; exit code 0 is no error.
func (s *Sandbox) run(ctx context.Context, m wazero.CompiledModule, cfg wazero.ModuleConfig) error {
	mod, err := s.runtime.InstantiateModule(ctx, m, cfg)
	if mod != nil {
		defer mod.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing of it is left to lose
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 0 {
		return nil
	}
	return err
}

func (s *Sandbox) compile(ctx context.Context, code string) (wazero.CompiledModule, error) {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(code))
	if err != nil {
		return nil, fmt.Errorf("want a WASI module in base64: %w", err)
	}
	if err := checkTables(b); err != nil {
		return nil, err
	}
	m, err := s.runtime.CompileModule(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	if _, ok := m.ExportedFunctions()["_start"]; !ok {
		return nil, errors.Join(errors.New("the module exports no _start: want a command of WASI preview 1"), m.Close(ctx))
	}
	return m, nil
}

// clip keeps a module's stack trace from filling the answer.
func clip(s string) string {
	if len(s) > 2000 {
		return strings.ToValidUTF8(s[:2000], "") + "…"
	}
	return s
}
