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
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/examples/refunds"
	"github.com/daybookhq/daybook/examples/refunds/payments"
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
	f.StringVar(&d.dataDir, "data", "", "where to keep everything; default a new temporary directory")
	f.StringVar(&d.requests, "requests", "", "backlog to work off instead of the example's")
	f.IntVar(&d.kills, "kills", 6, "how many times a worker is killed")
	f.DurationVar(&d.limit, "limit", 5*time.Minute, "give up after this time")
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
	return nil
}

func (a *app) demo(ctx context.Context, d demoFlags) error {
	if err := d.check(); err != nil {
		return err
	}
	log, err := a.logger()
	if err != nil {
		return err
	}
	a.opts.Logger = slog.New(slog.DiscardHandler)
	began := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, d.limit, fmt.Errorf("the demo did not end within %s", d.limit))
	defer cancel()
	s := &supervisor{app: a, flags: d, log: log}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	if err := s.supervise(ctx); err != nil {
		return fmt.Errorf("%w (everything is kept in %s)", err, s.flags.dataDir)
	}
	sum, err := s.summary(ctx, time.Since(began))
	if err != nil {
		return err
	}
	return a.printSummary(sum, d.output)
}

// supervisor is the demo's parent process: it starts workers, and lets the
// provider kill them.
type supervisor struct {
	app   *app
	flags demoFlags
	log   *slog.Logger

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
	if d.dataDir == "" {
		if d.dataDir, err = os.MkdirTemp("", "daybook-demo-"); err != nil {
			return err
		}
	} else if err = os.MkdirAll(d.dataDir, 0o700); err != nil {
		return err
	}
	if d.dataDir, err = filepath.Abs(d.dataDir); err != nil {
		return err
	}
	if s.app.opts.Embedded() {
		s.app.opts.Dir = d.dataDir
	} else if _, err := system.Migrate(ctx, s.app.opts); err != nil {
		return err
	}
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	s.tenant = "demo-" + hex.EncodeToString(b[:])
	if err := s.backlog(); err != nil {
		return err
	}
	s.plan = killPlan(d.seed, d.kills)
	return nil
}

func (s *supervisor) backlog() (err error) {
	var data []byte
	name := "requests.csv"
	if s.flags.requests != "" {
		name = s.flags.requests
		data, err = os.ReadFile(name)
	} else {
		data, err = refunds.Files.ReadFile(name)
		// The customer who writes a key into the note: made here, so that no
		// token-shaped text stands in the repository.
		data = bytes.ReplaceAll(data, []byte("{{API_KEY}}"), []byte(demoKey(s.flags.seed)))
	}
	if err != nil {
		return err
	}
	if s.rows, s.bad, err = readBacklog(name, data); err != nil {
		return err
	}
	s.file = filepath.Join(s.flags.dataDir, "inbox", "requests.csv")
	if err := os.MkdirAll(filepath.Dir(s.file), 0o700); err != nil {
		return err
	}
	return os.WriteFile(s.file, data, 0o600)
}

// demoKey is what a shop's API key looks like.
func demoKey(seed uint64) string {
	r := mathrand.New(mathrand.NewPCG(seed, 7))
	const letters = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789"
	b := make([]byte, 32)
	for i := range b {
		b[i] = letters[r.IntN(len(letters))]
	}
	return strings.Join([]string{"sk", "live", string(b)}, "_")
}

// killPlan chooses, by seed, at which refund requests a worker is killed, and
// whether before or after the money moves. Both happen.
func killPlan(seed uint64, kills int) map[int]payments.Moment {
	r := mathrand.New(mathrand.NewPCG(seed, 1))
	plan := map[int]payments.Moment{}
	moments := []payments.Moment{payments.BeforeLog, payments.AfterLog}
	r.Shuffle(2, func(i, j int) { moments[i], moments[j] = moments[j], moments[i] })
	for i, n := range r.Perm(12)[:kills] {
		m := moments[i%2]
		if i >= 2 {
			m = moments[r.IntN(2)]
		}
		plan[n+1] = m
	}
	return plan
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
	fmt.Fprintf(s.app.err, "%d refund requests (%d more rejected), provider can be recovered: %s, seed %d\n", len(s.rows), len(s.bad), s.flags.recovery, s.flags.seed)
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

func (s *supervisor) logPath() string { return filepath.Join(s.flags.dataDir, "payments.log") }

// one runs one worker process to its end. An exit code other than 0 means that
// it was killed.
func (s *supervisor) one(ctx context.Context, n int) (code int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	logFile, err := os.OpenFile(filepath.Join(s.flags.dataDir, "workers.log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return 0, err
	}
	defer logFile.Close()
	c := exec.CommandContext(ctx, self, s.childArgs()...)
	c.Stdout, c.Stderr = logFile, logFile
	// A worker must not outlive its supervisor.
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	dead := make(chan struct{})
	s.mu.Lock()
	err = c.Start()
	if err == nil {
		s.child, s.dead, s.killed = c.Process, dead, false
	}
	s.mu.Unlock()
	if err != nil {
		return 0, fmt.Errorf("start worker: %w", err)
	}
	fmt.Fprintf(s.app.err, "worker %d started (process %d)\n", n, c.Process.Pid)
	err = c.Wait()
	close(dead)
	s.mu.Lock()
	killed := s.killed
	s.child = nil
	s.mu.Unlock()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case killed, ctx.Err() != nil:
		return 137, nil
	case errors.As(err, &exit):
		return 0, fmt.Errorf("worker ended by itself: %w; its last words are in %s", err, logFile.Name())
	default:
		return 0, err
	}
}

func (s *supervisor) childArgs() []string {
	o := s.app.opts
	args := []string{
		"demo-child", "--requests", s.file, "--tenant", s.tenant, "--payments", s.pay.URL(),
		"--payments-recovery", s.flags.recovery, "--payments-timeout", "2s", "--grace", "100ms",
		"--concurrency", "4", "--lease-ttl", "2s", "--sweep", "100ms", "--log-level", s.app.logLevel,
	}
	if o.Embedded() {
		return append(args, "--dir", s.flags.dataDir)
	}
	return append(args, "--nats", o.NATS, "--postgres", o.Postgres, "--nats-sync", o.Sync)
}
