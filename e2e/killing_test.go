//go:build daybook_faults

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/fault"
	"github.com/daybookhq/daybook/ledger"
)

// killing is one case: a worker killed on a visit, with one kind of recovery.
type killing struct {
	visit
	kind string
	site *site

	prov   *provider
	run_   ledger.Run
	queue  string
	counts string
	lives  []life // what each process did
	hit    bool
	lapsed bool // a live worker lost its lease: the machine is too busy for a second
}

// life is what a process did about the effect until it was killed.
type life struct {
	points []string // in order
	killed bool
}

func (k *killing) name() string {
	return strings.ReplaceAll(k.visit.String(), " ", "-") + "-" + k.kind
}

// run returns what came of it in a few words.
func (k *killing) run(t *testing.T) string {
	s := k.site
	k.queue = strings.NewReplacer(".", "_", "@", "_").Replace(k.name())
	k.counts = filepath.Join(s.logs, k.queue+".counts")
	k.prov = s.provider(t, k.kind)
	if k.how == slow {
		k.prov.set(func(p *provider) { p.delay = 4 * time.Second })
	}
	k.run_ = s.submit(t, k.queue, k.queue, "ORD-1001")
	k.prelude(t)
	k.kill(t)
	k.recover(t)
	return k.judge(t)
}

// mortal starts a worker that will be killed.
func (k *killing) mortal(t *testing.T, faults string) *process {
	w := worker{queue: k.queue, faults: faults, counts: k.counts, log: k.log()}
	if k.kind == probe {
		w.timeout = 2 * time.Second // the provider is asked when it is over
	}
	if k.how == slow {
		w.timeout = 8 * time.Second
	}
	if k.site.dir == "" || k.how == slow {
		// The next one waits for its end, where it does not know that nobody else
		// is there. But each process makes its connections anew within its first
		// lease, and on two busy cores that alone takes most of a second.
		w.ttl = 2 * time.Second
	}
	return k.site.start(t, k.prov, w)
}

func (k *killing) log() string { return filepath.Join(k.site.logs, k.queue+".log") }

// workerStarted is what a worker says when it takes signals and is about to claim.
const workerStarted = `msg="worker started"`

// lived notes what a process did that has ended.
func (k *killing) lived(t *testing.T, p *process) {
	t.Helper()
	b, err := os.ReadFile(k.counts)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []string
	for line := range bytes.Lines(b) {
		name, _, _ := strings.Cut(string(line), "\t")
		all = append(all, name)
	}
	for _, l := range k.lives {
		all = all[len(l.points):]
	}
	k.lives = append(k.lives, life{points: all, killed: p.killed()})
}

// die waits for a worker to be killed by its faults.
func (k *killing) die(t *testing.T, p *process) {
	t.Helper()
	until(t, "be killed", func() error {
		if !p.ended() {
			return fmt.Errorf("still alive: %w", k.site.resting(t, k.run_.ID, true))
		}
		return nil
	})
	if !p.killed() {
		t.Fatalf("a worker that should be killed ended with %v:\n%s", p.err, p.tail())
	}
	k.lived(t, p)
}

