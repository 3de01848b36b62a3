package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/cmd/internal/setup"
	"github.com/daybookhq/daybook/examples/refunds"
	"github.com/daybookhq/daybook/examples/refunds/payments"
	"github.com/daybookhq/daybook/ledger"
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
	payments     string
	paymentsMode string
	refundWait   time.Duration
	bogus        bool
	name         string
	queues       []string
	concurrency  int
	ttl          time.Duration
	sweep        time.Duration
	grace        time.Duration
}

func (w *workerFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.agents, "agents", env("DAYBOOK_AGENTS", ""), "directory with NAME/AGENT.md files, or one such file (DAYBOOK_AGENTS)")
	f.StringSliceVar(&w.policies, "policy", nil, "scripted model as NAME=FILE: agents use it as model scripted/NAME (repeatable)")
	f.StringVar(&w.payments, "payments", env("DAYBOOK_PAYMENTS_URL", ""), "registers check_refund and refund against this payments service (DAYBOOK_PAYMENTS_URL)")
	f.StringVar(&w.paymentsMode, "payments-recovery", "opaque", "how the payments service can be recovered: opaque, keyed or probe")
	f.DurationVar(&w.refundWait, "payments-timeout", 10*time.Second, "how long one refund may take")
	f.BoolVar(&w.bogus, "bogus", false, "registers the bogus tools, for trying things out")
	f.StringVar(&w.name, "name", "", "worker name; default host, process id and a random part")
	f.StringSliceVar(&w.queues, "queue", nil, "queues to work on (repeatable); default every queue")
	f.IntVar(&w.concurrency, "concurrency", 16, "runs held at once")
	f.DurationVar(&w.ttl, "lease-ttl", 15*time.Second, "how long a lease lasts without a heartbeat")
	f.DurationVar(&w.sweep, "sweep", time.Second, "how often the queue is looked at without a wake-up")
	f.DurationVar(&w.grace, "shutdown-grace", 20*time.Second, "how long acts under way may take after a signal to stop")
}

// config turns the flags into a worker's configuration on sys.
func (w *workerFlags) config(sys *setup.System, log *slog.Logger) (runtime.Config, error) {
	cfg := runtime.Config{
		Name: w.name, Ledger: sys.Store, Redactor: sys.Redactor, Secrets: sys.Vault, Waker: sys.Waker, Queues: w.queues,
		Concurrency: w.concurrency, LeaseTTL: w.ttl, Sweep: w.sweep, ShutdownGrace: w.grace, Logger: log,
		Models: map[string]model.Model{}, Prices: model.DefaultPrices(), Tools: new(tools.Registry),
	}
	consumer := sys.Bus.Consumer()
	cfg.CatchUp = func(ctx context.Context, worker string) error {
		_, err := ledger.ProjectTail(ctx, sys.Store, consumer, worker)
		return err
	}
	if err := w.addTools(cfg.Tools); err != nil {
		return cfg, err
	}
	if err := w.addModels(cfg.Models); err != nil {
		return cfg, err
	}
	var err error
	cfg.Agents, err = w.loadAgents()
	return cfg, err
}

func (w *workerFlags) addTools(reg *tools.Registry) error {
	ts := []tools.Tool{builtin.Finish(), builtin.Decline(), builtin.Think()}
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
	return nil
}

// loadAgents loads what --agents names, and the refunds agent where its tools are.
func (w *workerFlags) loadAgents() ([]*agents.Agent, error) {
	var as []*agents.Agent
	if w.agents != "" {
		info, err := os.Stat(w.agents)
		switch {
		case err != nil:
			return nil, usagef("--agents: %w", err)
		case info.IsDir():
			if as, err = agents.LoadDir(w.agents); err != nil {
				return nil, err
			}
		default:
			a, err := agents.Load(w.agents)
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
		a, err := agents.Parse("agent/AGENT.md", b)
		if err != nil {
			return nil, err
		}
		as = append(as, a)
	}
	if len(as) == 0 {
		return nil, usagef("no agents: give --agents DIR with NAME/AGENT.md files, or --payments URL for the refunds agent")
	}
	return as, nil
}

// work runs a worker and, when project is set, a projector beside it, until ctx ends.
func (a *app) work(ctx context.Context, w *workerFlags, project bool) error {
	log, err := a.logger()
	if err != nil {
		return err
	}
	a.opts.Logger = log
	sys, err := setup.Open(ctx, a.opts)
	if err != nil {
		return asUsage(err)
	}
	defer sys.Close()
	return a.workOn(ctx, sys, w, project)
}

func (a *app) workOn(ctx context.Context, sys *setup.System, w *workerFlags, project bool) (err error) {
	log := slog.New(sys.Redactor.Handler(a.opts.Logger.Handler()))
	cfg, err := w.config(sys, log)
	if err != nil {
		return err
	}
	worker, err := newWorker(sys, cfg)
	if err != nil {
		return err
	}
	log.Info("worker started", "worker", worker.Name(), "promise", sys.Promise)
	defer func() {
		// What the journal accepted is sent before the process ends.
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, worker.journal.Close(end))
	}()
	if !project {
		return worker.Run(ctx)
	}
	p, err := newProjector(sys, log)
	if err != nil {
		return err
	}
	// The projector outlives the worker, so that what the worker records while it
	// shuts down is projected too.
	pctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	var perr error
	wg.Add(1)
	go func() { defer wg.Done(); perr = p.Run(pctx) }()
	err = worker.Run(ctx)
	stop()
	wg.Wait()
	return errors.Join(err, perr)
}

// workerWithJournal is a worker and the journal it writes to.
type workerWithJournal struct {
	*runtime.Worker
	journal interface{ Close(context.Context) error }
}

func newWorker(sys *setup.System, cfg runtime.Config) (workerWithJournal, error) {
	if cfg.Name == "" {
		cfg.Name = runtime.DefaultName()
	}
	j, err := sys.Bus.Journal(cfg.Name)
	if err != nil {
		return workerWithJournal{}, fmt.Errorf("open journal of %s: %w", cfg.Name, err)
	}
	cfg.Journal = j
	w, err := runtime.NewWorker(cfg)
	return workerWithJournal{Worker: w, journal: j}, err
}

func newProjector(sys *setup.System, log *slog.Logger) (*ledger.Projector, error) {
	feed, err := sys.Bus.Feed()
	if err != nil {
		return nil, err
	}
	return ledger.NewProjector(sys.Store, sys.Bus.Consumer(), feed, ledger.ProjectorConfig{Logger: log}), nil
}

// asUsage marks errors about where the system is as a wrong command line.
func asUsage(err error) error {
	if errors.Is(err, setup.ErrOptions) {
		return usageError{err}
	}
	return err
}
