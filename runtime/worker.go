// Package runtime performs what loops decide: it claims queued runs, calls
// models and tools, records every event before and after each act, and resumes
// a run from its events wherever a worker left it. It is the embedding API:
// cmd/runner uses nothing that another program could not.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
)

// Ledger is what a worker needs of the ledger.
type Ledger interface {
	ledger.Runs
	ledger.Barriers
	ledger.Effects
	ledger.Handoffs
	ledger.Children
	ledger.Budgets
	ledger.Archive
	ledger.Unreadables
	// FireDue is part of ledger.Schedules.
	FireDue(ctx context.Context, limit int) ([]ledger.Fired, error)
}

// Waker carries hints that there is work; a sweep finds whatever they miss.
type Waker interface {
	// Wake hints that a queue has work. It never blocks and may be lost.
	Wake(queue string)
	// Hints delivers a value after Wake was called anywhere, for the queues asked for.
	Hints(queues []string) (hints <-chan struct{}, stop func(), err error)
}

// CatchUp projects the journal tail of a worker that may be dead.
type CatchUp func(ctx context.Context, worker string) error

// Config of a [Worker]. Ledger, Journal, CatchUp, Redactor, Agents and Models
// are required; zero fields otherwise take the stated default.
type Config struct {
	// Name identifies the worker in leases and as its journal subject:
	// letters, digits, - and _. Default: host, process id and a random part.
	Name    string
	Ledger  Ledger
	Journal events.Journal
	CatchUp CatchUp
	// Compare says whether the database is as new as the journal, as
	// [ledger.CompareJournal] does. No run is claimed before it has returned nil; it
	// is asked until it does. Nil compares nothing: then only a projector finds out
	// that the database was restored.
	Compare  func(ctx context.Context) error
	Redactor *redact.Redactor
	// Secrets resolves secret:// handles at the last moment; nil = none registered.
	Secrets tools.Secrets
	Tools   *tools.Registry
	// Dispatch configures the tool pipeline; Redactor and Secrets are filled in.
	Dispatch tools.Config
	Agents   []*agents.Agent
	// Models are found by the name that an agent states.
	Models map[string]model.Model
	// Prices default to the table that ships.
	Prices *model.Prices
	// Loops beside the ones that ship, singleshot and revise. One with the name of
	// one of these takes its place.
	Loops []loops.Loop
	// Artifacts are the parsers, validators and repairers that options of loops
	// name, beside the ones that ship.
	Artifacts revise.Callbacks
	// CallbackTimeout bounds each of them. Default 1 minute.
	CallbackTimeout time.Duration
	// MaxArtifactBytes bounds a version of an artifact; a larger one is refused, and
	// the model told so. Default 1 MiB.
	MaxArtifactBytes int
	Waker            Waker
	// Queues to work on; empty = every queue.
	Queues []string
	// Concurrency is how many runs are held at once. Default 16.
	Concurrency int
	// LeaseTTL defaults to 15 s; heartbeats go out every third of it.
	LeaseTTL time.Duration
	// Sweep is how often the queue is looked at without a hint, and how often for
	// schedules that are due. Default 1 s.
	Sweep time.Duration
	// ShutdownGrace is how long acts under way may take after Run's context ended. Default 20 s.
	ShutdownGrace time.Duration
	// ModelTimeout bounds one wire call. Default 2 minutes.
	ModelTimeout time.Duration
	// StayFor is the longest wait a worker sits out with the lease in hand
	// before it parks the run. Default 3 s.
	StayFor time.Duration
	// ProbeEvery is the wait after a probe that could not tell. Default 30 s.
	ProbeEvery time.Duration
	Logger     *slog.Logger
	Now        func() time.Time
	// Random returns a number in [0, 1) for jitter. Default math/rand.
	Random func() float64
}

var workerName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (c *Config) withDefaults() {
	if c.Name == "" {
		c.Name = DefaultName()
	}
	def(&c.Concurrency, 16)
	def(&c.LeaseTTL, 15*time.Second)
	def(&c.Sweep, time.Second)
	def(&c.ShutdownGrace, 20*time.Second)
	def(&c.ModelTimeout, 2*time.Minute)
	def(&c.StayFor, 3*time.Second)
	def(&c.CallbackTimeout, time.Minute)
	def(&c.MaxArtifactBytes, 1<<20)
	def(&c.ProbeEvery, 30*time.Second)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	if c.Tools == nil {
		c.Tools = new(tools.Registry)
	}
	if c.Prices == nil {
		c.Prices = model.DefaultPrices()
	}
}

