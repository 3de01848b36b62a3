//go:build unix

package process_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

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
