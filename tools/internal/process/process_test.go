//go:build unix

package process_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/tools/internal/process"
)

// The test program is also the program that kills and reaps, whose standard
// error is looked at, and the one that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "hang":
			for {
				<-time.After(time.Hour)
			}
		case "kill":
			c := exec.CommandContext(context.Background(), os.Args[0], "hang", "a-secret")
			process.Group(c)
			if err := c.Start(); err != nil {
				os.Exit(1)
			}
			if err := process.Kill(c); err != nil {
				os.Exit(1)
			}
			if err := process.Reap(c); err == nil {
				os.Exit(1)
			}
			os.Exit(0)
		case "guard": // until it is killed, with a child that has one of its own
			c := exec.CommandContext(context.Background(), "/bin/sh", "-c", `"$0" hang & echo $! $$; wait`, os.Args[0])
			c.Stdout = os.Stdout
			process.Group(c)
			if err := c.Start(); err != nil {
				os.Exit(1)
			}
			defer process.Guard(c)()
			_ = process.Reap(c)
			os.Exit(0)
		case "debug":
			process.ShutdownDebug("by hand", "one", 1)
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func traced(t *testing.T, act, value string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0], act)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	if value != "" {
		c.Env = append(c.Environ(), process.DebugVariable+"="+value)
	}
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	if stdout.Len() > 0 {
		t.Errorf("it wrote %q to standard output", stdout.String())
	}
	return stderr.String()
}

// Whoever is killed by SIGKILL kills nobody: the guard does, whom it has started
// and whom those have, though they look at nothing.
func TestGuard(t *testing.T) {
	c := exec.CommandContext(t.Context(), os.Args[0], "guard")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var child, head int
	if _, err := fmt.Fscan(out, &child, &head); err != nil {
		t.Fatal(err)
	}
	if testenv.Gone(child) || testenv.Gone(head) {
		t.Fatal("the programs have ended by themselves")
	}
	// The guard is there: a process of the killed one beside the program.
	deadline := time.Now().Add(time.Minute)
	for !guarded(t, c.Process.Pid) {
		if time.Now().After(deadline) {
			t.Fatal("there is no guard")
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	for !testenv.Gone(child) || !testenv.Gone(head) {
		if time.Now().After(deadline) {
			t.Fatalf("a minute after the kill the programs %d and %d are there", head, child)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// guarded reports whether a process has a child that is a guard.
func guarded(t *testing.T, pid int) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(lines) == 0 {
		t.Fatalf("no processes under /proc: %v", err)
	}
	for _, name := range lines {
		line, _ := os.ReadFile(name)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "stat"))
		if strings.Contains(string(line), "daybook-guard") && strings.Contains(string(stat), fmt.Sprintf(" %d ", pid)) {
			return true
		}
	}
	return false
}

// A guard that is released kills nobody and leaves nothing behind.
func TestGuardReleased(t *testing.T) {
	c := exec.CommandContext(t.Context(), os.Args[0], "debug")
	process.Group(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	release := process.Guard(c)
	if err := process.Reap(c); err != nil {
		t.Error(err)
	}
	release()
	if left := testenv.Children(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
}

func TestShutdownDebug(t *testing.T) {
	for _, value := range []string{"", "0", "true"} {
		t.Run("SE-79 silent unless it is 1: "+value, func(t *testing.T) {
			if got := traced(t, "debug", value) + traced(t, "kill", value); got != "" {
				t.Errorf("%q", got)
			}
		})
	}
	t.Run("SE-79 a line on standard error", func(t *testing.T) {
		if got := traced(t, "debug", "1"); got != "shutdown: by hand one=1\n" {
			t.Errorf("%q", got)
		}
	})
	t.Run("SE-80 a kill and a reap are both traced, without arguments", func(t *testing.T) {
		got := traced(t, "kill", "1")
		if strings.Count(got, "shutdown: kill pid=") != 1 || strings.Count(got, "shutdown: reap pid=") != 1 || strings.Contains(got, "a-secret") {
			t.Errorf("%q", got)
		}
	})
}
