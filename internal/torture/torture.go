// Package torture lets a whole Daybook work while everything around it is
// killed, paused and restarted, and then holds the record against the books of
// a provider that keeps its own. It is what `runner torture` runs, on anybody's
// machine, and what CI runs for a short while.
package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/daybookhq/daybook/internal/testenv/pgserver"
)

// Config of a torture. The zero value of a field takes the stated default.
type Config struct {
	// For is how long faults happen. Default 1 minute.
	For time.Duration
	// Seed decides what runs ask for and what is done to the plant. When things
	// happen is the machine's own affair, so a seed gives the same plan, not the
	// same run.
	Seed uint64
	// Dir is where everything is kept: logs, both of the provider's books, and the
	// data of an embedded system. Required; it must be empty.
	Dir string
	// Embedded runs one worker process on SQLite and an embedded NATS server,
	// instead of several on PostgreSQL and NATS processes.
	Embedded bool
	// Workers and Projectors are how many processes of each there are. Default 3
	// and 2; embedded 1 and 0.
	Workers, Projectors int
	// Runs ends the submissions early, 0 = none. Faults go on until For is over
	// and all runs are at rest, at most Drain longer.
	Runs int
	// Open is how many runs are kept open. Default 60.
	Open int
	// TTL of the leases. Default 2 s: shipped is 15 s, and figures of takeover
	// stand and fall with it.
	TTL time.Duration
	// Drain is for how long nothing may move, once faults have ended, until what
	// is open counts as stuck. Runs that move have five times as long. Default 60 s.
	Drain time.Duration
	// Only are the names of the faults to inject, as [FaultNames] has them; empty = all.
	Only []string
	// Commands make the program's own processes.
	Commands Commands
	// Say gets a line for each thing that happens; nil = nobody.
	Say func(format string, args ...any)
}

// ErrNoPostgres says that a distributed torture needs PostgreSQL's binaries.
var ErrNoPostgres = errors.New("no PostgreSQL server is installed here: install one (Debian: apt-get install postgresql), or torture an embedded system with --embedded")

func (c *Config) withDefaults() {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	if c.For == 0 {
		c.For = time.Minute
	}
	if c.TTL == 0 {
		c.TTL = 2 * time.Second
	}
	if c.Drain == 0 {
		c.Drain = time.Minute
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64N(1 << 32)
	}
	if c.Say == nil {
		c.Say = func(string, ...any) {}
	}
	def(&c.Open, 60)
	if c.Embedded {
		c.Workers, c.Projectors = 1, 0
		return
	}
	def(&c.Workers, 3)
	def(&c.Projectors, 2)
}

// Run tortures a system and reports. The error says why there is no report; a
// report of a bad system is no error.
func Run(ctx context.Context, cfg Config) (_ *Report, err error) {
	cfg.withDefaults()
	cfg.Dir, err = filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if there, err := os.ReadDir(cfg.Dir); err != nil || len(there) > 0 {
		return nil, errors.Join(err, fmt.Errorf("directory %s must exist and be empty: a torture's books are its own", cfg.Dir))
	}
	prov, err := startProvider(cfg.Dir, cfg.Seed)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, prov.close()) }()
	p := &plant{dir: cfg.Dir, cmds: cfg.Commands, embedded: cfg.Embedded, ttl: cfg.TTL, provider: prov.url, say: cfg.Say, killed: map[string]time.Time{}}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.build(ctx); err != nil {
		if errors.Is(err, pgserver.ErrNoBinaries) {
			return nil, ErrNoPostgres
		}
		return nil, err
	}
	w, err := openWatch(ctx, p.options())
	if err != nil {
		return nil, err
	}
	defer w.close()
	t := &torture{cfg: cfg, plant: p, provider: prov, watch: w, began: time.Now()}
	if !cfg.Embedded { // an embedded server has no port to listen at
		if t.feed, err = listen(ctx, p.natsURL); err != nil {
			return nil, err
		}
		defer t.feed.close()
	}
	return t.run(ctx)
}

// torture is one torture under way.
type torture struct {
	cfg      Config
	plant    *plant
	provider *provider
	watch    *watch
	began    time.Time
	load     load
	feed     *feed // nil if there is none to listen to
}

func (t *torture) run(ctx context.Context) (*Report, error) {
	c := &chaos{
		plant: t.plant, rand: rand.New(rand.NewPCG(t.cfg.Seed, 0x6368616f73)), say: t.cfg.Say,
		workers: t.cfg.Workers, projectors: t.cfg.Projectors, only: t.cfg.Only,
		calmEvery: calmEvery(t.cfg.For),
	}
	if len(c.list()) == 0 {
		return nil, fmt.Errorf("no fault called %q can be injected here; there are %s", t.cfg.Only, strings.Join(FaultNames(), ", "))
	}
	if err := t.plant.upkeep(c.workers, c.projectors); err != nil {
		return nil, err
	}
	if err := t.underFire(ctx, c); err != nil {
		return nil, err
	}
	healed := time.Now()
	t.cfg.Say("faults have ended; waiting for everything to come to rest")
	t.provider.settle()
	r := &Report{Seed: t.cfg.Seed, Embedded: t.cfg.Embedded, Faults: c.sofar(), Seconds: healed.Sub(t.began).Seconds(), Dir: t.cfg.Dir, TTL: t.cfg.TTL.Seconds()}
	stop := t.keepUp(ctx, c)
	err := t.judge(ctx, r, healed)
	if kerr := stop(); err == nil {
		err = kerr
	}
	return r, err
}

// underFire submits and breaks things until the time is over.
func (t *torture) underFire(ctx context.Context, c *chaos) error {
	fire, stop := context.WithTimeout(ctx, t.cfg.For)
	defer stop()
	var wg sync.WaitGroup
	wg.Go(func() { t.submit(fire) })
	err := c.run(fire)
	stop()
	wg.Wait()
	return errors.Join(err, ctx.Err())
}

// keepUp replaces what dies by itself while the rest is judged; stop ends it
// and says what could not be started.
func (t *torture) keepUp(ctx context.Context, c *chaos) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		for {
			if err := t.plant.upkeep(c.workers, c.projectors); err != nil || !sleep(ctx, 200*time.Millisecond) {
				done <- err
				return
			}
		}
	}()
	return func() error {
		cancel()
		return <-done
	}
}
