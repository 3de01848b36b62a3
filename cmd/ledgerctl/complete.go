package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// completionView is what complete prints as JSON.
type completionView struct {
	Token events.ID          `json:"token"`
	State events.EffectState `json:"state"`
	By    string             `json:"by"`
}

func (a *app) completeCommand() *cobra.Command {
	var output, failed string
	var f acting
	var notApplied bool
	c := &cobra.Command{
		Use:   "complete TOKEN",
		Short: "Says what became of a call that is done outside",
		Long: `Says what became of a call that was handed off: the model is told, and the run goes on.
TOKEN is what the tool was given when it started the work; see ledgerctl handoffs.

A destructive call that failed is in doubt, unless --not-applied says that it certainly
took no effect. The same outcome twice is one outcome; another one is refused.
Services do the same over NATS: a request on daybook.complete.
` + whoActs,
		Example: `  ledgerctl complete 01KF0J315G7CD03HQK145M3AT9 --result "surveyed: 42 of 50 agree"
  ledgerctl complete 01KF0J315G7CD03HQK145M3AT9 --failed "the printer was out of paper" --not-applied`,
		Args: oneArg("a token"),
		RunE: func(c *cobra.Command, args []string) error {
			token, err := events.ParseID(args[0])
			if err != nil {
				return usagef("%w (see %s)", err, a.command("handoffs"))
			}
			did, didNot := c.Flags().Changed("result"), c.Flags().Changed("failed")
			switch {
			case did == didNot:
				return usagef("say one of --result TEXT (it was done) and --failed TEXT (it was not)")
			case didNot && failed == "":
				return usagef("--failed wants a text: why it failed")
			case notApplied && did:
				return usagef("--not-applied goes with --failed")
			}
			in := ledger.Completion{Token: token, Kind: ledger.Applied, Result: events.ToolResult{Output: output}}
			if didNot {
				in.Kind, in.Error = ledger.Unclear, events.ErrorInfo{Kind: "tool_error", Message: failed}
				if notApplied {
					in.Kind = ledger.NotApplied
				}
			}
			return a.withLedger(c.Context(), func(st ledger.Store) error {
				var err error
				if in.By, err = a.actor(c.Context(), st, f); err != nil {
					return err
				}
				set, err := st.Complete(c.Context(), in)
				if errors.Is(err, ledger.ErrNotFound) || errors.Is(err, ledger.ErrNotAwaited) {
					return hint(err, a.command("handoffs", "--all"))
				}
				if err != nil {
					return err
				}
				if a.output == formatJSON {
					return a.json(completionView{token, set.State, in.By})
				}
				text := "it is recorded as done"
				switch set.State {
				case events.EffectNotApplied:
					text = "it is recorded as failed"
				case events.EffectInDoubt:
					text = "nobody knows whether it took effect, so a person has to say: " + a.command("indoubt")
				case events.EffectAbandoned:
					text = "it was given up before; this is kept beside that"
				}
				_, err = fmt.Fprintf(a.out, "%s: %s\n", token, text)
				return err
			})
		},
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringVar(&output, "result", "", "it was done, with this result")
	fs.StringVar(&failed, "failed", "", "it failed, for this reason")
	fs.BoolVar(&notApplied, "not-applied", false, "with --failed: it certainly took no effect")
	f.person(c)
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
	return c
}
