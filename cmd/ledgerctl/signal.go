package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

func (a *app) signalCommand() *cobra.Command {
	var data, key string
	var f acting
	c := &cobra.Command{
		Use:   "signal RUN NAME",
		Short: "Sends a message to a run",
		Long: `Sends a message to a run. The call that has waited longest for a signal of that name
gets it; if none waits, the model is told before its next answer, and the next call
that waits for that name gets it at once. --key makes it safe to send again.
` + whoActs,
		Example: `  ledgerctl signal 7W6X5Y approved --data '{"limit":100}'
  ledgerctl signal 7W6X5Y delivered --key parcel-17`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 2 || args[0] == "" || args[1] == "" {
				return usagef("%s wants a run and the name of a signal, got %d arguments (see %s -h)", c.CommandPath(), len(args), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if data != "" && !json.Valid([]byte(data)) {
				return usagef("--data %q is no JSON: quote a text, as in --data '\"text\"'", data)
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				r, err := a.readRun(ctx, st, args[0])
				if err != nil {
					return err
				}
				by, err := a.actor(ctx, st, f)
				if err != nil {
					return err
				}
				err = st.Signal(ctx, r.ID, ledger.Signal{Name: args[1], Data: json.RawMessage(data), From: by, Key: key})
				if errors.Is(err, ledger.ErrEnded) {
					return fmt.Errorf("%w: nobody is left to hear it (%s)", err, a.command("runs", "show", args[0]))
				}
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.out, "run %s, which is %s, has the signal: %s\n", r.ID, r.State, a.command("runs", "tail", r.ID.String()))
				return err
			})
		},
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringVar(&data, "data", "", "what it says, in JSON")
	f.person(c)
	fs.StringVar(&key, "key", "", "the same key is the same signal, however often it is sent")
	a.changes(c)
	return c
}
