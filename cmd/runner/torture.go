package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/internal/torture"
)

type tortureFlags struct {
	cfg    torture.Config
	output string
	quiet  bool
}

func (a *app) tortureCommand() *cobra.Command {
	var t tortureFlags
	c := &cobra.Command{
		Use:   "torture",
		Short: "Kills, pauses and restarts everything while runs are worked on, and checks the books afterwards",
		Long: `Lets a whole system work on this machine while its workers, projectors, NATS server
and PostgreSQL are killed, paused and restarted, and then compares the ledger with two
books that the provider of the torture keeps for itself, fsynced before it answers: what
took effect, and what it bills for model calls.

Everything runs in processes and directories of its own: no system that you have is
touched. It needs PostgreSQL's server binaries (any of the last versions, not running),
or --embedded for SQLite and an embedded NATS server.

Exit code 0: nothing twice, nothing lost, nothing stuck, every bill a row. 1: something
is, or the torture is void, since too little happened to show anything.`,
		Example: `  runner torture --for 5m
  runner torture --for 1m --embedded
  runner torture --for 30m --seed 42 -o json | jq '{duplicate_effects, lost_runs, stuck_runs}'`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.torture(c.Context(), t) },
	}
	f := c.Flags()
	f.SortFlags = false
	f.DurationVar(&t.cfg.For, "for", time.Minute, "how long faults happen")
	f.Uint64Var(&t.cfg.Seed, "seed", 0, "decides what runs ask for and what is done to the system; 0 takes a random one")
	f.BoolVar(&t.cfg.Embedded, "embedded", false, "torture an embedded system (SQLite, one worker)")
	f.StringSliceVar(&t.cfg.Only, "only", nil, "inject these faults alone: "+strings.Join(torture.FaultNames(), ", "))
	f.IntVar(&t.cfg.Workers, "workers", 3, "worker processes")
	f.IntVar(&t.cfg.Projectors, "projectors", 2, "projector processes")
	f.IntVar(&t.cfg.Runs, "runs", 0, "submit no more runs than this; 0 = as many as are worked off")
	f.IntVar(&t.cfg.Open, "open", 60, "runs kept open at once")
	f.DurationVar(&t.cfg.TTL, "lease-ttl", 2*time.Second, "lease of the workers; shipped is 15s")
	f.DurationVar(&t.cfg.Drain, "drain", time.Minute, "after the last fault: when nothing has moved for so long, what is open is stuck")
	f.StringVar(&t.cfg.Dir, "data", "", "new directory to keep everything in; default a temporary one")
	f.StringVarP(&t.output, "output", "o", "text", "text or json")
	f.BoolVarP(&t.quiet, "quiet", "q", false, "do not say what is done while it is done")
	return c
}

func (t *tortureFlags) check() error {
	c := t.cfg
	switch {
	case t.output != "text" && t.output != "json":
		return usagef("--output %q: want text or json", t.output)
	case c.For < time.Second || c.Drain < time.Second:
		return usagef("--for %s --drain %s: want 1s or more", c.For, c.Drain)
	case c.TTL < 500*time.Millisecond:
		return usagef("--lease-ttl %s: want 500ms or more", c.TTL)
	case c.Workers < 1 || c.Workers > 64 || c.Projectors < 1 || c.Projectors > 16:
		return usagef("--workers %d --projectors %d: want 1 to 64 workers and 1 to 16 projectors", c.Workers, c.Projectors)
	case c.Runs < 0 || c.Open < 1 || c.Open > 1000:
		return usagef("--runs %d --open %d: want 0 or more runs, 1 to 1000 of them open", c.Runs, c.Open)
	}
	return nil
}

func (a *app) torture(ctx context.Context, t tortureFlags) (err error) {
	if err := t.check(); err != nil {
		return err
	}
	for _, flag := range []string{"dir", "nats", "postgres"} {
		if a.flags.Changed(flag) {
			return usagef("torture makes a system of its own and breaks it: --%s has no business here", flag)
		}
	}
	if t.cfg.Dir, err = newDir("torture", t.cfg.Dir); err != nil {
		return err
	}
	t.cfg.Commands = torture.Commands{
		Worker: []string{"torture-child", "worker"}, Projector: []string{"torture-child", "projector"}, NATS: []string{"torture-child", "nats"},
	}
	began := time.Now()
	if !t.quiet {
		t.cfg.Say = func(format string, args ...any) {
			fmt.Fprintf(a.err, "%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
		}
	}
	r, err := torture.Run(ctx, t.cfg)
	if err != nil {
		return fmt.Errorf("torture: %w; everything is kept in %s", err, t.cfg.Dir)
	}
	if t.output == "json" {
		err = json.NewEncoder(a.out).Encode(r)
	} else {
		err = r.Print(a.out)
	}
	if err == nil && !r.Passed() {
		err = errors.New(r.Headline())
	}
	return err
}

// tortureChildCommand is a process of a torture: it ends with its standard input.
func (a *app) tortureChildCommand() *cobra.Command {
	var name, provider, store, listen string
	var ttl time.Duration
	c := &cobra.Command{
		Use:    "torture-child",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			log, err := a.logger()
			if err != nil {
				return err
			}
			ctx, stop := context.WithCancel(c.Context())
			defer stop()
			go func() { // ends with the process
				_, _ = io.Copy(io.Discard, a.in)
				stop()
			}()
			switch args[0] {
			case "worker":
				return torture.Work(ctx, torture.WorkerOptions{System: a.opts, Provider: provider, Name: name, TTL: ttl, Logger: log})
			case "projector":
				sys, err := a.openSystem(ctx, log, false)
				if err != nil {
					return err
				}
				defer sys.Close()
				p, err := sys.Projector()
				if err != nil {
					return err
				}
				return p.Run(ctx)
			case "nats":
				return torture.NATS(ctx, store, listen, a.out)
			}
			return usagef("torture-child %q", args[0])
		},
	}
	f := c.Flags()
	f.StringVar(&name, "name", "", "")
	f.StringVar(&provider, "provider", "", "")
	f.StringVar(&store, "store", "", "")
	f.StringVar(&listen, "listen", "", "")
	f.DurationVar(&ttl, "lease-ttl", 2*time.Second, "")
	return c
}
