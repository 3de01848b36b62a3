//go:build daybook_faults

// Command worker is a Daybook worker with what no product has: a provider that
// checks fences, a tool that ignores its context, and tools that try to let a
// secret out. It is wired by hand
// from the public packages, as an embedding service would do it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events/jetstream"
	"github.com/daybookhq/daybook/examples/refunds"
	"github.com/daybookhq/daybook/examples/refunds/payments"
	"github.com/daybookhq/daybook/internal/embedded"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/queue"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := errors.Join(fault.Check(), run(ctx, os.Args[1:]))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

type options struct {
	dir, nats, postgres, provider, mode, queue, secret string
	timeout, ttl                                       time.Duration
	stubborn, approve                                  bool
	price                                              int64
}

func run(ctx context.Context, args []string) (err error) {
	var o options
	f := flag.NewFlagSet("worker", flag.ContinueOnError)
	f.StringVar(&o.dir, "dir", "", "embedded directory")
	f.StringVar(&o.nats, "nats", "", "NATS URL")
	f.StringVar(&o.postgres, "postgres", "", "PostgreSQL URL")
	f.StringVar(&o.provider, "provider", "", "provider's URL")
	f.StringVar(&o.mode, "mode", "fenced", "how the provider can be recovered: opaque, keyed, fenced or probe")
	f.BoolVar(&o.stubborn, "stubborn", false, "a refund under way does not end with its context")
	f.BoolVar(&o.approve, "approve", false, "a person must approve each refund")
	f.Int64Var(&o.price, "price", 0, "what one refund costs, in micro-USD")
	f.StringVar(&o.queue, "queue", "", "queue")
	f.StringVar(&o.secret, "secret", "", "file with a secret that the tools try to let out")
	f.DurationVar(&o.ttl, "lease-ttl", time.Second, "how long a lease lasts without a heartbeat")
	f.DurationVar(&o.timeout, "timeout", time.Second, "how long one refund may take")
	if err := f.Parse(args); err != nil {
		return err
	}
	var secret string
	if o.secret != "" {
		b, err := os.ReadFile(o.secret)
		if err != nil {
			return err
		}
		secret = string(b)
	}
	red, st, err := openStore(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if secret != "" {
		if err := red.Register("canary", secret); err != nil {
			return err
		}
	}
	log := slog.New(red.Handler(slog.NewTextHandler(os.Stderr, nil)))
	nc, shut, err := connect(o)
	if err != nil {
		return err
	}
	defer shut()
	bus, err := jetstream.Open(ctx, nc, jetstream.Config{Logger: log})
	if err != nil {
		return err
	}
	cfg, err := config(o, secret, red, st)
	if err != nil {
		return err
	}
	consumer := bus.Consumer()
	cfg.Ledger, cfg.Logger, cfg.Waker = st, log, queue.NewNATS(nc)
	cfg.CatchUp = func(ctx context.Context, worker string) error {
		_, err := ledger.ProjectTail(ctx, st, consumer, worker)
		return err
	}
	cfg.Compare = func(ctx context.Context) error { return ledger.Compare(ctx, st, consumer) }
	return work(ctx, bus, st, cfg)
}

// work runs worker and projector until ctx ends.
func work(ctx context.Context, bus *jetstream.Bus, st *sqlstore.Store, cfg runtime.Config) error {
	journal, err := bus.Journal(cfg.Name)
	if err != nil {
		return err
	}
	cfg.Journal = journal
	w, err := runtime.NewWorker(cfg)
	if err != nil {
		return err
	}
	feed, err := bus.Feed()
	if err != nil {
		return err
	}
	cfg.Logger.Info("worker started", "worker", cfg.Name)
	p := ledger.NewProjector(st, bus.Consumer(), feed, ledger.ProjectorConfig{Logger: cfg.Logger})
	pctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Run(pctx) }) // returns nil
	err = w.Run(ctx)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = errors.Join(err, journal.Close(end))
	stop()
	wg.Wait()
	return err
}

