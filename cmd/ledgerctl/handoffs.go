package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// handoffView is a call whose outcome comes from outside.
type handoffView struct {
	Token       events.ID           `json:"token"`
	State       ledger.HandoffState `json:"state"`
	Reason      events.ParkReason   `json:"reason"`
	Run         events.RunID        `json:"run"`
	Call        string              `json:"call"`
	Tool        string              `json:"tool"`
	OpKey       events.Hash         `json:"op_key,omitzero"`
	Child       events.RunID        `json:"child,omitzero"`
	Signal      string              `json:"signal,omitempty"`
	Since       time.Time           `json:"since"`
	Until       time.Time           `json:"until,omitzero"`
	CompletedAt time.Time           `json:"completed_at,omitzero"`
	CompletedBy string              `json:"completed_by,omitempty"`
}

func (a *app) handoffsCommand() *cobra.Command {
	var tenant, run string
	var all bool
	var narrow narrowing
	var p page
	c := &cobra.Command{
		Use:   "handoffs",
		Short: "Lists calls whose outcome comes from outside, and who is awaited",
		Long: `Lists calls that were handed off and are awaited, oldest run first: work that somebody
outside does (ledgerctl complete TOKEN), timers, signals (ledgerctl signal RUN NAME)
and child runs. --all also lists those that were completed or whose time was up.`,
		Example: `  ledgerctl handoffs
  ledgerctl handoffs --run 7W6X5Y --all -o json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := p.check(); err != nil {
				return err
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				f := ledger.HandoffFilter{Tenant: tenant, States: []ledger.HandoffState{ledger.HandoffOpen}}
				if all {
					f.States = nil
				}
				if run != "" {
					r, err := a.readRun(ctx, st, run)
					if err != nil {
						return err
					}
					f.Run = r.ID
				}
				if p.after != "" {
					var err error
					if f.After, err = events.ParseID(p.after); err != nil {
						return usagef("--after: %w", err)
					}
				}
				return listPage(a, c, args, p, lister[ledger.Handoff, handoffView]{
					read: func(n int, after *ledger.Handoff) ([]ledger.Handoff, error) {
						q := f
						if q.Limit = n; after != nil {
							q.After = after.Token
						}
						return st.Handoffs(ctx, q)
					},
					keep: both(is(narrow.tool, func(h ledger.Handoff) string { return h.Tool }),
						byAgent(ctx, st, narrow.agent, func(h ledger.Handoff) events.RunID { return h.Run })),
					view:  func(h ledger.Handoff) (handoffView, error) { return viewHandoff(h), nil },
					place: func(h ledger.Handoff) string { return h.Token.String() },
				}, a.handoffColumns(), "nothing is awaited from outside")
			})
		},
	}
	fs := c.Flags()
	fs.StringVar(&tenant, "tenant", "", "tenant")
	fs.StringVar(&run, "run", "", "run")
	narrow.add(c)
	fs.BoolVar(&all, "all", false, "also those that are not awaited any more")
	p.add(c, "this token")
	listFlags[handoffView](a, c)
	return c
}

func viewHandoff(h ledger.Handoff) handoffView {
	return handoffView{
		Token: h.Token, State: h.State, Reason: h.Reason, Run: h.Run, Call: h.Call.String(), Tool: h.Tool, OpKey: h.OpKey, Child: h.Child,
		Signal: h.Signal, Since: h.CreatedAt, Until: h.Until, CompletedAt: h.CompletedAt, CompletedBy: h.CompletedBy,
	}
}

func (a *app) handoffColumns() []column[handoffView] {
	return []column[handoffView]{
		{name: "token", keep: true, text: func(v handoffView) string { return v.Token.String() }},
		{name: "state", text: func(v handoffView) string { return string(v.State) }},
		{name: "for", right: true, only: true, text: func(v handoffView) string { return a.age(v.Since) }, at: func(v handoffView) time.Time { return v.Since }},
		{name: "since", mixed: true, text: func(handoffView) string { return "" }, raw: func(v handoffView) string { return exact(v.Since) }},
		{name: "call", keep: true, text: func(v handoffView) string { return v.Run.String() + "/" + v.Call }},
		{name: "tool", text: func(v handoffView) string { return v.Tool }},
		{name: "awaits", keep: true, text: awaited, raw: awaited},
		{name: "until", drop: 1, text: func(v handoffView) string {
			if v.Until.IsZero() {
				return "-"
			}
			return stamp(v.Until)
		}, raw: func(v handoffView) string { return exact(v.Until) }},
		{name: "by", mixed: true, drop: 2, text: func(v handoffView) string { return v.CompletedBy }},
	}
}

// awaited says in a word whom the call waits for.
func awaited(v handoffView) string {
	switch v.Reason {
	case events.ParkSignal:
		return "signal " + v.Signal
	case events.ParkChild:
		return "run " + v.Child.String()
	case events.ParkTimer:
		return "a timer"
	}
	return "completion"
}
