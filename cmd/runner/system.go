package main

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/examples/refunds"
	"github.com/daybookhq/daybook/examples/refunds/payments"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/bogus"
	"github.com/daybookhq/daybook/tools/builtin"
)

// workerFlags say what a worker works with.
type workerFlags struct {
	agents       string
	policies     []string
	modelConfig  string
	secrets      map[string]string // by name
	payments     string
	paymentsMode string
	refundWait   time.Duration
	bogus        bool
	delegates    []string
	name         string
	queues       []string
	concurrency  int
	ttl          time.Duration
	sweep        time.Duration
	grace        time.Duration
	noWait       bool
}

const noWaitUsage = "fail if NATS or PostgreSQL is away at start; default: wait for it"

func (w *workerFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.agents, "agents", "", "directory with NAME/AGENT.md files, or one such file (DAYBOOK_AGENTS)")
	f.StringSliceVar(&w.policies, "policy", nil, "scripted model as NAME=FILE: agents use it as model scripted/NAME; repeatable, or with commas (DAYBOOK_POLICIES)")
	f.StringVar(&w.modelConfig, "model-config", "", modelConfigUsage)
	f.StringVar(&w.payments, "payments", "", "registers check_refund and refund against this payments service (DAYBOOK_PAYMENTS_URL)")
	f.StringVar(&w.paymentsMode, "payments-recovery", "opaque", "how the payments service can be recovered: opaque, keyed or probe")
	f.DurationVar(&w.refundWait, "payments-timeout", 10*time.Second, "how long one refund may take")
	f.BoolVar(&w.bogus, "bogus", false, "registers the bogus tools, for trying things out")
	f.StringSliceVar(&w.delegates, "delegate", nil, "agents that may be started as child runs: registers the tool delegate (repeatable)")
	f.StringVar(&w.name, "name", "", "worker name; default host, process id and a random part")
	f.StringSliceVar(&w.queues, "queue", nil, "queues to work on (repeatable); default every queue")
	f.IntVar(&w.concurrency, "concurrency", 16, "runs held at once")
	f.DurationVar(&w.ttl, "lease-ttl", 15*time.Second, "how long a lease lasts without a heartbeat")
	f.DurationVar(&w.sweep, "sweep", time.Second, "how often the queue is looked at without a wake-up")
	f.DurationVar(&w.grace, "shutdown-grace", 20*time.Second, "how long acts under way may take after a signal to stop")
}

// config turns the flags into a worker's configuration.
func (w *workerFlags) config() (runtime.Config, error) {
	cfg := runtime.Config{
		Name: w.name, Queues: w.queues, Concurrency: w.concurrency, LeaseTTL: w.ttl, Sweep: w.sweep, ShutdownGrace: w.grace,
		Models: map[string]model.Model{}, Tools: new(tools.Registry),
	}
	if err := w.addTools(cfg.Tools); err != nil {
		return cfg, err
	}
	if err := w.addModels(cfg.Models); err != nil {
		return cfg, err
	}
	load := agents.Loader{Loops: []string{singleshot.Name, revise.Name}, Strategies: []loops.Loop{singleshot.New(), revise.New()}, Models: slices.Collect(maps.Keys(cfg.Models))}
	for _, t := range cfg.Tools.Tools() {
		load.Tools = append(load.Tools, t.Definition().Name)
	}
	var err error
	cfg.Agents, err = w.loadAgents(load)
	return cfg, err
}

// check refuses numbers that cannot be meant.
func (w *workerFlags) check(a *app) error {
	if w.concurrency < 1 {
		return usagef("--concurrency %d: want 1 or more", w.concurrency)
	}
	return a.positive(map[string]time.Duration{
		"payments-timeout": w.refundWait, "lease-ttl": w.ttl, "sweep": w.sweep, "shutdown-grace": w.grace,
	})
}

func (w *workerFlags) addTools(reg *tools.Registry) error {
	ts := []tools.Tool{builtin.Finish(), builtin.Decline(), builtin.Think(), builtin.Wait(0), builtin.WaitForSignal(0)}
	if len(w.delegates) > 0 {
		ts = append(ts, builtin.Delegate(w.delegates...))
	}
	if w.bogus {
		ts = append(ts, bogus.Tools()...)
	}
	if w.payments != "" {
		mode := payments.Mode(w.paymentsMode)
		if mode != payments.Opaque && mode != payments.Keyed && mode != payments.Probe {
			return usagef("--payments-recovery %q: want opaque, keyed or probe", w.paymentsMode)
		}
		refund, err := refunds.Tools(w.payments, mode, w.refundWait, 24*time.Hour)
		if err != nil {
			return err
		}
		ts = append(ts, refund...)
	}
	return reg.Add(ts...)
}

func (w *workerFlags) addModels(models map[string]model.Model) error {
	b, err := refunds.Files.ReadFile("policy.yaml")
	if err != nil {
		return err
	}
	m, err := scripted.Parse("policy.yaml", b)
	if err != nil {
		return err
	}
	models["scripted/refunds"] = m
	for _, p := range w.policies {
		name, file, ok := strings.Cut(p, "=")
		if !ok || name == "" || file == "" {
			return usagef("--policy %q: want NAME=FILE", p)
		}
		if models["scripted/"+name], err = scripted.Load(file); err != nil {
			return err
		}
	}
	return w.configuredModels(models)
}

// loadAgents loads what --agents names, and the refunds agent where its tools are.
func (w *workerFlags) loadAgents(load agents.Loader) ([]*agents.Agent, error) {
	var as []*agents.Agent
	if w.agents != "" {
		info, err := os.Stat(w.agents)
		switch {
		case err != nil:
			return nil, usagef("--agents: %w", err)
		case info.IsDir():
			if as, err = load.LoadDir(w.agents); err != nil {
				return nil, err
			}
		default:
			a, err := load.Load(w.agents)
			if err != nil {
				return nil, err
			}
			as = append(as, a)
		}
	}
	if w.payments != "" {
		b, err := refunds.Files.ReadFile("agent/AGENT.md")
		if err != nil {
			return nil, err
		}
		a, err := load.Parse("agent/AGENT.md", b)
		if err != nil {
			return nil, err
		}
		as = append(as, a)
	}
	if len(as) == 0 {
		return nil, usagef("no agents: give --agents DIR with NAME/AGENT.md files (DAYBOOK_AGENTS), or --payments URL for the refunds agent")
	}
	return as, nil
}

// work runs a worker and, when project is set, a projector beside it, until ctx ends.
func (a *app) work(ctx context.Context, w *workerFlags, project bool) error {
	log, err := a.logger()
	if err != nil {
		return err
	}
	if err := w.check(a); err != nil {
		return err
	}
	w.secrets = a.opts.Secrets
	cfg, err := w.config()
	if err != nil {
		return err
	}
	sys, err := a.openSystem(ctx, log, w.noWait)
	switch {
	case errors.Is(err, errStopped):
		log.Info("stopped before the servers were there")
		return nil
	case err != nil:
		return err
	}
	defer sys.Close()
	return sys.Work(ctx, cfg, project)
}
