//go:build unix

package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// The programs of these tests are this test program, told by its first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if act, ok := acts()[os.Args[1]]; ok {
			act(os.Args[2:])
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func acts() map[string]func([]string) {
	return map[string]func([]string){
		"act-say": func(args []string) {
			in, _ := io.ReadAll(os.Stdin)
			dir, _ := os.Getwd()
			_ = json.NewEncoder(os.Stdout).Encode(said{args, os.Environ(), dir, len(in)})
		},
		"act-fail": func([]string) {
			fmt.Fprint(os.Stderr, "it is broken\xff")
			os.Exit(3)
		},
		"act-print": func([]string) {
			w := bufio.NewWriter(os.Stdout)
			for range 1 << 20 {
				_, _ = w.WriteString("print ")
			}
			_ = w.Flush()
		},
		"act-die": func([]string) { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) },
		// tree starts a child, and both wait for ever; leave ends without it.
		"act-tree": func(args []string) {
			hanging(args[0])
			forever()
		},
		"act-leave": func(args []string) { hanging(args[0]) },
		"act-hang":  func([]string) { forever() },
	}
}

func forever() {
	for {
		<-time.After(time.Hour) // an empty select is a deadlock
	}
}

// hanging starts a child that lives for ever and holds the FIFO open, in which
// it says so.
func hanging(fifo string) {
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	c := exec.Command(self, "act-hang")
	c.ExtraFiles = []*os.File{f}
	if err := c.Start(); err != nil {
		panic(err)
	}
	_, _ = f.WriteString("started\n")
}

type said struct {
	Args, Env []string
	Dir       string
	In        int
}

// actor is a program that does what its first argument says.
func actor(tb testing.TB, act string) Program {
	tb.Helper()
	path, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	return Program{Name: "actor", Path: path, Forms: []Form{{Words: []string{act}, Operands: -1, Flags: []string{"-n="}}}}
}

func open(tb testing.TB, cfg Config) (tools.Tool, string) {
	tb.Helper()
	if cfg.Dir == "" {
		cfg.Dir = tb.TempDir()
	}
	tool, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := filepath.EvalSymlinks(cfg.Dir)
	if err != nil {
		tb.Fatal(err)
	}
	return tool, dir
}

func call(ctx context.Context, tb testing.TB, t tools.Tool, command string) (result, error) {
	tb.Helper()
	v, err := t.Call(ctx, &tools.Invocation{Arguments: arguments(tb, command), Progress: func(string, any) {}})
	r, _ := v.(result)
	return r, err
}

