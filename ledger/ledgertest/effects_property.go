package ledgertest

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// testEffectsProperty drives two runs that want the same effect through
// crashes, takeovers, lost answers, requests that arrive late and evidence that
// comes later still, and compares every answer with a model. What it must never
// see: a second effect, "applied" where nothing happened, "not applied" where
// something did.
func testEffectsProperty(t *testing.T, h Harness) {
	sequences(t, 125, 50) // for each kind: 500 of them
	for _, kind := range []string{ledger.RecoveryNone, ledger.RecoveryKeyed, ledger.RecoveryFenced, ledger.RecoveryProbe} {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				w := newWorld(rt, h, kind)
				rt.Repeat(map[string]func(*rapid.T){
					"":        w.check,
					"claim":   w.claim,
					"begin":   w.begin,
					"again":   w.again,
					"send":    w.send,
					"arrive":  w.arrive,
					"end":     w.end,
					"vanish":  w.vanish,
					"resolve": w.resolve,
					"advance": w.advance,
				})
			})
		})
	}
}

// sequences makes rapid run that many sequences of about that many steps until t
// ends, unless flags say how many: a release runs more (make properties).
func sequences(t *testing.T, checks, steps int) {
	t.Helper()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, n := range map[string]int{"rapid.checks": checks, "rapid.steps": steps} {
		f := flag.Lookup(name)
		if given[name] || f == nil {
			continue
		}
		was := f.Value.String()
		if err := f.Value.Set(strconv.Itoa(n)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(was) }) // it was a number before
	}
}

// slack is what a test leaves for the real time that passes on the database's
// clock as well.
const slack = 4 * time.Second

// late is how far the database's clock may be ahead of the simulated one, which
// real time does not move.
func (w *world) late() time.Duration { return time.Since(w.began) + time.Millisecond }

type world struct {
	h       Harness
	kind    string
	tenant  string
	runs    []ledger.Run
	actors  []*actor // everybody who ever held a run, dead or alive
	held    map[*actor]time.Duration
	execs   []*execution
	began   time.Time
	now     time.Duration // simulated, since the start
	model   modelEffect
	outside provider
	key     events.Hash
}

func newWorld(rt *rapid.T, h Harness, kind string) *world {
	w := &world{
		h: h, kind: kind, tenant: fmt.Sprintf("world-%d", testCount.Add(1)), held: map[*actor]time.Duration{}, began: time.Now(),
		model: modelEffect{kind: kind}, outside: provider{kind: kind, keySeen: -1},
	}
	for range 2 {
		w.runs = append(w.runs, submit(rt, h, ofTenant(w.tenant), inSession("s")))
	}
	return w
}

// check is the invariant.
func (w *world) check(rt *rapid.T) {
	if w.outside.effects > 1 {
		rt.Fatalf("%d effects", w.outside.effects)
	}
	es, err := w.h.Store.Effects(rt.Context(), ledger.EffectFilter{Tenant: w.tenant})
	if err != nil {
		rt.Fatalf("effects: %v", err)
	}
	if len(es) == 0 {
		if w.model.state != "" {
			rt.Fatalf("no effect, want %s", w.model.state)
		}
		return
	}
	e := es[0]
	w.key = e.OpKey
	switch {
	case len(es) > 1 || e.State != w.model.state || e.Attempts != len(w.model.attempts):
		rt.Fatalf("%d effects, state %s with %d attempts, want %s with %d", len(es), e.State, e.Attempts, w.model.state, len(w.model.attempts))
	case e.State == events.EffectApplied && w.outside.effects == 0:
		rt.Fatalf("told applied, nothing happened")
	case e.State == events.EffectNotApplied && w.outside.effects > 0:
		rt.Fatalf("told not applied, it happened")
	case e.Contradicted && e.State != events.EffectAbandoned || e.PossibleDuplicate: // who gives up may be proven wrong
		rt.Fatalf("truthful tools and nobody forced: contradicted %v, possible duplicate %v", e.Contradicted, e.PossibleDuplicate)
	}
}

