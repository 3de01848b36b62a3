//go:build unix

package wasm

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/daybookhq/daybook/tools/sandbox/internal/child"
)

// Serve is the child: it reads one program from r, runs it, and writes what came
// of it to w. The process must do nothing else, and end then: it is confined for
// good.
func Serve(r io.Reader, w io.Writer) error {
	var lang language
	if err := child.Serve(r, w, child.Interpreter{Prepare: lang.prepare, Run: lang.run}); err != nil {
		return fmt.Errorf("wasm: %w", err)
	}
	return nil
}

// language is the host's runtime, compiled; without one it is zero. Nothing here is
// closed: the process ends.
type language struct {
	runtime wazero.Runtime
	module  wazero.CompiledModule
}

// prepare compiles the host's runtime, as long as files can be opened.
func (l *language) prepare(ctx context.Context, o child.Order) error {
	if o.Language == nil {
		return nil
	}
	cfg := wazero.NewRuntimeConfig()
	if o.Language.Cache != "" {
		c, err := wazero.NewCompilationCacheWithDir(o.Language.Cache)
		if err != nil {
			return fmt.Errorf("open the cache: %w", err)
		}
		cfg = cfg.WithCompilationCache(c)
	}
	var err error
	if l.runtime, err = open(ctx, o, cfg); err != nil {
		return err
	}
	if l.module, err = l.runtime.CompileModule(ctx, o.Language.Module); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	return nil
}

const page = 64 << 10

// open makes a runtime of wazero with WASI in it.
func open(ctx context.Context, o child.Order, cfg wazero.RuntimeConfig) (wazero.Runtime, error) {
	pages := uint32(min(max(o.MaxMemory/page, 1), 1<<16))
	r := wazero.NewRuntimeWithConfig(ctx, cfg.WithCloseOnContextDone(true).WithMemoryLimitPages(pages))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, r); err != nil {
		return nil, err
	}
	return r, nil
}

func (l *language) run(ctx context.Context, o child.Order, stdout, stderr io.Writer) (err error) {
	cfg := wazero.NewModuleConfig().WithName("").WithStdout(stdout).WithStderr(stderr)
	if l.module != nil {
		_, err = l.runtime.InstantiateModule(ctx, l.module, cfg.WithArgs(append([]string{"program"}, o.Language.Args...)...).WithStdin(bytes.NewReader(o.Code)))
	} else {
		err = runModule(ctx, o, cfg.WithArgs("program"))
	}
	var exit *sys.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 0 {
		return nil
	}
	return err
}

// runModule runs a module that a model wrote.
func runModule(ctx context.Context, o child.Order, cfg wazero.ModuleConfig) error {
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(o.Code)))
	if err != nil {
		return fmt.Errorf("want a WASI module in base64: %w", err)
	}
	if b, err = check(b); err != nil {
		return err
	}
	// Reference types would let a stranger's module grow tables, which no limit of
	// a program's memory counts.
	features := api.CoreFeaturesV2.SetEnabled(api.CoreFeatureReferenceTypes, false)
	r, err := open(ctx, o, wazero.NewRuntimeConfig().WithCoreFeatures(features))
	if err != nil {
		return err
	}
	m, err := r.CompileModule(ctx, b)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	if _, ok := m.ExportedFunctions()["_start"]; !ok {
		return errors.New("the module exports no _start: want a command of WASI preview 1")
	}
	_, err = r.InstantiateModule(ctx, m, cfg)
	return err
}
