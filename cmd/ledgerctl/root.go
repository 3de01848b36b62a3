package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/system"
)

// app is what every command shares: where the ledger is, how to write, and the
// clock that ages are counted on.
type app struct {
	opts     system.Options
	output   string // a format that the command writes itself
	shape    shape  // what is made of it
	machine  bool   // the output is JSON or YAML
	dry, yes bool   // --dry-run, --yes
	times    string
	color    string
	ask      func() string  // reads an answer; nil = nobody is there to ask
	cmd      *cobra.Command // that runs
	// progressKind says how progress is shown; empty, of a command without it, is none.
	progressKind string
	in           io.Reader
	out, err     io.Writer
	term         terminal // of out
	now          func() time.Time
	caller       func() string  // who runs the command
	flags        *pflag.FlagSet // the persistent ones, as given
	scan         int            // rows that one page of a filtered list looks at
	window       int            // newest runs that --follow looks at
}

func newApp(stdin io.Reader, stdout, stderr io.Writer, now func() time.Time) *app {
	return &app{
		in: stdin, out: stdout, err: stderr, term: terminalOf(stdout), now: now, caller: caller, output: formatTable,
		times: timesAuto, ask: askerOf(stdin, stderr), scan: maxScan, window: followWindow,
	}
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	c, err := root.ExecuteContextC(ctx)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = errInterrupted
	}
	if err != nil {
		a.tell(err, c, args)
	}
	return exitCode(err)
}

// context is that of the command that runs.
func (a *app) context() context.Context {
	if a.cmd == nil {
		return context.Background()
	}
	return a.cmd.Context()
}

// begin reads the flags that every command has.
func (a *app) begin(c *cobra.Command) error {
	a.cmd = c
	switch a.times {
	case timesAuto, timesISO, timesRelative:
	default:
		return usagef("--times %q: want auto, iso or relative", a.times)
	}
	switch a.color {
	case "auto":
	case "always":
		a.term.color = true
	case "never":
		a.term.color = false
	default:
		return usagef("--color %q: want auto, always or never", a.color)
	}
	return a.fixBounds(c)
}

func (a *app) root() *cobra.Command {
	c := group("ledgerctl", "Asks the run ledger what the agents did, and proves it")
	c.Long = `Asks the run ledger what the agents did, and proves it.

  ledgerctl runs list --state parked        what waits
  ledgerctl why RUN                         why it waits, and what to type
  ledgerctl indoubt                         effects that nobody can know about
  ledgerctl approvals                       calls that wait for a person's approval
  ledgerctl costs --by agent                what it cost
  ledgerctl verify                          whether the record is whole
  ledgerctl stuck                           what stands still without a reason

RUN is a run's id, or the beginning or end of one (6 characters or more) that no
other recent run has. A call is RUN/t1.c0: turn 1, first call.
A setting is a flag, else the environment variable named beside it, else the default.
Exit codes: 0 ok, 1 failed, 2 wrong usage; verify also gives 3 tampered, 4 incomplete
(ledgerctl help exit-codes).`
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error { return a.begin(c) }
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w (see %s -h)", err, c.CommandPath())
	})
	f := c.PersistentFlags()
	f.SortFlags = false
	f.StringVar(&a.opts.Dir, "dir", env("DAYBOOK_DIR", ""), "embedded: directory of the ledger (DAYBOOK_DIR)")
	// The URL may hold a password, so the default is not shown as one.
	f.StringVar(&a.opts.Postgres, "postgres", "", "distributed: PostgreSQL URL (DAYBOOK_POSTGRES_URL)")
	f.DurationVar(&a.opts.Grace, "grace", envDuration("DAYBOOK_GRACE", 30*time.Second), "time after an attempt's deadline until nobody can act for it any more, as the workers have it (DAYBOOK_GRACE)")
	f.StringVar(&a.times, "times", timesAuto, "moments in tables: iso (UTC), relative (3m ago) or auto; machine formats have ISO always")
	f.StringVar(&a.color, "color", "auto", "colours in tables: always, never or auto, which is on a terminal and without NO_COLOR")
	_ = c.RegisterFlagCompletionFunc("times", cobra.FixedCompletions([]string{timesAuto, timesISO, timesRelative}, cobra.ShellCompDirectiveNoFileComp))
	_ = c.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	a.flags = f
	c.AddCommand(
		a.runsCommand(), a.callsCommand(), a.artifactsCommand(), a.costsCommand(), a.whyCommand(),
		a.indoubtCommand(), a.resolveCommand(), a.approvalsCommand(), a.approveCommand(), a.denyCommand(), a.toolsCommand(), a.cancelCommand(), a.forkCommand(), a.rehearseCommand(), a.pauseCommand(), a.resumeCommand(), a.queuesCommand(), a.schedulesCommand(), a.sessionsCommand(), a.budgetsCommand(), a.eraseCommand(),
		a.stuckCommand(), a.reconcileCommand(), a.rebuildCommand(),
		a.verifyCommand(), a.exportCommand(), a.leakscanCommand(), a.doctorCommand(), a.migrateCommand(), a.versionCommand(),
	)
	c.AddCommand(a.handoffsCommand(), a.completeCommand(), a.signalCommand(), a.sharedCommand(), a.memoryCommand(), a.pricesCommand(), a.uiCommand(), a.tokensCommand())
	return a.finish(c)
}

