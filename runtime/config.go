package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"regexp"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	rules "github.com/daybookhq/daybook/tools/policy"
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
	ledger.Snapshots
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

// Live carries what a run is doing to people who watch it, before it is recorded.
// Safe for concurrent use; nothing in it may block.
type Live interface {
	// Tell sends m to whoever watches its run and reports whether it could; a message
	// that is not sent is lost.
	Tell(m events.Live) bool
	// Watched returns 0 if nobody watches the run, and otherwise a number that is
	// another one once somebody has come who has to be told from the beginning.
	Watched(tenant string, run events.RunID) uint64
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
	// CallValidators and CallMiddleware are the host's code that agents name
	// (validate, middleware). A run that names one waits for a worker that has it.
	CallValidators map[string]CallValidator
	CallMiddleware map[string]CallMiddleware
	// Policy are the operator's rules about the calls of all agents, beside their
	// own: the stricter counts. Nil for none.
	Policy *rules.List
	// Models are found by the name that an agent states.
	Models map[string]model.Model
	// Roles name chains of models: an agent may state one in place of a model, and the
	// first that answers serves. A model of the same name comes before a role.
	Roles map[string][]string
	// ModelLimits bound how many calls of a model are under way in this worker at once,
	// by name; without one there is no bound but Concurrency. A run that gets no place
	// within StayFor is parked, and keeps its place in the line.
	ModelLimits map[string]int
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
	// Live tells people who watch a run what its model is writing, redacted, where
	// the model is a [model.Streamer]; nil = nobody is told.
	Live Live
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
