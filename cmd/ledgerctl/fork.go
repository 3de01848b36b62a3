package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime"
)

func (a *app) forkCommand() *cobra.Command {
	f := runtime.Fork{}
	var effects, note string
	var act acting
	c := &cobra.Command{
		Use:   "fork RUN --from SEQ --effects replay|simulate|ask",
		Short: "Queues a run that begins with another one's history",
		Long: `Queues a run that begins with the events of RUN up to SEQ and goes on from there with
the agent, prompt and tools of today. RUN is not changed: it may go on, or have ended.
The fork is of the same lineage: a destructive call that RUN has made is handed back to
it, marked repeated, and not made again. What a destructive call does that nobody of the
lineage has made is for --effects to say; there is no default:
  replay     it is executed
  simulate   it is not executed, and the model is told so
  ask        a person is asked to approve it
Without --input-note, a fork from the end of a run that finished ends at once, as it did.
` + whoActs,
		Example: `  ledgerctl fork 7W6X5Y --from 41 --effects replay
  ledgerctl fork 7W6X5Y --from 41 --effects simulate --input-note "answer in French"`,
		Args: oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			if f.Seq == 0 || effects == "" {
				return usagef("--from and --effects are required: after which event, and what destructive calls do (replay, simulate or ask)")
			}
			var err error
			if f.Effects, err = ledger.ParseForkEffects(effects); err != nil {
				return usagef("--%w", err)
			}
			if note != "" {
				f.Note = note
			}
			ctx := c.Context()
			st, red, err := a.open(ctx)
			if err != nil {
				return err
			}
			if f.By, err = a.actor(ctx, st, act); err != nil {
				return errors.Join(err, st.Close())
			}
			return errors.Join(a.fork(c, st, runtime.NewClient(st, red, nil), args[0], f), st.Close())
		},
	}
	c.Flags().Uint64Var(&f.Seq, "from", 0, "seq of the last event that is inherited (required)")
	c.Flags().StringVar(&effects, "effects", "", "what destructive calls do that were not made before: replay, simulate or ask (required)")
	act.person(c)
	c.Flags().StringVar(&f.ClientKey, "key", "", "client key: the same key with the same fork is the same run")
	c.Flags().StringVar(&note, "input-note", "", "what the model is told where the inherited history ends")
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
	return c
}

func (a *app) fork(c *cobra.Command, st ledger.Store, client *runtime.Client, name string, f runtime.Fork) error {
	of, err := a.readRun(c.Context(), st, name)
	if err != nil {
		return err
	}
	f.Run = of.ID
	r, existed, err := client.Fork(c.Context(), f)
	switch {
	case errors.Is(err, ledger.ErrNoSuchEvent):
		return hint(err, a.command("runs", "show", name))
	case errors.Is(err, runtime.ErrInvalidSubmit):
		return usageError{err}
	case err != nil:
		return err
	case a.output == formatJSON:
		return a.json(a.runView(ledger.Summary{Run: r}))
	}
	state := "is queued"
	if existed {
		state = "was asked for before and is " + string(r.State)
	}
	_, err = fmt.Fprintf(a.out, "run %s %s: it begins with run %s up to event %d, effects %s: %s\n",
		r.ID, state, of.ID, r.ForkSeq, r.ForkEffects, a.command("runs", "tail", r.ID.String()))
	return err
}
