// Command research runs an agent that answers two questions from papers, the
// web, documents and its memory, and shows what the ledger knows about it:
//
//	go run ./examples/research
//
// It needs no network and no model provider: see README.md. With --model it asks a
// real one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/daybookhq/daybook/tools/extract"
	"github.com/daybookhq/daybook/tools/sandbox/javascript"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if code, ok := role(ctx, os.Args[1:]); ok {
		os.Exit(code)
	}
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	default:
		fmt.Fprintln(os.Stderr, "research:", err)
		os.Exit(1)
	}
}

// role is what this program does when it is its own child: the worker, which is
// to be killed, and those that touch what strangers have made.
func role(ctx context.Context, args []string) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	var err error
	switch args[0] {
	case "work":
		err = work(ctx, os.Stdin, os.Stdout, os.Stderr)
	case "files": // an MCP server for a folder
		err = serveFiles(ctx, args[len(args)-1])
	case "parse": // one document
		return extract.Child(os.Stdin, os.Stdout), true
	case "javascript": // one program
		err = javascript.Serve(os.Stdin, os.Stdout)
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", args[0], err)
		return 1, true
	}
	return 0, true
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := &supervisor{out: stdout, ledgerctl: ledgerctl()}
	f := flag.NewFlagSet("research", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.dir, "data", "", "new directory to keep everything in; default a temporary one")
	f.BoolVar(&s.spare, "no-kill", false, "lets the worker live")
	s.model.Add(f)
	f.StringVar(&s.files, "files", "", "an MCP filesystem server instead of the example's own, as a command to which the folder is added:\n'npx -y @modelcontextprotocol/server-filesystem'")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("it takes no arguments, got %q (see -h)", f.Arg(0))
	}
	return s.run(ctx)
}
