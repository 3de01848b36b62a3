//go:build unix

// Package process starts and ends other programs for tools: each is the head of
// a process group of its own, which is killed whole, and every kill and every
// reap is traced by one function.
package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// DebugVariable is the environment variable that turns tracing on if it is 1.
const DebugVariable = "DAYBOOK_DEBUG_SHUTDOWN"

// waitDelay is how long a program that has ended may still be waited for since
// somebody else holds its pipes open.
const waitDelay = time.Second

// ShutdownDebug writes one line to standard error if [DebugVariable] is 1, and
// does nothing otherwise. The arguments after msg are names and values in turn.
// They must hold nothing that comes from a user: no arguments of a program.
func ShutdownDebug(msg string, extra ...any) {
	if os.Getenv(DebugVariable) != "1" {
		return
	}
	var line strings.Builder
	fmt.Fprintf(&line, "shutdown: %s", msg)
	for i := 0; i+1 < len(extra); i += 2 {
		fmt.Fprintf(&line, " %v=%v", extra[i], extra[i+1])
	}
	line.WriteByte('\n')
	_, _ = os.Stderr.WriteString(line.String()) // one write, so that lines stay whole
}

// Group makes c, which has not been started, the head of a process group that is
// killed when the context of c ends. End c with [Reap].
func Group(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return Kill(c) }
	c.WaitDelay = waitDelay
}

// Kill kills the whole group of c, which was started and not waited for, at
// once. [os.ErrProcessDone] says that there is nobody left.
func Kill(c *exec.Cmd) error { return kill("kill", c) }

func kill(what string, c *exec.Cmd) error {
	err := syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		err = os.ErrProcessDone
	}
	ShutdownDebug(what, "pid", c.Process.Pid, "program", filepath.Base(c.Path), "error", err)
	return err
}

// Reap waits for c and then kills what it left behind in its group. The error is
// that of [exec.Cmd.Wait], but for pipes that such a process held open.
func Reap(c *exec.Cmd) error {
	err := c.Wait()
	ShutdownDebug("reap", "pid", c.Process.Pid, "program", filepath.Base(c.Path), "state", c.ProcessState)
	// The number of the group is its own for as long as anybody is in it; with
	// nobody in it, numbers would have to go round once in these microseconds.
	_ = kill("kill the rest", c)
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil
	}
	return err
}

// Run starts c as [Group] has it, and reaps it.
func Run(c *exec.Cmd) error {
	Group(c)
	if err := c.Start(); err != nil {
		return err
	}
	return Reap(c)
}
