package shelf

import (
	"os"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/sandbox"
	"github.com/daybookhq/daybook/tools/sandbox/javascript"
	"github.com/daybookhq/daybook/tools/sandbox/wasm"
)

// codeExec declares the tool readonly: neither sandbox has files, a network or
// anything else outside of itself.
func (r *reader) codeExec(m *strictyaml.Map) func() error {
	cfg := builtin.CodeExecConfig{Language: m.Text("language"), Timeout: m.Duration("timeout"), Effect: tools.Readonly}
	memory, parallel := int(mebibytes(m, "memory_mib")), int(m.Int("parallel", 1))
	var open func() (sandbox.Sandbox, error)
	switch name := m.Need("sandbox", "javascript or wasm"); name {
	case "javascript":
		if cfg.Language == "" {
			cfg.Language = "javascript"
		}
		command := r.child(m, childJavaScript)
		open = func() (sandbox.Sandbox, error) {
			return javascript.New(javascript.Config{Command: command, Timeout: cfg.Timeout, MaxMemory: memory, Parallel: parallel})
		}
	case "wasm":
		if cfg.Language == "" && !m.Has("runtime") {
			cfg.Language = "WebAssembly: a module of WASI preview 1, in base64"
		}
		open = r.wasm(m, wasm.Config{Timeout: cfg.Timeout, MaxMemory: memory, Parallel: parallel})
	case "": // said already
	default:
		m.Fault("sandbox", "want javascript or wasm, got %q: programs run in a sandbox and nowhere else", name)
	}
	return func() error {
		s, err := open()
		if err != nil {
			return err
		}
		r.shelf.add(Builtin, builtin.CodeExec(s, cfg))
		return nil
	}
}

func (r *reader) wasm(m *strictyaml.Map, cfg wasm.Config) func() (sandbox.Sandbox, error) {
	cfg.Args, cfg.CacheDir, cfg.Command = m.Texts("args"), r.path(m, "cache"), r.child(m, childWASM)
	if file := r.path(m, "runtime"); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			m.Fault("runtime", "%v; write the file of a language's runtime for WASI, or leave it out: programs are modules then", err)
		}
		cfg.Runtime = b
	}
	return func() (sandbox.Sandbox, error) { return wasm.New(r.ctx, cfg) }
}
