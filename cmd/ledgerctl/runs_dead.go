package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

func (a *app) runsDeadCommand() *cobra.Command {
	var f ledger.DeadFilter
	var p page
	c := &cobra.Command{
		Use:   "dead",
		Short: "Lists runs that failed and that nothing tries again, newest first",
		Example: `  ledgerctl runs dead --queue refunds
  ledgerctl runs requeue RUN --reason "the provider is back"`,
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := p.check(); err != nil {
				return err
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				var err error
				if p.after != "" {
					if f.Before, err = a.findRun(ctx, st, p.after); err != nil {
						return err
					}
				}
				f.Limit = p.limit + 1
				rs, err := st.Dead(ctx, f)
				if err != nil {
					return err
				}
				rs, cut := cutPage(rs, p.limit)
				views := make([]runView, len(rs))
				for i, r := range rs {
					views[i] = a.runView(ledger.Summary{Run: r})
				}
				if err := list(a, views, a.deadColumns(), "no dead runs"); err != nil {
					return err
				}
				if cut {
					a.more(c, args, rs[len(rs)-1].ID.String())
				}
				return nil
			})
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.Agent, "agent", "", "agent")
	fs.StringVar(&f.Tenant, "tenant", "", "tenant")
	fs.StringVar(&f.Queue, "queue", "", "queue")
	p.add(c, "this run")
	listFlags[runView](a, c)
	return c
}

func (a *app) deadColumns() []column[runView] {
	return []column[runView]{
		{name: "run", keep: true, text: func(v runView) string { return v.Run.String() }},
		{name: "age", keep: true, right: true, text: func(v runView) string { return a.age(v.CreatedAt) }, at: func(v runView) time.Time { return v.CreatedAt }, only: true},
		{name: "created_at", mixed: true, text: func(runView) string { return "" }, raw: func(v runView) string { return exact(v.CreatedAt) }},
		{name: "agent", text: func(v runView) string { return v.Agent }},
		{name: "tenant", mixed: true, drop: 4, text: func(v runView) string { return v.Tenant }},
		{name: "queue", mixed: true, drop: 5, text: func(v runView) string { return v.Queue }},
		{name: "what", want: 24, text: a.standing},
	}
}
