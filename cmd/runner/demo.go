package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/examples/refunds"
	"github.com/daybookhq/daybook/examples/refunds/payments"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime/system"
)

// wantKills is how many kills a demo needs to have shown anything.
const wantKills = 5

type demoFlags struct {
	recovery string
	seed     uint64
	output   string
	dataDir  string
	requests string
	kills    int
	limit    time.Duration

	model       string // empty: the script
	modelConfig string
}

func (a *app) demoCommand() *cobra.Command {
	var d demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Works off a backlog of refunds while its workers are killed, and shows that nobody is refunded twice",
		Long: `Works off the backlog in examples/refunds, one run per row. This process is only the
supervisor and the payments provider; each worker is a process of its own, and the
provider kills it (SIGKILL) while it holds that worker's request, before or after the
money has moved. The provider keeps its own fsynced log, and duplicates are counted
from that log, not from ours.`,
		Example: `  runner demo
  runner demo --recovery opaque
  runner demo -o json | jq .duplicate_effects
  runner demo --nats nats://127.0.0.1:4222 --postgres postgres://daybook@127.0.0.1/daybook`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.demo(c.Context(), d) },
	}
	f := c.Flags()
	f.StringVar(&d.recovery, "recovery", "keyed", "what the provider can do after a crash: opaque, keyed or probe")
	f.Uint64Var(&d.seed, "seed", 0, "decides which requests are killed, and when; 0 takes a random one")
	f.StringVarP(&d.output, "output", "o", "text", "text or json")
	f.StringVar(&d.dataDir, "data", "", "new directory to keep everything in; default a temporary one")
	f.StringVar(&d.requests, "requests", "", "CSV file to work off instead of the example's; same columns")
	f.IntVar(&d.kills, "kills", 6, "how many times a worker is killed; with fewer than 5 the demo is void")
	f.DurationVar(&d.limit, "limit", 5*time.Minute, "give up after this time")
	f.StringVar(&d.model, "model", "", "model of --model-config that works instead of the script")
	f.StringVar(&d.modelConfig, "model-config", "", "file that says which model providers there are, docs/models.md; keys: --secret NAME=FILE")
	return c
}

func (d *demoFlags) check() error {
	switch payments.Mode(d.recovery) {
	case payments.Opaque, payments.Keyed, payments.Probe:
	default:
		return usagef("--recovery %q: want opaque, keyed or probe", d.recovery)
	}
	if d.output != "text" && d.output != "json" {
		return usagef("--output %q: want text or json", d.output)
	}
	if d.kills < 0 || d.kills > 12 {
		return usagef("--kills %d: want 0 to 12", d.kills)
	}
	if d.limit <= 0 {
		return usagef("--limit %s: want more than 0, such as 5m", d.limit)
	}
	return nil
}

// demoWhere takes the place of the system from flags alone: a demo has no
// business in a database that happens to be in the environment.
func (a *app) demoWhere() error {
	for flag, value := range map[string]*string{"nats": &a.opts.NATS, "postgres": &a.opts.Postgres} {
		if !a.flags.Changed(flag) {
			*value = ""
		}
	}
	switch {
	case a.flags.Changed("dir"):
		return usagef("demo makes a directory of its own: give --data DIR to choose it")
	case a.opts.NATS != "" && a.opts.Postgres == "":
		return usagef("--nats needs --postgres URL as well: a journal alone is no system")
	}
	a.opts.Dir = ""
	if a.opts.Postgres == "" {
		a.opts.Dir = "." // until prepare knows better
	}
	return a.where(true)
}

func (a *app) demo(ctx context.Context, d demoFlags) error {
	if err := errors.Join(d.check(), a.demoWhere()); err != nil {
		return err
	}
	w := workerFlags{model: d.model, modelConfig: d.modelConfig, secrets: a.opts.Secrets}
	if err := w.addModels(map[string]model.Model{}); err != nil { // before anything is made
		return err
	}
	if _, err := a.logger(); err != nil { // the workers' level
		return err
	}
	a.opts.Logger = slog.New(slog.DiscardHandler)
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, d.limit, fmt.Errorf("the demo did not end within %s", d.limit))
	defer cancel()
	s := &supervisor{app: a, flags: d}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := s.supervise(ctx); err != nil {
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
		return fmt.Errorf("%w; everything is kept in %s", err, s.flags.dataDir)
	}
	sum, err := s.summary(ctx, time.Since(began))
	if err != nil {
		return err
	}
	if err := a.printSummary(sum, d.output); err != nil {
		return err
	}
	if !sum.shown() {
		return errors.New(sum.headline())
	}
	return nil
}