func (w *world) claim(rt *rapid.T) { w.take(rt, rapid.SampledFrom(w.runs).Draw(rt, "run")) }

func (w *world) take(rt *rapid.T, run ledger.Run) {
	a := tryTake(rt, w.h, run)
	if a == nil {
		return
	}
	a.absorb(a.facts...)
	w.actors = append(w.actors, a)
	w.held[a] = w.now
	w.model.claimed(run.ID, a.lease.Epoch)
}

// actor draws a holder, mostly the last one of its run, sometimes a zombie.
func (w *world) actor(rt *rapid.T) *actor {
	if len(w.actors) == 0 {
		return nil
	}
	a := rapid.SampledFrom(w.actors).Draw(rt, "actor")
	if rapid.Bool().Draw(rt, "take over") {
		w.take(rt, a.run)
	}
	if rapid.IntRange(0, 3).Draw(rt, "zombie") > 0 {
		for _, b := range w.actors {
			if b.run.ID == a.run.ID {
				a = b
			}
		}
	}
	a.t = rt
	return a
}

// superseded reports whether another holder came after a.
func (w *world) superseded(a *actor) bool {
	for _, b := range w.actors {
		if b.run.ID == a.run.ID && b.lease.Epoch > a.lease.Epoch {
			return true
		}
	}
	return false
}

// refusable checks an error of Begin and reports whether there was one.
func (w *world) refusable(rt *rapid.T, a *actor, err error) bool {
	age := w.now - w.held[a]
	switch {
	case err == nil:
		if w.superseded(a) || age > leaseTTL*2/3 {
			rt.Fatalf("begun with a lease of age %v, superseded %v", age, w.superseded(a))
		}
		return false
	case errors.Is(err, ledger.ErrFenced) && (w.superseded(a) || age+w.late() > leaseTTL):
	case errors.Is(err, ledger.ErrLeaseTooShort) && age+w.late() > leaseTTL*2/3:
	default:
		rt.Fatalf("begin with a lease of age %v: %v", age, err)
	}
	return true
}

func (w *world) begin(rt *rapid.T) {
	a := w.actor(rt)
	if a == nil {
		return
	}
	in := refund(inSessionScope, recovery(w.kind),
		call(rapid.IntRange(1, 2).Draw(rt, "turn"), 0), amount(rapid.IntRange(5, 6).Draw(rt, "amount")),
		timeout(time.Duration(rapid.SampledFrom([]int{5, 60, 7200}).Draw(rt, "timeout"))*time.Second))
	v, err := a.begin(in)
	if w.refusable(rt, a, err) {
		return
	}
	w.verdict(rt, v, w.model.begin(a.lease, in, w.now))
	if v.Kind == ledger.Execute {
		a.absorb(*v.Fact)
		x := &execution{a: a, in: in, where: ready}
		x.sendBy = w.now + v.Remaining
		x.landBy = x.sendBy + w.grace(rt, v)
		if rapid.Bool().Draw(rt, "answer lost") {
			x.where = unanswered
		}
		w.execs = append(w.execs, x)
	}
}

// grace is what the store adds to a deadline, as it says itself.
func (w *world) grace(rt *rapid.T, v ledger.Verdict) time.Duration {
	es, err := w.h.Store.Effects(rt.Context(), ledger.EffectFilter{Tenant: w.tenant})
	if err != nil {
		rt.Fatalf("effects: %v", err)
	}
	return es[0].QuiescentIn - es[0].Deadline.Sub(v.Deadline) - v.Remaining
}

func (w *world) verdict(rt *rapid.T, v ledger.Verdict, want ledger.VerdictKind) {
	if v.Kind != want {
		rt.Fatalf("verdict = %s, want %s", verdictName(v.Kind), verdictName(want))
	}
	if v.Kind == ledger.Replay && w.outside.effects == 0 {
		rt.Fatalf("replayed what never happened")
	}
}

// pick draws an execution that is somewhere.
func (w *world) pick(rt *rapid.T, where ...int) *execution {
	var xs []*execution
	for _, x := range w.execs {
		for _, s := range where {
			if x.where == s {
				xs = append(xs, x)
			}
		}
	}
	if len(xs) == 0 {
		return nil
	}
	x := rapid.SampledFrom(xs).Draw(rt, "execution")
	x.a.t = rt
	return x
}

