package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/examples/refunds"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
)

// workerFlags say what a worker works with.
type workerFlags struct {
	agents       string
	prompts      promptFlags
	tools        string
	policies     []string
	policyFile   string
	modelConfig  string
	model        string // of every agent; empty: what its file says
	prices       []string
	table        *model.Prices
	roles        map[string][]string
	modelLimits  map[string]int
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
	live         bool
}

const noWaitUsage = "fail if NATS or PostgreSQL is away at start; default: wait for it"

func (w *workerFlags) add(c *cobra.Command) {
	f := c.Flags()
	w.addShelf(f)
	f.StringSliceVar(&w.policies, "policy", nil, "scripted model as NAME=FILE: agents use it as model scripted/NAME; repeatable, or with commas (DAYBOOK_POLICIES)")
	f.StringVar(&w.policyFile, "policy-file", "", "file with rules that allow, deny or ask about the calls of all agents, beside their own; see runner policy (DAYBOOK_POLICY_FILE)")
	f.StringVar(&w.modelConfig, "model-config", "", modelConfigUsage)
	f.StringVar(&w.model, "model", "", modelUsage)
	f.StringSliceVar(&w.prices, "prices", nil, "price file put upon the table that ships, later ones upon earlier ones: repeatable, or with commas; see ledgerctl prices (DAYBOOK_PRICES)")
	f.StringVar(&w.name, "name", "", "worker name; default host, process id and a random part")
	f.StringSliceVar(&w.queues, "queue", nil, "queues to work on (repeatable); default every queue")
	f.IntVar(&w.concurrency, "concurrency", 16, "runs held at once")
	f.DurationVar(&w.ttl, "lease-ttl", 15*time.Second, "how long a lease lasts without a heartbeat")
	f.DurationVar(&w.sweep, "sweep", time.Second, "how often the queue is looked at without a wake-up")
	f.BoolVar(&w.live, "live", true, "tell people who watch a run what its model is writing, redacted (docs/watching.md)")
	f.DurationVar(&w.grace, "shutdown-grace", 20*time.Second, "how long acts under way may take after a signal to stop")
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
	if err := w.configuredModels(models); err != nil {
		return err
	}
	return w.checkModel(models)
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
	k, err := a.outfit(ctx, w)
	if err != nil {
		return err
	}
	defer k.close(log)
	sys, err := a.openSystem(ctx, log, w.noWait)
	switch {
	case errors.Is(err, errStopped):
		log.Info("stopped before the servers were there")
		return nil
	case err != nil:
		return err
	}
	defer sys.Close()
	stop, err := a.serveHealth(ctx, log, sys)
	if err != nil {
		return err
	}
	defer stop()
	unserve, err := a.servePage(ctx, log, sys)
	if err != nil {
		return err
	}
	defer unserve()
	cfg, err := k.open(ctx, sys)
	if err != nil {
		return err
	}
	sys.NoLive = !w.live
	return sys.Work(ctx, cfg, project)
}
