// Command ledgerctl is the auditor's tool: it asks the run ledger what the
// agents did, what it cost and why something waits, settles what is in doubt
// and proves that the record is whole.
package main

import (
	"context"
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