func openStore(ctx context.Context, o options) (*redact.Redactor, *sqlstore.Store, error) {
	red := redact.New(redact.Config{})
	cfg := sqlstore.Config{Redactor: red, Grace: 100 * time.Millisecond}
	if o.postgres != "" {
		st, err := postgres.Open(ctx, postgres.Config{DSN: o.postgres, Store: cfg})
		return red, st, err
	}
	st, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(o.dir, "ledger.db"), Store: cfg})
	if err != nil {
		return nil, nil, err
	}
	// The tests run one worker on a directory at a time.
	_, err = st.VoidLeases(ctx)
	return red, st, err
}

func connect(o options) (*nats.Conn, func(), error) {
	opts := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond)}
	if o.nats != "" {
		nc, err := nats.Connect(o.nats, opts...)
		if err != nil {
			return nil, nil, err
		}
		return nc, nc.Close, nil
	}
	srv, err := embedded.Start(embedded.Config{StoreDir: filepath.Join(o.dir, "nats")})
	if err != nil {
		return nil, nil, err
	}
	nc, err := srv.Connect(opts...)
	if err != nil {
		srv.Shutdown()
		return nil, nil, err
	}
	return nc, func() { nc.Close(); srv.Shutdown() }, nil
}

func config(o options, secret string, red *redact.Redactor, st *sqlstore.Store) (runtime.Config, error) {
	cfg := runtime.Config{
		Name: runtime.DefaultName(), Redactor: red, Concurrency: 4, LeaseTTL: o.ttl, Sweep: 50 * time.Millisecond,
		Models: map[string]model.Model{}, Prices: model.DefaultPrices(), Tools: new(tools.Registry), Artifacts: errandCallbacks(),
	}
	if o.queue != "" {
		cfg.Queues = []string{o.queue}
	}
	ts, err := refundTools(o)
	if err != nil {
		return cfg, err
	}
	leaks, err := leaky(secret)
	if err != nil {
		return cfg, err
	}
	remembering, err := memoryTools(st, red)
	if err != nil {
		return cfg, err
	}
	ts = append(append(append(ts, leaks...), errandTools()...), remembering...)
	if err := cfg.Tools.Add(append(ts, builtin.Finish(), builtin.Decline())...); err != nil {
		return cfg, err
	}
	policy, err := refunds.Files.ReadFile("policy.yaml")
	if err != nil {
		return cfg, err
	}
	agent, err := refunds.Files.ReadFile("agent/AGENT.md")
	if err != nil {
		return cfg, err
	}
	policies := map[string][]byte{"refunds": policy, "canary": []byte(canaryPolicy)}
	definitions := map[string][]byte{"refunds": agent, "canary": []byte(canaryAgent)}
	for name := range errandAgents {
		policies[name], definitions[name] = []byte(errandPolicies[name]), []byte(errandAgents[name])
	}
	for name, text := range policies {
		if cfg.Models["scripted/"+name], err = scripted.Parse(name+".yaml", text); err != nil {
			return cfg, err
		}
	}
	for name, text := range definitions {
		a, err := agents.Parse(name+"/AGENT.md", text)
		if err != nil {
			return cfg, err
		}
		cfg.Agents = append(cfg.Agents, a)
	}
	return cfg, nil
}

// refundTools are the tools of the refund example, with a refund of our own.
func refundTools(o options) ([]tools.Tool, error) {
	example, err := refunds.Tools(o.provider, payments.Opaque, o.timeout, time.Hour)
	if err != nil {
		return nil, err
	}
	def := tools.Definition{
		Name: "refund", Description: "Pays money back for an order, once.", Effect: tools.Destructive, Trust: tools.Own,
		Scope: tools.ScopeTenant, Identity: []string{"order_id"}, Window: tools.Forever, Timeout: o.timeout,
		Approval: o.approve, Price: o.price,
	}
	switch o.mode {
	case "opaque":
	case "keyed":
		def.Recovery = tools.Keyed(time.Hour)
	case "fenced":
		def.Recovery = tools.Fenced()
	case "probe":
		def.Recovery = tools.Probed()
	default:
		return nil, fmt.Errorf("mode %q", o.mode)
	}
	c := client{o.provider, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, o.stubborn}
	refund, err := tools.New(def, c.refund)
	if err != nil {
		return nil, err
	}
	if o.mode == "probe" {
		refund = tools.WithProbe(refund, c.probe)
	}
	return []tools.Tool{example[0], refund}, nil
}

