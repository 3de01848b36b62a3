// Package simulation_test runs whole systems in virtual time: workers, journal,
// projector, database, models and a provider in one process and one bubble of
// testing/synctest, under faults that a seed decides. See docs/testing.md, L3.
//
// The clock stands still while anything runs, and jumps when everything waits.
// Every request, answer and message travels for a time of its own, to the
// nanosecond, so at most moments one goroutine alone can go on: the order in
// which they meet is the seed's and not the scheduler's. A fault is drawn from
// the seed, who asks, what for, and the moment. Not the
// seed's are ids and hashes of events, and the order of goroutines that one
// event sets free at the same moment. [TestSimulationRepeats] says how often
// the same seed gives the same schedule, call by call.
package simulation_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

var (
	seeds = flag.Int("seeds", 30, "how many systems are simulated")
	first = flag.Uint64("seed", 1, "the first seed; -seeds 1 -seed N repeats one")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSimulation: while there are faults nothing takes effect twice and nothing
// is told that did not happen; after they end every run comes to its end, and
// the record proves itself.
func TestSimulation(t *testing.T) {
	host := newHost(t)
	const enough = 2 // further seeds that fail say nothing new
	var failed atomic.Int32
	var mu sync.Mutex
	sum := totals{faults: map[string]int{}}
	t.Run("seed", func(t *testing.T) {
		for i := range *seeds {
			seed := *first + uint64(i) //nolint:gosec // not negative
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				if failed.Load() >= enough {
					t.SkipNow()
				}
				defer func() {
					if t.Failed() {
						failed.Add(1)
					}
				}()
				p := host.simulate(t, seed)
				mu.Lock()
				defer mu.Unlock()
				sum.add(p)
			})
		}
	})
	if failed.Load() == 0 {
		sum.judge(t)
	}
}

// TestSimulationRepeats: the same seed gives the same schedule.
func TestSimulationRepeats(t *testing.T) {
	host := newHost(t)
	const pairs = 6
	same := 0
	for seed := range uint64(pairs) {
		a, b := host.simulate(t, seed), host.simulate(t, seed)
		if a.trace.Sum64() == b.trace.Sum64() {
			same++
			continue
		}
		t.Logf("seed %d: %s", seed, difference(a.lines, b.lines))
	}
	t.Logf("%d of %d seeds gave the same schedule twice", same, pairs)
	if same < pairs/2 {
		t.Errorf("seeds decide too little: %d of %d", same, pairs)
	}
}

// difference is where two schedules part.
func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("step %d of %d and %d, after\n%s\n%s\n%s", i, len(a), len(b), strings.Join(a[max(0, i-5):i], "\n"), a[i], b[i])
		}
	}
	return fmt.Sprintf("%d and %d steps", len(a), len(b))
}

// host is where simulated databases lie.
type host struct {
	dir   string
	empty []byte // a migrated database
}

func newHost(t *testing.T) *host {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "daybook-simulation-") // no disk: power cuts are not simulated
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "empty.db")
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Store: sqlstore.Config{Redactor: redact.New(redact.Config{})}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.Migrate(t.Context())
	if cerr := store.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	empty, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &host{dir, empty}
}

// hangs is how long, by a real clock, one system may take.
const hangs = 3 * time.Minute

// simulate runs the system of a seed to its rest.
func (h *host) simulate(t *testing.T, seed uint64) *plant {
	t.Helper()
	dir, err := os.MkdirTemp(h.dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "ledger.db")
	if err := os.WriteFile(path, h.empty, 0o600); err != nil {
		t.Fatal(err)
	}
	// Virtual time stands still for ever if something waits for a lock whose
	// holder sleeps: that would be a fault too.
	dog := time.AfterFunc(hangs, func() { panic(fmt.Sprintf("simulation of seed %d hangs", seed)) })
	defer dog.Stop()
	var p *plant
	synctest.Test(t, func(t *testing.T) {
		p = newPlant(t, path, seed)
		p.live()
	})
	return p
}

// totals of all seeds.
type totals struct {
	systems, runs, resolved, resumed, deaths int
	slowest                                  time.Duration
	faults                                   map[string]int
}

func (s *totals) add(p *plant) {
	s.systems, s.runs, s.resolved, s.resumed, s.deaths = s.systems+1, s.runs+len(p.runs), s.resolved+p.resolved, s.resumed+p.resumed, s.deaths+p.deaths
	s.slowest = max(s.slowest, p.took)
	for k, n := range p.faults {
		s.faults[k] += n
	}
}

// judge calls a simulation void that had few faults.
func (s *totals) judge(t *testing.T) {
	t.Logf("%d systems, %d runs, %d workers died, %d effects resolved and %d runs resumed by a person, at most %s to rest; faults %v",
		s.systems, s.runs, s.deaths, s.resolved, s.resumed, s.slowest, s.faults)
	if s.systems < 50 {
		return
	}
	for _, k := range []string{"refuse", "lose", "twice", "again", "slow", "journal refuse", "journal lose", "journal drop", "journal again", "journal slow", "tool"} {
		if s.faults[k] < s.systems/5 {
			t.Errorf("void: %d faults of kind %q", s.faults[k], k)
		}
	}
	if s.deaths < s.systems/2 || s.resolved < s.systems/20 {
		t.Errorf("void: %d workers died, %d effects were resolved", s.deaths, s.resolved)
	}
}
