package wasm_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/sandbox"
	"github.com/daybookhq/daybook/tools/sandbox/wasm"
	"github.com/daybookhq/daybook/tools/toolstest"
)

func section(id byte, body ...byte) []byte {
	return append(binary.AppendUvarint([]byte{id}, uint64(len(body))), body...)
}

func name(s string) []byte { return append([]byte{byte(len(s))}, s...) }

// module is a WASI command: f0 is fd_write, f1 is fd_read, f2 is _start with the
// given code. data stands at address 0 of one page of memory.
func module(code []byte, data string, extra ...byte) []byte {
	const wasi = "wasi_snapshot_preview1"
	fn := []byte{0x60, 4, 0x7f, 0x7f, 0x7f, 0x7f, 1, 0x7f}
	m := []byte("\x00asm\x01\x00\x00\x00")
	m = append(m, section(1, append([]byte{2, 0x60, 0, 0}, fn...)...)...)
	imports := append([]byte{2}, name(wasi)...)
	imports = append(append(imports, name("fd_write")...), 0, 1)
	imports = append(append(append(imports, name(wasi)...), name("fd_read")...), 0, 1)
	m = append(m, section(2, imports...)...)
	m = append(m, section(3, 1, 0)...)
	m = append(m, extra...)
	m = append(m, section(5, 1, 0, 1)...)
	exports := append(append([]byte{2}, name("_start")...), 0, 2)
	m = append(m, section(7, append(append(exports, name("memory")...), 2, 0)...)...)
	body := append(append([]byte{0}, code...), 0x0b)
	m = append(m, section(10, append(binary.AppendUvarint([]byte{1}, uint64(len(body))), body...)...)...)
	return append(m, section(11, append(binary.AppendUvarint([]byte{1, 0, 0x41, 0, 0x0b}, uint64(len(data))), data...)...)...)
}

// iovec is a vector of one, at address 0, for text that stands at 8.
func iovec(n int) string {
	return string(binary.LittleEndian.AppendUint32([]byte{8, 0, 0, 0}, uint32(n)))
}

// write is fd_write(fd, 0, 1, 20).
func write(fd byte) []byte { return []byte{0x41, fd, 0x41, 0, 0x41, 1, 0x41, 20, 0x10, 0, 0x1a} }

func loop(body ...byte) []byte { return append(append([]byte{0x03, 0x40}, body...), 0x0c, 0, 0x0b) }

const (
	hello       = "hello, world\n"
	unreachable = 0x00
)

// TestMain is also the child: the test's own binary serves the sandbox.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve-wasm" {
		if err := wasm.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func open(t *testing.T, cfg wasm.Config) *wasm.Sandbox {
	t.Helper()
	cfg.Command = self(t)
	s, err := wasm.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func self(t *testing.T) []string {
	t.Helper()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{me, "serve-wasm"}
}

func TestPrograms(t *testing.T) {
	encode := base64.StdEncoding.EncodeToString
	// memory.grow by 100 pages, and unreachable if that is refused.
	grow := []byte{0x41, 0xe4, 0, 0x40, 0, 0x41, 0x7f, 0x46, 0x04, 0x40, unreachable, 0x0b}
	table := func(least ...byte) []byte { return section(4, append([]byte{1, 0x70, 0}, least...)...) }
	greet := iovec(len(hello)) + hello
	for _, tt := range []struct {
		name, code     string
		ok             bool
		stdout, stderr string
	}{
		{"SG-77 what it printed comes back", encode(module(write(1), greet)), true, hello, ""},
		{"SG-77 a failed program is no error", encode(module(append(write(2), unreachable), greet)), false, "", hello},
		{"SG-77 why it failed", encode(module([]byte{unreachable}, "")), false, "", "unreachable"},
		{"SG-77 a loop without end is stopped", encode(module(loop(), "")), false, "", "time is up"},
		{"SG-77 output without end", encode(module(loop(write(1)...), greet)), false, "(the rest of the output is left out)", "time is up"},
		{"SG-77 memory is bounded", encode(module(grow, "")), false, "", "unreachable"},
		{"SG-77 a table is", encode(module(write(1), greet, table(100)...)), true, hello, ""},
		{"SG-77 a large one", encode(module(write(1), greet, table(0xff, 0xff, 0xff, 0x3f)...)), false, "", "at most"},
		{"SG-77 two tables", encode(module(write(1), greet, section(4, 2, 0x70, 0, 1, 0x70, 0, 1)...)), false, "", "2 tables"},
		{"SG-77 names that a compiler left are no harm", encode(module(write(1), greet, section(0, 4, 'n', 'a', 'm', 'e', 1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f)...)), true, hello, ""},
		{"SG-77 no files", encode(module(append(write(3), unreachable), greet)), false, "", "unreachable"},
		{"SG-77 no base64", "print('hello')", false, "", "base64"},
		{"SG-77 no module", encode([]byte("hello")), false, "", "no WebAssembly"},
		{"SG-77 half a module", encode(module(write(1), greet)[:40]), false, "", ""},
		{"SG-77 no _start", encode([]byte("\x00asm\x01\x00\x00\x00")), false, "", "_start"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limit := 10 * time.Second
			if strings.Contains(tt.stderr, "time is up") {
				limit = 3 * time.Second // compiling is part of it
			}
			s := open(t, wasm.Config{Timeout: limit, MaxMemory: 1 << 20, MaxOutput: 4096})
			out, err := s.Execute(t.Context(), sandbox.Program{Code: tt.code})
			if err != nil || out.OK != tt.ok || !strings.Contains(out.Stdout, tt.stdout) || !strings.Contains(out.Stderr, tt.stderr) || len(out.Stdout) > 5000 {
				t.Errorf("%+v, %v, want ok %v, %q, %q", out, err, tt.ok, tt.stdout, tt.stderr)
			}
			if !tt.ok && out.Stderr == "" {
				t.Error("it does not say why")
			}
		})
	}
}

