package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/cmd/internal/watch"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

type tailFlags struct {
	live        bool
	untilParked bool
	after       uint64
	every       time.Duration
}

func (a *app) runsTailCommand() *cobra.Command {
	var f tailFlags
	c := &cobra.Command{
		Use:   "tail RUN",
		Short: "Follows a run's events until it ends",
		Long: `Prints a run's events as they come, until it has ended; interrupt to stop earlier.
Events appear once they are in the archive: at a barrier, or when a projector has
written them. With --live what the model writes is shown as it comes, redacted, until
what was recorded of it takes its place; in jsonl as {"live": …} between the events. It
goes on to the attempt that follows a failed one.`,
		Example: `  ledgerctl runs tail 7W6X5Y
  ledgerctl runs tail 7W6X5Y --live
  ledgerctl runs tail 7W6X5Y -o jsonl | jq -c '[.seq, .type]'`,
		Args: oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			if f.every < 10*time.Millisecond {
				return usagef("--every %s: want 10ms or more", f.every)
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				r, err := a.readRun(ctx, st, args[0])
				if err != nil {
					return err
				}
				return a.tail(ctx, st, r, f)
			})
		},
	}
	c.Flags().Bool("follow", true, "as runs list has it: it always follows")
	_ = c.Flags().MarkHidden("follow")
	c.Flags().Uint64Var(&f.after, "after", 0, "begins after this seq")
	c.Flags().BoolVar(&f.untilParked, "until-parked", false, "also ends when the run waits for something")
	c.Flags().BoolVar(&f.live, "live", false, "shows what the model writes while it writes it")
	c.Flags().StringVar(&a.opts.NATS, "nats", "", "with --live and --postgres: NATS URL of the workers (DAYBOOK_NATS_URL)")
	c.Flags().DurationVar(&f.every, "every", 500*time.Millisecond, "how often the ledger is asked")
	a.outputFlag(c, formatTable, formatJSONL)
	return c
}

func (a *app) tail(ctx context.Context, st ledger.Store, first ledger.Run, f tailFlags) error {
	run := first.ID
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	live := a.liveTail(first, f)
	defer func() { live.close() }()
	waiting := ""
	for {
		live.open()
		// The row is read before the events: what ended it is among them then.
		r, err := st.Run(ctx, run)
		if err == nil {
			err = st.Events(ctx, run, f.after+1, func(e events.Sealed) error {
				v, err := newEventView(e)
				if err == nil {
					f.after = v.Seq
					err = live.event(v)
				}
				return err
			})
		}
		if ctx.Err() != nil {
			return nil // interrupted: that is how one leaves
		}
		if err != nil {
			return fmt.Errorf("follow run %s: %w", run, err)
		}
		if r.State.Ended() {
			note, again := watch.Next(r.Successor, r.Attempt)
			if err := a.tailEnd(ctx, st, r); err != nil || !again || !f.live {
				return err
			}
			live.close()
			fmt.Fprintln(a.err, note)
			r.ID, run, f.after, waiting = r.Successor, r.Successor, 0, ""
			live = a.liveTail(r, f)
			continue
		}
		if w := string(r.ParkReason) + r.ParkedAt.String(); r.State == ledger.Parked && w != waiting {
			waiting = w
			live.screen.Clear()
			fmt.Fprintf(a.err, "parked: %s (%s)\n", clean(either(": ", string(r.ParkReason), r.ParkDetail)), a.command("why", run.String()))
		}
		if f.untilParked && r.State == ledger.Parked {
			return nil
		}
		if !live.until(ctx, tick.C) {
			return nil
		}
	}
}

func (a *app) tailEnd(ctx context.Context, st ledger.Store, r ledger.Run) error {
	fs, err := st.Pending(ctx, r.ID)
	if err == nil && len(fs) > 0 {
		fmt.Fprintf(a.err, "%s, not in the timeline yet (%s)\n", plural(int64(len(fs)), "pending fact"), a.command("runs", "show", r.ID.String()))
	}
	return err
}

// tailLine writes one event; nobody knows the widths of those to come.
func (a *app) tailLine(v eventView) error {
	if a.output == formatJSONL {
		return a.jsonLine(v)
	}
	line := fmt.Sprintf("%4s  %s  %-24s  ", strconv.FormatUint(v.Seq, 10), stamp(v.Time), v.Type)
	what := clean(v.what)
	if a.term.width > 0 {
		what = cut(what, max(a.term.width-len(line), narrow))
	}
	_, err := fmt.Fprintf(a.out, "%4d  %s  %s  %s\n", v.Seq, stamp(v.Time), a.term.paint(fmt.Sprintf("%-24s", v.Type), eventStyle(v.Type)), what)
	return err
}
