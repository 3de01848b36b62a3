//go:build unix

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/internal/process"
	"github.com/daybookhq/daybook/tools/sandbox"
)

var errTime = errors.New("time for the command is up")

// run executes argv as it is. An error is [tools.NoEffect] only if the program
// was not started.
func (r *runner) run(ctx context.Context, p *Program, argv []string) (result, error) {
	return job{p.Name, p.Path, argv, r.cfg.Dir, r.env, nil, r.cfg.Timeout, r.cfg.MaxOutput}.run(ctx)
}

// job is a program that is executed directly, by no shell.
type job struct {
	name, path string
	argv       []string
	dir        string
	env        []string
	stdin      []byte // without it, it reads from /dev/null
	timeout    time.Duration
	maxOutput  int
}

func (j job) run(ctx context.Context) (result, error) {
	if ctx.Err() != nil {
		return result{}, tools.NoEffect(context.Cause(ctx))
	}
	inner, cancel := context.WithTimeoutCause(ctx, j.timeout, errTime)
	defer cancel()
	c := exec.CommandContext(inner, j.path)
	c.Args, c.Dir, c.Env = j.argv, j.dir, j.env
	if j.stdin != nil {
		c.Stdin = bytes.NewReader(j.stdin)
	}
	stdout, stderr := &sandbox.Buffer{Max: j.maxOutput}, &sandbox.Buffer{Max: j.maxOutput}
	c.Stdout, c.Stderr = stdout, stderr
	process.Group(c)
	if err := c.Start(); err != nil {
		return result{}, tools.NoEffect(fmt.Errorf("%s could not be started: %w", j.name, err))
	}
	release := process.Guard(c)
	err := process.Reap(c)
	release()
	var exit *exec.ExitError
	switch {
	case err == nil, inner.Err() == nil && errors.As(err, &exit):
		return outcome(c, stdout, stderr), nil
	case errors.Is(context.Cause(inner), errTime):
		return result{}, fmt.Errorf("%s was killed after %v, with what it had started; what it did until then is done", j.name, j.timeout)
	case ctx.Err() != nil:
		return result{}, fmt.Errorf("%s was killed: %w", j.name, context.Cause(ctx))
	}
	return result{}, fmt.Errorf("run %s: %w", j.name, err)
}

// outcome is that of a command that ended by itself, well or not.
func outcome(c *exec.Cmd, stdout, stderr *sandbox.Buffer) result {
	out := result{
		ExitCode: c.ProcessState.ExitCode(),
		Stdout:   strings.ToValidUTF8(stdout.String(), "\uFFFD"),
		Stderr:   strings.ToValidUTF8(stderr.String(), "\uFFFD"),
		Cut:      stdout.Cut() || stderr.Cut(),
	}
	if s, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		out.Signal = s.Signal().String()
	}
	return out
}
