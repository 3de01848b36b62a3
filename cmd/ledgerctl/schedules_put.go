package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime"
)

type putFlags struct {
	runtime.Schedule
	scheduleFlags
	input, missed, overlap, budget string
	acting
}

func (a *app) schedulesPutCommand() *cobra.Command {
	var f putFlags
	c := &cobra.Command{
		Use:   "put NAME",
		Short: "Makes a schedule, or changes the one of that name",
		Long: `Makes a schedule, or changes the one of that name: what is not given takes its default.
Workers fire it; each fire makes at most one run. Its next fire is the first from now on
if --cron or --timezone is new.

--cron      minute hour day-of-month month day-of-week, or @yearly, @monthly, @weekly, @daily, @hourly
--timezone  on whose clocks. A local time that does not exist (the clocks go forward) fires at the
            first moment after the gap, one that happens twice (they go back) fires the first time;
            where the hour is *, it fires whenever the minute matches.
--missed    of fires that nobody made within 30 s: once = one run for all of them, skip = none,
            all = a run for each, at most the last --catch-up
--overlap   while a run of an earlier fire has not ended: skip = no run, allow = beside it
            (default skip; with --missed all, allow)
` + whoActs,
		Example: `  ledgerctl schedules put nightly --cron '30 2 * * *' --timezone Europe/Berlin --agent reports --input '{"kind":"daily"}'
  ledgerctl schedules put ping --cron '*/5 * * * *' --agent ping --input '""' --missed skip`,
		Args: oneArg("a name"),
		RunE: func(c *cobra.Command, args []string) error { return a.schedulesPut(c.Context(), f, args[0]) },
	}
	fs := c.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.Cron, "cron", "", "when it fires (required)")
	fs.StringVar(&f.TimeZone, "timezone", "UTC", "name of the IANA database, such as Europe/Berlin")
	fs.StringVar(&f.Run.Agent, "agent", "", "agent that works on the runs (required)")
	fs.StringVar(&f.input, "input", "", "JSON, @FILE, or - for standard input (required)")
	fs.StringVar(&f.missed, "missed", "once", "once, skip or all")
	fs.IntVar(&f.CatchUp, "catch-up", ledger.DefaultCatchUp, fmt.Sprintf("with --missed all: the last so many are made up for, up to %d", ledger.MaxCatchUp))
	fs.StringVar(&f.overlap, "overlap", "", "skip or allow")
	f.scheduleFlags.add(c)
	fs.StringVar(&f.Run.Queue, "queue", "default", "queue of the runs")
	fs.StringVar(&f.Run.Owner, "owner", "", "on whose behalf the runs are made")
	fs.IntVar(&f.Run.Priority, "priority", 0, "higher runs first")
	fs.StringVar(&f.Run.ConcurrencyKey, "concurrency-key", "", "runs with the same key count together for a limit per key")
	fs.IntVar(&f.Run.MaxAttempts, "max-attempts", 0, "how often a run is tried in all; 0 = as its agent says")
	fs.StringVar(&f.budget, "budget", "", "US dollars that each run may spend, with its retries and children; default what its agent says")
	f.person(c)
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
	return c
}

func (a *app) schedulesPut(ctx context.Context, f putFlags, name string) error {
	s := f.Schedule
	s.Name, s.Missed, s.Overlap, s.Run.Tenant = name, ledger.MissedRule(f.missed), ledger.OverlapRule(f.overlap), f.tenant
	switch {
	case s.Cron == "":
		return usagef("--cron is required: when it fires, such as '30 2 * * *' or @daily")
	case s.Run.Agent == "":
		return usagef("--agent is required: the name of the agent that works on the runs")
	case f.input == "":
		return usagef("--input is required: JSON, @FILE, or - for standard input")
	}
	if f.budget != "" {
		s.Run.Budget = new(events.PicoUSD)
		if err := s.Run.Budget.UnmarshalText([]byte(f.budget)); err != nil || *s.Run.Budget < 0 {
			return usagef("--budget %q: want US dollars such as 0.50", f.budget)
		}
	}
	raw, err := a.inputOf(f.input)
	if err != nil {
		return err
	}
	s.Run.Input = raw
	st, red, err := a.open(ctx)
	if err != nil {
		return err
	}
	put := func() error {
		by, err := a.actor(ctx, st, f.acting)
		if err != nil {
			return err
		}
		c, err := runtime.NewClient(st, red, nil).PutSchedule(ctx, s, by)
		switch {
		case errors.Is(err, ledger.ErrInvalidSchedule), errors.Is(err, runtime.ErrInvalidSubmit):
			return usageError{err}
		case err != nil:
			return err
		case a.output == formatJSON:
			return a.json(viewOfSchedule(c))
		}
		fmt.Fprintf(a.out, "schedule %s fires next at %s", clean(c.Name), inZone(c.NextFire, c.TimeZone))
		if !c.Paused.At.IsZero() {
			fmt.Fprintf(a.out, ", but is paused by %s: %s", clean(c.Paused.By), clean(c.Paused.Reason))
		}
		_, err = fmt.Fprintln(a.out)
		return err
	}
	return errors.Join(put(), st.Close())
}

// inputOf reads JSON as it is given on a command line.
func (a *app) inputOf(s string) (json.RawMessage, error) {
	b, err := []byte(s), error(nil)
	switch {
	case s == "-":
		b, err = io.ReadAll(a.in)
	case s[0] == '@':
		b, err = os.ReadFile(s[1:])
	}
	if err != nil {
		return nil, usagef("--input: %w", err)
	}
	if !json.Valid(b) {
		return nil, usagef("--input is no JSON: write a text as '\"text\"', an object as '{\"name\": \"value\"}'")
	}
	return b, nil
}
