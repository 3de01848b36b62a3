package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

// acting are the flags of commands that the record names a person for.
type acting struct{ by, reason string }

func (f *acting) add(c *cobra.Command) {
	c.Flags().StringVar(&f.by, "by", env("USER", ""), "who asks (required; default the name you are logged in under)")
	c.Flags().StringVar(&f.reason, "reason", "", "why (required)")
}

func (f acting) check() error {
	if f.by == "" || f.reason == "" {
		return usagef("--by and --reason are required: the record says who did it, and why")
	}
	return nil
}

func (a *app) pauseCommand() *cobra.Command {
	var f acting
	c := &cobra.Command{
		Use:   "pause RUN",
		Short: "Holds a run back until it is resumed",
		Long: `Holds a run back until it is resumed. A run that is queued or waits is not taken by any
worker, whatever comes in for it; the worker of a running one learns of it at its next
heartbeat, ends the act in hand and parks it. A paused run can still be cancelled.`,
		Example: `  ledgerctl pause 7W6X5Y --by ada --reason "is this the right customer?"`,
		Args:    oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				r, err := a.readRun(ctx, st, args[0])
				if err != nil {
					return err
				}
				r, done, err := st.Pause(ctx, r.ID, f.by, f.reason)
				switch {
				case errors.Is(err, ledger.ErrEnded), errors.Is(err, ledger.ErrCancelling):
					return fmt.Errorf("%w: nothing to pause (%s)", err, a.command("runs", "show", args[0]))
				case err != nil:
					return err
				case a.output == formatJSON:
					return a.json(a.runView(ledger.Summary{Run: r}))
				case !done:
					_, err = fmt.Fprintf(a.out, "run %s is paused already since %s, by %s: %s\n", r.ID, a.since(r.HeldAt), clean(r.HeldBy), clean(r.HeldReason))
					return err
				case r.State == ledger.Running:
					_, err = fmt.Fprintf(a.out, "run %s is running: its worker parks it after the act in hand. To let it go on: %s\n", r.ID, a.resumeLine(r.ID.String()))
					return err
				}
				_, err = fmt.Fprintf(a.out, "run %s is %s and no worker takes it. To let it go on: %s\n", r.ID, r.State, a.resumeLine(r.ID.String()))
				return err
			})
		},
	}
	f.add(c)
	a.outputFlag(c, formatTable, formatJSON)
	return c
}

func (a *app) resumeLine(run string) string {
	return a.command("resume", run, "--reason", "TEXT")
}

func (a *app) resumeCommand() *cobra.Command {
	var f acting
	c := &cobra.Command{
		Use:     "resume RUN",
		Short:   "Lets a paused run go on",
		Example: `  ledgerctl resume 7W6X5Y --by ada --reason "it is"`,
		Args:    oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				r, err := a.readRun(ctx, st, args[0])
				if err != nil {
					return err
				}
				r, err = st.Resume(ctx, r.ID, f.by, f.reason)
				switch {
				case err != nil:
					return fmt.Errorf("%w (%s)", err, a.command("runs", "show", args[0]))
				case a.output == formatJSON:
					return a.json(a.runView(ledger.Summary{Run: r}))
				}
				_, err = fmt.Fprintf(a.out, "run %s is %s and not paused any more: %s\n", r.ID, r.State, a.command("runs", "tail", r.ID.String()))
				return err
			})
		},
	}
	f.add(c)
	a.outputFlag(c, formatTable, formatJSON)
	return c
}