// What a module declares is believed by the compiler before it is read, so that
// it must be refused before that.
func TestModulesThatDeclareTooMuch(t *testing.T) {
	magic := []byte("\x00asm\x01\x00\x00\x00")
	most := []byte{0xff, 0xff, 0xff, 0xff, 0x0f}
	with := func(sections ...[]byte) []byte { return bytes.Join(append([][]byte{magic}, sections...), nil) }
	times := func(n int, b ...byte) []byte { return bytes.Repeat(b, n) }
	vector := func(n int, b ...byte) []byte { return append(binary.AppendUvarint(nil, uint64(n)), b...) }
	function := func(body ...byte) []byte { return section(10, append([]byte{1}, vector(len(body), body...)...)...) }
	type1 := func(params, results int) []byte {
		b := append([]byte{1, 0x60}, vector(params, times(params, 0x7f)...)...)
		return section(1, append(b, vector(results, times(results, 0x7f)...)...)...)
	}
	tests := map[string][]byte{
		"seventeen bytes":             with([]byte{1, 7, 1, 0x60, 0xff, 0xff, 0xff, 0xff, 0x0f}),
		"parameters":                  with(section(1, append([]byte{1, 0x60}, most...)...)),
		"results":                     with(section(1, append([]byte{1, 0x60, 0}, most...)...)),
		"1,001 parameters":            with(type1(1001, 0)),
		"1,001 results":               with(type1(0, 1001)),
		"a group of types":            with(section(1, append([]byte{1, 0x4e}, most...)...)),
		"a type in more than a byte":  with(section(1, 1, 0x60, 1, 0x63, 0x70, 0)),
		"code":                        with(section(10, most...)),
		"locals":                      with(function(append(append([]byte{1}, most...), 0x7f, 0x0b)...)),
		"groups of locals":            with(function(append(most, 0x7f, 0x0b)...)),
		"locals of two functions":     with(section(10, append([]byte{2}, times(2, 6, 1, 0xb1, 0xc3, 1, 0x7f, 0x0b)...)...)),
		"a large function":            with(function(append([]byte{0}, times(33_000, 0x01)...)...)),
		"a large one with locals":     with(function(append([]byte{1, 0x90, 0x4e, 0x7f}, times(30_000, 0x01)...)...)),
		"a large one with wide types": with(type1(0, 1000), function(append([]byte{0}, times(30_000, 0x01)...)...)),
		"functions":                   with(section(3, most...)),
		"imports":                     with(section(2, most...)),
		"the name of an import":       with(section(2, append([]byte{1}, most...)...)),
		"a table from elsewhere":      with(section(2, 1, 0, 0, 1, 0x70, 0, 1)),
		"memories":                    with(section(5, most...)),
		"globals":                     with(section(6, most...)),
		"exports":                     with(section(7, most...)),
		"the name of an export":       with(section(7, append([]byte{1}, most...)...)),
		"segments of tables":          with(section(9, most...)),
		"a segment of a table":        with(section(9, append([]byte{1, 0, 0x41, 0, 0x0b}, most...)...)),
		"expressions of one":          with(section(9, append([]byte{1, 5, 0x70}, most...)...)),
		"a reference in two bytes":    with(section(9, append([]byte{1, 5, 0x64, 0x70}, most...)...)),
		"data":                        with(section(11, most...)),
		"a segment of data":           with(section(11, append([]byte{1, 1}, most...)...)),
		"over a hundred thousand":     with(section(3, vector(100_001, times(100_001, 0)...)...)),
		"a section":                   with(append([]byte{3}, most...)),
		"more after a vector":         with(section(3, 1, 0, 0)),
		"an unknown section":          with(section(13, 0)),
		"a number of six bytes":       with(section(3, 0x80, 0x80, 0x80, 0x80, 0x80, 0)),
		"a number of 33 bits":         with(section(3, 0xff, 0xff, 0xff, 0xff, 0x1f)),
		"a large module":              with(section(0, times(1<<20, 0)...)),
	}
	if b := tests["seventeen bytes"]; len(b) != 17 {
		t.Fatalf("%d bytes", len(b))
	}
	s := open(t, wasm.Config{})
	for name, b := range tests {
		t.Run(name, func(t *testing.T) {
			code := base64.StdEncoding.EncodeToString(b)
			out, err := s.Execute(t.Context(), sandbox.Program{Code: code})
			if err != nil || out.OK || out.Stderr == "" || strings.Contains(out.Stderr, "compile:") || strings.Contains(out.Stderr, "_start") {
				t.Errorf("%+v, %v, want it refused before it is compiled", out, err)
			}
		})
	}
}

