//go:build unix

// Package confined has work that strangers had a hand in done by a process of
// its own, which first gives up, for good, what the work does not need: memory
// and processor time beyond a limit, files, sockets, other programs. The process
// has an empty environment and is killed with all that it started.
package confined

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/tools/internal/process"
	"github.com/daybookhq/daybook/tools/sandbox"
)

// How a child may end that has not answered.
var (
	// ErrTime says that it was killed since its time was up.
	ErrTime = errors.New("time is up")
	// ErrMemory says that it wanted more memory than there was for it.
	ErrMemory = errors.New("it took too much memory")
	// ErrKilled says that the system killed it: of processor time or memory too
	// much.
	ErrKilled = errors.New("the system killed it: it took too much processor time or memory")
	// ErrStart says that there was no child.
	ErrStart = errors.New("no child process can be started")
)

// Program starts children, one for each piece of work. Safe for concurrent use.
type Program struct {
	command []string
	slots   chan struct{}
}

// New returns the program of a command, whose children read with [Read], and
// confine themselves. At most parallel of them are there at a time.
func New(command []string, parallel int) (*Program, error) {
	if len(command) == 0 || parallel < 1 {
		return nil, errors.New("a command, and at least one child at a time, are required")
	}
	return &Program{command, make(chan struct{}, parallel)}, nil
}

// Order is one piece of work.
type Order struct {
	Head any    // as JSON, of one line
	Body []byte // follows it as it is
	// Time is how long the child may be there. Waiting for a place among the
	// parallel ones is not part of it.
	Time time.Duration
	// MaxAnswer bounds what it says, in bytes.
	MaxAnswer int64
}

// Do starts a child, gives it an order and decodes its answer, which is JSON. It
// returns once the child and its process group are gone. If ctx ends, it returns
// the cause; other errors wrap one of this package's, or say how the child
// crashed.
func (p *Program) Do(ctx context.Context, o Order, answer any) error {
	head, err := json.Marshal(o.Head)
	if err != nil {
		return fmt.Errorf("describe the work: %w", err)
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if ctx.Err() != nil { // both were there
		return context.Cause(ctx)
	}
	inner, cancel := context.WithTimeoutCause(ctx, o.Time, ErrTime)
	defer cancel()
	c := exec.CommandContext(inner, p.command[0], p.command[1:]...)
	c.Env = []string{"GOTRACEBACK=none"} // nothing of this process's own
	c.Dir = "/"
	c.Stdin = io.MultiReader(strings.NewReader(string(head)+"\n"), bytes.NewReader(o.Body))
	stderr := &sandbox.Buffer{Max: 4096}
	c.Stderr = stderr
	process.Group(c)
	stdout, err := c.StdoutPipe()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStart, err)
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("%w: %w", ErrStart, err)
	}
	// A child of the child that left the group may hold the pipe open for ever.
	defer context.AfterFunc(inner, func() { _ = stdout.Close() })()
	said := json.NewDecoder(io.LimitReader(stdout, o.MaxAnswer)).Decode(answer)
	if !errors.Is(said, io.EOF) {
		_ = process.Kill(c) // what it has said is all that is wanted; not waited for yet, so the number is still its own
	}
	ended := process.Reap(c)
	switch {
	case said == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case inner.Err() != nil:
		return ErrTime
	}
	return p.crash(said, ended, stderr.String())
}

// crash says how a child ended that did not answer.
func (p *Program) crash(said, ended error, last string) error {
	exit := (*exec.ExitError)(nil)
	name := filepath.Base(p.command[0])
	if errors.As(ended, &exit) && (exit.ExitCode() == exitMemory || memoryEnded(last)) {
		return ErrMemory
	}
	if exit == nil || !errors.Is(said, io.EOF) { // it was killed since it said this
		return fmt.Errorf("the answer of %s: %w", name, said)
	}
	if s, ok := exit.Sys().(syscall.WaitStatus); ok && s.Signaled() && s.Signal() == syscall.SIGKILL {
		return ErrKilled
	}
	return fmt.Errorf("run %s: %w: %s", name, ended, strings.TrimSpace(last))
}

// memoryEnded reports whether Go, or its race detector, said that the kernel
// gave it no more; nothing but their last words tells that from another crash.
func memoryEnded(last string) bool {
	for _, words := range []string{"out of memory", "cannot allocate memory", "failed to allocate", "stack exceeds"} {
		if strings.Contains(last, words) {
			return true
		}
	}
	return false
}
