package ledgertest

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var claimTests = []conformance{
	{"concurrent workers take each run once", testConcurrentClaims},
	{"priority, then due time", testClaimOrder},
	{"not before it is due", testDue},
	{"only from its queues and up to the limit", testQueuesAndLimit},
	{"only with the capabilities of the run", testCapabilities},
	{"whoever cannot be taken does not stand in the way", testClaimGoesPast},
	{"a live lease is not taken, a lapsed one is, and epochs grow", testLapse},
	{"a heartbeat keeps a lease", testHeartbeatKeeps},
	{"a heartbeat renews a lapsed lease that nobody took", testHeartbeatRenews},
	{"a heartbeat tells of a lost lease and does not touch it", testHeartbeatLost},
	{"one heartbeat for many leases", testHeartbeatMany},
	{"a timer wakes a run with a fact", testTimer},
	{"any worker records the facts of a parked run", testParkedFacts},
	{"a run without a capable worker waits for one", testNoCapableWorker},
	{"a run handed over is taken at once", testHandover},
	{"an ended run with facts is settled", testSettle},
	{"a settle claim that records nothing backs off", testSettleBackoff},
	{"facts come in insertion order and once", testFactOrder},
}

func claimIn(t tb, h Harness, queue string, limit int, capabilities ...string) []ledger.Claim {
	t.Helper()
	cs, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{Worker: "w", Queues: []string{queue}, Limit: limit, TTL: leaseTTL, Capabilities: capabilities})
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return cs
}

func submitWith(t tb, h Harness, change func(*ledger.Submission)) ledger.Run {
	t.Helper()
	s := submission(t)
	change(&s)
	r, _, err := h.Store.Submit(t.Context(), s)
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return r
}

// hatchet-dev/hatchet#4130
// dbos-inc/dbos-transact-java#491
func testConcurrentClaims(t *testing.T, h Harness) {
	const runs, workers = 40, 64
	for range runs {
		submitWith(t, h, func(s *ledger.Submission) { s.Queue = "q" })
	}
	var mu sync.Mutex
	taken := map[events.RunID]int{}
	together(workers, func(int) {
		cs, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{Worker: "w", Limit: 2, TTL: leaseTTL})
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, c := range cs {
			taken[c.Run.ID]++
			if c.Lease.Epoch != 1 {
				t.Errorf("epoch %d", c.Lease.Epoch)
			}
		}
	})
	// A worker may have found every row locked that it looked at; nobody took one twice.
	for _, c := range claimIn(t, h, "q", runs) {
		taken[c.Run.ID]++
	}
	if len(taken) != runs {
		t.Errorf("%d runs taken, want %d", len(taken), runs)
	}
	for id, n := range taken {
		if n != 1 {
			t.Errorf("run %s taken %d times", id, n)
		}
	}
}