// DefaultName is a worker name that no other process has: host, process id and
// a random part.
func DefaultName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	host = regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllString(host, "-")
	return fmt.Sprintf("%.32s-%d-%06x", host, os.Getpid(), rand.IntN(1<<24))
}

func def[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

func (c *Config) validate() error {
	var errs []error
	need := func(ok bool, what string) {
		if !ok {
			errs = append(errs, errors.New(what))
		}
	}
	need(workerName.MatchString(c.Name), fmt.Sprintf("name %q: want 1 to 64 letters, digits, - or _", c.Name))
	need(c.Ledger != nil, "ledger is required")
	need(c.Journal != nil, "journal is required")
	need(c.CatchUp != nil, "catch-up is required: without it a dead worker's journal tail would be lost")
	need(c.Redactor != nil, "redactor is required")
	need(len(c.Agents) > 0, "at least one agent is required")
	need(c.LeaseTTL >= 200*time.Millisecond, "lease ttl must be at least 200ms")
	if len(errs) > 0 {
		return fmt.Errorf("worker config: %w", errors.Join(errs...))
	}
	return nil
}

// Worker claims runs and works on them. Safe for concurrent use.
type Worker struct {
	cfg    Config
	disps  sync.Map // tenant and tool names → *tools.Dispatcher
	buses  sync.Map // tool names → *tools.Bus: what is permitted is the same for all tenants
	reds   sync.Map // tenant → *redact.Redactor
	agents map[string]agents.Agent
	loops  map[string]loops.Loop
	host   revise.Callbacks
	ids    *events.IDs
	log    *slog.Logger

	mu       sync.Mutex
	sessions map[events.RunID]*session
	wg       sync.WaitGroup
	hostCode sync.WaitGroup // callbacks, also those that were left behind
	freed    chan struct{}
	lapses   lapses
	// life ends when the shutdown's grace is over: nothing waits beyond it.
	life  context.Context //nolint:containedctx // it is the worker's own
	die   context.CancelCauseFunc
	blobs sync.Map // hash → stored: prompts and agents repeat
}

// NewWorker checks cfg and returns a worker that does nothing until Run.
func NewWorker(cfg Config) (*Worker, error) {
	cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	w := &Worker{
		cfg:      cfg,
		agents:   map[string]agents.Agent{},
		loops:    map[string]loops.Loop{},
		host:     cfg.Artifacts.WithShipped(),
		ids:      events.NewIDs(cfg.Now, nil),
		log:      cfg.Logger.With("worker", cfg.Name),
		sessions: map[events.RunID]*session{},
		freed:    make(chan struct{}, 1),
	}
	w.life, w.die = context.WithCancelCause(context.Background())
	for _, l := range append([]loops.Loop{singleshot.New(), revise.New()}, cfg.Loops...) {
		w.loops[l.Name()] = l
	}
	var errs []error
	for _, a := range cfg.Agents {
		if _, twice := w.agents[a.Name]; twice {
			errs = append(errs, fmt.Errorf("agent %q is configured twice", a.Name))
		}
		w.agents[a.Name] = *a
		if _, ok := cfg.Models[a.Model]; !ok {
			errs = append(errs, fmt.Errorf("agent %q wants model %q, which is not configured", a.Name, a.Model))
		}
		if _, _, err := w.checkLoop(a.Loop, a.LoopOptions); err != nil {
			errs = append(errs, fmt.Errorf("agent %q: %w", a.Name, err))
		}
		for _, t := range a.Tools {
			if _, ok := cfg.Tools.Lookup(t); !ok {
				errs = append(errs, fmt.Errorf("agent %q wants tool %q, which is not registered", a.Name, t))
			}
		}
		errs = append(errs, checkApprove(a, cfg.Tools)...)
		if _, err := compose(a); err != nil {
			errs = append(errs, fmt.Errorf("agent %q: %w", a.Name, err))
		}
		if len(a.Groups) > 0 {
			if _, err := w.bus(w.dispatcher(cfg.Redactor, "", a.Tools), a); err != nil {
				errs = append(errs, fmt.Errorf("agent %q: groups: %w", a.Name, err))
			}
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("worker config: %w", errors.Join(errs...))
	}
	return w, nil
}

// dispatcher is the tool pipeline for exactly the named tools.
func (w *Worker) dispatcher(red *redact.Redactor, tenant string, names []string) *tools.Dispatcher {
	key := tenant + "\x00" + strings.Join(names, "\x00")
	if d, ok := w.disps.Load(key); ok {
		return d.(*tools.Dispatcher)
	}
	d := w.cfg.Dispatch
	d.Redactor, d.Secrets, d.Now = red, w.cfg.Secrets, w.cfg.Now
	if d.Logger == nil {
		d.Logger = w.log
	}
	allow := names
	if len(allow) == 0 {
		allow = []string{""} // an empty list would allow every tool
	}
	d.Filters = append(slices.Clone(d.Filters), tools.Filter{Allow: allow})
	made, _ := w.disps.LoadOrStore(key, tools.NewDispatcher(w.cfg.Tools, d))
	return made.(*tools.Dispatcher)
}

// redactor is the worker's with the fingerprints of a tenant.
func (w *Worker) redactor(ctx context.Context, tenant string) (*redact.Redactor, error) {
	if r, ok := w.reds.Load(tenant); ok {
		return r.(*redact.Redactor), nil
	}
	key, err := w.cfg.Ledger.TenantKey(ctx, tenant)
	if err != nil {
		return nil, err
	}
	made, _ := w.reds.LoadOrStore(tenant, w.cfg.Redactor.ForTenant(key))
	return made.(*redact.Redactor), nil
}

// Name returns the worker's name.
func (w *Worker) Name() string { return w.cfg.Name }

// capabilities are what a run may require of this worker.
func (w *Worker) capabilities() []string {
	caps := make([]string, 0, len(w.agents))
	for name := range w.agents {
		caps = append(caps, Capability(name))
	}
	return caps
}

// lacks names a capability that a run requires and this worker does not have.
func (w *Worker) lacks(requires []string) string {
	caps := w.capabilities()
	for _, r := range requires {
		if !slices.Contains(caps, r) {
			return r
		}
	}
	return ""
}

// Capability is what a run of an agent requires of its worker.
func Capability(agent string) string { return "agent/" + agent }

// Run works until ctx ends, then hands its runs over and returns nil. It also
// fires the schedules that are due, of every queue and tenant. Errors
// of the database or the broker are logged and tried again; they never end Run.
func (w *Worker) Run(ctx context.Context) error {
	var hints <-chan struct{}
	if w.cfg.Waker != nil {
		h, stop, err := w.cfg.Waker.Hints(w.cfg.Queues)
		if err != nil {
			return fmt.Errorf("worker %s: subscribe to wake-ups: %w", w.cfg.Name, err)
		}
		defer stop()
		hints = h
	}
	beats := make(chan struct{})
	stopBeats := make(chan struct{})
	go func() {
		defer close(beats)
		w.heartbeats(stopBeats)
	}()
	w.compare(ctx)
	fires := make(chan struct{})
	go func() {
		defer close(fires)
		w.fires(ctx)
	}()
	w.claims(ctx, hints)
	<-fires
	w.shutdown()
	close(stopBeats)
	<-beats
	return nil
}

// compare returns when the database is known to be as new as its journal, or ctx
// has ended.
func (w *Worker) compare(ctx context.Context) {
	if w.cfg.Compare == nil {
		return
	}
	for failures := 1; ctx.Err() == nil; failures++ {
		err := w.cfg.Compare(ctx)
		if err == nil || ctx.Err() != nil {
			return
		}
		wait := backoff(failures, w.cfg.Random)
		w.log.Warn("no run is claimed before the database was compared with its journal", "again in", wait, "error", w.cfg.Redactor.Error(err))
		_ = sleep(ctx, wait) // ctx is looked at above
	}
}

// claims takes runs while there is room, until ctx ends.
func (w *Worker) claims(ctx context.Context, hints <-chan struct{}) {
	sweep := time.NewTimer(0)
	defer sweep.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
		case <-hints:
		case <-w.freed:
		}
		if wait := w.lapses.wait(w.cfg.Now()); wait > 0 {
			sweep.Reset(wait)
			continue
		}
		n, full, err := w.claim(ctx)
		switch {
		case err != nil && ctx.Err() == nil:
			failures++
			wait := model.Backoff(failures, 0, w.cfg.Random)
			w.log.Warn("claim failed, trying again", "in", wait, "error", w.cfg.Redactor.Error(err))
			sweep.Reset(wait)
		case n > 0 && !full:
			failures = 0
			sweep.Reset(0)
		default:
			failures = 0
			sweep.Reset(w.cfg.Sweep)
		}
	}
}

