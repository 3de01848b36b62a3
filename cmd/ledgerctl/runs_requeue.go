package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

func (a *app) runsRequeueCommand() *cobra.Command {
	var f acting
	attempts := 1
	c := &cobra.Command{
		Use:   "requeue RUN",
		Short: "Tries a dead run again, as a new run of the same lineage",
		Long: `Tries a dead run again, from the beginning and as a new run of the same lineage: a call
that took effect in an earlier attempt is not made again, its outcome is handed back.`,
		Example: `  ledgerctl runs requeue 7W6X5Y --by ada --reason "the provider is back"`,
		Args:    oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			if attempts < 1 || attempts > 1000 {
				return usagef("--attempts %d: want 1 to 1000", attempts)
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				r, err := a.readRun(ctx, st, args[0])
				if err != nil {
					return err
				}
				next, err := st.Requeue(ctx, r.ID, attempts, f.by, f.reason)
				switch {
				case errors.Is(err, ledger.ErrNotDead):
					return fmt.Errorf("%w (%s)", err, a.command("runs", "show", args[0]))
				case err != nil:
					return err
				case a.output == formatJSON:
					return a.json(a.runView(ledger.Summary{Run: next}))
				}
				_, err = fmt.Fprintf(a.out, "run %s is tried again as run %s, attempt %d: %s\n", r.ID, next.ID, next.Attempt, a.command("runs", "tail", next.ID.String()))
				return err
			})
		},
	}
	f.add(c)
	c.Flags().IntVar(&attempts, "attempts", 1, "how many further attempts it may have in all")
	a.outputFlag(c, formatTable, formatJSON)
	return c
}