// supervisor is the demo's parent process: it starts workers, and lets the
// provider kill them.
type supervisor struct {
	app   *app
	flags demoFlags

	tenant string
	file   string // the backlog as the workers read it
	rows   []row
	bad    []rejected
	pay    *payments.Service
	plan   map[int]payments.Moment

	mu     sync.Mutex
	child  *os.Process
	dead   chan struct{} // closed when child has ended
	killed bool          // child has been killed
	kills  []string
}

// prepare lays out the data directory, the backlog and the plan of kills.
func (s *supervisor) prepare(ctx context.Context) (err error) {
	d := &s.flags
	if d.seed == 0 {
		d.seed = mathrand.Uint64N(1 << 32)
	}
	data, name, err := s.backlog() // before anything is made
	if err != nil {
		return err
	}
	if d.dataDir, err = newDir("demo", d.dataDir); err != nil {
		return err
	}
	if s.app.opts.Embedded() {
		s.app.opts.Dir = d.dataDir
	} else if _, err := system.Migrate(ctx, s.app.opts); err != nil {
		return s.app.explain(err)
	}
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	s.tenant = "demo-" + hex.EncodeToString(b[:])
	s.file = filepath.Join(d.dataDir, "inbox", filepath.Base(name))
	if err := os.MkdirAll(filepath.Dir(s.file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(s.file, data, 0o600); err != nil {
		return err
	}
	s.plan = killPlan(d.seed, d.kills)
	return nil
}

// backlog reads the requests.
func (s *supervisor) backlog() (data []byte, name string, err error) {
	name = "requests.csv"
	if s.flags.requests != "" {
		name = s.flags.requests
		if data, err = os.ReadFile(name); err != nil {
			return nil, "", usagef("--requests: %w", err)
		}
	} else {
		data, err = refunds.Files.ReadFile(name)
		// The customer who writes a key into the note: made here, so that no
		// token-shaped text stands in the repository.
		data = bytes.ReplaceAll(data, []byte("{{API_KEY}}"), []byte(demoKey(s.flags.seed)))
	}
	if err != nil {
		return nil, "", err
	}
	s.rows, s.bad, err = readBacklog(name, data)
	switch {
	case err != nil:
		return nil, "", usageError{err}
	case len(s.rows)+len(s.bad) == 0:
		return nil, "", usagef("%s: no requests below the header: write one a line", name)
	}
	return data, name, nil
}

// hook is called by the provider within a refund request. It kills the worker
// that sent it and drops the request.
func (s *supervisor) hook(n int, m payments.Moment) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.killed {
		// A request of a worker that is dead already: it hangs in the air.
		return m == payments.AfterLog
	}
	if s.plan[n] != m || s.child == nil {
		return true
	}
	if err := s.child.Kill(); err != nil {
		return true
	}
	s.killed = true
	when := "before the money moved"
	if m == payments.AfterLog {
		when = "after the money moved"
	}
	s.kills = append(s.kills, when)
	fmt.Fprintf(s.app.err, "  killed worker %d at refund request %d, %s\n", s.child.Pid, n, when)
	<-s.dead
	return false
}

// supervise starts workers, one after another, until one finds nothing left to do.
func (s *supervisor) supervise(ctx context.Context) (err error) {
	orders, err := refunds.Orders()
	if err != nil {
		return err
	}
	s.pay, err = payments.Start(payments.Config{
		LogPath: s.logPath(), Orders: orders, Mode: payments.Mode(s.flags.recovery), Hook: s.hook,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.pay.Close()) }()
	fmt.Fprintf(s.app.err, "%d refund requests to work off, %d more rejected (seed %d)\nThe payments provider %s (--recovery %s).\n",
		len(s.rows), len(s.bad), s.flags.seed, canDo[payments.Mode(s.flags.recovery)], s.flags.recovery)
	for n := 1; n <= 60; n++ {
		code, err := s.one(ctx, n)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case code == 0:
			return nil
		}
	}
	return errors.New("60 workers were started and the backlog is not done")
}

// canDo says what a provider is good for after a crash.
var canDo = map[payments.Mode]string{
	payments.Opaque: "can neither recognise a request sent twice nor be asked",
	payments.Keyed:  "recognises a request sent twice by its key",
	payments.Probe:  "can be asked whether a refund happened",
}

func (s *supervisor) logPath() string { return filepath.Join(s.flags.dataDir, "payments.log") }
