package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
)

func (a *app) runsDeadCommand() *cobra.Command {
	var f ledger.DeadFilter
	var p page
	var queued queuedIn
	var owner string
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
			from, before, err := queued.bounds(a)
			if err != nil {
				return err
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				if p.after != "" {
					if f.Before, err = a.findRun(ctx, st, p.after); err != nil {
						return err
					}
				}
				f.Before = lower(f.Before, before)
				return listPage(a, c, args, p, lister[ledger.Run, runView]{
					read: func(n int, after *ledger.Run) ([]ledger.Run, error) {
						q := f
						if q.Limit = n; after != nil {
							q.Before = after.ID
						}
						return st.Dead(ctx, q)
					},
					past:  func(r ledger.Run) bool { return string(r.ID[:]) < string(from[:]) },
					keep:  is(owner, func(r ledger.Run) string { return r.Owner }),
					view:  func(r ledger.Run) (runView, error) { return a.runView(ledger.Summary{Run: r}), nil },
					place: func(r ledger.Run) string { return r.ID.String() },
				}, a.deadColumns(), "no dead runs")
			})
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.Agent, "agent", "", "agent")
	fs.StringVar(&f.Tenant, "tenant", "", "tenant")
	fs.StringVar(&f.Queue, "queue", "", "queue")
	fs.StringVar(&owner, "owner", "", "owner")
	queued.add(c)
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
