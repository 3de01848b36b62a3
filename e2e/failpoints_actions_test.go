//go:build daybook_faults

package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
)

// actions are what a point may do besides killing. A stop and a delay last longer
// than a lease, so that the run is taken from a worker that wakes up again.
var actions = []string{"panic", "err:reset", "exec_and_timeout", "delay:3s", "stop:4s"}

// actionCases are how many cases a run takes of all there are; DAYBOOK_E2E_ALL
// takes all, DAYBOOK_E2E_SEED others.
const (
	actionCases = 28
	actionPairs = 6
)

// hurting is one case: something other than a kill at one or two points.
type hurting struct {
	killing
	action string
	second string // another rule, empty for none
	at     place
}

func (h *hurting) name() string {
	n := h.killing.name() + "-" + h.action
	if h.second != "" {
		n += "-and-" + h.second
	}
	return strings.NewReplacer(":", "_", "=", "_").Replace(n)
}

// actionable says what can be done at a point: an error only where the code
// takes one, a done operation without an answer only after it is done.
func actionable(returns bool, point, action string, at place) bool {
	switch {
	case strings.HasPrefix(action, "err:"):
		return returns
	case action == "exec_and_timeout":
		return returns && strings.Contains(point, ".after_")
	case strings.HasPrefix(action, "stop"):
		return at.shared // on a directory there is one worker at a time
	}
	return true
}

// errPoints are the points of the code that can return an error.
func errPoints(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	call := regexp.MustCompile(`fault\.Err\("([a-z]+\.[a-z_]+)"\)`)
	files, err := filepath.Glob(filepath.Join(testenv.Root(t), "*", "*", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllSubmatch(b, -1) {
			found[string(m[1])] = true
		}
	}
	if !found["begin.after_commit"] || !found["end.before_send"] {
		t.Fatalf("errors are possible at %v only", found)
	}
	return found
}

// hurtings lists every case, and pairs of points.
func hurtings(t *testing.T) (single, pairs []*hurting) {
	errs := errPoints(t)
	for _, at := range places {
		for _, v := range visits() {
			if v.how == unmoved || v.how == afterward || v.how == handover || v.how == settling {
				continue // brought about by the provider or by signals, for which a kill is the point
			}
			for _, kind := range kinds {
				for _, a := range actions {
					if (v.kinds == nil || slices.Contains(v.kinds, kind)) && actionable(errs[v.point], v.point, a, at) {
						single = append(single, &hurting{killing: killing{visit: v, kind: kind}, action: a, at: at})
					}
				}
			}
		}
	}
	for i, a := range single {
		b := single[(i*7919+1)%len(single)]
		if a.point == b.point || a.how != plain || b.how != plain || mayMiss[a.visit.String()] != "" {
			continue
		}
		pairs = append(pairs, &hurting{
			killing: killing{visit: a.visit, kind: a.kind}, action: a.action, at: a.at, second: fmt.Sprintf("%s=%s@%d", b.point, b.action, b.nth),
		})
		if strings.HasPrefix(b.action, "stop") && !a.at.shared {
			pairs = pairs[:len(pairs)-1]
		}
	}
	return single, pairs
}

// TestFailpointActions lets workers panic, fail, lose answers, stand still and
// be slow at the points where TestFailpoints kills them, alone and in pairs.
// RELIABILITY rows 3, 8, 10, 14.
func TestFailpointActions(t *testing.T) {
	binary(t, "cmd/runner")
	binary(t, "e2e/worker")
	single, pairs := hurtings(t)
	all := len(single) + len(pairs)
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("DAYBOOK_E2E_SEED"), "1"), 10, 64)
	if err != nil {
		t.Fatalf("DAYBOOK_E2E_SEED: %v", err)
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	for _, hs := range [][]*hurting{single, pairs} {
		rng.Shuffle(len(hs), func(i, j int) { hs[i], hs[j] = hs[j], hs[i] })
	}
	only := os.Getenv("DAYBOOK_E2E_POINTS")
	if os.Getenv("DAYBOOK_E2E_ALL") == "" && only == "" {
		// A panic beside a call parks the run for a minute.
		long := func(h *hurting) bool {
			return strings.Contains(h.name(), "panic") && strings.Contains(h.name(), "exec.")
		}
		single, pairs = slices.DeleteFunc(single, long), slices.DeleteFunc(pairs, long)
		single, pairs = single[:actionCases], pairs[:actionPairs]
	}
	cases := slices.DeleteFunc(slices.Concat(single, pairs), func(h *hurting) bool { return !regexp.MustCompile(only).MatchString(h.name()) })
	t.Logf("seed %d: %d of %d cases", seed, len(cases), all)
	todo := make(chan *hurting)
	var slots sync.WaitGroup
	for range atOnce {
		slots.Go(func() {
			var shared *site
			for h := range todo {
				if h.at.shared && shared == nil {
					shared = h.at.open(t)
				}
				t.Run(h.at.name+"/"+h.name(), func(t *testing.T) {
					h.site = shared
					if !h.at.shared {
						h.site = h.at.open(t)
					}
					h.run(t)
				})
			}
			if shared != nil {
				if err := shared.whole(t, [16]byte{}); err != nil {
					t.Errorf("the ledger of all cases: %v", err)
				}
			}
		})
	}
	for _, h := range cases {
		todo <- h
	}
	close(todo)
	slots.Wait()
}

