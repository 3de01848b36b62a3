package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

func (a *app) schedulesCommand() *cobra.Command {
	c := group("schedules", "Lists and makes schedules: runs at the times of a cron expression")
	c.AddCommand(a.schedulesListCommand(), a.schedulesPutCommand(), a.schedulesNextCommand(),
		a.schedulesPauseCommand(), a.schedulesResumeCommand(), a.schedulesDeleteCommand(), a.schedulesActsCommand())
	return c
}

// scheduleFlags name the tenant of a schedule.
type scheduleFlags struct{ tenant string }

func (f *scheduleFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.tenant, "tenant", "default", "tenant of the schedule")
}

func (f scheduleFlags) id(name string) ledger.ScheduleID {
	return ledger.ScheduleID{Tenant: f.tenant, Name: name}
}

// schedule reads one.
func (a *app) schedule(ctx context.Context, st ledger.Store, id ledger.ScheduleID) (ledger.ScheduleState, error) {
	cs, err := st.Schedules(ctx, ledger.ScheduleFilter{Tenant: id.Tenant, Name: id.Name, Limit: 1})
	switch {
	case err != nil:
		return ledger.ScheduleState{}, err
	case len(cs) == 0:
		return ledger.ScheduleState{}, a.noSchedule(id, ledger.ErrNotFound)
	}
	return cs[0], nil
}

func (a *app) noSchedule(id ledger.ScheduleID, err error) error {
	if errors.Is(err, ledger.ErrNotFound) {
		return notThere(a.command("schedules", "list"), "no schedule %q of tenant %q: %w (%s)", id.Name, id.Tenant, ledger.ErrNotFound, a.command("schedules", "list"))
	}
	return err
}

func (a *app) schedulesListCommand() *cobra.Command {
	var p page
	var tenant, agent, queue, owner string
	c := &cobra.Command{
		Use:   "list",
		Short: "Lists schedules: when they fire next, what they fired last, what is wrong",
		Long: `Lists schedules: when they fire next, what they fired last, what is wrong.

next      the fire that is due next; late if no worker has fired it yet
last run  the run of the last fire that made one (ledgerctl runs show RUN)
note      paused, cannot fire, or how many fires made no run of their own, and why`,
		Example: `  ledgerctl schedules list
  ledgerctl schedules list -o json | jq '.[] | select(.error)'`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			f := ledger.ScheduleFilter{Tenant: tenant}
			if p.after != "" {
				after, name, ok := strings.Cut(p.after, "/")
				if !ok {
					return usagef("--after %q: want TENANT/NAME of the last one seen", p.after)
				}
				f.After = ledger.ScheduleID{Tenant: after, Name: name}
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				return listPage(a, c, nil, p, lister[ledger.ScheduleState, scheduleView]{
					read: func(n int, after *ledger.ScheduleState) ([]ledger.ScheduleState, error) {
						q := f
						if q.Limit = n; after != nil {
							q.After = after.ID()
						}
						return st.Schedules(ctx, q)
					},
					keep: both(is(agent, func(s ledger.ScheduleState) string { return s.Run.Agent }), is(queue, func(s ledger.ScheduleState) string { return s.Run.Queue }),
						is(owner, func(s ledger.ScheduleState) string { return s.Run.Owner })),
					view:  func(s ledger.ScheduleState) (scheduleView, error) { return viewOfSchedule(s), nil },
					place: func(s ledger.ScheduleState) string { return s.ID().String() },
				}, a.scheduleColumns(), "no schedules ("+a.command("schedules", "put", "-h")+")")
			})
		},
	}
	c.Flags().StringVar(&tenant, "tenant", "", "only this tenant's")
	c.Flags().StringVar(&agent, "agent", "", "agent of the runs")
	c.Flags().StringVar(&queue, "queue", "", "queue of the runs")
	c.Flags().StringVar(&owner, "owner", "", "owner of the runs")
	p.add(c, "TENANT/NAME")
	listFlags[scheduleView](a, c)
	return c
}

func (a *app) schedulesNextCommand() *cobra.Command {
	var f scheduleFlags
	var n int
	var expression, zone string
	c := &cobra.Command{
		Use:   "next [NAME]",
		Short: "Shows when a schedule fires, or when an expression would",
		Long: `Shows when a schedule fires from now on, in its time zone and in UTC; or, with --cron and
without a name, when an expression would. Clock changes of the zone are in it.`,
		Example: `  ledgerctl schedules next nightly -n 5
  ledgerctl schedules next --cron '30 2 * * *' --timezone America/New_York -n 3`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 1) == (expression != "") {
				return usagef("%s wants either the name of a schedule or --cron (see %s -h)", c.CommandPath(), c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if n < 1 || n > maxPage {
				return usagef("-n %d: want 1 to %d fires", n, maxPage)
			}
			if len(args) == 0 {
				return a.printFires(expression, zone, n)
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				s, err := a.schedule(ctx, st, f.id(args[0]))
				if err != nil {
					return err
				}
				if !s.Paused.At.IsZero() {
					fmt.Fprintf(a.err, "ledgerctl: it is paused since %s by %s: %s\n", stamp(s.Paused.At), clean(s.Paused.By), clean(s.Paused.Reason))
				}
				return a.printFires(s.Cron, s.TimeZone, n)
			})
		},
	}
	c.Flags().IntVarP(&n, "number", "n", 5, "how many fires")
	c.Flags().StringVar(&expression, "cron", "", "an expression instead of a schedule")
	c.Flags().StringVar(&zone, "timezone", "UTC", "with --cron: on whose clocks")
	f.add(c)
	listFlags[fireView](a, c)
	return c
}

