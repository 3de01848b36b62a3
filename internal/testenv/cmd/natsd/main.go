// Command natsd is a NATS server for tests that must kill one: the embedded
// server in a process of its own. It prints its URL when it is ready and shuts
// down when its standard input ends or on SIGINT and SIGTERM.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/daybookhq/daybook/internal/embedded"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "natsd:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("natsd", flag.ContinueOnError)
	store := flags.String("store", "", "directory of the streams")
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on; port 0 takes a free one")
	interval := flags.Duration("sync-interval", 0, "how often streams are fsynced; 0 is before every ack")
	if err := flags.Parse(args); err != nil {
		return err
	}
	server, err := embedded.Start(embedded.Config{StoreDir: *store, Listen: *listen, SyncInterval: *interval})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	if _, err := fmt.Fprintln(stdout, server.ClientURL()); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { // ends with standard input, at the latest with the process
		_, _ = io.Copy(io.Discard, stdin)
		close(ended)
	}()
	select {
	case <-ctx.Done():
	case <-ended:
	}
	return nil
}
