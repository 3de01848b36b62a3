package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

// switchView is a tool's switch, or a change of it, as it is shown.
type switchView struct {
	Seq    int64             `json:"seq"`
	Tenant string            `json:"tenant"`
	Tool   string            `json:"tool"`
	Mode   ledger.SwitchMode `json:"mode"`
	By     string            `json:"by"`
	Role   string            `json:"role,omitempty"`
	Reason string            `json:"reason"`
	At     time.Time         `json:"at"`
	Woken  *int              `json:"woken,omitempty"`
}

func newSwitchView(w ledger.Switch) switchView {
	return switchView{Seq: w.Seq, Tenant: w.Tenant, Tool: w.Tool, Mode: w.Mode, By: w.By, Role: w.Role, Reason: w.Reason, At: w.At}
}

func (a *app) toolsCommand() *cobra.Command {
	c := group("tools", "Says how tools were used; stops all destructive calls of one at once, or lets them go on")
	c.Long = `Says how tools were used (used), stops all destructive calls of a tool at once, or lets
them go on.

Once the command has returned, no call begins that it forbids; calls that have begun
go on. Readonly and idempotent calls are not stopped. TOOL is a tool's name, or '*'
for all tools of the tenant.
` + whoDecides
	c.AddCommand(
		a.switchCommand("pause", ledger.SwitchPaused, "Lets calls of a tool wait until it is on again",
			`Lets calls of a tool wait: their runs are parked, and go on by themselves once it is on.`),
		a.switchCommand("off", ledger.SwitchOff, "Refuses calls of a tool; the models are told why",
			`Refuses calls of a tool: the models are told why, and go on without it.
Runs that waited for it because it was paused are told as well.`),
		a.switchCommand("on", ledger.SwitchOn, "Lets calls of a tool go ahead, and wakes the runs that wait for it",
			`Lets calls of a tool go ahead, and wakes the runs that wait for it.`),
		a.toolsListCommand(), a.toolsUsedCommand())
	return c
}

func (a *app) switchCommand(verb string, mode ledger.SwitchMode, short, long string) *cobra.Command {
	change := ledger.SwitchChange{Mode: mode}
	var f acting
	c := &cobra.Command{
		Use:     verb + " TOOL",
		Short:   short,
		Long:    long,
		Example: fmt.Sprintf("  ledgerctl tools %s refund --reason \"the payment provider is down\"\n  ledgerctl tools %s '*' --tenant acme --reason drill", verb, verb),
		Args:    oneArg("a tool"),
		RunE: func(c *cobra.Command, args []string) error {
			if change.Reason == "" {
				return usagef("--reason is required: the record says why, and so are people and models who run into it told")
			}
			change.Tool, change.By = args[0], a.decider(f)
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				w, err := st.SetSwitch(ctx, change)
				if err != nil {
					return err
				}
				if a.output == formatJSON {
					v := newSwitchView(w)
					v.Woken = &w.Woken
					return a.json(v)
				}
				_, err = fmt.Fprintf(a.out, "tool %s of tenant %s is %s, by %s; %s woken\n", clean(w.Tool), clean(w.Tenant), w.Mode, clean(w.By), plural(int64(w.Woken), "run"))
				return err
			})
		},
	}
	f.person(c)
	c.Flags().StringVar(&change.Tenant, "tenant", "default", "tenant")
	c.Flags().StringVar(&change.Reason, "reason", "", "why (required)")
	a.outputFlag(c, formatTable, formatJSON)
	a.changes(c)
	return c
}

func (a *app) toolsListCommand() *cobra.Command {
	var f ledger.SwitchFilter
	var tool string
	var p page
	c := &cobra.Command{
		Use:   "list",
		Short: "Lists the tools that are paused or off, or with --all every change",
		Example: `  ledgerctl tools list
  ledgerctl tools list --all --tenant acme`,
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := p.check(); err != nil {
				return err
			}
			if p.after != "" {
				n, err := strconv.ParseInt(p.after, 10, 64)
				if err != nil || n < 0 {
					return usagef("--after %q: want the number that the last page said", p.after)
				}
				f.After = n
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				none := "every tool is on"
				if f.All {
					none = "no tool was ever switched"
				}
				return listPage(a, c, args, p, lister[ledger.Switch, switchView]{
					read: func(n int, after *ledger.Switch) ([]ledger.Switch, error) {
						q := f
						if q.Limit = n; after != nil {
							q.After = after.Seq
						}
						return st.Switches(ctx, q)
					},
					keep:  is(tool, func(w ledger.Switch) string { return w.Tool }),
					view:  func(w ledger.Switch) (switchView, error) { return newSwitchView(w), nil },
					place: func(w ledger.Switch) string { return strconv.FormatInt(w.Seq, 10) },
				}, a.switchColumns(), none)
			})
		},
	}
	c.Flags().StringVar(&f.Tenant, "tenant", "", "tenant")
	c.Flags().StringVar(&tool, "tool", "", "tool")
	c.Flags().BoolVar(&f.All, "all", false, "every change ever made, oldest first")
	p.add(c, "this change")
	listFlags[switchView](a, c)
	return c
}

func (a *app) switchColumns() []column[switchView] {
	return []column[switchView]{
		{name: "tool", keep: true, text: func(v switchView) string { return v.Tool }},
		{name: "mode", keep: true, text: func(v switchView) string { return string(v.Mode) }},
		{name: "for", right: true, only: true, text: func(v switchView) string { return a.age(v.At) }, at: func(v switchView) time.Time { return v.At }},
		{name: "at", mixed: true, text: func(switchView) string { return "" }, raw: func(v switchView) string { return exact(v.At) }},
		{name: "tenant", text: func(v switchView) string { return v.Tenant }},
		{name: "by", text: func(v switchView) string { return v.By }},
		{name: "role", mixed: true, text: func(v switchView) string { return v.Role }},
		{name: "reason", text: func(v switchView) string { return v.Reason }},
	}
}
