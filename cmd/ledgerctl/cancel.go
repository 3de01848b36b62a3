package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

func (a *app) cancelCommand() *cobra.Command {
	var f acting
	c := &cobra.Command{
		Use:   "cancel RUN",
		Short: "Asks that a run be stopped",
		Long: `Asks that a run be stopped: its worker sees it at its next heartbeat, or the next
worker that takes the run. What has taken effect stays; a call that is running is
let finish or ends in doubt, never silently.
` + whoActs,
		Example: `  ledgerctl cancel 7W6X5Y --reason "wrong customer"`,
		Args:    oneArg("a run"),
		RunE: a.onRun(&f, func(ctx context.Context, st ledger.Store, was ledger.Run, by string) (ledger.Run, string, error) {
			r, err := st.Cancel(ctx, was.ID, by, f.reason)
			if was.State == ledger.Cancelling {
				return r, fmt.Sprintf("run %s is being cancelled already, asked for by %s: %s", r.ID, clean(r.CancelBy), clean(r.CancelReason)), err
			}
			return r, fmt.Sprintf("run %s was %s and is %s now: %s", r.ID, was.State, r.State, a.command("runs", "tail", r.ID.String())), err
		}),
	}
	f.add(c)
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
	return c
}
