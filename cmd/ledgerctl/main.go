// Command ledgerctl is the auditor's tool: it asks the run ledger what the
// agents did, what it cost and why something waits, settles what is in doubt
// and proves that the record is whole.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/internal/fault"
)

func main() {
	if err := fault.Check(); err != nil {
		fmt.Fprintf(os.Stderr, "ledgerctl: %v\n", err)
		os.Exit(exitUsage)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program but for the process: results go to stdout, all else
// to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return newApp(stdin, stdout, stderr, time.Now).run(ctx, args)
}

// Exit codes. Verify alone gives 3 and 4.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitTampered   = 3
	exitIncomplete = 4
)

// usageError is a command line that cannot be understood.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// verdictError ends the program with a code of its own.
type verdictError struct {
	code int
	text string
}

func (e verdictError) Error() string { return e.text }

func exitCode(err error) int {
	var u usageError
	var v verdictError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &u):
		return exitUsage
	case errors.As(err, &v):
		return v.code
	default:
		return exitFailed
	}
}