type fireView struct {
	Local string    `json:"local"`
	UTC   time.Time `json:"utc"`
}

func (a *app) printFires(expression, zone string, n int) error {
	spec, err := ledger.ParseCron(expression, zone)
	if err != nil {
		return usageError{err}
	}
	var views []fireView
	for at := spec.Next(a.now()); !at.IsZero() && len(views) < n; at = spec.Next(at) {
		views = append(views, fireView{Local: inZone(at, zone), UTC: at})
	}
	return list(a, views, []column[fireView]{
		{name: "local", keep: true, text: func(v fireView) string { return v.Local }},
		{name: "utc", keep: true, text: func(v fireView) string { return stamp(v.UTC) }, raw: func(v fireView) string { return exact(v.UTC) }},
	}, "it never fires")
}

// inZone is a moment on the clocks of a zone.
func inZone(t time.Time, zone string) string {
	if t.IsZero() {
		return "never"
	}
	if loc, err := time.LoadLocation(zone); err == nil {
		t = t.In(loc)
	}
	return t.Format("Mon 2006-01-02 15:04 -07:00") + " " + zone
}

// scheduleCommand is a command that a person does something to a schedule with;
// what do returns is printed.
func (a *app) scheduleCommand(verb, short, why string, do func(ctx context.Context, st ledger.Store, id ledger.ScheduleID, by, reason string) (string, error)) *cobra.Command {
	var f scheduleFlags
	var who acting
	c := &cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Long:    short + ".\n" + whoActs,
		Example: fmt.Sprintf("  ledgerctl schedules %s nightly --reason %q", verb, why),
		Args:    oneArg("a schedule"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := who.check(); err != nil {
				return err
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				by, err := a.actor(ctx, st, who)
				if err != nil {
					return err
				}
				said, err := do(ctx, st, f.id(args[0]), by, who.reason)
				if err != nil {
					return a.noSchedule(f.id(args[0]), err)
				}
				_, err = fmt.Fprintf(a.out, "schedule %s %s\n", clean(args[0]), said)
				return err
			})
		},
	}
	f.add(c)
	who.add(c)
	a.changes(c)
	return c
}

func (a *app) schedulesPauseCommand() *cobra.Command {
	return a.scheduleCommand("pause", "Stops the fires of a schedule; its runs go on", "the bank is closed",
		func(ctx context.Context, st ledger.Store, id ledger.ScheduleID, by, reason string) (string, error) {
			p, done, err := st.PauseSchedule(ctx, id, by, reason)
			if !done {
				return fmt.Sprintf("is paused already since %s, by %s: %s", a.since(p.At), clean(p.By), clean(p.Reason)), err
			}
			return "fires nothing any more; to let it go on: " + a.command("schedules", "resume", id.Name, "--reason", "TEXT"), nil
		})
}

func (a *app) schedulesResumeCommand() *cobra.Command {
	return a.scheduleCommand("resume", "Lets a paused schedule fire again; what it would have fired meanwhile is not made up for", "it is open",
		func(ctx context.Context, st ledger.Store, id ledger.ScheduleID, by, reason string) (string, error) {
			c, err := st.ResumeSchedule(ctx, id, by, reason)
			return "fires next at " + inZone(c.NextFire, c.TimeZone), err
		})
}

func (a *app) schedulesDeleteCommand() *cobra.Command {
	return a.scheduleCommand("delete", "Ends a schedule; its runs go on", "nobody reads the report",
		func(ctx context.Context, st ledger.Store, id ledger.ScheduleID, by, reason string) (string, error) {
			return "is gone; its runs go on", st.DeleteSchedule(ctx, id, by, reason)
		})
}

func (a *app) schedulesActsCommand() *cobra.Command {
	var f scheduleFlags
	c := &cobra.Command{
		Use:     "acts NAME",
		Short:   "Lists who made, changed, paused, resumed and deleted a schedule, latest first",
		Example: `  ledgerctl schedules acts nightly`,
		Args:    oneArg("a schedule"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.listActs(c.Context(), "schedule", f.id(args[0]).String(), "nobody has made or changed it")
		},
	}
	f.add(c)
	listFlags[actView](a, c)
	return c
}
