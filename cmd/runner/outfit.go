package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/examples/refunds"
	"github.com/daybookhq/daybook/examples/refunds/payments"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/runtime/shareddb"
	"github.com/daybookhq/daybook/runtime/shelf"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/bogus"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/policy"
)

// toolChild is the hidden command of processes that tools start; see [shelf.Child].
const toolChild = "tool-child"

// addShelf adds the flags that say which tools and agents there are.
func (w *workerFlags) addShelf(f *pflag.FlagSet) {
	f.StringVar(&w.agents, "agents", "", "directory with NAME/AGENT.md files, or one such file (DAYBOOK_AGENTS)")
	f.StringVar(&w.tools, "tools", "", "file that says which tools there are for agents; default those that need no settings (DAYBOOK_TOOLS)")
	f.StringVar(&w.payments, "payments", "", "registers check_refund and refund against this payments service (DAYBOOK_PAYMENTS_URL)")
	f.StringVar(&w.paymentsMode, "payments-recovery", "opaque", "how the payments service can be recovered: opaque, keyed or probe")
	f.DurationVar(&w.refundWait, "payments-timeout", 10*time.Second, "how long one refund may take")
	f.BoolVar(&w.bogus, "bogus", false, "registers the bogus tools, for trying things out")
	f.StringSliceVar(&w.delegates, "delegate", nil, "agents that may be started as child runs: registers the tool delegate (repeatable)")
}

// kit is all that a worker works with. It is read, and refused if something is
// wrong with it, before the system is looked for.
type kit struct {
	w      *workerFlags
	shelf  *shelf.Shelf
	flags  []flagTool // after those of the shelf
	models map[string]model.Model
	agents []*agents.Agent
	layers []prompt.Layer // that all agents have
	rules  *policy.List   // the operator's
}

// flagTool is a tool that a flag registers.
type flagTool struct {
	tools.Tool
	flag string
}

// outfit reads what the flags name.
func (a *app) outfit(ctx context.Context, w *workerFlags) (k *kit, err error) {
	w.secrets = a.opts.Secrets
	if k, err = a.shelfOf(ctx, w); err != nil {
		return nil, err
	}
	if err = w.addModels(k.models); err == nil {
		k.layers, err = a.promptLayers(w)
	}
	if err == nil {
		k.rules, err = w.operatorRules()
	}
	if err == nil {
		k.agents, err = k.loadAgents(slices.Collect(maps.Keys(k.models)), k.names(), k.shelf.Namespaces())
	}
	if err != nil {
		return nil, errors.Join(err, k.shelf.Close(context.WithoutCancel(ctx)))
	}
	return k, nil
}

// operatorRules reads --policy-file.
func (w *workerFlags) operatorRules() (*policy.List, error) {
	if w.policyFile == "" {
		return nil, nil
	}
	f, err := policy.Load(w.policyFile)
	if err != nil {
		return nil, usagef("--policy-file: %w", err)
	}
	return f.List, nil
}

func (a *app) promptLayers(w *workerFlags) ([]prompt.Layer, error) {
	log, err := a.logger()
	if err != nil {
		return nil, err
	}
	return w.prompts.files(log)
}

// shelfOf reads which tools there are.
func (a *app) shelfOf(ctx context.Context, w *workerFlags) (*kit, error) {
	k := &kit{w: w, models: map[string]model.Model{}, shelf: shelf.Default()}
	var err error
	if k.flags, err = w.flagTools(); err != nil {
		return nil, err
	}
	if w.tools != "" {
		o := shelf.Options{Secrets: a.opts.Secrets}
		if self, err := os.Executable(); err == nil {
			o.Child = []string{self, toolChild}
		}
		if o.Logger, err = a.logger(); err != nil {
			return nil, err
		}
		if k.shelf, err = shelf.Load(ctx, w.tools, o); err != nil {
			return nil, usageError{err}
		}
	}
	seen := map[string]bool{}
	for _, name := range k.names() {
		if seen[name] {
			return nil, errors.Join(usagef("there are two tools %q: one is of %s, the other of a flag; leave out one", name, w.tools),
				k.shelf.Close(context.WithoutCancel(ctx)))
		}
		seen[name] = true
	}
	return k, nil
}

// names are those of all tools.
func (k *kit) names() []string {
	names := k.shelf.Names()
	for _, t := range k.flags {
		names = append(names, t.Definition().Name)
	}
	return names
}