type client struct {
	provider string
	http     *http.Client
	stubborn bool
}

func (c client) do(ctx context.Context, inv *tools.Invocation, method, path string, body []byte) (int, payments.Refund, error) {
	var re payments.Refund
	req, err := http.NewRequestWithContext(ctx, method, c.provider+path, bytes.NewReader(body))
	if err != nil {
		return 0, re, tools.NoEffect(err)
	}
	req.Header.Set("Idempotency-Key", inv.OpKey)
	req.Header.Set("Fence", strconv.Itoa(inv.Fence))
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, re, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, re, err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusConflict {
		return resp.StatusCode, re, fmt.Errorf("provider: %s: %s", resp.Status, b)
	}
	return resp.StatusCode, re, json.Unmarshal(b, &re)
}

func (c client) refund(ctx context.Context, inv *tools.Invocation, in refunds.Request) (payments.Refund, error) {
	if c.stubborn {
		ctx = context.WithoutCancel(ctx)
	}
	body, err := json.Marshal(in)
	if err != nil {
		return payments.Refund{}, tools.NoEffect(err)
	}
	code, re, err := c.do(ctx, inv, http.MethodPost, "/refunds", body)
	if err == nil && code == http.StatusConflict {
		return re, tools.AlreadyApplied(re) // this very key
	}
	return re, err
}

func (c client) probe(ctx context.Context, inv *tools.Invocation) (tools.ProbeResult, error) {
	code, re, err := c.do(ctx, inv, http.MethodGet, "/refunds/"+inv.OpKey, nil)
	switch {
	case err == nil:
		return tools.ProbeResult{State: tools.ProbeHappened, Result: re}, nil
	case code == http.StatusNotFound:
		return tools.ProbeResult{State: tools.ProbeDidNotHappen}, nil
	}
	return tools.ProbeResult{}, err
}

// leaky tools put a secret wherever a tool's words go.
func leaky(secret string) ([]tools.Tool, error) {
	type none struct{}
	said, err := tools.New(tools.Definition{Name: "leak_result", Description: "Answers with a secret.", Effect: tools.Readonly, Trust: tools.Own},
		func(context.Context, *tools.Invocation, none) (string, error) { return "the key is " + secret, nil })
	if err != nil {
		return nil, err
	}
	failed, err := tools.New(tools.Definition{Name: "leak_error", Description: "Fails with a secret.", Effect: tools.Readonly, Trust: tools.Own},
		func(context.Context, *tools.Invocation, none) (string, error) {
			return "", fmt.Errorf("401 for key %s (%q)", secret, secret)
		})
	if err != nil {
		return nil, err
	}
	panicked, err := tools.New(tools.Definition{Name: "leak_panic", Description: "Panics with a secret.", Effect: tools.Destructive, Trust: tools.Own},
		func(_ context.Context, inv *tools.Invocation, _ none) (string, error) {
			inv.Progress("trying "+secret, map[string]string{"with": secret})
			panic(fmt.Sprintf("cannot log in with %s", secret))
		})
	if err != nil {
		return nil, err
	}
	return []tools.Tool{said, failed, panicked}, nil
}

const canaryAgent = `---
name: canary
description: Calls every tool that lets a secret out.
model: scripted/canary
loop: singleshot
tools: [leak_result, leak_error, leak_panic, finish]
---
Call the tools.
`

const canaryPolicy = `model: scripted/canary
rules:
  - name: result and error
    when: { last: user, not_called: [leak_result] }
    answer:
      text: "You said: {{input.note}}"
      calls: [{ name: leak_result }, { name: leak_error }]
  - name: panic
    when: { last: tool, not_called: [leak_panic] }
    answer:
      text: "It said: {{result.leak_error}}"
      calls: [{ name: leak_panic }]
  - name: end
    when: { last: tool }
    answer:
      calls: [{ name: finish, arguments: { answer: "done" } }]
`
