//go:build unix

package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// watcher reads a line that never comes while this process lives; where its input
// ends without one, it kills the group.
const watcher = `read -r _ || kill -9 -"$1"`

// Guard has the whole group of c, which was started by [Group], killed as soon as
// this process ends without having reaped it. Whoever is killed (SIGKILL) kills
// nobody: a program that does not look at its input would go on for ever, beyond
// the deadline after which nobody may act any more. release ends the guard; call it
// after [Reap].
//
// A shell of a few hundred KiB waits beside each program: the kernel's own signal
// (PDEATHSIG) is Linux's alone, comes when a thread ends, and reaches none of
// those that the program has started. Between the start of c and that of the shell
// nobody watches; without /bin/sh nobody does.
func Guard(c *exec.Cmd) (release func()) {
	r, w, err := os.Pipe()
	if err != nil {
		ShutdownDebug("no guard", "pid", c.Process.Pid, "error", err)
		return func() {}
	}
	g := exec.Command("/bin/sh", "-c", watcher, "daybook-guard", strconv.Itoa(c.Process.Pid))
	g.Stdin, g.Env, g.Dir = r, []string{}, "/"
	g.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals of a terminal are not for it
	err = g.Start()
	_ = r.Close()
	if err != nil {
		_ = w.Close()
		ShutdownDebug("no guard", "pid", c.Process.Pid, "program", filepath.Base(c.Path), "error", err)
		return func() {}
	}
	return func() {
		_, _ = w.WriteString("\n") // it may have been killed by itself
		_ = w.Close()
		_ = g.Wait()
	}
}
