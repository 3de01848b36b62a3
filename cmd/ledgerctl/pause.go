package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

// onRun is the RunE of a command that a person does something to a run with:
// do acts in the name of by, and what it prints is for people.
func (a *app) onRun(f *acting, do func(ctx context.Context, st ledger.Store, r ledger.Run, by string) (ledger.Run, string, error)) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		ctx := c.Context()
		return a.withLedger(ctx, func(st ledger.Store) error {
			r, err := a.readRun(ctx, st, args[0])
			if err != nil {
				return err
			}
			by, err := a.actor(ctx, st, *f)
			if err != nil {
				return err
			}
			r, said, err := do(ctx, st, r, by)
			switch {
			case errors.Is(err, ledger.ErrEnded), errors.Is(err, ledger.ErrCancelling):
				return fmt.Errorf("%w: nothing to %s (%s)", err, c.Name(), a.command("runs", "show", args[0]))
			case errors.Is(err, ledger.ErrNotPaused), errors.Is(err, ledger.ErrNotDead):
				return hint(err, a.command("runs", "show", args[0]))
			case err != nil:
				return err
			case a.output == formatJSON:
				return a.json(a.runView(ledger.Summary{Run: r}))
			}
			_, err = fmt.Fprintln(a.out, said)
			return err
		})
	}
}

func (a *app) pauseCommand() *cobra.Command {
	var f acting
	c := &cobra.Command{
		Use:   "pause RUN",
		Short: "Holds a run back until it is resumed",
		Long: `Holds a run back until it is resumed. A run that is queued or waits is not taken by any
worker, whatever comes in for it; the worker of a running one learns of it at its next
heartbeat, ends the act in hand and parks it. A paused run can still be cancelled.
` + whoActs,
		Example: `  ledgerctl pause 7W6X5Y --reason "is this the right customer?"
  ledgerctl pause 7W6X5Y --reason "asked by phone" --on-behalf-of ada`,
		Args: oneArg("a run"),
		RunE: a.onRun(&f, func(ctx context.Context, st ledger.Store, r ledger.Run, by string) (ledger.Run, string, error) {
			r, done, err := st.Pause(ctx, r.ID, by, f.reason)
			goOn := "To let it go on: " + a.resumeLine(r.ID.String())
			switch {
			case err != nil:
				return r, "", err
			case !done:
				return r, fmt.Sprintf("run %s is paused already since %s, by %s: %s", r.ID, a.since(r.HeldAt), clean(r.HeldBy), clean(r.HeldReason)), nil
			case r.State == ledger.Running:
				return r, fmt.Sprintf("run %s is running: its worker parks it after the act in hand. %s", r.ID, goOn), nil
			}
			return r, fmt.Sprintf("run %s is %s and no worker takes it. %s", r.ID, r.State, goOn), nil
		}),
	}
	f.add(c)
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
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
		Long:    "Lets a paused run go on.\n" + whoActs,
		Example: `  ledgerctl resume 7W6X5Y --reason "it is"`,
		Args:    oneArg("a run"),
		RunE: a.onRun(&f, func(ctx context.Context, st ledger.Store, r ledger.Run, by string) (ledger.Run, string, error) {
			r, err := st.Resume(ctx, r.ID, by, f.reason)
			return r, fmt.Sprintf("run %s is %s and not paused any more: %s", r.ID, r.State, a.command("runs", "tail", r.ID.String())), err
		}),
	}
	f.add(c)
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
	return c
}