// again asks with the same token, since no answer came.
func (w *world) again(rt *rapid.T) {
	x := w.pick(rt, unanswered)
	if x == nil {
		return
	}
	v, err := x.a.begin(x.in)
	if w.model.state == events.EffectNotApplied && err != nil && !errors.Is(err, ledger.ErrFenced) {
		return
	}
	if w.refusable(rt, x.a, err) {
		return
	}
	w.verdict(rt, v, w.model.again(x.a.lease, x.in))
	x.where = gone
	if v.Kind == ledger.Execute {
		x.where = ready
	}
}

// send hands the request to the wire, until the executor's context ends: also
// with a lease that is long lost.
func (w *world) send(rt *rapid.T) {
	x := w.pick(rt, ready)
	if x == nil {
		return
	}
	x.where = flying
	if w.now >= x.sendBy {
		x.where = gone
	}
}

// arrive delivers a request; the reply may be lost.
func (w *world) arrive(rt *rapid.T) {
	x := w.pick(rt, flying)
	if x == nil {
		return
	}
	x.where = gone
	if w.now+w.late() >= x.landBy {
		return
	}
	saw := w.outside.hit(w.now, rapid.IntRange(0, 3).Draw(rt, "refuse") == 0)
	if rapid.IntRange(0, 2).Draw(rt, "reply lost") > 0 {
		x.where, x.saw = arrived, saw
	}
}

// end reports: what was seen, or that nothing was.
func (w *world) end(rt *rapid.T) {
	x := w.pick(rt, ready, flying, arrived, gone)
	if x == nil {
		return
	}
	kind := ledger.Unclear
	switch x.where {
	case arrived:
		kind = x.saw
	case ready: // it was never sent, and the tool can prove it
		x.where = gone
		kind = ledger.NotApplied
	}
	w.report(rt, x, kind)
	if rapid.IntRange(0, 3).Draw(rt, "twice") == 0 {
		w.report(rt, x, kind)
	}
}

func (w *world) report(rt *rapid.T, x *execution, kind ledger.OutcomeKind) {
	s := x.a.end(x.in.Token, kind)
	w.model.end(x.in.Token, kind)
	if s.State != w.model.state {
		rt.Fatalf("ended %s: told %s, want %s", kind, s.State, w.model.state)
	}
}

// vanish kills an executor between two steps.
func (w *world) vanish(rt *rapid.T) {
	if x := w.pick(rt, unanswered, ready, arrived); x != nil {
		x.where = gone
	}
}

// resolve is a truthful probe, or a person who gives up.
func (w *world) resolve(rt *rapid.T) {
	if w.key.IsZero() {
		return
	}
	state := events.EffectNotApplied
	if w.outside.effects > 0 {
		state = events.EffectApplied
	}
	if rapid.IntRange(0, 7).Draw(rt, "give up") == 0 {
		state = events.EffectAbandoned
	}
	_, err := resolve(rt, w.h, w.key, state)
	switch {
	case errors.Is(err, ledger.ErrNotInDoubt) && w.model.state != events.EffectInDoubt:
	case errors.Is(err, ledger.ErrNotQuiescent) && state != events.EffectApplied:
	case err != nil:
		rt.Fatalf("resolve %s as %s: %v", w.model.state, state, err)
	default:
		if w.model.state != events.EffectInDoubt {
			rt.Fatalf("resolved what is %s", w.model.state)
		}
		w.model.resolved(state)
	}
}

func (w *world) advance(rt *rapid.T) {
	ds := []time.Duration{time.Second, 6 * time.Second, 20 * time.Second, 2 * time.Minute}
	if w.kind == ledger.RecoveryKeyed {
		ds = append(ds, keyTTL/3, keyTTL*5/6, keyTTL*5/6) // the latter between the ends of repeating and of the key
	}
	d := rapid.SampledFrom(ds).Draw(rt, "by")
	w.now += d
	w.h.Advance(d)
}
