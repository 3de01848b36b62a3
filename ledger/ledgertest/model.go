package ledgertest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// Times of the model. Real time passes too, so no sum of ticks comes near a
// lease, a timer or a back-off.
const (
	modelTTL   = 50 * time.Minute
	modelTick  = 20 * time.Minute
	modelTimer = 30 * time.Minute
)

// modelRun is what a run's rows must be.
type modelRun struct {
	id      events.RunID
	state   ledger.State
	epoch   uint64
	until   time.Duration // of the lease; -1 = none
	wake    time.Duration // -1 = never
	quiet   time.Duration // a settle claim may be refused until then
	clean   bool
	archive map[uint64]events.Sealed
	bases   map[uint64]uint64 // epoch → base
	facts   []events.ID
}

// modelHolder is a worker that believes to hold a run; most of them are wrong.
type modelHolder struct {
	*actor
	run   *modelRun
	based bool
}

// model is the whole ledger in memory, beside the store it is compared with.
type model struct {
	t       *rapid.T
	h       Harness
	queue   string
	now     time.Duration
	runs    []*modelRun
	holders []*modelHolder
}

func testRunsProperty(t *testing.T, h Harness) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{t: rt, h: h, queue: fmt.Sprintf("model-%d", testCount.Add(1))}
		m.submit(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"submit": m.submit, "claim": m.claim, "advance": m.advance, "signal": m.signal, "cancel": m.cancel,
			"record": m.record, "arrive": m.arrive, "heartbeat": m.heartbeat, "base": m.base,
			"flush": m.barrier("flush"), "park": m.barrier("park"), "hand over": m.barrier("hand over"),
			"finish": m.barrier("finish"), "release": m.barrier("release"), "": m.check,
		})
		// Whatever is left is not of the next sequence.
		m.h.sql(rt, `UPDATE runs SET queue = 'done' WHERE queue = $1`, m.queue)
	})
}

func (m *model) submit(t *rapid.T) {
	if len(m.runs) == 2 {
		t.Skip("enough runs")
	}
	s := submission(t)
	s.Queue = m.queue
	r, _, err := m.h.Store.Submit(t.Context(), s)
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	m.runs = append(m.runs, &modelRun{
		id: r.ID, state: ledger.Queued, until: -1, wake: -1, quiet: -1, clean: true,
		archive: map[uint64]events.Sealed{}, bases: map[uint64]uint64{},
	})
}

func (m *model) advance(*rapid.T) {
	m.now += modelTick
	m.h.Advance(modelTick)
}

func (r *modelRun) lapsed(now time.Duration) bool { return r.until < 0 || r.until <= now }

// due reports whether a claim must or may take r.
func (r *modelRun) due(now time.Duration) (must, may bool) {
	switch {
	case r.state == ledger.Queued:
		must = true
	case r.state == ledger.Parked:
		must = len(r.facts) > 0 || r.wake >= 0 && r.wake <= now
	case r.state.Ended():
		may = r.lapsed(now) && len(r.facts) > 0
		return may && r.quiet < now, may
	default:
		must = r.lapsed(now)
	}
	return must, must
}

func (r *modelRun) top() uint64 {
	n := uint64(0)
	for ; ; n++ {
		if _, ok := r.archive[n+1]; !ok {
			return n
		}
	}
}

// rebase is step (c).
func (r *modelRun) rebase() {
	r.bases[r.epoch] = r.top()
	for seq := range r.archive {
		if seq > r.bases[r.epoch] {
			delete(r.archive, seq)
		}
	}
	r.drop()
}

// drop deletes recorded facts.
func (r *modelRun) drop() {
	r.facts = slices.DeleteFunc(r.facts, func(id events.ID) bool {
		for _, e := range r.archive {
			if e.Envelope().ID == id {
				return true
			}
		}
		return false
	})
}

func (r *modelRun) valid(e events.Sealed) bool {
	for epoch, base := range r.bases {
		if epoch > e.Envelope().Epoch && e.Envelope().Seq > base {
			return false
		}
	}
	return true
}

