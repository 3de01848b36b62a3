package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/runtime/system"
)

// app is what every command shares: where the system is, and where to write.
type app struct {
	opts     system.Options
	logLevel string
	in       io.Reader
	out, err io.Writer
}

// run is the whole program but for the process: results go to stdout, all else
// to stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{in: stdin, out: stdout, err: stderr}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "runner: %v\n", err)
	}
	return exitCode(err)
}

func (a *app) root() *cobra.Command {
	c := &cobra.Command{
		Use:   "runner",
		Short: "Runs agents from a queue and remembers what they did",
		Long: `Runs agents from a queue and remembers what they did.

Embedded (one process, nothing to install):   runner dev --dir .daybook
Distributed (NATS JetStream and PostgreSQL):  runner worker --nats URL --postgres URL
To see it work:                               runner demo

A setting is a flag, else the environment variable named beside it, else the default.`,
		SilenceUsage: true, SilenceErrors: true,
		Args: noArgs,
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w (see %s -h)", err, c.CommandPath())
	})
	f := c.PersistentFlags()
	f.StringVar(&a.opts.Dir, "dir", env("DAYBOOK_DIR", ""), "embedded: directory of database and journal (DAYBOOK_DIR)")
	f.StringVar(&a.opts.NATS, "nats", env("DAYBOOK_NATS_URL", ""), "distributed: NATS URL (DAYBOOK_NATS_URL)")
	f.StringVar(&a.opts.Postgres, "postgres", env("DAYBOOK_POSTGRES_URL", ""), "distributed: PostgreSQL URL (DAYBOOK_POSTGRES_URL)")
	f.StringVar(&a.opts.Sync, "nats-sync", env("DAYBOOK_NATS_SYNC", ""), "what the NATS server's sync_interval is: always or interval (DAYBOOK_NATS_SYNC)")
	f.DurationVar(&a.opts.Grace, "grace", envDuration("DAYBOOK_GRACE", 30*time.Second), "time after an attempt's deadline until nobody can act for it any more (DAYBOOK_GRACE)")
	f.StringVar(&a.logLevel, "log-level", env("DAYBOOK_LOG_LEVEL", "info"), "debug, info, warn or error (DAYBOOK_LOG_LEVEL)")
	c.AddCommand(a.devCommand(), a.workerCommand(), a.projectorCommand(), a.submitCommand(), a.demoCommand(), a.demoChildCommand())
	return c
}

// noArgs refuses stray words as a usage error, with the commands there are.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if c.HasSubCommands() {
		return usagef("unknown command %q (see %s -h)", args[0], c.CommandPath())
	}
	return usagef("%s takes no arguments, got %q (see %s -h)", c.Name(), strings.Join(args, " "), c.CommandPath())
}

func env(name, otherwise string) string {
	if v, ok := os.LookupEnv(name); ok {
		return v
	}
	return otherwise
}

// envDuration falls back on a value that does not parse; the flag's own parser
// reports bad values where a person gives them.
func envDuration(name string, otherwise time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv(name)); err == nil {
		return d
	}
	return otherwise
}

// logger writes to stderr. Everything that could carry a secret goes through
// the redactor's handler once there is one.
func (a *app) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, usagef("--log-level %q: want debug, info, warn or error", a.logLevel)
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level})), nil
}
