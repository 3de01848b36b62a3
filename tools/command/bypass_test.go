//go:build unix

package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/tools"
)

type bypass struct{ command, kind string }

func bypasses(tb testing.TB) (all []bypass) {
	tb.Helper()
	for _, l := range lines(tb, "bypass.txt") {
		quoted, kind, _ := strings.Cut(l, "\t")
		command, err := strconv.Unquote(quoted)
		if err != nil {
			tb.Fatalf("%s: %v", l, err)
		}
		all = append(all, bypass{command, kind})
	}
	return all
}

func benign(tb testing.TB) (all []string) {
	tb.Helper()
	for _, l := range lines(tb, "benign.txt") {
		all = append(all, strings.ReplaceAll(l, `\t`, "\t"))
	}
	return all
}

func lines(tb testing.TB, name string) (all []string) {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	for l := range strings.Lines(string(b)) {
		if l = strings.TrimSuffix(l, "\n"); l != "" && l[0] != '#' {
			all = append(all, l)
		}
	}
	return all
}

// generous is a tool with a rule "x *" for every program that a bypass starts
// with, and all forms of those that look at files.
func generous(tb testing.TB, dir string) *runner {
	tb.Helper()
	cfg := Config{Programs: Inspect(), Dir: dir}
	for _, b := range bypasses(tb) {
		if name, _, _ := strings.Cut(b.command, " "); name != "" {
			cfg.Allow = append(cfg.Allow, name+" *", strings.ReplaceAll(name, "*", `\*`))
		}
	}
	cfg.Allow = append(cfg.Allow, "echo *", "git *", "find *", "*")
	r, err := newRunner(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// trap makes a directory in which a bypass that works leaves the file pwn.
func trap(tb testing.TB) (dir string) {
	tb.Helper()
	dir = tb.TempDir()
	evil := "#!/bin/sh\n: > " + filepath.Join(dir, "pwn") + "\n"
	for _, name := range []string{"evil", "ls", "lz", "sub/ls"} {
		write(tb, filepath.Join(dir, name), evil, 0o700)
	}
	write(tb, filepath.Join(dir, "victim"), "b\na\n", 0o600)
	write(tb, filepath.Join(dir, "mk"), "all: $(shell touch pwn)\n", 0o600)
	for _, args := range [][]string{
		{"init", "-q"},
		{"add", "victim"},
		{"-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "x"},
		{"config", "diff.external", "./evil"},
		{"config", "core.fsmonitor", "./evil"},
		{"config", "core.pager", "./evil"},
		{"config", "diff.x.textconv", "./evil"},
		{"config", "gpg.program", "./evil"},
	} {
		git(tb, dir, "", args...)
	}
	// A commit that is signed, as far as git can see without asking.
	commit := git(tb, dir, "", "cat-file", "commit", "HEAD")
	head, message, _ := strings.Cut(commit, "\n\n")
	signed := head + "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----\n\n" + message
	id := strings.TrimSpace(git(tb, dir, signed, "hash-object", "-t", "commit", "-w", "--stdin"))
	git(tb, dir, "", "update-ref", "HEAD", id)
	write(tb, filepath.Join(dir, ".gitattributes"), "victim diff=x\n", 0o600)
	write(tb, filepath.Join(dir, "victim"), "b\na\nc\n", 0o600)
	_ = os.Remove(filepath.Join(dir, "pwn"))
	return dir
}

// git prepares a repository, as somebody would who may do everything.
func git(tb testing.TB, dir, in string, args ...string) string {
	tb.Helper()
	c := exec.Command("git", args...)
	c.Dir, c.Stdin = dir, strings.NewReader(in)
	c.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null"}
	out, err := c.CombinedOutput()
	if err != nil {
		tb.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

func write(tb testing.TB, name, text string, mode os.FileMode) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		tb.Fatal(err)
	}
}

func TestBypassesAreRefused(t *testing.T) {
	dir := trap(t)
	r := generous(t, dir)
	for _, b := range bypasses(t) {
		if p, argv, err := r.allow(b.command); err == nil {
			t.Errorf("%s: %q is allowed: %s %q", b.kind, b.command, p.Path, argv)
		}
	}
	for _, command := range benign(t) {
		p, argv, err := r.allow(command)
		if err != nil {
			t.Errorf("%q is refused: %v", command, err)
			continue
		}
		if _, err := r.run(t.Context(), p, argv); err != nil {
			t.Errorf("%q: %v", command, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "pwn")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a command that was allowed ran ./evil: %v", err)
	}
}

// The set-up can catch: without what New and Inspect add, git runs ./evil.
func TestTheTrapWorks(t *testing.T) {
	for _, args := range [][]string{
		{"diff"},
		{"status"},
		{"log", "--format=%G?"},
		{"-c", "core.fsmonitor=false", "-c", "diff.external=", "diff", "--no-ext-diff"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			dir := trap(t)
			c := exec.Command("git", args...)
			c.Dir, c.Env = dir, []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir}
			out, _ := c.CombinedOutput()
			if _, err := os.Stat(filepath.Join(dir, "pwn")); err != nil {
				t.Errorf("it did not run ./evil: %v: %s", err, out)
			}
		})
	}
}

func TestOneParser(t *testing.T) {
	t.Run("SE-75 what the parser refuses, an entry and the tool refuse", func(t *testing.T) {
		tool, err := New(Config{Programs: Inspect(), Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for _, b := range bypasses(t) {
			if _, err := Parse(b.command); err == nil {
				continue
			}
			refused++
			var rejection *RejectionError
			if err := mustEntry(t, "command(**)").Rejection(arguments(t, b.command)); !errors.As(err, &rejection) || rejection.Reason != Unsafe && rejection.Reason != Unreadable {
				t.Errorf("%q: the entry says %v", b.command, err)
			}
			if _, err := tool.Call(t.Context(), &tools.Invocation{Arguments: arguments(t, b.command)}); !errors.Is(err, tools.ErrNotApplied) {
				t.Errorf("%q: the tool says %v", b.command, err)
			}
		}
		if refused < 70 {
			t.Errorf("the parser refuses %d alone", refused)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, b := range bypasses(f) {
		f.Add(b.command, "git *")
	}
	for _, b := range benign(f) {
		f.Add(b, b)
	}
	f.Fuzz(func(t *testing.T, command, specifier string) {
		l, err := parse(command)
		if err != nil {
			if len(l.argv) > 0 {
				t.Fatalf("%q is refused, with arguments", command)
			}
			return
		}
		if !isName(l.argv[0]) || strings.ContainsAny(command, "\n`") && !strings.Contains(command, "'") {
			t.Fatalf("%q is taken apart into %q", command, l.argv)
		}
		again, err := parse(l.normal)
		if err != nil || strings.Join(again.argv, "\x00") != strings.Join(l.argv, "\x00") {
			t.Fatalf("%q is %q, but in its normal form %q", command, l.argv, again.argv)
		}
		ok, err := covers(specifier, l)
		if ok && err == nil && !strings.Contains(specifier, "*") && collapse(specifier) != l.normal {
			t.Fatalf("%q covers %q", specifier, command)
		}
	})
}
