// Command withpostgres runs a command with a PostgreSQL server for tests:
//
//	go run ./internal/testenv/cmd/withpostgres -- go test ./...
//
// The command finds the server in DAYBOOK_TEST_POSTGRES_URL. If that is set
// already, nothing is started. Else the server comes from locally installed
// binaries, from docker compose if an engine answers, or, for root on Debian,
// from a package that is installed first. It ends with the command, whatever
// ends that; the exit code is the command's.
//
// Local binaries keep their data in memory, which is fast and says nothing about
// speed: benchmarks write withpostgres -disk.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

const urlVariable = "DAYBOOK_TEST_POSTGRES_URL"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	code, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "withpostgres:", err)
	}
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int, err error) {
	flags := flag.NewFlagSet("withpostgres", flag.ContinueOnError)
	flags.SetOutput(stderr)
	disk := flags.Bool("disk", false, "keep the data on disk, where an fsync costs what it costs")
	if err := flags.Parse(args); err != nil {
		return 2, nil // Parse has said why
	}
	args = flags.Args()
	if len(args) == 0 {
		return 2, errors.New("no command; write one, such as: withpostgres -- go test ./tools")
	}
	server, err := finder{disk: *disk, stderr: stderr}.find(ctx)
	if err != nil {
		return 1, err
	}
	defer func() {
		if cerr := server.close(); cerr != nil {
			code, err = max(code, 1), errors.Join(err, fmt.Errorf("stop the server: %w", cerr))
		}
	}()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, stderr
	cmd.Env = append(os.Environ(), urlVariable+"="+server.url)
	// Told to stop, tell the command first: it may have servers of its own.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 1, errors.New("interrupted")
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), nil // the command has said why
	case err != nil:
		return 1, err
	}
	return 0, nil
}