func (m *model) claim(t *rapid.T) {
	cs, err := m.h.Store.Claim(t.Context(), ledger.ClaimRequest{
		Worker: fmt.Sprintf("w%d", testCount.Add(1)), Queues: []string{m.queue}, Limit: 9, TTL: modelTTL,
	})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	for _, r := range m.runs {
		must, may := r.due(m.now)
		i := slices.IndexFunc(cs, func(c ledger.Claim) bool { return c.Run.ID == r.id })
		if i < 0 && must || i >= 0 && !may {
			t.Fatalf("run %s in state %s: claimed %v, must %v, may %v", r.id, r.state, i >= 0, must, may)
		}
		if i >= 0 {
			m.taken(t, r, cs[i])
		}
	}
}

func (m *model) taken(t *rapid.T, r *modelRun, c ledger.Claim) {
	r.epoch++
	kind := ledger.ClaimTakeover
	if r.clean {
		r.rebase()
		switch {
		case r.state.Ended():
			kind = ledger.ClaimSettle
		case r.bases[r.epoch] == 0:
			kind = ledger.ClaimFresh
		default:
			kind = ledger.ClaimResume
		}
		if c.Base.Seq != r.bases[r.epoch] {
			t.Fatalf("run %s: base %d, want %d", r.id, c.Base.Seq, r.bases[r.epoch])
		}
	}
	if r.state == ledger.Parked && r.wake >= 0 && r.wake <= m.now {
		if n := len(c.Facts); n == 0 || c.Facts[n-1].Type != "timer_fired" {
			t.Fatalf("run %s: facts %v, want the timer's", r.id, types(c.Facts))
		}
		r.facts = append(r.facts, c.Facts[len(c.Facts)-1].ID)
	}
	if c.Kind != kind || c.Lease.Epoch != r.epoch {
		t.Fatalf("run %s: kind %d epoch %d, want %d and %d", r.id, c.Kind, c.Lease.Epoch, kind, r.epoch)
	}
	if r.state == ledger.Queued || r.state == ledger.Parked {
		r.state = ledger.Running
	}
	if r.state.Ended() {
		r.quiet = m.now // passed by the next tick, or by real time
	}
	r.until, r.wake, r.clean = m.now+modelTTL, -1, false
	a := &actor{t: t, h: m.h, run: c.Run, lease: c.Lease, worker: c.Lease.Worker, seen: map[events.ID]bool{}, facts: c.Facts, seq: c.Base.Seq, prev: c.Base.Hash}
	m.holders = append(m.holders, &modelHolder{actor: a, run: r, based: kind != ledger.ClaimTakeover})
}

func (m *model) signal(t *rapid.T) {
	r := rapid.SampledFrom(m.runs).Draw(t, "run")
	r.facts = append(r.facts, m.h.signal(t, r.id, "x"))
}

func (m *model) cancel(t *rapid.T) {
	r := rapid.SampledFrom(m.runs).Draw(t, "run")
	_, err := m.h.Store.Cancel(t.Context(), r.id, "ann", "")
	if errors.Is(err, ledger.ErrEnded) != r.state.Ended() || err != nil && !r.state.Ended() {
		t.Fatalf("cancel in state %s: %v", r.state, err)
	}
	if r.state != ledger.Cancelling && !r.state.Ended() {
		fs := pendingOf(t, m.h, r.id)
		r.facts = append(r.facts, fs[len(fs)-1].ID)
		r.state, r.wake = ledger.Cancelling, -1
	}
}

// holder draws one, dead or alive.
func (m *model) holder(t *rapid.T) *modelHolder {
	if len(m.holders) == 0 {
		t.Skip("no holder")
	}
	a := rapid.SampledFrom(m.holders).Draw(t, "holder")
	a.t = t
	return a
}

func (a *modelHolder) live(now time.Duration) bool {
	return a.lease.Epoch == a.run.epoch && !a.run.lapsed(now)
}

// record numbers an event or what facts the holder knows of.
func (m *model) record(t *rapid.T) {
	a := m.holder(t)
	if !a.based {
		t.Skip("no base")
	}
	if len(a.facts) > 0 {
		a.absorb(a.facts...)
		a.facts = nil
		return
	}
	a.note(events.TurnStarted{Turn: len(a.prefix) + 1})
}

