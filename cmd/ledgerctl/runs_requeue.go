package main

import (
	"context"
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
that took effect in an earlier attempt is not made again, its outcome is handed back.
That of a fork begins with the same history and does the same with effects.
` + whoActs,
		Example: `  ledgerctl runs requeue 7W6X5Y --reason "the provider is back"`,
		Args:    oneArg("a run"),
		RunE: a.onRun(&f, func(ctx context.Context, st ledger.Store, r ledger.Run, by string) (ledger.Run, string, error) {
			if attempts < 1 || attempts > 1000 {
				return r, "", usagef("--attempts %d: want 1 to 1000", attempts)
			}
			next, err := st.Requeue(ctx, r.ID, attempts, by, f.reason)
			return next, fmt.Sprintf("run %s is tried again as run %s, attempt %d: %s", r.ID, next.ID, next.Attempt, a.command("runs", "tail", next.ID.String())), err
		}),
	}
	f.add(c)
	c.Flags().IntVar(&attempts, "attempts", 1, "how many further attempts it may have in all")
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
	return c
}