// claim takes as many runs as there is room for and starts a session for each.
func (w *Worker) claim(ctx context.Context) (n int, full bool, err error) {
	w.mu.Lock()
	free := w.cfg.Concurrency - len(w.sessions)
	var own []events.ID
	for _, s := range w.sessions {
		own = append(own, s.runningTokens()...)
	}
	w.mu.Unlock()
	if free <= 0 {
		return 0, true, nil
	}
	sent := w.cfg.Now()
	cs, err := w.cfg.Ledger.Claim(ctx, ledger.ClaimRequest{
		Worker: w.cfg.Name, Queues: w.cfg.Queues, Capabilities: w.capabilities(),
		Limit: free, TTL: w.cfg.LeaseTTL, OwnTokens: own,
	})
	if err != nil {
		return 0, false, err
	}
	for _, c := range cs {
		w.start(c, sent)
	}
	return len(cs), false, nil
}

// start runs a session in a goroutine of the worker's.
func (w *Worker) start(c ledger.Claim, sent time.Time) {
	s := newSession(w, c, sent)
	w.mu.Lock()
	old := w.sessions[c.Run.ID]
	w.sessions[c.Run.ID] = s
	w.mu.Unlock()
	if old != nil {
		// Our own lease lapsed and we took the run again: the old session is a
		// zombie of an older epoch; it stops, and settles what it has in flight.
		w.lapses.lapsed(w.cfg.Now(), w.cfg.Random)
		old.stop(errLeaseLost)
	}
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		s.work()
		w.mu.Lock()
		if w.sessions[c.Run.ID] == s {
			delete(w.sessions, c.Run.ID)
		}
		w.mu.Unlock()
		select {
		case w.freed <- struct{}{}:
		default:
		}
	}()
}

