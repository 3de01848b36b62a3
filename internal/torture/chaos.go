package torture

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/daybookhq/daybook/internal/testenv/pgserver"
)

// Faults counts what was done to the plant.
type Faults struct {
	WorkerKills     int `json:"worker_kills"`
	WorkerPauses    int `json:"worker_pauses"`
	WorkerRestarts  int `json:"worker_restarts"` // orderly, as a deployment does it
	ProjectorKills  int `json:"projector_kills"`
	ProjectorPauses int `json:"projector_pauses"`
	NATSKills       int `json:"nats_kills"`
	NATSPauses      int `json:"nats_pauses"`
	PostgresKills   int `json:"postgres_kills"`
	PostgresStops   int `json:"postgres_stops"`
	PostgresPauses  int `json:"postgres_pauses"`
	PowerCuts       int `json:"power_cuts"`
	ConsumerDeleted int `json:"consumer_deleted"`
	FeedDeleted     int `json:"feed_deleted"`
}

func (f Faults) total() int {
	return f.WorkerKills + f.WorkerPauses + f.WorkerRestarts + f.ProjectorKills + f.ProjectorPauses +
		f.NATSKills + f.NATSPauses + f.PostgresKills + f.PostgresStops + f.PostgresPauses + f.PowerCuts + f.ConsumerDeleted + f.FeedDeleted
}

// chaos does one thing after another to a plant, as a seed says.
type chaos struct {
	plant *plant
	rand  *rand.Rand
	say   func(format string, args ...any)

	workers, projectors int
	only                []string // names; empty = all
	calmEvery           time.Duration

	mu     sync.Mutex // guards faults: the report reads them while we go on
	faults Faults
}

// fault is a thing that can be done; weight is how often it is, beside others.
type fault struct {
	name        string
	weight      int
	distributed bool // only where servers are processes of their own
	do          func(ctx context.Context) error
}

func (c *chaos) all() []fault {
	return []fault{
		{"kill worker", 40, false, c.killWorker},
		{"pause worker", 10, false, c.pauseWorker},
		{"restart worker", 10, false, c.restartWorker},
		{"kill projector", 8, true, c.killProjector},
		{"pause projector", 4, true, c.pauseProjector},
		{"kill NATS", 8, true, c.killNATS},
		{"pause NATS", 5, true, c.pauseNATS},
		{"kill PostgreSQL", 7, true, c.killPostgres},
		{"stop PostgreSQL", 4, true, c.stopPostgres},
		{"pause PostgreSQL", 4, true, c.pausePostgres},
		{"cut power", 6, true, c.cutPower},
		{"delete consumer", 2, true, c.deleteConsumer},
		{"delete feed", 2, true, c.deleteFeed},
	}
}

// FaultNames are the names of all faults.
func FaultNames() (names []string) {
	for _, f := range new(chaos).all() {
		names = append(names, f.name)
	}
	return names
}

// list is what can be done to this plant.
func (c *chaos) list() []fault {
	return slices.DeleteFunc(c.all(), func(f fault) bool {
		return f.distributed && c.plant.embedded || len(c.only) > 0 && !slices.Contains(c.only, f.name)
	})
}

// run goes on until ctx ends, and leaves nothing paused or away.
func (c *chaos) run(ctx context.Context) error {
	faults := c.list()
	total := 0
	for _, f := range faults {
		total += f.weight
	}
	for calm := time.Now().Add(c.calmEvery); ; {
		if err := c.plant.upkeep(c.workers, c.projectors); err != nil {
			return err
		}
		if c.calmEvery > 0 && time.Now().After(calm) {
			c.calm(ctx)
			calm = time.Now().Add(c.calmEvery)
		}
		// Mostly one at a time, sometimes close together.
		if !sleep(ctx, time.Duration(100+c.rand.ExpFloat64()*900)*time.Millisecond) {
			return nil
		}
		n := c.rand.IntN(total)
		for _, f := range faults {
			if n -= f.weight; n < 0 {
				c.say("%s", f.name)
				c.plant.strike()
				if err := f.do(ctx); err != nil {
					return fmt.Errorf("%s: %w", f.name, err)
				}
				break
			}
		}
	}
}

