package javascript_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/sandbox"
	"github.com/daybookhq/daybook/tools/sandbox/javascript"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// TestMain is also the child: the test's own binary serves the sandbox.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "serve-javascript" {
		if err := javascript.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func open(t *testing.T, cfg javascript.Config) *javascript.Sandbox {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg.Command = []string{self, "serve-javascript"}
	s, err := javascript.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPrograms(t *testing.T) {
	const noTime, noMemory = "time is up", "too much memory"
	for _, tt := range []struct {
		name, code     string
		ok             bool
		stdout, stderr string
	}{
		{"SG-77 what it printed comes back", `console.log(6*7, "x", {a:[1,null]}, [1,2], undefined); print("y")`, true, "42 x {\"a\":[1,null]} [1,2] undefined\ny\n", ""},
		{"SG-77 errors are printed apart", `console.error("oh"); console.log("fine")`, true, "fine\n", "oh\n"},
		{"SG-77 a program that throws", `console.log("a"); null.x`, false, "a\n", "TypeError"},
		{"SG-77 a program that is none", `if (`, false, "", "SyntaxError"},
		{"SG-77 a loop without end is stopped", `console.log("a"); for(;;);`, false, "a\n", noTime},
		{"SG-77 recursion without end", `(function f(){ f() })()`, false, "", "call stack"},
		{"SG-77 output without end", `for(;;) print("spam")`, false, "(the rest of the output is left out)", noTime},
		{"SG-77 memory without end", `let a=[]; for(;;) a.push(new Array(1000).fill(1))`, false, "", noMemory},
		{"SG-77 memory in one operation", `"abcd".repeat(2**29).length`, false, "", noMemory},
		{"SG-77 memory in one buffer", `new Uint8Array(2**34).fill(1).length`, false, "", ""},
		{"SG-77 no host", `print(typeof require, typeof process, typeof fetch, typeof Deno, typeof setTimeout, typeof WebAssembly)`, true, strings.Repeat("undefined ", 5) + "undefined\n", ""},
		{"SG-77 no modules", `import fs from "fs"`, false, "", "SyntaxError"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			limit := 2 * time.Minute
			if tt.stderr == noTime {
				limit = 2 * time.Second // making the machine counts, and takes a while under -race
			}
			s := open(t, javascript.Config{Timeout: limit, MaxMemory: 48 << 20, MaxOutput: 4096})
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

// Who waits no longer gets the cause, and the child is gone.
func TestContextThatEnds(t *testing.T) {
	s := open(t, javascript.Config{Timeout: time.Hour})
	why := errors.New("shutdown")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { cancel(why) })
	if _, err := s.Execute(ctx, sandbox.Program{Code: "for(;;);"}); !errors.Is(err, why) {
		t.Errorf("err = %v, want the cause", err)
	}
}

// A command that is no sandbox is an error of the host's, not of the program.
func TestWrongCommand(t *testing.T) {
	if _, err := javascript.New(javascript.Config{}); err == nil {
		t.Error("there is a sandbox without a command")
	}
	for _, command := range [][]string{{"/no/such/program"}, {"/bin/false"}, {"/bin/true"}} {
		s, err := javascript.New(javascript.Config{Command: command})
		if err != nil {
			t.Fatal(err)
		}
		if out, err := s.Execute(t.Context(), sandbox.Program{Code: "1"}); err == nil {
			t.Errorf("%v: %+v", command, out)
		}
	}
}

func TestCodeExecConforms(t *testing.T) {
	tool := builtin.CodeExec(open(t, javascript.Config{}), builtin.CodeExecConfig{Language: "javascript"})
	toolstest.TestTool(t, tool, toolstest.ToolCase{ValidArguments: []byte(`{"code":"print(1)"}`)})
}
