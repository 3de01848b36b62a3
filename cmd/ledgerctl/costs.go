package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// costKeys are what costs can be summed by.
var costKeys = [...]string{"run", "owner", "model", "tool", "agent", "queue", "day"}

// costView is a sum. What nobody knows is counted beside it.
type costView struct {
	By           string  `json:"by,omitempty"`
	Key          string  `json:"key,omitempty"`
	ModelCost    dollars `json:"model_cost"`
	ToolCost     dollars `json:"tool_cost"`
	Cost         dollars `json:"cost"`
	ModelCalls   int64   `json:"model_calls"`
	ToolCalls    int64   `json:"tool_calls"`
	Unpriced     int64   `json:"unpriced"`
	Unmeasured   int64   `json:"unmeasured"`
	Unsettled    int64   `json:"unsettled"`
	InputTokens  int64   `json:"input_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	total        bool
}

func (a *app) costsCommand() *cobra.Command {
	var f ledger.CostFilter
	var run, since, until string
	c := &cobra.Command{
		Use:   "costs",
		Short: "Sums what model and tool calls cost, in US dollars",
		Long: `Sums what model and tool calls cost, in US dollars. Every billed attempt counts, also
those whose outcome was not used. What nobody knows is not in the sum and is counted
beside it: unpriced (no price known for the model that served), unmeasured (the tool
did not say what it cost) and unsettled (asked, and no answer recorded).
A day is that of the call, in UTC; days without a call stand between the others.
Sums are kept by day; those of a run, --by run, and of an --owner by model or tool read every
call that they count: over a large ledger bound these with --since.`,
		Example: `  ledgerctl costs
  ledgerctl costs --by model --tenant acme -o csv
  ledgerctl costs --by agent --since 2026-11-01 --until 2026-12-01
  ledgerctl costs --by day --since 720h
  ledgerctl costs --run 7W6X5Y --lineage --by run`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.By != "" && !slices.Contains(costKeys[:], f.By) {
				return usagef("--by %q: want one of %s", f.By, strings.Join(costKeys[:], ", "))
			}
			if f.Lineage && run == "" {
				return usagef("--lineage needs --run RUN: whose children?")
			}
			var err error
			if f.Since, err = a.moment("since", since); err != nil {
				return err
			}
			if f.Until, err = a.moment("until", until); err != nil {
				return err
			}
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				if run != "" {
					r, err := a.readRun(ctx, st, run)
					if err != nil {
						return err
					}
					f.Run = r.ID
				}
				rows, err := st.Costs(ctx, f)
				if err != nil {
					return err
				}
				if f.By == "day" {
					rows = ledger.EachDay(rows)
				}
				return a.printCosts(rows, f.By)
			})
		},
	}
	fs := c.Flags()
	fs.StringVar(&f.By, "by", "", "a sum for each "+strings.Join(costKeys[:], ", ")+"; default one total")
	fs.StringVar(&f.Tenant, "tenant", "", "tenant")
	fs.StringVar(&f.Owner, "owner", "", "owner")
	fs.StringVar(&run, "run", "", "run")
	fs.StringVar(&since, "since", "", "only runs queued from then on: 2026-01-31, 2026-01-31T10:00:00Z or a time ago such as 24h")
	fs.StringVar(&until, "until", "", "only runs queued before then")
	fs.BoolVar(&f.Lineage, "lineage", false, "with --run: also its child runs, and theirs")
	listFlags[costView](a, c)
	_ = c.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(costKeys[:], cobra.ShellCompDirectiveNoFileComp))
	return c
}

// moment reads a day (UTC), a moment, or how long ago one was; empty is none.
func (a *app) moment(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d > 0 {
		return a.now().Add(-d), nil
	}
	return time.Time{}, usagef("--%s %q: want a day such as 2026-01-31, a moment such as 2026-01-31T10:00:00Z, or a time ago such as 24h", flag, s)
}

func (a *app) printCosts(rows []ledger.CostRow, by string) error {
	views := make([]costView, len(rows))
	var sum ledger.CostRow
	for i, r := range rows {
		views[i] = costViewOf(r, by)
		sum = sum.Plus(r)
	}
	if a.output == formatTable && by != "" && len(views) > 1 {
		sum.Key = "total"
		total := costViewOf(sum, "")
		total.total = true
		views = append(views, total)
	}
	return list(a, views, costColumns(by), "no calls, no costs")
}

func costViewOf(r ledger.CostRow, by string) costView {
	return costView{
		By: by, Key: r.Key, ModelCost: dollars{r.ModelCost}, ToolCost: dollars{r.ToolCost}, Cost: dollars{r.Cost()},
		ModelCalls: r.ModelCalls, ToolCalls: r.ToolCalls, Unpriced: r.Unpriced, Unmeasured: r.Unmeasured, Unsettled: r.Unsettled,
		InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
	}
}

func costColumns(by string) []column[costView] {
	key := by
	if key == "" {
		key = "key"
	}
	amount := func(name string, f func(costView) dollars, calls func(costView) int64, us func(costView) []unknown) column[costView] {
		return column[costView]{
			name: name, keep: true, right: true,
			text: func(v costView) string {
				if calls(v) == 0 {
					return "-"
				}
				return money(f(v).pico, "", us(v)...)
			},
			raw: func(v costView) string { return events.FormatPico(f(v).orZero()) },
		}
	}
	count := func(name string, drop int, f func(costView) int64) column[costView] {
		return column[costView]{name: name, keep: true, right: true, drop: drop, text: func(v costView) string { return fmt.Sprint(f(v)) }}
	}
	beside := func(name string, f func(costView) int64) column[costView] {
		return column[costView]{name: name, mixed: true, text: func(costView) string { return "" }, raw: func(v costView) string { return fmt.Sprint(f(v)) }}
	}
	return []column[costView]{
		{
			name: key, keep: by == "run", mixed: by == "", style: func(v costView) style {
				if v.total {
					return bold
				}
				return plain
			},
			text: func(v costView) string {
				if v.Key == "" && by != "" {
					return "(none)"
				}
				return v.Key
			},
			raw: func(v costView) string { return v.Key },
		},
		count("model_calls", 3, func(v costView) int64 { return v.ModelCalls }),
		amount("model_cost", func(v costView) dollars { return v.ModelCost }, func(v costView) int64 { return v.ModelCalls }, func(v costView) []unknown {
			return []unknown{{v.Unpriced, "unpriced"}, {v.Unsettled, "unsettled"}}
		}),
		count("tool_calls", 4, func(v costView) int64 { return v.ToolCalls }),
		amount("tool_cost", func(v costView) dollars { return v.ToolCost }, func(v costView) int64 { return v.ToolCalls }, func(v costView) []unknown {
			return []unknown{{v.Unmeasured, "unmeasured"}}
		}),
		beside("unpriced", func(v costView) int64 { return v.Unpriced }),
		beside("unsettled", func(v costView) int64 { return v.Unsettled }),
		beside("unmeasured", func(v costView) int64 { return v.Unmeasured }),
		count("input_tokens", 1, func(v costView) int64 { return v.InputTokens }),
		count("output_tokens", 2, func(v costView) int64 { return v.OutputTokens }),
	}
}
