//go:build daybook_faults

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/internal/testenv"
)

// patience is how long anything may take that must happen. The machine may be
// busy with other tests; nothing waits that long that works.
const patience = 3 * time.Minute

// until waits until f says that it is so; what f returns otherwise is why not.
func until(t testing.TB, what string, f func() error) {
	t.Helper()
	if err := poll(patience, f); err != nil {
		t.Fatalf("%s: not within %s: %v", what, patience, err)
	}
}

// errStop ends a poll at once.
type errStop struct{ error }

func poll(d time.Duration, f func() error) error {
	deadline := time.NewTimer(d)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil || errors.As(err, new(errStop)) {
			return err
		}
		select {
		case <-deadline.C:
			return err
		case <-tick.C:
		}
	}
}

// built are the binaries of this test run: command → path.
var built sync.Map

// binary builds a command with failpoints, once in a test run.
func binary(t testing.TB, command string) string {
	t.Helper()
	if path, ok := built.Load(command); ok {
		return path.(string)
	}
	path := testenv.Build(t, command, append(raceFlags(), "-tags=daybook_faults")...)
	built.Store(command, path)
	return path
}

// process is a worker or projector under test.
type process struct {
	cmd  *exec.Cmd
	log  string // its standard error and output
	done chan struct{}
	err  error // set when done is closed
}

// start starts a process that dies with the test at the latest.
func start(t testing.TB, log string, env []string, bin string, args ...string) *process {
	t.Helper()
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := &process{cmd: exec.Command(bin, args...), log: log, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = f, f
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the process
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(p.kill)
	return p
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// signal sends s; a process that has ended is no news.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill is SIGKILL, and wait for the end.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	p.signal(syscall.SIGCONT)
	<-p.done
}

// killed reports whether SIGKILL ended it.
func (p *process) killed() bool {
	var exit *exec.ExitError
	if !p.ended() || !errors.As(p.err, &exit) {
		return false
	}
	s, ok := exit.Sys().(syscall.WaitStatus)
	return ok && s.Signaled() && s.Signal() == syscall.SIGKILL
}

// stop asks the process to end, and wants it to do so in good order.
func (p *process) stop(t testing.TB) {
	t.Helper()
	p.signal(syscall.SIGTERM)
	p.wait(t)
	if p.err != nil {
		t.Errorf("process ended with %v after SIGTERM:\n%s", p.err, p.tail())
	}
}

// wait waits for the end of a process that was asked to end.
func (p *process) wait(t testing.TB) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		t.Errorf("process did not end within %s of SIGTERM", patience)
		p.kill()
	}
}

// tail is the end of what the process said.
func (p *process) tail() string { return tail(p.log, 4000) }

func tail(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return string(b)
}

// says reports whether the log holds text.
func (p *process) says(text string) error {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err
	}
	if !strings.Contains(string(b), text) {
		return fmt.Errorf("the log does not say %q", text)
	}
	return nil
}

// keepLogs shows the logs below dir if the test fails.
func keepLogs(t testing.TB, dir string) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
		for _, l := range logs {
			t.Logf("%s:\n%s", l, tail(l, 6000))
		}
	})
}
