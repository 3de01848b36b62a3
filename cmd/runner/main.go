// Command runner is the worker and its friends.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/runtime/shelf"
)

func main() { os.Exit(program()) }

// program is what a process of this binary does; its exit code.
func program() int {
	if len(os.Args) == 3 && os.Args[1] == toolChild {
		// Before all else: what such a process may take is counted.
		return shelf.Child(os.Args[2], os.Stdin, os.Stdout, os.Stderr)
	}
	if err := fault.Check(); err != nil {
		fmt.Fprintln(os.Stderr, "runner:", err)
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	// Of submit --wait: how the run stands.
	exitRunFailed    = 3
	exitRunCancelled = 4
	exitRunParked    = 5
)

// outcomeError is that a run which was waited for did not finish.
type outcomeError struct {
	code int
	text string
}

func (e outcomeError) Error() string { return e.text }

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func exitCode(err error) int {
	var u usageError
	var o outcomeError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &u):
		return exitUsage
	case errors.As(err, &o):
		return o.code
	default:
		return exitFailed
	}
}
