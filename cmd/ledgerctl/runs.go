package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func (a *app) runsCommand() *cobra.Command {
	c := group("runs", "Lists runs, shows one, follows one")
	c.AddCommand(a.runsListCommand(), a.runsShowCommand(), a.runsTailCommand(), a.runsTraceCommand(), a.runsDeadCommand(), a.runsRequeueCommand(), a.cancelCommand())
	return c
}

type runsFlags struct {
	filter ledger.RunFilter
	states []string
	tool   string
	queued queuedIn
	follow following
	page   page
}

func (a *app) runsListCommand() *cobra.Command {
	var f runsFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "Lists runs, newest first",
		Example: `  ledgerctl runs list --state parked,cancelling
  ledgerctl runs list --agent refunds --owner u-17 -o jsonl | jq .run`,
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.runsList(c, args, f) },
	}
	fs := c.Flags()
	fs.StringSliceVar(&f.states, "state", nil, "states, of "+strings.Join(stateNames(), ", "))
	fs.StringVar(&f.filter.Agent, "agent", "", "agent")
	fs.StringVar(&f.filter.Tenant, "tenant", "", "tenant")
	fs.StringVar(&f.filter.Queue, "queue", "", "queue")
	fs.StringVar(&f.filter.Owner, "owner", "", "owner")
	fs.StringVar(&f.filter.SessionID, "session", "", "session that they name (sessions list: those that share a transcript)")
	fs.StringVar(&f.tool, "tool", "", "only runs that called this tool")
	f.queued.add(c)
	f.follow.add(c, "runs that are new or stand otherwise")
	f.page.add(c, "this run")
	listFlags[runView](a, c)
	_ = c.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(stateNames(), cobra.ShellCompDirectiveNoFileComp))
	return c
}

func stateNames() []string {
	return []string{
		string(ledger.Queued), string(ledger.Running), string(ledger.Parked), string(ledger.Cancelling),
		string(ledger.Finished), string(ledger.Failed), string(ledger.Cancelled),
	}
}

func (a *app) runsList(c *cobra.Command, args []string, f runsFlags) error {
	if err := f.page.check(); err != nil {
		return err
	}
	for _, s := range f.states {
		if !slices.Contains(stateNames(), s) {
			return usagef("--state %q: want %s", s, strings.Join(stateNames(), ", "))
		}
		f.filter.States = append(f.filter.States, ledger.State(s))
	}
	err := f.follow.check()
	if err != nil {
		return err
	}
	if f.filter.Since, f.filter.Until, err = f.queued.read(a); err != nil {
		return err
	}
	ctx := c.Context()
	return a.withLedger(ctx, func(st ledger.Store) error {
		if f.page.after != "" {
			if f.filter.Before, err = a.findRun(ctx, st, f.page.after); err != nil {
				return err
			}
		}
		if f.follow.on {
			return a.followRuns(ctx, st, f)
		}
		return listPage(a, c, args, f.page, a.runLister(ctx, st, f), a.runColumns(), "no such runs")
	})
}

// runLister reads the runs that the flags select, the newest first.
func (a *app) runLister(ctx context.Context, st ledger.Store, f runsFlags) lister[ledger.Summary, runView] {
	l := lister[ledger.Summary, runView]{
		read: func(n int, after *ledger.Summary) ([]ledger.Summary, error) {
			q := f.filter
			if q.Limit = n; after != nil {
				q.Before = after.ID
			}
			return st.Summaries(ctx, q)
		},
		view:  func(s ledger.Summary) (runView, error) { return a.runView(s), nil },
		place: func(s ledger.Summary) string { return s.ID.String() },
	}
	if f.tool != "" {
		l.keep = func(s ledger.Summary) (bool, error) {
			cs, err := st.Calls(ctx, ledger.CallFilter{Run: s.ID, Tool: f.tool, All: true, Limit: 1})
			return len(cs) > 0, err
		}
	}
	return l
}

func (a *app) runColumns() []column[runView] {
	count := func(f func(totalsView) int64) func(runView) string {
		return func(v runView) string { return fmt.Sprint(f(v.Totals)) }
	}
	return []column[runView]{
		{name: "run", keep: true, text: func(v runView) string { return v.Run.String() }},
		{name: "age", keep: true, right: true, text: func(v runView) string { return a.age(v.CreatedAt) }, at: func(v runView) time.Time { return v.CreatedAt }, only: true},
		{name: "created_at", mixed: true, text: func(runView) string { return "" }, raw: func(v runView) string { return exact(v.CreatedAt) }},
		{
			name: "state", keep: true, text: func(v runView) string { return string(v.State) },
			style: func(v runView) style { return stateStyle(string(v.State)) },
		},
		{name: "agent", text: func(v runView) string { return v.Agent }},
		{name: "tenant", mixed: true, drop: 4, text: func(v runView) string { return v.Tenant }},
		{name: "queue", mixed: true, drop: 5, text: func(v runView) string { return v.Queue }},
		{name: "owner", mixed: true, drop: 2, text: func(v runView) string { return v.Owner }},
		{name: "turns", keep: true, drop: 3, right: true, text: count(func(t totalsView) int64 { return t.Turns })},
		{name: "calls", keep: true, drop: 1, right: true, text: count(func(t totalsView) int64 { return t.ToolCalls })},
		{name: "cost", keep: true, right: true, text: func(v runView) string { return v.Totals.short() }, raw: func(v runView) string { return events.FormatPico(v.Totals.Cost.orZero()) }},
		{name: "unpriced", mixed: true, text: func(runView) string { return "" }, raw: count(func(t totalsView) int64 { return t.Unpriced })},
		{name: "unmeasured", mixed: true, text: func(runView) string { return "" }, raw: count(func(t totalsView) int64 { return t.Unmeasured })},
		{name: "what", want: 24, text: a.standing},
	}
}

// short is the cost in a list: what is not in the sum is counted in one word.
func (t totalsView) short() string {
	switch {
	case t.ModelCalls == 0 && t.ToolCalls == 0:
		return "-"
	case t.Unpriced > 0 && t.Unmeasured > 0:
		return money(t.Cost.pico, "", unknown{t.Unpriced + t.Unmeasured, "unknown"})
	default:
		return t.words("")
	}
}

func (t totalsView) words(unit string) string {
	return money(t.Cost.pico, unit, unknown{t.Unpriced, "unpriced"}, unknown{t.Unmeasured, "unmeasured"})
}

// standing says in a few words where a run stands.
func (a *app) standing(v runView) string {
	switch {
	case v.WaitsFor != nil:
		s := either(": ", string(v.WaitsFor.Reason), v.WaitsFor.Detail)
		if v.WaitsFor.Reason == events.ParkTimer || v.WaitsFor.Reason == events.ParkModelRetry {
			s = either(", ", s, "until "+stamp(v.WaitsFor.Until))
		}
		return s
	case v.State == ledger.Cancelling && v.Cancel != nil:
		return either(": ", "by "+v.Cancel.By, v.Cancel.Reason)
	case v.State == ledger.Running && v.Lease != nil && v.Lease.Lapsed:
		return "lease of " + v.Lease.Worker + " ran out " + a.age(v.Lease.Until) + " ago"
	case v.State == ledger.Running && v.Lease != nil:
		return "by " + v.Lease.Worker
	case v.State == ledger.Queued && v.DueAt.After(a.now()):
		return "due " + stamp(v.DueAt)
	case v.Error != "":
		return either(": ", string(v.StoppedBy), v.Error)
	default:
		return either(": ", string(v.StoppedBy), v.Declined)
	}
}
