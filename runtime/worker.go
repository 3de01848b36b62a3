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

// Worker claims runs and works on them. Safe for concurrent use.
type Worker struct {
	cfg    Config
	disps  sync.Map // tenant and tool names → *tools.Dispatcher
	buses  sync.Map // tool names → *tools.Bus: what is permitted is the same for all tenants
	reds   sync.Map // tenant → *redact.Redactor
	agents map[string]agents.Agent
	loops  map[string]loops.Loop
	host   revise.Callbacks
	own    *tools.Registry // of scripts
	ids    *events.IDs
	log    *slog.Logger

	mu       sync.Mutex
	sessions map[events.RunID]*session
	wg       sync.WaitGroup
	hostCode sync.WaitGroup // callbacks, also those that were left behind
	freed    chan struct{}
	lapses   lapses
	slots    slots
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
	w.slots.most = cfg.ModelLimits
	w.life, w.die = context.WithCancelCause(context.Background())
	for _, l := range append([]loops.Loop{singleshot.New(), revise.New()}, cfg.Loops...) {
		w.loops[l.Name()] = l
	}
	var errs []error
	var err error
	if w.own, err = w.ownTools(); err != nil {
		return nil, fmt.Errorf("own tools of scripts: %w", err)
	}
	for _, a := range cfg.Agents {
		if _, twice := w.agents[a.Name]; twice {
			errs = append(errs, fmt.Errorf("agent %q is configured twice", a.Name))
		}
		w.agents[a.Name] = *a
		if _, _, err := cfg.chain(a); err != nil {
			errs = append(errs, fmt.Errorf("agent %q wants %w", a.Name, err))
		}
		if _, _, err := w.checkLoop(a.Loop, a.LoopOptions); err != nil {
			errs = append(errs, fmt.Errorf("agent %q: %w", a.Name, err))
		}
		if _, err := newOutput(a.Name, a.Output); err != nil {
			errs = append(errs, fmt.Errorf("agent %q: output: %w", a.Name, err))
		}
		for _, t := range a.Tools {
			if _, ok := cfg.Tools.Lookup(t); !ok {
				errs = append(errs, fmt.Errorf("agent %q wants tool %q, which is not registered", a.Name, t))
			}
		}
		errs = append(errs, checkApprove(a, cfg.Tools)...)
		errs = append(errs, checkTeam(a, cfg.Tools)...)
		errs = append(errs, checkSkills(a)...)
		if err := cfg.lacksHooks(a.Validate, a.Middleware); err != nil {
			errs = append(errs, fmt.Errorf("agent %q wants %w", a.Name, err))
		}
		if _, err := compose(a, asked{}); err != nil {
			errs = append(errs, fmt.Errorf("agent %q: %w", a.Name, err))
		}
		if len(a.Groups) > 0 {
			own := *a
			own.Tools = withTeam(a)
			if _, err := w.bus(w.dispatcher(cfg.Redactor, "", &own, own.Tools), &own); err != nil {
				errs = append(errs, fmt.Errorf("agent %q: groups: %w", a.Name, err))
			}
		}
	}
	if err := agents.CheckTeam(cfg.Agents); err != nil {
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		errs = w.checkRules(cfg.Policy, cfg.Agents, cfg.Tools)
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("worker config: %w", errors.Join(errs...))
	}
	return w, nil
}

// dispatcher is the tool pipeline of an agent for exactly the named tools.
func (w *Worker) dispatcher(red *redact.Redactor, tenant string, a *agents.Agent, names []string) *tools.Dispatcher {
	key := tenant + "\x00" + strings.Join(names, "\x00")
	if len(a.Agents) > 0 {
		key += "\x00\x00" + a.Name
	}
	key += "\x00\x01" + a.Validate + "\x00" + strings.Join(a.Middleware, "\x00")
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
	w.cfg.hook(&d, a)
	d.Filters = append(slices.Clone(d.Filters), tools.Filter{Allow: allow})
	made, _ := w.disps.LoadOrStore(key, tools.NewDispatcher(w.registry(a), d))
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
	return append(caps, SessionCapability)
}

// SessionCapability is what runs require that share a session's transcript: a worker
// of before would begin them out of turn, and without it.
const SessionCapability = "sessions"

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