func (c *chaos) count(f func(*Faults)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.faults)
}

func (c *chaos) sofar() Faults {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.faults
}

// pick returns one of ps that runs, or nil.
func (c *chaos) pick(ps []*process) *process {
	if ps = alive(ps); len(ps) == 0 {
		return nil
	}
	return ps[c.rand.IntN(len(ps))]
}

func (c *chaos) worker() *process {
	c.plant.mu.Lock()
	defer c.plant.mu.Unlock()
	return c.pick(c.plant.workers)
}

func (c *chaos) projector() *process {
	c.plant.mu.Lock()
	defer c.plant.mu.Unlock()
	return c.pick(c.plant.project)
}

func (c *chaos) killWorker(context.Context) error {
	w := c.worker()
	if w == nil {
		return nil
	}
	at := time.Now()
	w.kill()
	c.plant.mu.Lock()
	c.plant.killed[w.name] = at
	c.plant.mu.Unlock()
	c.count(func(f *Faults) { f.WorkerKills++ })
	return nil
}

// pauseWorker stops a worker for longer than its lease: it wakes as a zombie.
func (c *chaos) pauseWorker(ctx context.Context) error {
	w := c.worker()
	if w == nil {
		return nil
	}
	c.count(func(f *Faults) { f.WorkerPauses++ })
	c.pause(ctx, w.signal, c.plant.ttl+time.Duration(c.rand.Int64N(int64(c.plant.ttl))))
	return nil
}

func (c *chaos) restartWorker(context.Context) error {
	w := c.worker()
	if w == nil {
		return nil
	}
	c.count(func(f *Faults) { f.WorkerRestarts++ })
	w.stop(10 * time.Second)
	return nil
}

func (c *chaos) killProjector(context.Context) error {
	if p := c.projector(); p != nil {
		c.count(func(f *Faults) { f.ProjectorKills++ })
		p.kill()
	}
	return nil
}

func (c *chaos) pauseProjector(ctx context.Context) error {
	if p := c.projector(); p != nil {
		c.count(func(f *Faults) { f.ProjectorPauses++ })
		c.pause(ctx, p.signal, c.upTo(3*time.Second))
	}
	return nil
}

// pause stops a process for d and lets it go on, whatever happens meanwhile.
func (c *chaos) pause(ctx context.Context, signal func(syscall.Signal), d time.Duration) {
	signal(syscall.SIGSTOP)
	sleep(ctx, d)
	signal(syscall.SIGCONT)
}

func (c *chaos) upTo(d time.Duration) time.Duration { return time.Duration(c.rand.Int64N(int64(d))) }

func (c *chaos) killNATS(ctx context.Context) error {
	c.count(func(f *Faults) { f.NATSKills++ })
	c.plant.nats.kill()
	sleep(ctx, c.upTo(2*time.Second))
	return c.plant.restartNATS()
}

func (c *chaos) pauseNATS(ctx context.Context) error {
	c.count(func(f *Faults) { f.NATSPauses++ })
	c.pause(ctx, c.plant.nats.signal, c.upTo(3*time.Second))
	return nil
}

func (c *chaos) killPostgres(ctx context.Context) error {
	c.count(func(f *Faults) { f.PostgresKills++ })
	if err := c.plant.pg.Kill(); err != nil {
		return err
	}
	sleep(ctx, c.upTo(2*time.Second))
	return c.plant.pg.Start()
}

func (c *chaos) stopPostgres(ctx context.Context) error {
	c.count(func(f *Faults) { f.PostgresStops++ })
	if err := c.plant.pg.Stop(pgserver.Fast); err != nil {
		return err
	}
	sleep(ctx, c.upTo(3*time.Second))
	return c.plant.pg.Start()
}

func (c *chaos) pausePostgres(ctx context.Context) error {
	c.count(func(f *Faults) { f.PostgresPauses++ })
	return c.plant.pg.Pause(func() { sleep(ctx, c.upTo(3*time.Second)) })
}

// sleep reports whether d has gone by before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
