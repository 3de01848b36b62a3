package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func (a *app) indoubtCommand() *cobra.Command {
	var tenant, owner string
	var narrow narrowing
	var p page
	c := &cobra.Command{
		Use:   "indoubt",
		Short: "Lists effects that nobody can know about, oldest first, and what to type",
		Long: `Lists effects in doubt, oldest first: a destructive call was begun and nobody can know
whether it took effect. Look where it would have taken effect, then resolve it.
"It happened" can be said at once; "it did not" only when no attempt can still act.`,
		Example: `  ledgerctl indoubt
  ledgerctl indoubt -o jsonl | jq -r .op_key`,
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error { return a.indoubt(c, args, tenant, owner, narrow, p) },
	}
	c.Flags().StringVar(&tenant, "tenant", "", "tenant")
	c.Flags().StringVar(&owner, "owner", "", "owner of the run")
	narrow.add(c)
	p.add(c, "this op key")
	listFlags[effectView](a, c)
	return c
}

func (a *app) indoubt(c *cobra.Command, args []string, tenant, owner string, narrow narrowing, p page) error {
	if err := p.check(); err != nil {
		return err
	}
	ctx := c.Context()
	return a.withLedger(ctx, func(st ledger.Store) error {
		f := ledger.EffectFilter{Tenant: tenant, Owner: owner, States: []events.EffectState{events.EffectInDoubt}}
		if p.after != "" {
			e, err := a.findEffect(ctx, st, p.after)
			if err != nil {
				return err
			}
			f.After = e.OpKey
		}
		views, next, err := lister[ledger.Effect, effectView]{
			read: func(n int, after *ledger.Effect) ([]ledger.Effect, error) {
				q := f
				if q.Limit = n; after != nil {
					q.After = after.OpKey
				}
				return st.Effects(ctx, q)
			},
			keep: both(is(narrow.tool, func(e ledger.Effect) string { return e.Tool }),
				byAgent(ctx, st, narrow.agent, func(e ledger.Effect) events.RunID { return e.Run })),
			view:  func(e ledger.Effect) (effectView, error) { return a.effectView(ctx, st, e) },
			place: func(e ledger.Effect) string { return e.OpKey.String() },
		}.page(a, p)
		if err != nil {
			return err
		}
		if err := list(a, views, a.doubtColumns(), "nothing is in doubt"); err != nil {
			return err
		}
		if a.output == formatTable && len(views) > 0 {
			if slices.ContainsFunc(views, func(v effectView) bool { return !*v.Quiescent }) {
				fmt.Fprintln(a.out, "* an attempt may still be acting; that it happened (--applied) can be said before")
			}
			a.howToResolve(views)
		}
		if next != "" {
			a.more(c, args, next)
		}
		return nil
	})
}

// howToResolve prints lines to type, for the first few effects.
func (a *app) howToResolve(views []effectView) {
	fmt.Fprintf(a.out, "\nLook where it would have taken effect, then type one of these lines.\n")
	const most = 5
	for _, v := range views[:min(len(views), most)] {
		a.section("%s  %s", shortKey(v.OpKey), clean(v.Tool+" "+string(v.Arguments)))
		for _, n := range a.resolveCommands(v) {
			a.toType(n.Command, n.For)
		}
	}
	if n := len(views) - most; n > 0 {
		fmt.Fprintf(a.out, "\nAnd so on for %d more.\n", n)
	}
}

// toType is a line to type under a comment that says what for; both can be pasted.
func (a *app) toType(line, what string) {
	fmt.Fprintf(a.out, "  %s\n  %s\n", a.term.paint("# "+clean(what), dim), line)
}

func (a *app) doubtColumns() []column[effectView] {
	return []column[effectView]{
		{name: "op_key", keep: true, text: func(v effectView) string { return shortKey(v.OpKey) }, raw: func(v effectView) string { return v.OpKey.String() }},
		{name: "for", keep: true, right: true, only: true, text: func(v effectView) string { return a.age(v.InDoubtSince) }, at: func(v effectView) time.Time { return v.InDoubtSince }},
		{name: "since", mixed: true, text: func(effectView) string { return "" }, raw: func(v effectView) string { return exact(v.InDoubtSince) }},
		{name: "call", keep: true, text: func(v effectView) string { return v.Run.String() + "/" + v.Call }},
		{name: "tool", text: func(v effectView) string { return v.Tool }},
		{name: "tenant", mixed: true, drop: 2, text: func(v effectView) string { return v.Tenant }},
		{name: "resolvable", keep: true, text: a.resolvable, raw: func(v effectView) string {
			if v.Quiescent != nil && *v.Quiescent {
				return "now"
			}
			return exact(v.QuiescentAt)
		}},
		{name: "cause", text: func(v effectView) string { return v.Cause }},
		{name: "arguments", mixed: true, text: func(effectView) string { return "" }, raw: func(v effectView) string { return string(v.Arguments) }},
		{name: "waiting", keep: true, right: true, drop: 1, text: func(v effectView) string { return fmt.Sprint(len(v.Waiting)) }},
	}
}
