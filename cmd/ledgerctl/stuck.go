package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime/system"
)

type stuckView struct {
	Run    events.RunID     `json:"run"`
	Tenant string           `json:"tenant"`
	Queue  string           `json:"queue"`
	Kind   ledger.StuckKind `json:"kind"`
	State  ledger.State     `json:"state"`
	Since  time.Time        `json:"since"`
	Worker string           `json:"worker,omitempty"`
	Why    string           `json:"why"`
}

func (a *app) stuckCommand() *cobra.Command {
	var f ledger.StuckFilter
	c := &cobra.Command{
		Use:   "stuck",
		Short: "Names every run that stands still without a reason",
		Long: `A run is queued, held by a worker, waiting for something that exists, or ended. This lists
those that are none of it, or for which nobody does what any worker would: the lease
ran out and nobody took over, its time came and went, what it waits for is decided or
does not exist, facts wait to be recorded, its history cannot be read, or its end is not
in its history. A projector looks once a minute and says so in its log.

With --nats it also asks whether the journal and the feed take messages: a NATS server
whose disk was full takes none until it is restarted, also when there is room again.

Exit codes: 0 none, 1 there are some, or it could not be asked, 2 wrong usage.`,
		Example: `  ledgerctl stuck
  ledgerctl stuck --patience 10m -o json
  ledgerctl stuck --nats nats://127.0.0.1:4222`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			return a.withLedger(ctx, func(st ledger.Store) error { return a.stuck(ctx, st, f) })
		},
	}
	c.Flags().DurationVar(&f.Patience, "patience", 2*time.Minute, "how long whatever workers do by themselves may take")
	c.Flags().StringVar(&f.Tenant, "tenant", "", "only this tenant")
	c.Flags().IntVar(&f.Limit, "limit", 50, "rows of each kind at most")
	a.journalFlag(c)
	listFlags[stuckView](a, c)
	return c
}

func (a *app) stuck(ctx context.Context, st ledger.Store, f ledger.StuckFilter) error {
	if f.Limit < 1 || f.Patience <= 0 {
		return usagef("--limit %d and --patience %s must be positive", f.Limit, f.Patience)
	}
	found, err := st.Stuck(ctx, f)
	if err != nil {
		return err
	}
	rows := make([]stuckView, len(found))
	for i, s := range found {
		rows[i] = stuckView{s.Run, s.Tenant, s.Queue, s.Kind, s.State, s.Since, s.Worker, s.Text}
	}
	err = list(a, rows, []column[stuckView]{
		{name: "run", text: func(s stuckView) string { return s.Run.String() }, keep: true},
		{name: "tenant", text: func(s stuckView) string { return s.Tenant }, mixed: true},
		{name: "kind", text: func(s stuckView) string { return string(s.Kind) }, style: func(stuckView) style { return red }},
		{name: "state", text: func(s stuckView) string { return string(s.State) }},
		{name: "since", text: func(s stuckView) string { return a.since(s.Since) }, raw: func(s stuckView) string { return stamp(s.Since) }, keep: true},
		{name: "why", text: func(s stuckView) string { return s.Why }, want: 60},
	}, "no run stands still")
	if err == nil && a.opts.NATS != "" {
		err = system.Frozen(ctx, a.opts.NATS)
	}
	if err == nil && len(rows) > 0 {
		return fmt.Errorf("%s still; %s says more", plural(int64(len(rows)), "run")+" "+map[bool]string{true: "stands", false: "stand"}[len(rows) == 1], a.command("why", "RUN"))
	}
	return err
}
