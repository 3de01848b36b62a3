//go:build unix

package command

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"

	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/internal/process"
	"github.com/daybookhq/daybook/tools/sandbox"
)

var errTime = errors.New("time for the command is up")

// run executes argv as it is. An error is [tools.NoEffect] only if the program
// was not started.
func (r *runner) run(ctx context.Context, p *Program, argv []string) (result, error) {
	if ctx.Err() != nil {
		return result{}, tools.NoEffect(context.Cause(ctx))
	}
	inner, cancel := context.WithTimeoutCause(ctx, r.cfg.Timeout, errTime)
	defer cancel()
	c := exec.CommandContext(inner, p.Path)
	c.Args, c.Dir, c.Env = argv, r.cfg.Dir, r.env // without Stdin it reads from /dev/null
	stdout, stderr := &sandbox.Buffer{Max: r.cfg.MaxOutput}, &sandbox.Buffer{Max: r.cfg.MaxOutput}
	c.Stdout, c.Stderr = stdout, stderr
	process.Group(c)
	if err := c.Start(); err != nil {
		return result{}, tools.NoEffect(fmt.Errorf("%s could not be started: %w", p.Name, err))
	}
	err := process.Reap(c)
	var exit *exec.ExitError
	switch {
	case err == nil, inner.Err() == nil && errors.As(err, &exit):
		return outcome(c, stdout, stderr), nil
	case errors.Is(context.Cause(inner), errTime):
		return result{}, fmt.Errorf("%s was killed after %v, with what it had started; what it did until then is done", p.Name, r.cfg.Timeout)
	case ctx.Err() != nil:
		return result{}, fmt.Errorf("%s was killed: %w", p.Name, context.Cause(ctx))
	}
	return result{}, fmt.Errorf("run %s: %w", p.Name, err)
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
