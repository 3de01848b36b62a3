package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/runtime"
)

// rehearsalView is what a rehearsal found.
type rehearsalView struct {
	Run         events.RunID       `json:"run"`
	Events      int                `json:"events"`
	To          uint64             `json:"to"`
	Loop        string             `json:"loop"`
	Version     int                `json:"version"`
	Recorded    int                `json:"recorded_version"`
	Divergences []loops.Divergence `json:"divergences"`
}

// shippedLoops are the loops that this program can ask.
func shippedLoops() map[string]loops.Loop {
	return map[string]loops.Loop{singleshot.Name: singleshot.New(), revise.Name: revise.New()}
}

func (a *app) rehearseCommand() *cobra.Command {
	var to uint64
	c := &cobra.Command{
		Use:   "rehearse RUN",
		Short: "Runs today's loop over a recorded run, without any effect, and says where it would decide otherwise",
		Long: `Folds the events of RUN one by one and asks the loop of this version, at each point where
the record shows a decision, what it would do. Nothing is executed, asked or written. It
works for runs that are live, parked or ended, and for forks.
Exit codes: 0 every decision is the same, 1 at least one is not, 2 wrong usage.`,
		Example: `  ledgerctl rehearse 7W6X5Y
  ledgerctl rehearse 7W6X5Y --to 41 -o json`,
		Args: oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				v, err := a.rehearse(ctx, st, args[0], to)
				if err != nil {
					return err
				}
				return a.printRehearsal(v)
			})
		},
	}
	c.Flags().Uint64Var(&to, "to", 0, "seq of the last event to look at; 0 = all")
	a.outputFlag(c, formatTable, formatJSON)
	return c
}

var errNotStarted = errors.New("no worker has started it yet: there is nothing to rehearse")

func (a *app) rehearse(ctx context.Context, st ledger.Store, name string, to uint64) (rehearsalView, error) {
	run, err := a.readRun(ctx, st, name)
	if err != nil {
		return rehearsalView{}, err
	}
	v := rehearsalView{Run: run.ID, Divergences: []loops.Divergence{}}
	h := loops.NewHistory(run.ID)
	if err := runtime.Inherit(ctx, st, run, h); err != nil {
		return v, err
	}
	var es []events.Event
	var loop loops.Loop
	err = st.Events(ctx, run.ID, 1, func(s events.Sealed) error {
		if to > 0 && s.Envelope().Seq > to {
			return errEnough
		}
		e, err := s.Decode()
		if err != nil {
			return err
		}
		if p, ok := e.Data.(events.RunStarted); ok && loop == nil {
			if loop = shippedLoops()[p.Loop]; loop == nil {
				return fmt.Errorf("its loop %q is not part of this program: rehearse it in a test of yours with loops.Rehearse", p.Loop)
			}
			v.Loop, v.Version, v.Recorded = p.Loop, loop.Version(), p.LoopVersion
		}
		es = append(es, e)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return v, fmt.Errorf("read events of run %s: %w", run.ID, err)
	}
	if loop == nil {
		return v, fmt.Errorf("run %s: %w", run.ID, errNotStarted)
	}
	v.Events, v.To = len(es), es[len(es)-1].Seq
	ds, err := loops.Rehearse(h, es, loop)
	v.Divergences = append(v.Divergences, ds...)
	return v, err
}

func (a *app) printRehearsal(v rehearsalView) error {
	var err error
	if a.output == formatJSON {
		err = a.json(v)
	} else {
		for _, d := range v.Divergences {
			fmt.Fprintln(a.out, clean(d.String()))
		}
		if len(v.Divergences) == 0 {
			_, err = fmt.Fprintf(a.out, "run %s up to event %d: loop %s version %d decides everything as recorded by version %d\n", v.Run, v.To, v.Loop, v.Version, v.Recorded)
		}
	}
	if err == nil && len(v.Divergences) > 0 {
		err = verdictError{exitFailed, fmt.Sprintf("diverges: %s over %d events, loop %s version %d", plural(int64(len(v.Divergences)), "divergence"), v.Events, v.Loop, v.Version), ""}
	}
	return err
}