// arrive is the projector with one event of whoever's.
func (m *model) arrive(t *rapid.T) {
	a := m.holder(t)
	if len(a.prefix) == 0 {
		t.Skip("nothing under way")
	}
	e := rapid.SampledFrom(a.prefix).Draw(t, "event")
	if _, there := a.run.archive[e.Envelope().Seq]; there || !a.run.valid(e) {
		t.Skip("nothing to insert")
	}
	m.h.arrive(t, e)
	a.run.archive[e.Envelope().Seq] = e
}

func (m *model) heartbeat(t *rapid.T) {
	a := m.holder(t)
	b := a.beat()[0]
	held := a.lease.Epoch == a.run.epoch && a.run.until >= 0
	if b.Held != held || b.Cancelling != (held && a.run.state == ledger.Cancelling) {
		t.Fatalf("beat %+v, held %v in state %s", b, held, a.run.state)
	}
	if held {
		a.run.until = m.now + modelTTL
		a.facts = b.Facts
	}
}

func (m *model) base(t *rapid.T) {
	a := m.holder(t)
	b, err := m.h.Store.Base(t.Context(), a.lease)
	if errors.Is(err, ledger.ErrFenced) != !a.live(m.now) || err != nil && a.live(m.now) {
		t.Fatalf("base, live %v: %v", a.live(m.now), err)
	}
	if err != nil {
		return
	}
	if !a.based {
		a.run.rebase()
		a.based, a.seq, a.prev, a.facts = true, b.Seq, b.Hash, b.Facts
	}
	a.run.drop()
	if b.Seq != a.run.bases[a.lease.Epoch] {
		t.Fatalf("base %d, want %d", b.Seq, a.run.bases[a.lease.Epoch])
	}
}

// barrier carries everything the holder has not carried yet.
func (m *model) barrier(name string) func(*rapid.T) {
	return func(t *rapid.T) {
		a := m.holder(t)
		if !a.based {
			t.Skip("no base")
		}
		r := a.run
		if name == "finish" && !r.ends(a) {
			a.note(events.RunFinished{StoppedBy: events.StoppedByFinish})
		}
		live := a.live(m.now)
		err := barriersOf(a.actor)[name](a.lease, a.prefix)
		if errors.Is(err, ledger.ErrFenced) != !live {
			t.Fatalf("%s, live %v: %v", name, live, err)
		}
		if !live {
			return
		}
		for _, e := range a.prefix {
			r.archive[e.Envelope().Seq] = e
		}
		appended := a.seq > r.bases[a.lease.Epoch]
		a.prefix = nil
		r.drop()
		if want := r.allows(name); (err == nil) != want {
			t.Fatalf("%s in state %s with %d facts: %v", name, r.state, len(r.facts), err)
		} else if !want || name == "flush" {
			return
		}
		switch name {
		case "park":
			r.state = ledger.Parked
		case "hand over":
			if r.state == ledger.Running {
				r.state = ledger.Queued
			}
		case "finish":
			if !r.state.Ended() || appended {
				r.quiet = -1
			}
			r.state = ledger.Finished
		case "release":
			if appended {
				r.quiet = -1
			}
		}
		r.until, r.clean = -1, true
		m.holders = slices.DeleteFunc(m.holders, func(o *modelHolder) bool { return o == a })
	}
}

func (r *modelRun) ends(a *modelHolder) bool {
	is := func(e events.Sealed) bool { return events.Terminal(e.Envelope().Type) }
	for _, e := range r.archive {
		if is(e) {
			return true
		}
	}
	return slices.ContainsFunc(a.prefix, is)
}

// allows reports whether a live holder's barrier does its own part.
func (r *modelRun) allows(name string) bool {
	switch name {
	case "park":
		return r.state == ledger.Running && len(r.facts) == 0
	case "hand over":
		return !r.state.Ended()
	case "release":
		return r.state.Ended()
	}
	return true
}