// run lets it happen, lets another worker go on, and looks at what came of it.
func (h *hurting) run(t *testing.T) {
	h.queue = strings.NewReplacer(".", "_", "@", "_").Replace(h.name())
	if len(h.queue) > 60 {
		h.queue = fmt.Sprintf("%.40s_%d", h.queue, h.site.procs.Add(1))
	}
	h.counts = filepath.Join(h.site.logs, h.queue+".counts")
	h.prov = h.site.provider(t, h.kind)
	if h.how == slow {
		h.prov.set(func(p *provider) { p.delay = 4 * time.Second })
	}
	h.run_ = h.site.submit(t, h.queue, h.queue, "ORD-1001")
	h.prelude(t)
	rules := fmt.Sprintf("%s=%s@%d", h.point, h.action, h.nth)
	if h.second != "" {
		rules += ";" + h.second
	}
	p := h.worker(t, rules, "")
	until(t, "let it happen, or have nothing left to do", func() error {
		if p.ended() || h.fired(t) {
			return nil
		}
		return h.rest(t)
	})
	if h.at.shared {
		// Somebody else is there at once, and takes the run if it can.
		standby := h.worker(t, "", "-standby")
		defer func() {
			// Asked to end before it listens to signals, it would die of one.
			until(t, "start the other worker", func() error { return standby.says(workerStarted) })
			standby.stop(t)
		}()
	}
	var resting time.Time
	until(t, "end, or have nothing left to do", func() error {
		if p.ended() {
			return nil
		}
		if err := h.rest(t); err != nil {
			resting = time.Time{}
			return err
		}
		if resting.IsZero() {
			resting = time.Now()
		}
		if time.Since(resting) < 500*time.Millisecond {
			return fmt.Errorf("at rest for a moment only")
		}
		return nil
	})
	if !p.ended() {
		p.stop(t)
	}
	h.lived(t, p)
	h.recover(t)
	h.judge(t)
}

// worker starts a worker whose leases and refunds last as short as the actions
// allow. It writes to the log of the case, or with a suffix to one of its own:
// recover tells by the case's log that its own worker has started.
func (h *hurting) worker(t *testing.T, faults, suffix string) *process {
	log := strings.TrimSuffix(h.log(), ".log") + suffix + ".log"
	w := worker{queue: h.queue, faults: faults, counts: h.counts, log: log, ttl: 2 * time.Second, timeout: 2 * time.Second}
	if h.how == slow {
		w.timeout = 8 * time.Second
	}
	return h.site.start(t, h.prov, w)
}

func (h *hurting) fired(t *testing.T) bool {
	t.Helper()
	c, err := fault.Counts(h.counts)
	if err != nil {
		t.Fatal(err)
	}
	return c[h.point].Fired > 0
}

// judge checks what must hold whatever happened: the run has ended or waits for a
// person, at most one effect, and the ledger says what the provider's log says.
func (h *hurting) judge(t *testing.T) {
	r, err := h.site.store.Run(t.Context(), h.run_.ID)
	if err != nil {
		t.Fatal(err)
	}
	n := h.prov.once(t)
	e, _ := h.site.effect(t, h.run_.ID)
	if !h.fired(t) && mayMiss[h.visit.String()] == "" && h.second == "" {
		t.Errorf("%s never happened", h.visit)
	}
	doubt := r.State == ledger.Parked && r.ParkReason == events.ParkInDoubt && e.State == events.EffectInDoubt && h.kind == opaque
	done := r.State == ledger.Finished && r.StoppedBy == events.StoppedByFinish && e.State == events.EffectApplied && n == 1
	told := r.State.Ended() && e.State == events.EffectNotApplied && n == 0 // refused before the first byte: the model was told so
	if !doubt && !done && !told {
		t.Errorf("run %s by %s (%s %s), effect %s, %d effects\n%s", r.State, r.StoppedBy, r.ParkReason, r.Error, e.State, n, h.story(t))
	}
}
