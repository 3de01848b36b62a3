package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/tools"
)

// useView is how a tool was used. Fields are never renamed.
type useView struct {
	Tenant     string            `json:"tenant"`
	Tool       string            `json:"tool"`
	Effect     string            `json:"effect,omitempty"`
	Recovery   string            `json:"recovery,omitempty"`
	Trust      string            `json:"trust,omitempty"`
	Calls      int64             `json:"calls"`
	Errors     int64             `json:"errors"`
	Blocked    int64             `json:"blocked"`
	Repeated   int64             `json:"repeated"`
	InDoubt    int64             `json:"in_doubt"` // now
	Cost       dollars           `json:"cost"`
	Unmeasured int64             `json:"unmeasured"`
	LastUsed   time.Time         `json:"last_used,omitzero"`
	Switch     ledger.SwitchMode `json:"switch"`
	AfterCrash string            `json:"after_crash"`
}

func newUseView(u ledger.ToolUse) useView {
	v := useView{
		Tenant: u.Tenant, Tool: u.Tool, Effect: u.Effect, Recovery: u.Recovery, Trust: u.Trust, Calls: u.Calls, Errors: u.Errors, Blocked: u.Blocked,
		Repeated: u.Repeated, InDoubt: u.InDoubt, Cost: dollars{u.Cost}, Unmeasured: u.Unmeasured, LastUsed: u.LastUsed, Switch: u.Switch,
	}
	if u.Effect != "" {
		v.AfterCrash = tools.AfterCrash(tools.Effect(u.Effect), tools.Recovery{Kind: tools.RecoveryKind(u.Recovery)})
	}
	return v
}

func (a *app) toolsUsedCommand() *cobra.Command {
	var f ledger.ToolFilter
	var since string
	c := &cobra.Command{
		Use:   "used",
		Short: "Says how tools were used: calls, errors, what is in doubt now, what they cost",
		Long: `Says how tools were used: calls that ended, errors, calls that were blocked, calls that got
an earlier outcome (repeated), effects in doubt now, cost, and whether the tool is switched
off. What a tool declares is the strictest that a call was made under. It reads every call
that it counts: over a large ledger bound it with --since. What a worker would have now,
and what becomes of its calls after a crash: runner tools.`,
		Example: `  ledgerctl tools used
  ledgerctl tools used --tenant acme --since 24h -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			var err error
			if f.Since, err = a.moment("since", since); err != nil {
				return err
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				uses, err := st.ToolUses(ctx, f)
				if err != nil {
					return err
				}
				views := make([]useView, len(uses))
				for i, u := range uses {
					views[i] = newUseView(u)
				}
				return list(a, views, a.useColumns(), "no tool was ever called")
			})
		},
	}
	c.Flags().StringVar(&f.Tenant, "tenant", "", "tenant")
	c.Flags().StringVar(&since, "since", "", "only runs queued from then on: 2026-01-31, 2026-01-31T10:00:00Z or a time ago such as 24h")
	listFlags[useView](a, c)
	return c
}

func (a *app) useColumns() []column[useView] {
	count := func(name string, drop int, f func(useView) int64) column[useView] {
		return column[useView]{name: name, keep: true, right: true, drop: drop, text: func(v useView) string { return fmt.Sprint(f(v)) }}
	}
	doubt := count("in_doubt", 0, func(v useView) int64 { return v.InDoubt })
	doubt.style = func(v useView) style {
		if v.InDoubt > 0 {
			return red
		}
		return plain
	}
	return []column[useView]{
		{name: "tool", keep: true, text: func(v useView) string { return v.Tool }},
		{name: "tenant", mixed: true, text: func(v useView) string { return v.Tenant }},
		{name: "effect", drop: 5, want: 11, text: func(v useView) string { return v.Effect }},
		{name: "recovery", mixed: true, drop: 8, text: func(v useView) string { return v.Recovery }},
		{name: "trust", drop: 7, text: func(v useView) string { return v.Trust }},
		count("calls", 0, func(v useView) int64 { return v.Calls }),
		count("errors", 0, func(v useView) int64 { return v.Errors }),
		count("blocked", 0, func(v useView) int64 { return v.Blocked }),
		count("repeated", 6, func(v useView) int64 { return v.Repeated }),
		doubt,
		{
			name: "cost", keep: true, right: true, text: func(v useView) string {
				if v.Calls == v.Blocked {
					return "-"
				}
				return money(v.Cost.pico, "", unknown{v.Unmeasured, "unmeasured"})
			},
			raw: func(v useView) string { return events.FormatPico(v.Cost.orZero()) },
		},
		{name: "last", right: true, keep: true, only: true, drop: 9, text: func(v useView) string { return a.age(v.LastUsed) }, at: func(v useView) time.Time { return v.LastUsed }},
		{name: "last_used", mixed: true, text: func(useView) string { return "" }, raw: func(v useView) string { return exact(v.LastUsed) }},
		{name: "switch", mixed: true, text: func(v useView) string { return string(v.Switch) }},
	}
}