func TestRun(t *testing.T) {
	t.Setenv("DAYBOOK_TEST_SECRET", "canary")
	t.Run("the arguments are executed as they are, in the directory and environment that are fixed", func(t *testing.T) {
		tool, dir := open(t, Config{Programs: []Program{actor(t, "act-say")}, Env: []string{"MORE=1"}})
		r, err := call(t.Context(), t, tool, `actor act-say 'a  $HOME *' "b;" c#d -n 5`)
		if err != nil || r.ExitCode != 0 || r.Cut {
			t.Fatalf("%+v, %v", r, err)
		}
		var got said
		if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil {
			t.Fatalf("%v: %s", err, r.Stdout)
		}
		if want := []string{"a  $HOME *", "b;", "c#d", "-n", "5"}; !slices.Equal(got.Args, want) || got.Dir != dir || got.In != 0 {
			t.Errorf("%+v, want %q in %s", got, want, dir)
		}
		if want := environment(dir, []string{"MORE=1"}); !slices.Equal(slices.DeleteFunc(got.Env, func(s string) bool { return s == "PWD="+dir }), want) {
			t.Errorf("environment %q, want %q", got.Env, want)
		}
	})
	t.Run("a program that fails is a result", func(t *testing.T) {
		tool, _ := open(t, Config{Programs: []Program{actor(t, "act-fail")}})
		r, err := call(t.Context(), t, tool, "actor act-fail")
		if want := (result{ExitCode: 3, Stderr: "it is broken\uFFFD"}); err != nil || r != want {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("so is one that a signal ends", func(t *testing.T) {
		tool, _ := open(t, Config{Programs: []Program{actor(t, "act-die")}})
		r, err := call(t.Context(), t, tool, "actor act-die")
		if err != nil || r.ExitCode != -1 || r.Signal != "killed" {
			t.Errorf("%+v, %v", r, err)
		}
	})
	t.Run("output is bounded, and says so", func(t *testing.T) {
		tool, _ := open(t, Config{Programs: []Program{actor(t, "act-print")}, MaxOutput: 1000})
		r, err := call(t.Context(), t, tool, "actor act-print")
		if err != nil || !r.Cut || !strings.HasPrefix(r.Stdout, "print print") || len(r.Stdout) > 1100 {
			t.Errorf("%d bytes, %v, %v", len(r.Stdout), r.Cut, err)
		}
	})
}

// pipe makes a FIFO. It is held open by the test, so that nobody waits for a
// reader, and has its end when no process holds it any more.
func pipe(tb testing.TB) (name string, r *bufio.Reader) {
	tb.Helper()
	name = filepath.Join(tb.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		tb.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = f.Close() })
	return name, bufio.NewReader(f)
}

// gone fails the test unless the pipe was used, and nobody holds it any more.
func gone(tb testing.TB, r *bufio.Reader) {
	tb.Helper()
	if b, err := io.ReadAll(r); err != nil || string(b) != "started\n" {
		tb.Errorf("the pipe holds %q, %v", b, err)
	}
}

func TestKilledAsATree(t *testing.T) {
	errStop := errors.New("the run was cancelled")
	t.Run("by a cancel, and nobody can know what it did", func(t *testing.T) {
		name, r := pipe(t)
		tool, _ := open(t, Config{Programs: []Program{actor(t, "act-tree")}})
		ctx, cancel := context.WithCancelCause(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := call(ctx, t, tool, "actor act-tree "+name)
			failed <- err
		}()
		for { // a FIFO that nobody has opened yet is at its end
			if _, err := r.Peek(1); err == nil {
				break
			}
			select {
			case err := <-failed:
				t.Fatalf("it ended by itself: %v", err)
			case <-time.After(time.Millisecond):
			}
		}
		cancel(errStop)
		if err := <-failed; !errors.Is(err, errStop) || errors.Is(err, tools.ErrNotApplied) {
			t.Errorf("%v", err)
		}
		gone(t, r)
	})
	t.Run("by its time, and nobody can know what it did", func(t *testing.T) {
		name, r := pipe(t)
		tool, _ := open(t, Config{Programs: []Program{actor(t, "act-tree")}, Timeout: 2 * time.Second})
		_, err := call(t.Context(), t, tool, "actor act-tree "+name)
		if err == nil || errors.Is(err, tools.ErrNotApplied) || !strings.Contains(err.Error(), "killed after 2s") {
			t.Errorf("%v", err)
		}
		// A machine that is slow may not have come to start the child.
		if b, err := io.ReadAll(r); err != nil {
			t.Errorf("%q, %v, want the end", b, err)
		}
	})
	t.Run("so a destructive one is in doubt, and a readonly one a failed result", func(t *testing.T) {
		name, _ := pipe(t)
		for _, effect := range []tools.Effect{"", tools.Readonly} {
			tool, _ := open(t, Config{Programs: []Program{actor(t, "act-tree")}, Timeout: time.Second, Effect: effect})
			d, _ := toolstest.DispatchAndCollect(t, toolstest.Probe{Tool: tool, Arguments: arguments(t, "actor act-tree "+name)})
			if effect == "" && d.State != tools.StateInDoubt || effect != "" && (d.State != tools.StateDone || d.Result.Status != tools.Failed) {
				t.Errorf("effect %q: %+v", effect, d)
			}
		}
	})
	t.Run("what a program leaves behind ends with it", func(t *testing.T) {
		name, r := pipe(t)
		tool, _ := open(t, Config{Programs: []Program{actor(t, "act-leave")}})
		if out, err := call(t.Context(), t, tool, "actor act-leave "+name); err != nil || out.ExitCode != 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		gone(t, r)
	})
}

func TestBeforeTheStart(t *testing.T) {
	tool, dir := open(t, Config{Programs: []Program{actor(t, "act-say"), {Name: "cat", Path: script(t)}}, Allow: []string{"actor:*", "cat"}})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name, command, want string
		ctx                 context.Context
	}{
		{"a context that has ended", "actor act-say", "context canceled", ended},
		{"a program that is not allowed", "ls", `the program "ls" is not allowed`, t.Context()},
		{"a command that no specifier covers", "cat x", "none of the allowed: actor:*; cat", t.Context()},
		{"a form that the program does not have", "actor x", `actor must be followed by one of "act-say"`, t.Context()},
		{"a flag that is not allowed", "actor act-say -x", `"-x" is not allowed; allowed: -n=`, t.Context()},
		{"a flag without its value", "actor act-say -n", `"-n" needs a value`, t.Context()},
		{"shell syntax", "actor act-say; ls", "only one simple command", t.Context()},
		{"a file that cannot be executed", "cat", "cat could not be started", t.Context()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := call(tt.ctx, t, tool, tt.command); !errors.Is(err, tools.ErrNotApplied) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want no effect and %q", err, tt.want)
			}
		})
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// script is a file that is there, but no program.
func script(tb testing.TB) string {
	tb.Helper()
	name := filepath.Join(tb.TempDir(), "cat")
	write(tb, name, "no program", 0o600)
	return name
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "mine"), "#!/bin/sh\n", 0o700)
	ok := actor(t, "act-say")
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Join(dir, "mine"), link); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		cfg        Config
	}{
		{"no programs", "at least one", Config{Dir: dir}},
		{"no directory", "absolute", Config{Programs: []Program{ok}}},
		{"a directory that is not there", "no such file", Config{Programs: []Program{ok}, Dir: "/nowhere/at/all"}},
		{"a program twice", "twice", Config{Programs: []Program{ok, ok}, Dir: dir}},
		{"a program that is not there", "set its Path", Config{Programs: []Program{{Name: "no-such-program"}}, Dir: dir}},
		{"a name with a path", "no plain name", Config{Programs: []Program{{Name: "./ls"}}, Dir: dir}},
		{"a program inside the directory", "inside the working directory", Config{Programs: []Program{{Name: "mine", Path: filepath.Join(dir, "mine")}}, Dir: dir}},
		{"a link into the directory", "inside the working directory", Config{Programs: []Program{{Name: "mine", Path: link}}, Dir: dir}},
		{"a shell with operands", "runs what its arguments say", Config{Programs: []Program{{Name: "sh", Forms: []Form{{Operands: 1}}}}, Dir: dir}},
		{"env with flags", "runs what its arguments say", Config{Programs: []Program{{Name: "env", Forms: []Form{{Flags: []string{"-i"}}}}}, Dir: dir}},
		{"a runner in some version", "runs what its arguments say", Config{Programs: []Program{{Name: "python3.12", Path: "/bin/cat", Forms: []Form{{Operands: 1}}}}, Dir: dir}},
		{"a runner by another name", "runs what its arguments say", Config{Programs: []Program{{Name: "mine", Path: "/bin/sh", Forms: []Form{{Operands: 1}}}}, Dir: dir}},
		{"a flag that is none", "no flag", Config{Programs: []Program{{Name: "ls", Forms: []Form{{Flags: []string{"all"}}}}}, Dir: dir}},
		{"a specifier that covers nothing", "covers nothing", Config{Programs: []Program{ok}, Dir: dir, Allow: []string{":*"}}},
		{"an empty specifier", "empty", Config{Programs: []Program{ok}, Dir: dir, Allow: []string{" "}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	t.Run("a runner with fixed words is the host's to decide", func(t *testing.T) {
		if _, err := New(Config{Programs: []Program{{Name: "sh", Forms: []Form{{Words: []string{"/srv/report.sh"}}}}}, Dir: dir}); err != nil {
			t.Error(err)
		}
	})
}

func TestTool(t *testing.T) {
	tool, _ := open(t, Config{Programs: []Program{actor(t, "act-say")}})
	if d := tool.Definition(); d.Effect != "" || !d.IsDestructive() || d.Trust != tools.External {
		t.Errorf("effect %q, trust %q: a command is destructive unless the host says otherwise", d.Effect, d.Trust)
	}
	toolstest.TestTool(t, tool, toolstest.ToolCase{ValidArguments: json.RawMessage(`{"command":"actor act-say x"}`), Hostile: true})
	readonly, _ := open(t, Config{Programs: Inspect(), Effect: tools.Readonly})
	toolstest.TestTool(t, readonly, toolstest.ToolCase{ValidArguments: json.RawMessage(`{"command":"ls -la"}`)})
}
