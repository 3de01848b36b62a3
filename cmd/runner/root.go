package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookhq/daybook/cmd/internal/manpages"
	"github.com/daybookhq/daybook/runtime/system"
)

// app is what every command shares: where the system is, and where to write.
type app struct {
	opts     system.Options
	secrets  []string
	logLevel string
	sealKey  string
	health   string // address; empty = not served
	page     pageFlags
	in       io.Reader
	out, err io.Writer
	flags    *pflag.FlagSet // of the command that runs; set before it does
}

// run is the whole program but for the process: results go to stdout, all else
// to stderr, where no password of a URL may appear.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stderr = maskPasswords(stderr)
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

  runner demo                                  see it work; nothing to install
  runner torture                               see it survive: everything around it is killed
  runner dev --dir .daybook                    embedded: everything in one process
  runner worker --nats URL --postgres URL      distributed: NATS JetStream and PostgreSQL

A setting is a flag, else the environment variable named beside it, else the default.
Exit codes: 0 ok, 1 failed, 2 wrong usage; submit --wait has more. What happened afterwards: ledgerctl.`,
		SilenceUsage: true, SilenceErrors: true,
		SuggestionsMinimumDistance: 2,
		Args:                       noArgs,
		PersistentPreRunE: func(c *cobra.Command, _ []string) error {
			a.flags = c.Flags()
			if err := fromEnvironment(a.flags); err != nil {
				return err
			}
			var err error
			if a.opts.Secrets, err = system.ReadSecrets(a.secrets); err != nil {
				return usageError{err}
			}
			a.opts.Sealer, err = readSealKey(a.sealKey)
			return err
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w (see %s -h)", err, c.CommandPath())
	})
	f := c.PersistentFlags()
	f.SortFlags = false
	f.StringVar(&a.opts.Dir, "dir", "", "embedded: directory of database and journal (DAYBOOK_DIR)")
	f.StringVar(&a.opts.NATS, "nats", "", "distributed: NATS URL (DAYBOOK_NATS_URL)")
	f.StringVar(&a.opts.Postgres, "postgres", "", "distributed: PostgreSQL URL (DAYBOOK_POSTGRES_URL)")
	f.StringVar(&a.opts.Sync, "nats-sync", "", "what the NATS server's sync_interval is: always or interval (DAYBOOK_NATS_SYNC)")
	f.DurationVar(&a.opts.Grace, "grace", defaultGrace, "time after an attempt's deadline until nobody can act for it any more (DAYBOOK_GRACE)")
	f.StringSliceVar(&a.secrets, "secret", nil, "secret as NAME=FILE: redacted everywhere, and handed to tools for secret://NAME (repeatable) (DAYBOOK_SECRETS)")
	f.StringVar(&a.sealKey, "seal-key", "", "file with 32 bytes in hex or base64: exact results of destructive tools are kept encrypted under it (DAYBOOK_SEAL_KEY_FILE)")
	f.StringVar(&a.logLevel, "log-level", "info", "debug, info, warn or error (DAYBOOK_LOG_LEVEL)")
	c.AddCommand(a.devCommand(), a.workerCommand(), a.projectorCommand(), a.submitCommand(), a.toolsCommand(), a.policyCommand(), a.demoCommand(), a.demoChildCommand(),
		a.tortureCommand(), a.tortureChildCommand())
	c.AddCommand(manpages.Command(usagef))
	return c
}

// noArgs refuses stray words as a usage error, with the commands there are.
func noArgs(c *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case c.HasSubCommands():
		hint := "see " + c.CommandPath() + " -h"
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		return usagef("unknown command %q of %s (%s)", args[0], c.CommandPath(), hint)
	default:
		return usagef("%s takes no arguments, got %q (see %s -h)", c.CommandPath(), strings.Join(args, " "), c.CommandPath())
	}
}

// logger writes to stderr. Once a system is open its redactor stands in front.
func (a *app) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(a.logLevel)); err != nil {
		return nil, usagef("%s %q: want debug, info, warn or error", a.name("log-level"), a.logLevel)
	}
	return slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level})), nil
}
