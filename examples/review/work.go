//go:build unix

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
)

var (
	//go:embed AGENT.md
	agentFile []byte
	//go:embed policy.yaml
	policy []byte
)

// order is what a worker is to do.
type order struct {
	dir    string
	from   uint64 // events up to here were told by the worker before
	die    string // when: approval, merge or sleep; empty = not
	watch  time.Duration
	models modelflag.Flags
}

// config is what the worker works with.
func config(o order) (runtime.Config, modelflag.Choice, error) {
	cfg := runtime.Config{Loops: []loops.Loop{reviewing()}, Models: map[string]model.Model{}}
	chosen, err := o.models.Open()
	if err != nil {
		return cfg, chosen, err
	}
	repo := &repository{file: filepath.Join(o.dir, "merged.log"), die: o.die == "merge"}
	if cfg.Tools, err = repo.tools(); err != nil {
		return cfg, chosen, err
	}
	agent, err := agents.Loader{Strategies: cfg.Loops}.Parse("AGENT.md", agentFile)
	if err != nil {
		return cfg, chosen, err
	}
	cfg.Agents = []*agents.Agent{agent}
	if cfg.Models[agent.Model], err = scripted.Parse("policy.yaml", policy); err != nil {
		return cfg, chosen, err
	}
	chosen.Use(&cfg)
	return cfg, chosen, nil
}

// work is one worker process: the whole embedded system. It submits the change (the
// same key is the same run), works on it, and tells what happens.
func work(ctx context.Context, o order, out io.Writer) error {
	cfg, chosen, err := config(o)
	if err != nil {
		return err
	}
	sys, err := system.Open(ctx, system.Options{Dir: o.dir, Secrets: chosen.Secrets})
	if err != nil {
		return err
	}
	defer sys.Close()
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- sys.Work(ctx, cfg, true) }()
	r, _, err := sys.Client().Submit(ctx, runtime.Submit{Agent: "reviewer", Input: change{"42", o.watch.Milliseconds()}, ClientKey: chosen.Key("review-42")})
	if err == nil {
		err = watch(ctx, sys.Store, r.ID, o, out)
	}
	stop()
	return errors.Join(err, <-done)
}

// watch tells what happens to the run until it is over. It is also the person who
// approves, and what kills the worker.
func watch(ctx context.Context, st ledger.Store, run events.RunID, o order, out io.Writer) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	from := o.from
	for {
		r, err := st.Run(ctx, run)
		if err != nil {
			return err
		}
		lines, last, err := follow(ctx, st, run, from)
		if err != nil {
			return err
		}
		for _, l := range lines {
			fmt.Fprintln(out, l)
		}
		from = last
		// What stands before a park or the end is archived with it, so all of it was told.
		switch {
		case r.State.Ended():
			return nil
		case r.State != ledger.Parked:
		case r.ParkReason == events.ParkApproval && o.die == "approval", r.ParkReason == events.ParkTimer && o.die == "sleep":
			die()
		case r.ParkReason == events.ParkApproval:
			if err := approve(ctx, st, run); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// approve is what a person does: ledgerctl approve ID, after a look at it.
func approve(ctx context.Context, st ledger.Store, run events.RunID) error {
	open, err := st.Approvals(ctx, ledger.ApprovalFilter{Run: run, Open: true})
	if err != nil || len(open) == 0 {
		return err
	}
	_, err = st.Decide(ctx, ledger.Decision{Approval: open[0].ID, Approve: true, By: "ada", Reason: "the review says why"})
	return err
}