// open makes a worker's configuration of it, with what only an open system has.
// MCP servers are opened here; their tools are those that agents may name then.
func (k *kit) open(ctx context.Context, sys *system.System) (runtime.Config, error) {
	w := k.w
	cfg := runtime.Config{
		Name: w.name, Queues: w.queues, Concurrency: w.concurrency, LeaseTTL: w.ttl, Sweep: w.sweep, ShutdownGrace: w.grace,
		Models: k.models, Prices: w.table, Roles: w.roles, ModelLimits: w.modelLimits, Tools: new(tools.Registry), Agents: k.agents, Policy: k.rules,
	}
	if _, err := k.shelf.Connect(ctx, sys.Redactor, sys.Vault); err != nil {
		return cfg, err
	}
	parts := shelf.Parts{Redactor: sys.Redactor}
	notes, err := memorydb.New(sys.Store.DB(), memorydb.Config{Redactor: sys.Redactor})
	if err != nil {
		return cfg, err
	}
	documents, err := shareddb.New(sys.Store.DB(), shareddb.Config{Redactor: sys.Redactor})
	if err != nil {
		return cfg, err
	}
	parts.Memory, parts.Shared = notes, documents
	if err := k.shelf.Register(cfg.Tools, parts); err != nil {
		return cfg, err
	}
	for _, t := range k.flags {
		if err := cfg.Tools.Add(t.Tool); err != nil {
			return cfg, err
		}
	}
	if len(k.shelf.Namespaces()) > 0 {
		cfg.Agents, err = k.loadAgents(slices.Collect(maps.Keys(k.models)), k.names(), nil)
	}
	return cfg, err
}

// close ends what the tools hold.
func (k *kit) close(log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := k.shelf.Close(ctx); err != nil {
		log.Warn("tools did not end in order", "error", err)
	}
}

// flagTools are the tools that flags register.
func (w *workerFlags) flagTools() ([]flagTool, error) {
	var all []flagTool
	add := func(flag string, ts ...tools.Tool) {
		for _, t := range ts {
			all = append(all, flagTool{t, flag})
		}
	}
	if len(w.delegates) > 0 {
		add("--delegate", builtin.Delegate(w.delegates...))
	}
	if w.bogus {
		add("--bogus", bogus.Tools()...)
	}
	if w.payments != "" {
		mode := payments.Mode(w.paymentsMode)
		if mode != payments.Opaque && mode != payments.Keyed && mode != payments.Probe {
			return nil, usagef("--payments-recovery %q: want opaque, keyed or probe", w.paymentsMode)
		}
		refund, err := refunds.Tools(w.payments, mode, w.refundWait, 24*time.Hour)
		if err != nil {
			return nil, err
		}
		add("--payments", refund...)
	}
	return all, nil
}

// loadAgents loads what --agents names, and the refunds agent where its tools
// are. Models of nil are not checked.
func (k *kit) loadAgents(models, names, namespaces []string) ([]*agents.Agent, error) {
	if k.w.model != "" {
		models = nil // what files say of theirs is not asked for
	}
	find, err := k.w.prompts.finder()
	if err != nil {
		return nil, err
	}
	load := agents.Loader{
		Loops: []string{singleshot.Name, revise.Name}, Strategies: []loops.Loop{singleshot.New(), revise.New()},
		Models: models, Roles: slices.Collect(maps.Keys(k.w.roles)), Tools: names, Namespaces: namespaces, Skills: find,
		Schema: func(schema []byte) error { _, err := revise.Schema(schema); return err },
	}
	w := k.w
	as, err := w.agentFiles(load)
	if err != nil {
		return nil, err
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
	w.useModel(as)
	for _, a := range as {
		if err := w.prompts.apply(a, k.layers); err != nil {
			return nil, fmt.Errorf("%s: %w", a.Path, err)
		}
	}
	return as, nil
}

// agentFiles reads the agents that --agents or --agents-config names.
func (w *workerFlags) agentFiles(load agents.Loader) ([]*agents.Agent, error) {
	dir := w.agents
	if w.prompts.config != "" {
		if dir != "" {
			return nil, usagef("--agents and --agents-config exclude each other")
		}
		dir = w.prompts.agentsOf()
	}
	if dir == "" {
		return nil, nil
	}
	info, err := os.Stat(dir)
	switch {
	case err != nil && w.prompts.config != "":
		return nil, usagef("--agents-config: %w", err)
	case err != nil:
		return nil, usagef("--agents: %w", err)
	case info.IsDir():
		return load.LoadDir(dir)
	}
	a, err := load.Load(dir)
	return []*agents.Agent{a}, err
}