// group is a command that only has others below it.
func group(use, short string) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: noArgs, SuggestionsMinimumDistance: 2,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
}

// noArgs refuses stray words as a usage error.
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

// oneArg wants exactly one word, which what describes.
func oneArg(what string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] != "" {
			return nil
		}
		return usagef("%s wants %s, got %d arguments (see %s -h)", c.CommandPath(), what, len(args), c.CommandPath())
	}
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

// where settles the two ways to say where the ledger is: a flag overrules the
// environment, also the other one's.
func (a *app) where() system.Options {
	o := a.opts
	if a.flags.Changed("postgres") && !a.flags.Changed("dir") {
		o.Dir = ""
	}
	if !a.flags.Changed("postgres") && !a.flags.Changed("dir") {
		o.Postgres = env("DAYBOOK_POSTGRES_URL", "")
	}
	if o.NATS == "" {
		o.NATS = env("DAYBOOK_NATS_URL", "")
	}
	o.Logger = slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return o
}

// open opens the ledger for one command.
func (a *app) open(ctx context.Context) (ledger.Store, *redact.Redactor, error) {
	st, r, err := system.OpenLedger(ctx, a.where())
	if errors.Is(err, system.ErrOptions) {
		return nil, nil, usageError{err}
	}
	return st, r, err
}

// withDB runs do on what open finds in the ledger's database, and closes the ledger.
func withDB[T any](ctx context.Context, a *app, what string, open func(sqlstore.DB, *redact.Redactor) (T, error), do func(ledger.Store, T) error) error {
	st, r, err := a.open(ctx)
	if err != nil {
		return err
	}
	own, ok := st.(interface{ DB() sqlstore.DB })
	if !ok {
		return errors.Join(errors.New("this ledger keeps no "+what), st.Close())
	}
	kept, err := open(own.DB(), r)
	if err == nil {
		err = do(st, kept)
	}
	return errors.Join(err, st.Close())
}

// withLedger runs f on the open ledger and closes it.
func (a *app) withLedger(ctx context.Context, f func(ledger.Store) error) error {
	st, _, err := a.open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(f(st), st.Close())
}

// command is a line to type: the words, and what this command line said about
// where the ledger is. A PostgreSQL URL may hold a password and is not repeated.
func (a *app) command(words ...string) string {
	line := "ledgerctl"
	for _, w := range words {
		line += " " + quote(w)
	}
	if a.flags.Changed("dir") {
		line += " --dir " + quote(a.opts.Dir)
	}
	if a.flags.Changed("postgres") {
		line += " --postgres URL"
	}
	return line
}

// quote makes one word for a shell of s.
func quote(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,@%+=", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