// shutdown asks every session to hand over, waits for the grace, then cuts acts off.
func (w *Worker) shutdown() {
	n := 0
	w.each(func(s *session) { s.askHandover(); n++ })
	w.log.Info("shutting down", "handing_over", n)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.wg.Wait()
		w.waitForHost()
		// Tools that did not heed their time may still report what became of them.
		w.disps.Range(func(_, d any) bool { return d.(*tools.Dispatcher).Wait(w.life) == nil })
	}()
	grace := time.NewTimer(w.cfg.ShutdownGrace)
	defer grace.Stop()
	select {
	case <-done:
		return
	case <-grace.C:
		w.log.Warn("shutdown grace is over, cutting off what still runs")
		w.die(errShutdown)
		w.each(func(s *session) { s.stop(errShutdown) })
	}
	<-done
}

// waitForHost waits for the host's code that runs still left behind, until the
// shutdown's grace is over: nothing can end a function that is deaf to its context.
func (w *Worker) waitForHost() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.hostCode.Wait()
	}()
	select {
	case <-done:
	case <-w.life.Done():
	}
}

// cutOff reports whether the shutdown's grace is over.
func (w *Worker) cutOff() bool { return w.life.Err() != nil }

func (w *Worker) each(f func(*session)) {
	w.mu.Lock()
	ss := make([]*session, 0, len(w.sessions))
	for _, s := range w.sessions {
		ss = append(ss, s)
	}
	w.mu.Unlock()
	for _, s := range ss {
		f(s)
	}
}

// heartbeats extends the leases until stop is closed.
func (w *Worker) heartbeats(stop <-chan struct{}) {
	tick := time.NewTicker(w.cfg.LeaseTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			w.beat()
		}
	}
}

func (w *Worker) beat() {
	var ls []ledger.Lease
	byRun := map[events.RunID]*session{}
	w.each(func(s *session) {
		if s.local.check() {
			return // it has stopped acting; to hold on would only keep others away
		}
		ls = append(ls, s.lease)
		byRun[s.lease.RunID] = s
	})
	if len(ls) == 0 {
		return
	}
	// A heartbeat that takes longer than the lease is worth nothing.
	ctx, cancel := context.WithTimeout(context.Background(), w.cfg.LeaseTTL)
	defer cancel()
	sent := w.cfg.Now()
	beats, err := w.cfg.Ledger.Heartbeat(ctx, w.cfg.Name, ls)
	if err != nil {
		w.log.Warn("heartbeat failed; leases run on to their end", "error", w.cfg.Redactor.Error(err))
		return
	}
	for _, b := range beats {
		if s := byRun[b.RunID]; s != nil {
			s.beat(b, sent)
		}
	}
}
