package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

func (a *app) cancelCommand() *cobra.Command {
	var by, reason string
	c := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Asks that a run be stopped",
		Long: `Asks that a run be stopped: its worker sees it at its next heartbeat, or the next
worker that takes the run. What has taken effect stays; a call that is running is
let finish or ends in doubt, never silently.`,
		Example: `  ledgerctl cancel 7W6X5Y --by ada --reason "wrong customer"`,
		Args:    oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			if by == "" || reason == "" {
				return usagef("--by and --reason are required: the record says who cancelled the run, and why")
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				r, err := a.readRun(ctx, st, args[0])
				if err != nil {
					return err
				}
				was := r.State
				r, err = st.Cancel(ctx, r.ID, by, reason)
				if errors.Is(err, ledger.ErrEnded) {
					return fmt.Errorf("%w: nothing to cancel (%s)", err, a.command("runs", "show", args[0]))
				}
				if err != nil {
					return err
				}
				if a.output == formatJSON {
					return a.json(a.runView(ledger.Summary{Run: r}))
				}
				if was == ledger.Cancelling {
					_, err = fmt.Fprintf(a.out, "run %s is being cancelled already, asked for by %s: %s\n", r.ID, clean(r.CancelBy), clean(r.CancelReason))
					return err
				}
				_, err = fmt.Fprintf(a.out, "run %s was %s and is %s now: %s\n", r.ID, was, r.State, a.command("runs", "tail", r.ID.String()))
				return err
			})
		},
	}
	c.Flags().StringVar(&by, "by", "", "who asks (required)")
	c.Flags().StringVar(&reason, "reason", "", "why (required)")
	a.outputFlag(c, formatTable, formatJSON)
	return c
}
