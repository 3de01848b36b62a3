package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

func (a *app) approveCommand() *cobra.Command {
	var f acting
	c := &cobra.Command{
		Use:   "approve ID",
		Short: "Lets one execution of a call go ahead, as ledgerctl approvals shows it",
		Long: `Lets one execution of a call go ahead, with the arguments that ledgerctl approvals shows.
ID is an approval's id, or the beginning or end of one (6 characters or more).
` + whoDecides,
		Example: `  ledgerctl approve 5Z1K9Q --reason "order 7 was paid twice"`,
		Args:    oneArg("an approval"),
		RunE:    func(c *cobra.Command, args []string) error { return a.decide(c, args[0], true, f) },
	}
	f.person(c)
	c.Flags().StringVar(&f.reason, "reason", "", "why, for the record")
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
	return c
}

func (a *app) denyCommand() *cobra.Command {
	var f acting
	c := &cobra.Command{
		Use:   "deny ID",
		Short: "Refuses a call that waits for an approval; the model is told why",
		Long: `Refuses a call that waits for an approval; the model is told why, and goes on.
ID is an approval's id, or the beginning or end of one (6 characters or more).
` + whoDecides,
		Example: `  ledgerctl deny 5Z1K9Q --reason "refunds over 1000 EUR go through accounting"`,
		Args:    oneArg("an approval"),
		RunE: func(c *cobra.Command, args []string) error {
			if f.reason == "" {
				return usagef("--reason is required: the record and the model are told why")
			}
			return a.decide(c, args[0], false, f)
		},
	}
	f.person(c)
	c.Flags().StringVar(&f.reason, "reason", "", "why (required); the model reads it")
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
	return c
}

func (a *app) decide(c *cobra.Command, id string, approve bool, f acting) error {
	ctx := c.Context()
	return a.withLedger(ctx, func(st ledger.Store) error {
		ap, err := a.findApproval(ctx, st, id)
		if err != nil {
			return err
		}
		ap, err = st.Decide(ctx, ledger.Decision{Approval: ap.ID, Approve: approve, By: a.decider(f), Reason: f.reason})
		if errors.Is(err, ledger.ErrDecided) || errors.Is(err, ledger.ErrEnded) {
			return hint(err, a.command("approvals", "--all"))
		}
		if err != nil {
			return err
		}
		if a.output == formatJSON {
			return a.json(newApprovalView(ap))
		}
		fmt.Fprintf(a.out, "%s: %s %s of %s/%s, by %s\n", ap.State, clean(ap.Tool), clean(string(ap.Arguments)), ap.Run, ap.Call, clean(ap.By))
		_, err = fmt.Fprintf(a.out, "the run goes on when a worker takes it: %s\n", a.command("runs", "tail", ap.Run.String()))
		return err
	})
}
