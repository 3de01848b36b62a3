package main

import (
	"cmp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/telling"
	"github.com/daybookhq/daybook/ledger"
)

// sourceView is one source of a tool call. A call that was handed an earlier
// outcome has the sources of that one.
type sourceView struct {
	Run    events.RunID `json:"run"`
	Call   string       `json:"call"`
	Tool   string       `json:"tool"`
	Trust  string       `json:"trust,omitempty"`
	Status string       `json:"status"`
	Title  string       `json:"title,omitempty"`
	URL    string       `json:"url,omitempty"`
}

func (a *app) callsSourcesCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "sources RUN",
		Short: "Lists where the results of a run's tool calls came from",
		Long: `Lists where the results of a run's tool calls came from: one row for each source, in
the order of the calls. What a tool returns without saying where it has it from has
no row here (ledgerctl calls show shows it).`,
		Example: `  ledgerctl calls sources 7W6X5Y
  ledgerctl calls sources 7W6X5Y -o json | jq -r .[].url`,
		Args: oneArg("a run"),
		RunE: func(c *cobra.Command, args []string) error {
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error {
				r, err := a.readRun(ctx, st, args[0])
				if err != nil {
					return err
				}
				cs, err := telling.LatestCalls(ctx, st, r.ID)
				if err != nil {
					return err
				}
				return list(a, sourcesOf(cs), sourceColumns(), "no call of this run names a source")
			})
		},
	}
	listFlags[sourceView](a, c)
	return c
}

// sourcesOf lists them in the order in which the calls were asked for.
func sourcesOf(cs []ledger.CallRecord) []sourceView {
	cs = slices.SortedStableFunc(slices.Values(cs), func(a, b ledger.CallRecord) int {
		return cmp.Or(cmp.Compare(a.Call.Turn, b.Call.Turn), cmp.Compare(a.Call.Index, b.Call.Index))
	})
	var views []sourceView
	for _, c := range cs {
		r, _ := resultOf(c.Result)
		for _, s := range r.Sources {
			views = append(views, sourceView{c.Run, c.Call.String(), c.Tool, c.Trust, c.Status, s.Title, s.URL})
		}
	}
	return views
}

func sourceColumns() []column[sourceView] {
	return []column[sourceView]{
		{name: "call", keep: true, text: func(v sourceView) string { return v.Call }, raw: func(v sourceView) string { return v.Run.String() + "/" + v.Call }},
		{name: "tool", want: 12, text: func(v sourceView) string { return v.Tool }},
		{name: "trust", mixed: true, text: func(v sourceView) string { return v.Trust }},
		{name: "status", mixed: true, text: func(v sourceView) string { return v.Status }},
		{name: "url", keep: true, text: func(v sourceView) string { return v.URL }},
		{name: "title", want: 24, text: func(v sourceView) string { return v.Title }},
	}
}
