//go:build unix

package command_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/tools/command"
)

func check(t *testing.T, script string, timeout time.Duration) *command.Check {
	t.Helper()
	path := filepath.Join(t.TempDir(), "check")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := command.NewCheck(command.Check{Program: path, Args: []string{"$HOME; touch pwn"}, Env: []string{"MORE=1"}, Timeout: timeout, MaxOutput: 64})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCheck(t *testing.T) {
	f, err := check(t, "cat; echo \"$1 $MORE\" >&2; exit 3", 0).Run(t.Context(), []byte("$(touch pwn) `id`"))
	want := command.Finding{ExitCode: 3, Stdout: "$(touch pwn) `id`", Stderr: "$HOME; touch pwn 1\n"}
	if err != nil || f != want {
		t.Errorf("%+v, %v; want %+v", f, err, want)
	}
	if f, err := check(t, "exit 0", 0).Run(t.Context(), make([]byte, 1<<20)); err != nil || f.ExitCode != 0 {
		t.Errorf("one that reads nothing: %+v, %v", f, err)
	}
	if f, err := check(t, "yes | head -c 1000; exit 1", 0).Run(t.Context(), nil); err != nil || !f.Cut || len(f.Stdout) > 200 {
		t.Errorf("one that writes much: %d bytes, cut %t, %v", len(f.Stdout), f.Cut, err)
	}
}

// A check that came to no end by itself has found nothing.
func TestCheckWithoutAFinding(t *testing.T) {
	gone := check(t, "exit 0", 0)
	if err := os.Remove(gone.Program); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, run := range map[string]func() (command.Finding, error){
		"could not be started": func() (command.Finding, error) { return gone.Run(t.Context(), nil) },
		"killed after": func() (command.Finding, error) {
			return check(t, "exec sleep 100", 50*time.Millisecond).Run(t.Context(), nil)
		},
		"signal":   func() (command.Finding, error) { return check(t, "kill -9 $$", 0).Run(t.Context(), nil) },
		"canceled": func() (command.Finding, error) { return check(t, "exit 0", 0).Run(ended, nil) },
	} {
		if f, err := run(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

func TestNewCheck(t *testing.T) {
	for want, c := range map[string]command.Check{
		"name a program":   {},
		"look up":          {Program: "no-such-program-here"},
		"the directory":    {Program: "true", Dir: "relative"},
		"directory is \"/": {Program: "true", Dir: "/no/such/directory"},
	} {
		if _, err := command.NewCheck(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if c, err := command.NewCheck(command.Check{Program: "true"}); err != nil || !filepath.IsAbs(c.Program) {
		t.Errorf("%+v %v", c, err)
	}
}