// SG-77: a runtime of the host's reads the code from its input. This one says it back.
func TestLanguageRuntime(t *testing.T) {
	read := []byte{0x41, 0, 0x41, 0, 0x41, 1, 0x41, 28, 0x10, 1, 0x1a} // fd_read(0, 0, 1, 28)
	store := []byte{0x41, 4, 0x41, 28, 0x28, 2, 0, 0x36, 2, 0}         // the length of the vector is what was read
	echo := module(append(append(read, store...), write(1)...), string([]byte{64, 0, 0, 0, 0, 16, 0, 0}))
	for _, cache := range []string{"", t.TempDir()} {
		s := open(t, wasm.Config{Runtime: echo, CacheDir: cache})
		for _, code := range []string{"print(1)", "print(2)"} { // the second finds nothing of the first
			out, err := s.Execute(t.Context(), sandbox.Program{Code: code, Language: "echo"})
			if err != nil || !out.OK || out.Stdout != code {
				t.Errorf("%+v, %v, want %s", out, err, code)
			}
		}
		if cache != "" {
			if kept, err := os.ReadDir(cache); err != nil || len(kept) == 0 {
				t.Errorf("kept %v, %v", kept, err)
			}
		}
	}
	for name, cfg := range map[string]wasm.Config{
		"no module":             {Runtime: []byte("no module"), Command: self(t)},
		"no directory":          {Runtime: echo, Command: self(t), CacheDir: "/dev/null/x"},
		"no command":            {},
		"a command that is not": {Runtime: echo, Command: []string{"/bin/false"}},
	} {
		if _, err := wasm.New(t.Context(), cfg); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// Who waits no longer gets the cause, not a program that failed.
func TestContextThatEnds(t *testing.T) {
	s := open(t, wasm.Config{Timeout: time.Hour})
	why := errors.New("shutdown")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	_, err := s.Execute(ctx, sandbox.Program{Code: base64.StdEncoding.EncodeToString(module(loop(), ""))})
	if !errors.Is(err, why) {
		t.Errorf("err = %v, want the cause", err)
	}
}

func TestCodeExecConforms(t *testing.T) {
	s := open(t, wasm.Config{})
	tool := builtin.CodeExec(s, builtin.CodeExecConfig{Language: "WebAssembly"})
	args := `{"code":"` + base64.StdEncoding.EncodeToString(module(write(1), iovec(len(hello))+hello)) + `"}`
	toolstest.TestTool(t, tool, toolstest.ToolCase{ValidArguments: []byte(args), Hostile: true})
}
