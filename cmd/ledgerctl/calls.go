package main

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func (a *app) callsCommand() *cobra.Command {
	c := group("calls", "Lists tool calls, shows one, or what a run rests on")
	c.AddCommand(a.callsListCommand(), a.callsShowCommand(), a.callsSourcesCommand())
	return c
}

// callStatuses are those of CallRecord.
var callStatuses = [...]string{"started", "progress", "finished", "error", "blocked", "in_doubt", "resolved"}

type callsFlags struct {
	filter       ledger.CallFilter
	run, agent   string
	queued       queuedIn
	follow       following
	from, before events.RunID // of queued
	page         page
}

func (a *app) callsListCommand() *cobra.Command {
	var f callsFlags
	c := &cobra.Command{
		Use:   "list",
		Short: "Lists tool calls, newest first",
		Long: `Lists tool calls, newest first: one row for each call, that of its outcome or, if it
is still open, of where it stands. With --all every transition is a row.`,
		Example: `  ledgerctl calls list --tool refund --status in_doubt
  ledgerctl calls list --run 7W6X5Y --all -o jsonl`,
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.callsList(c, args, f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.run, "run", "", "run")
	fs.StringVar(&f.filter.Tool, "tool", "", "tool")
	fs.StringVar(&f.filter.Status, "status", "", "one of "+strings.Join(callStatuses[:], ", "))
	fs.StringVar(&f.filter.Tenant, "tenant", "", "tenant")
	fs.StringVar(&f.filter.Owner, "owner", "", "owner of the run")
	fs.StringVar(&f.agent, "agent", "", "agent of the run")
	f.queued.add(c)
	f.follow.add(c, "what becomes of calls")
	fs.BoolVar(&f.filter.All, "all", false, "every transition, also of calls that have ended")
	f.page.add(c, "this RUN/SEQ")
	listFlags[callView](a, c)
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(callStatuses[:], cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (a *app) callsList(c *cobra.Command, args []string, f callsFlags) error {
	if err := f.page.check(); err != nil {
		return err
	}
	if s := f.filter.Status; s != "" && !slices.Contains(callStatuses[:], s) {
		return usagef("--status %q: want one of %s", s, strings.Join(callStatuses[:], ", "))
	}
	err := f.follow.check()
	if err != nil {
		return err
	}
	if f.from, f.before, err = f.queued.bounds(a); err != nil {
		return err
	}
	ctx := c.Context()
	return a.withLedger(ctx, func(st ledger.Store) error {
		if f.filter.Run, f.filter.BeforeRun, f.filter.BeforeSeq, err = a.rowsOf(ctx, st, f.run, f.page); err != nil {
			return err
		}
		if f.follow.on {
			return a.followCalls(ctx, st, f)
		}
		return listPage(a, c, args, f.page, a.callLister(ctx, st, f), a.callColumns(true), "no such tool calls")
	})
}

// callLister reads the calls that the flags select, those of the newest run first.
func (a *app) callLister(ctx context.Context, st ledger.Store, f callsFlags) lister[ledger.CallRecord, callView] {
	if b := f.before; !b.IsZero() && lower(f.filter.BeforeRun, b) == b {
		f.filter.BeforeRun, f.filter.BeforeSeq = b, 0
	}
	run := func(r ledger.CallRecord) events.RunID { return r.Run }
	return lister[ledger.CallRecord, callView]{
		read: func(n int, after *ledger.CallRecord) ([]ledger.CallRecord, error) {
			q := f.filter
			if q.Limit = n; after != nil {
				q.BeforeRun, q.BeforeSeq = after.Run, after.Seq
			}
			return st.Calls(ctx, q)
		},
		past:  func(r ledger.CallRecord) bool { return string(r.Run[:]) < string(f.from[:]) },
		keep:  byAgent(ctx, st, f.agent, run),
		view:  func(r ledger.CallRecord) (callView, error) { return newCallView(r), nil },
		place: func(r ledger.CallRecord) string { return r.Run.String() + "/" + strconv.FormatUint(r.Seq, 10) },
	}
}

// callColumns are those of a list over runs, or of one run's calls.
func (a *app) callColumns(runs bool) []column[callView] {
	name := func(v callView) string { return v.Call }
	if runs {
		name = func(v callView) string { return v.Run.String() + "/" + v.Call }
	}
	text := func(f func(callView) string) column[callView] { return column[callView]{text: f} }
	status := text(func(v callView) string { return v.Status })
	status.name, status.keep, status.style = "status", true, func(v callView) style { return stateStyle(v.Status) }
	cols := []column[callView]{
		{name: "call", keep: true, text: name},
		{name: "seq", mixed: true, keep: true, right: true, text: func(callView) string { return "" }, raw: func(v callView) string { return strconv.FormatUint(v.Seq, 10) }},
		{name: "age", keep: true, right: true, only: true, text: func(v callView) string { return a.age(v.At) }, at: func(v callView) time.Time { return v.At }},
		{name: "at", mixed: true, text: func(callView) string { return "" }, raw: func(v callView) string { return exact(v.At) }},
		{name: "tool", want: 16, text: func(v callView) string { return v.Tool }},
		{name: "effect", keep: true, drop: 2, text: func(v callView) string {
			if v.Effect == "" {
				return "-" // not run, so nobody asked what it would do
			}
			return v.Effect
		}, raw: func(v callView) string { return v.Effect }},
		status,
		{name: "cost", keep: true, drop: 1, right: true, text: callCost, raw: func(v callView) string { return strings.TrimSuffix(callCost(v), "-") }},
		{name: "tenant", mixed: true, drop: 4, text: func(v callView) string { return v.Tenant }},
		{name: "owner", mixed: true, drop: 3, text: func(v callView) string { return v.Owner }},
		{name: "op_key", mixed: true, text: func(callView) string { return "" }, raw: func(v callView) string {
			if v.OpKey.IsZero() {
				return ""
			}
			return v.OpKey.String()
		}},
		{name: "what", want: 24, text: callWhat},
	}
	return cols
}

// callCost is what a call cost; one that was not executed here cost nothing here.
func callCost(v callView) string {
	switch {
	case v.Cost != nil:
		return v.Cost.String()
	case v.Status == "finished" && !v.Repeated, v.Status == "error", v.Status == "resolved":
		return "unmeasured"
	default:
		return "-"
	}
}

// callWhat says in a few words what a row is about.
func callWhat(v callView) string {
	r, progress := resultOf(v.Result)
	switch v.Status {
	case "started":
		return string(v.Arguments)
	case "progress":
		return progress
	case "finished":
		if v.Repeated {
			return "repeated, outcome of " + v.Of + ": " + said(r)
		}
		return either(" ", said(r), lateNote(v))
	case "blocked":
		return either(": ", v.Reason, v.Detail, r.Error)
	case "resolved":
		return either(": ", v.Reason+" by "+v.Detail, said(r))
	default: // error, in_doubt
		return either(": ", v.Reason, v.Detail, r.Error)
	}
}

func lateNote(v callView) string {
	if v.Detail == "late" {
		return "(late: after another outcome, or from an attempt that no longer counted)"
	}
	return ""
}