func testClaimOrder(t *testing.T, h Harness) {
	now := time.Now()
	var want []events.RunID
	at := func(priority int, due time.Duration) events.RunID {
		return submitWith(t, h, func(s *ledger.Submission) {
			s.Queue, s.Priority, s.DueAt = "q", priority, now.Add(due)
		}).ID
	}
	third, second, fourth, first := at(0, -3*time.Hour), at(1, -time.Hour), at(0, -2*time.Hour), at(1, -2*time.Hour)
	want = []events.RunID{first, second, third, fourth}
	var got []events.RunID
	for range want {
		for _, c := range claimIn(t, h, "q", 1) {
			got = append(got, c.Run.ID)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func testDue(t *testing.T, h Harness) {
	r := submitWith(t, h, func(s *ledger.Submission) { s.DueAt = time.Now().Add(time.Hour) })
	if tryTake(t, h, r) != nil {
		t.Fatal("claimed before it was due")
	}
	h.Advance(time.Hour + time.Second)
	take(t, h, r)
}

func testQueuesAndLimit(t *testing.T, h Harness) {
	for range 3 {
		submitWith(t, h, func(s *ledger.Submission) { s.Queue = "q" })
	}
	if cs := claimIn(t, h, "other", 9); len(cs) != 0 {
		t.Errorf("%d claims from another queue", len(cs))
	}
	if cs := claimIn(t, h, "q", 2); len(cs) != 2 {
		t.Errorf("%d claims, want the limit of 2", len(cs))
	}
	cs, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{Worker: "w", TTL: leaseTTL, Limit: 9})
	if err != nil || len(cs) != 1 || cs[0].Kind != ledger.ClaimFresh || cs[0].Base.Seq != 0 || cs[0].Base.Hash != events.Genesis(cs[0].Run.ID) {
		t.Errorf("from every queue: %+v, %v", cs, err)
	}
}

// riverqueue/river#1258: a sweep that looks at the first page alone finds nothing
// for ever once that page is full of what it cannot take.
func testClaimGoesPast(t *testing.T, h Harness) {
	var queue string
	for range 60 {
		queue = submitWith(t, h, func(s *ledger.Submission) {
			if s.Requires = []string{"a tool of nobody"}; queue != "" {
				s.Queue = queue
			}
		}).Queue
	}
	last := submitWith(t, h, func(s *ledger.Submission) { s.Queue = queue })
	if cs := claimIn(t, h, queue, 1); len(cs) != 1 || cs[0].Run.ID != last.ID {
		t.Errorf("behind 60 runs that need another worker: claimed %d", len(cs))
	}
}

func testCapabilities(t *testing.T, h Harness) {
	r := submitWith(t, h, func(s *ledger.Submission) { s.Requires = []string{"mail", "refund"} })
	for _, has := range [][]string{nil, {"mail"}, {"refunds", "mail"}} {
		if cs := claimIn(t, h, r.Queue, 1, has...); len(cs) != 0 {
			t.Errorf("claimed with %v", has)
		}
	}
	if cs := claimIn(t, h, r.Queue, 1, "x", "refund", "mail"); len(cs) != 1 {
		t.Fatal("not claimed by a capable worker")
	}
	h.Advance(leaseTTL + time.Second)
	if cs := claimIn(t, h, r.Queue, 1, "mail"); len(cs) != 0 {
		t.Error("taken over without the capabilities")
	}
}

// dbos-inc/dbos-transact-py#742
func testLapse(t *testing.T, h Harness) {
	a := start(t, h)
	if a.lease.Epoch != 1 || a.lease.Remaining > leaseTTL || a.lease.Remaining < leaseTTL-slack {
		t.Errorf("lease %+v", a.lease)
	}
	h.Advance(leaseTTL - slack) // real time passes too
	if tryTake(t, h, a.run) != nil {
		t.Fatal("a live lease was taken")
	}
	h.Advance(slack + time.Second)
	cs := claimIn(t, h, a.run.Queue, 1)
	if len(cs) != 1 || cs[0].Kind != ledger.ClaimTakeover || cs[0].Lease.Epoch != 2 || cs[0].LastWorker != a.worker || cs[0].Run.State != ledger.Running {
		t.Errorf("claims %+v", cs)
	}
}

func testTimer(t *testing.T, h Harness) {
	a := start(t, h)
	a.parkOn(ledger.Parking{Reason: events.ParkTimer, After: time.Minute})
	due := h.state(t, a.run.ID).WakeAt
	if tryTake(t, h, a.run) != nil {
		t.Fatal("woken before its time")
	}
	h.Advance(time.Minute + time.Second)
	b := take(t, h, a.run)
	if len(b.facts) != 1 || !payload[events.TimerFired](t, &b.facts[0]).Due.Equal(due) {
		t.Fatalf("facts %v", b.facts)
	}
	b.parkOn(ledger.Parking{Reason: events.ParkSignal}) // never by itself
	h.Advance(1000 * time.Hour)
	if tryTake(t, h, a.run) != nil {
		t.Error("woken without a reason")
	}
}

// signal inserts a fact as somebody outside does.
func (h Harness) signal(t tb, run events.RunID, name string) events.ID {
	t.Helper()
	id := testIDs.Event()
	data, err := testSeal.JSON(events.SignalReceived{Name: name})
	if err != nil {
		t.Fatalf("signal: %v", err)
	}
	h.sql(t, `INSERT INTO facts (run_id, event_id, type, version, data, created_at) VALUES ($1, $2, 'signal_received', 1, $3, $4)`, run, id, data.Bytes(), time.Now())
	return id
}

func testParkedFacts(t *testing.T, h Harness) {
	r := submitWith(t, h, func(s *ledger.Submission) { s.Requires = []string{"mail"} })
	c := claimIn(t, h, r.Queue, 1, "mail")[0]
	if err := h.Store.Park(t.Context(), c.Lease, nil, ledger.Parking{Reason: events.ParkSignal}); err != nil {
		t.Fatal(err)
	}
	if cs := claimIn(t, h, r.Queue, 1); len(cs) != 0 {
		t.Fatal("claimed with nothing to do")
	}
	h.signal(t, r.ID, "go")
	cs := claimIn(t, h, r.Queue, 1)
	if len(cs) != 1 || len(cs[0].Facts) != 1 || cs[0].Run.State != ledger.Running {
		t.Fatalf("claims %+v", cs)
	}
}

func testNoCapableWorker(t *testing.T, h Harness) {
	r := submitWith(t, h, func(s *ledger.Submission) { s.Requires = []string{"mail"} })
	c := claimIn(t, h, r.Queue, 1, "mail")[0]
	if err := h.Store.Park(t.Context(), c.Lease, nil, ledger.Parking{Reason: events.ParkNoCapableWorker}); err != nil {
		t.Fatal(err)
	}
	if cs := claimIn(t, h, r.Queue, 1); len(cs) != 0 {
		t.Error("claimed by a worker that is not capable")
	}
	if cs := claimIn(t, h, r.Queue, 1, "mail"); len(cs) != 1 {
		t.Error("not claimed by the worker it waits for")
	}
}

func testHandover(t *testing.T, h Harness) {
	a := start(t, h)
	a.note(events.TurnStarted{Turn: 1})
	h.signal(t, a.run.ID, "late") // a pending fact does not keep a worker from shutting down
	if err := h.Store.Park(t.Context(), a.lease, a.prefix, ledger.Parking{Reason: events.ParkHandover, After: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if r := h.state(t, a.run.ID); r.State != ledger.Queued || !r.LeaseUntil.IsZero() {
		t.Errorf("run %+v", r)
	}
	c := claimIn(t, h, a.run.Queue, 1)[0]
	if c.Kind != ledger.ClaimResume || c.Base.Seq != 1 || c.Base.Hash != a.prev || c.Lease.Epoch != 2 {
		t.Errorf("claim %+v", c)
	}
	if d := cmp.Diff([]events.Type{"signal_received"}, types(c.Facts)); d != "" {
		t.Error(d)
	}
}

func testSettle(t *testing.T, h Harness) {
	a := start(t, h)
	a.finish(ledger.Finished)
	if tryTake(t, h, a.run) != nil {
		t.Fatal("an ended run without facts was claimed")
	}
	h.signal(t, a.run.ID, "late")
	cs := claimIn(t, h, a.run.Queue, 1) // whatever the capabilities
	if len(cs) != 1 || cs[0].Kind != ledger.ClaimSettle || cs[0].Run.State != ledger.Finished || cs[0].Base.Seq != a.seq {
		t.Fatalf("claims %+v", cs)
	}
	b := *a
	b.lease = cs[0].Lease
	b.absorb(cs[0].Facts...)
	for range 2 { // the answer to the first COMMIT was lost
		if err := h.Store.Release(t.Context(), b.lease, b.prefix); err != nil {
			t.Fatal(err)
		}
	}
	if r := h.state(t, a.run.ID); r.State != ledger.Finished || !r.LeaseUntil.IsZero() || len(a.pending()) != 0 {
		t.Errorf("run %+v with facts %v", r, a.pending())
	}
	// It recorded something, so the next one is settled at once.
	h.signal(t, a.run.ID, "later")
	if tryTake(t, h, a.run) == nil {
		t.Error("a settle claim that recorded something backs off")
	}
}

func testSettleBackoff(t *testing.T, h Harness) {
	a := start(t, h)
	a.finish(ledger.Finished)
	h.signal(t, a.run.ID, "late")
	wait := time.Duration(0)
	for i := range 4 {
		c := claimIn(t, h, a.run.Queue, 1)
		if len(c) != 1 {
			t.Fatalf("claim %d failed after %s", i, wait)
		}
		if err := h.Store.Release(t.Context(), c[0].Lease, nil); err != nil {
			t.Fatal(err)
		}
		wait = 5 * time.Second << i
		h.Advance(wait - slack/2) // real time passes too
		if len(claimIn(t, h, a.run.Queue, 1)) != 0 {
			t.Fatalf("claim %d: taken again within %s", i, wait)
		}
		h.Advance(slack/2 + time.Second)
	}
}

func testFactOrder(t *testing.T, h Harness) {
	a := start(t, h)
	var want, got []events.ID
	for range 5 {
		want = append(want, h.signal(t, a.run.ID, "x"))
	}
	for _, f := range a.beat()[0].Facts {
		got = append(got, f.ID)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// The first two are recorded; they arrive by the journal, and a barrier
	// deletes them whoever put them there.
	for _, f := range a.pending()[:2] {
		a.absorb(f)
	}
	h.arrive(t, a.prefix[0])
	fs, err := h.Store.Flush(t.Context(), a.lease, a.prefix[1:])
	if err != nil {
		t.Fatal(err)
	}
	got = nil
	for _, f := range fs {
		got = append(got, f.ID)
	}
	if d := cmp.Diff(want[2:], got); d != "" {
		t.Error(d)
	}
}