// prelude brings the run to where the visit begins.
func (k *killing) prelude(t *testing.T) {
	switch k.how {
	case takeover:
		k.die(t, k.mortal(t, "begin.after_commit=kill@1"))
	case doubtful:
		k.die(t, k.mortal(t, "exec.before_first_byte=kill@1"))
	case settling:
		k.die(t, k.mortal(t, "exec.after_reply=kill@1"))
		if _, err := k.site.store.Cancel(t.Context(), k.run_.ID, "tester", "the customer withdrew"); err != nil {
			t.Fatal(err)
		}
		p := k.mortal(t, "")
		until(t, "be cancelled", func() error { return k.rest(t) })
		p.kill()
		k.lived(t, p)
		e, ok := k.site.effect(t, k.run_.ID)
		if !ok || e.State != events.EffectInDoubt {
			t.Fatalf("effect of the cancelled run is %q, want in doubt", e.State)
		}
		_, err := k.site.store.Resolve(t.Context(), ledger.Resolution{OpKey: e.OpKey, State: events.EffectApplied, By: "tester", Note: "seen in the provider's log", Force: true})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// kill lets the visit happen.
func (k *killing) kill(t *testing.T) {
	rule := fmt.Sprintf("%s=kill@%d", k.point, k.nth)
	var p *process
	switch k.how {
	case unmoved, afterward:
		started := make(chan *process, 1)
		shoot := func(req request) {
			if req.N == 1 {
				(<-started).kill()
				k.hit = true
			}
		}
		k.prov.set(func(p *provider) {
			if k.how == unmoved {
				p.before = shoot
			} else {
				p.after = shoot
			}
		})
		p = k.mortal(t, "")
		started <- p
		k.die(t, p)
		return
	case handover:
		p = k.mortal(t, "model.after_reply=delay:2s@1;"+rule)
		until(t, "ask the model", func() error { return k.reached("model.after_reply", p) })
		p.signal(syscall.SIGTERM)
	default:
		p = k.mortal(t, rule)
	}
	var resting time.Time
	until(t, "be killed, or have nothing left to do", func() error {
		if p.ended() {
			return nil
		}
		if err := k.rest(t); err != nil {
			resting = time.Time{}
			return fmt.Errorf("neither killed nor done: %w", err)
		}
		// What goes on in the background gets its time too: no end of it if the
		// visit must come.
		if resting.IsZero() {
			resting = time.Now()
		}
		enough := patience / 2
		if mayMiss[k.visit.String()] != "" || k.lapses() {
			enough = 1500 * time.Millisecond
		}
		if time.Since(resting) < enough {
			return fmt.Errorf("not killed yet")
		}
		return nil
	})
	if !p.ended() {
		p.signal(syscall.SIGTERM) // it may still come by on its way out
		p.wait(t)
	}
	if !p.killed() && p.err != nil {
		t.Fatalf("the worker was not killed, but ended with %v:\n%s", p.err, p.tail())
	}
	k.hit = p.killed()
	k.lived(t, p)
}

// reached says why a point has not been reached.
func (k *killing) reached(point string, p *process) error {
	if p.ended() {
		return errDead
	}
	c, err := fault.Counts(k.counts)
	if err == nil && c[point].Hits == 0 {
		err = fmt.Errorf("%s was not reached", point)
	}
	return err
}

// rest says why the run may still move by itself, or its record.
func (k *killing) rest(t *testing.T) error {
	if err := k.site.resting(t, k.run_.ID, k.kind == opaque); err != nil {
		return err
	}
	if err := k.site.settled(t, k.run_.ID); err != nil {
		return err
	}
	if k.point == "feed.after_publish" {
		// The feed is another's until its lease ends, if that one was killed.
		if err := k.site.fed(t); err != nil {
			return err
		}
	}
	return k.site.whole(t, k.run_.ID)
}

// recover starts a worker without faults and lets it come to rest.
func (k *killing) recover(t *testing.T) {
	k.prov.set(func(p *provider) { p.before, p.after, p.delay = nil, nil, 0 })
	before := strings.Count(tail(k.log(), 1<<20), workerStarted)
	p := k.site.start(t, k.prov, worker{queue: k.queue, counts: k.counts, log: k.log()})
	err := poll(patience, func() error {
		switch {
		case p.ended():
			return errDead
		case strings.Count(tail(k.log(), 1<<20), workerStarted) == before:
			return fmt.Errorf("the worker has not started")
		}
		return k.rest(t)
	})
	if err != nil {
		t.Errorf("after the kill: %v\nlog:\n%s\nhistory:\n%s", err, p.tail(), k.story(t))
	}
	p.stop(t)
	k.lived(t, p)
}

// story is the history in short, for a failure.
func (k *killing) story(t *testing.T) string {
	var b strings.Builder
	for i, e := range k.site.history(t, k.run_.ID) {
		fmt.Fprintf(&b, "%d epoch %d %s\n", i+1, e.Epoch, e.Type)
	}
	return b.String()
}

// window says whether the effect was begun and not ended when a worker died;
// sure is false where a kill from another goroutine leaves it open.
func (k *killing) window() (inside, sure bool) {
	inside, sure = false, true
	for _, l := range k.lives {
		n := map[string]int{}
		for _, p := range l.points {
			n[p]++
		}
		begun, ended := n["begin.after_commit"] > 0, n["end.after_commit"] > 0
		switch {
		case !l.killed, ended:
			continue
		case begun && n["end.before_send"] > 0 && k.point != "end.before_send",
			!begun && n["begin.before_send"] > 0 && k.point != "begin.before_send":
			sure = false
		case begun:
			inside = true
		}
	}
	return inside, sure
}

// lapses reports whether a lease ran out under a worker that was not killed.
// Then more happened than the visit planned: what is promised still holds, but
// it cannot be said beforehand whether the run ends or is in doubt.
func (k *killing) lapses() bool {
	log := tail(k.log(), 1<<20)
	return strings.Contains(log, "left the run to another worker") || strings.Contains(log, "run left as it is")
}

// judge checks what came of it against what is promised.
func (k *killing) judge(t *testing.T) string {
	r, err := k.site.store.Run(t.Context(), k.run_.ID)
	if err != nil {
		t.Fatal(err)
	}
	n := k.prov.once(t)
	e, begun := k.site.effect(t, k.run_.ID)
	inside, sure := k.window()
	if k.lapsed = k.lapses(); k.lapsed {
		t.Logf("a lease ran out under a live worker:\n%s", tail(k.log(), 4000))
	}
	if !k.hit && !k.lapsed && mayMiss[k.visit.String()] == "" {
		t.Errorf("%s was never hit, and no reason is listed", k.visit)
	}
	if certain, ok := insideFor[k.point]; ok && k.hit && sure && !k.lapsed && certain != inside {
		t.Errorf("killed at %s: inside the window %v, want %v; the test is wrong", k.point, inside, certain)
	}
	switch {
	case k.lapsed:
		named := r.State == ledger.Parked && r.ParkReason == events.ParkInDoubt && e.State == events.EffectInDoubt
		told := n == 0 || e.State == events.EffectApplied
		if !named && (!r.State.Ended() || !told || begun && e.State == events.EffectApplied && n == 0) {
			t.Errorf("run %s %s, effect %s, %d effects: want in doubt, or ended with what happened", r.State, r.ParkReason, e.State, n)
		}
	case k.how == settling:
		if r.State != ledger.Cancelled || e.State != events.EffectApplied || n != 1 {
			t.Errorf("run %s, effect %s, %d effects: want cancelled, applied, 1", r.State, e.State, n)
		}
	case k.kind != opaque, sure && !inside:
		if r.State != ledger.Finished || r.StoppedBy != events.StoppedByFinish || !begun || e.State != events.EffectApplied || n != 1 {
			t.Errorf("run %s by %s (%s %s), effect %s, %d effects: want finished by finish, applied, 1\n%s", r.State, r.StoppedBy, r.ParkReason, r.Error, e.State, n, k.story(t))
		}
	case sure:
		if r.State != ledger.Parked || r.ParkReason != events.ParkInDoubt || e.State != events.EffectInDoubt {
			t.Errorf("run %s %s, effect %s: want parked in doubt\n%s", r.State, r.ParkReason, e.State, k.story(t))
		}
	default:
		doubt := r.State == ledger.Parked && r.ParkReason == events.ParkInDoubt && e.State == events.EffectInDoubt
		done := r.State == ledger.Finished && e.State == events.EffectApplied && n == 1
		if !doubt && !done {
			t.Errorf("run %s %s, effect %s, %d effects: want in doubt, or finished with one effect", r.State, r.ParkReason, e.State, n)
		}
	}
	cell := fmt.Sprintf("%s %d", r.State, n)
	if r.State == ledger.Parked {
		cell = fmt.Sprintf("%s %d", r.ParkReason, n)
	}
	if k.lapsed {
		cell += "*"
	}
	if !k.hit {
		cell += " (not hit)"
	}
	return cell
}

// insideFor says for points on the run's own path whether a kill there, the
// first of its case, is inside Begin's commit and End's.
var insideFor = map[string]bool{
	"claim.before_commit": false, "claim.after_commit": false, "model.after_reply": false, "begin.before_send": false,
	"begin.after_commit": true, "exec.before_first_byte": true, "exec.after_first_byte": true, "exec.after_reply": true,
	"end.before_send": true, "end.after_commit": false, "finish.after_record": false, "finish.after_commit": false,
	"catchup.after_read": true, "epoch.after_commit": true, "park.in_doubt": true,
}
