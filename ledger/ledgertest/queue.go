package ledgertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

var queueTests = []conformance{
	{"a tenant with many runs does not delay another's", testFairness},
	{"a tenant that was away has saved nothing up", testNoCredit},
	{"priority orders within a tenant only", testPriorityWithinTenant},
	{"tenants that compete get equally much from many workers", testFairWorkers},
	{"what is not due or held back hides nothing", testLanesBehind},
	{"a limit holds over concurrent claims", testLimitTogether},
	{"a limit per key", testLimitPerKey},
	{"a rate counts starts in a window", testRate},
	{"what has begun is not refused, and counts", testLimitBegun},
	{"a place that nobody takes over is free after a while", testLimitLapsed},
	{"a paused queue starts nothing and lets go on what has begun", testPausedQueue},
	{"numbers of a queue", testQueueStats},
	{"a sweep pages past runs that it cannot take", testPastUntakeable},
}

// flood queues n runs of a tenant, as many clients would, in few statements.
func (h Harness) flood(t tb, queue, tenant string, n int) {
	t.Helper()
	columns := []string{"id", "tenant", "queue", "agent", "root_id", "client_key", "input_mac", "input", "created_at", "due_at", "state"}
	at := time.Now().Add(-time.Hour)
	rows := make([][]any, n)
	for i := range rows {
		id := testIDs.Run()
		rows[i] = []any{id, tenant, queue, "clerk", id, fmt.Sprint("flood-", testCount.Add(1)), []byte("mac"), rawObject, at, at.Add(time.Duration(i) * time.Microsecond), ledger.Queued}
	}
	err := h.DB.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.InsertMany(ctx, "runs", columns, rows, "ON CONFLICT DO NOTHING")
		return err
	})
	if err != nil {
		t.Fatalf("flood: %v", err)
	}
}

var rawObject = json.RawMessage(`{}`)

func tenantsOf(cs []ledger.Claim) map[string]int {
	n := map[string]int{}
	for _, c := range cs {
		n[c.Run.Tenant]++
	}
	return n
}

func testFairness(t *testing.T, h Harness) {
	h.flood(t, "q", "big", 10_000)
	claimIn(t, h, "q", 16)
	one := submitWith(t, h, func(s *ledger.Submission) { s.Queue, s.Tenant = "q", "small" })
	for slot := 1; ; slot++ {
		if cs := claimIn(t, h, "q", 1); cs[0].Run.ID == one.ID {
			break
		}
		if slot == 4 {
			t.Fatal("the single run of the other tenant is not among the next 4")
		}
	}
	// In one claim too.
	two := submitWith(t, h, func(s *ledger.Submission) { s.Queue, s.Tenant = "q", "tiny" })
	found := false
	for _, c := range claimIn(t, h, "q", 4) {
		found = found || c.Run.ID == two.ID
	}
	if !found {
		t.Error("a claim of 4 leaves the single run of a tenant behind")
	}
	// And without one tenant to compare with, nothing is written down.
	claimIn(t, h, "q", 1)
	claimIn(t, h, "q", 1)
	if n := h.count(t, `SELECT count(*) FROM tenant_shares`); n != 0 {
		t.Errorf("%d shares are kept for a tenant that is alone", n)
	}
}

func testNoCredit(t *testing.T, h Harness) {
	h.flood(t, "q", "a", 200)
	h.flood(t, "q", "b", 200)
	if n := tenantsOf(claimIn(t, h, "q", 100)); n["a"] != 50 || n["b"] != 50 {
		t.Errorf("claimed %v, want 50 each", n)
	}
	h.flood(t, "q", "late", 200)
	if n := tenantsOf(claimIn(t, h, "q", 30)); n["a"] < 9 || n["b"] < 9 || n["late"] < 9 {
		t.Errorf("with one more tenant: %v, want about 10 each", n)
	}
}

func testPriorityWithinTenant(t *testing.T, h Harness) {
	for i := range 6 {
		for _, tenant := range []string{"loud", "quiet"} {
			submitWith(t, h, func(s *ledger.Submission) {
				s.Queue, s.Tenant, s.Priority = "q", tenant, i
				if tenant == "loud" {
					s.Priority += 100
				}
			})
		}
	}
	cs := claimIn(t, h, "q", 6)
	if n := tenantsOf(cs); n["loud"] != 3 || n["quiet"] != 3 {
		t.Errorf("claimed %v: priority of one tenant pushed the other aside", n)
	}
	for _, c := range cs {
		if p := c.Run.Priority % 100; p < 3 {
			t.Errorf("a run of priority %d was claimed before a higher one of its tenant", c.Run.Priority)
		}
	}
}

func testFairWorkers(t *testing.T, h Harness) {
	tenants := []string{"a", "b", "c", "d"}
	for i, n := range []int{400, 200, 200, 60} {
		h.flood(t, "q", tenants[i], n)
	}
	var mu sync.Mutex
	got := map[string]int{}
	together(12, func(i int) {
		for range 5 {
			cs, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{Worker: fmt.Sprint("w", i), Queues: []string{"q"}, Limit: 3, TTL: leaseTTL})
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			for k, n := range tenantsOf(cs) {
				got[k] += n
			}
			mu.Unlock()
		}
	})
	total := 0
	for _, n := range got {
		total += n
	}
	for _, tenant := range tenants {
		// Claims that run at the same time read the same virtual times, so the
		// shares are equal but for what 12 of them may take at once.
		if n := got[tenant]; n < total/4-30 || n > total/4+30 {
			t.Errorf("of %d, tenant %s got %d: %v", total, tenant, n, got)
		}
	}
}

func testLanesBehind(t *testing.T, h Harness) {
	want := submitWith(t, h, func(s *ledger.Submission) { s.Queue, s.Tenant, s.Priority = "q", "a", -1 })
	submitWith(t, h, func(s *ledger.Submission) { s.Queue, s.Tenant, s.DueAt = "q", "a", time.Now().Add(time.Hour) })
	submitWith(t, h, func(s *ledger.Submission) { s.Queue, s.Tenant, s.Requires = "q", "a", []string{"mail"} })
	held := submitWith(t, h, func(s *ledger.Submission) { s.Queue, s.Tenant = "q", "a" })
	if _, _, err := h.Store.Pause(t.Context(), held.ID, "ann", "wait"); err != nil {
		t.Fatal(err)
	}
	if cs := claimIn(t, h, "q", 9); len(cs) != 1 || cs[0].Run.ID != want.ID {
		t.Errorf("claims %+v", cs)
	}
}

func (h Harness) limit(t tb, queue string, l ledger.QueueLimit) {
	t.Helper()
	if err := h.Store.LimitQueue(t.Context(), queue, l, "ann"); err != nil {
		t.Fatalf("limit: %v", err)
	}
}

func testLimitTogether(t *testing.T, h Harness) {
	h.flood(t, "q", "a", 100)
	h.flood(t, "q", "b", 100)
	h.limit(t, "q", ledger.QueueLimit{MaxRunning: 7})
	var mu sync.Mutex
	var all []ledger.Claim
	together(16, func(i int) {
		cs, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{Worker: fmt.Sprint("w", i), Queues: []string{"q"}, Limit: 2, TTL: leaseTTL})
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, cs...)
	})
	all = append(all, claimIn(t, h, "q", 10)...)
	if len(all) != 7 {
		t.Fatalf("%d runs are held in a queue that allows 7", len(all))
	}
	// triggerdotdev/trigger.dev#1566, #2561: the places are counted from the
	// leases themselves, so whatever ends one frees its place.
	if err := h.Store.Park(t.Context(), all[0].Lease, nil, ledger.Parking{Reason: events.ParkSignal}); err != nil {
		t.Fatal(err)
	}
	if cs := claimIn(t, h, "q", 10); len(cs) != 1 {
		t.Errorf("%d claims after one run had parked, want 1", len(cs))
	}
	h.limit(t, "q", ledger.QueueLimit{})
	if cs := claimIn(t, h, "q", 10); len(cs) != 10 {
		t.Errorf("%d claims without a limit, want 10", len(cs))
	}
}

func testLimitPerKey(t *testing.T, h Harness) {
	h.limit(t, "q", ledger.QueueLimit{MaxPerKey: 2, MaxRunning: 8})
	for range 5 {
		for _, key := range []string{"x", "y", ""} {
			submitWith(t, h, func(s *ledger.Submission) { s.Queue, s.ConcurrencyKey = "q", key })
		}
	}
	n := map[string]int{}
	for range 3 {
		for _, c := range claimIn(t, h, "q", 4) {
			n[c.Run.ConcurrencyKey]++
		}
	}
	if n["x"] != 2 || n["y"] != 2 || n[""] != 4 {
		t.Errorf("claimed by key: %v, want 2, 2 and 4 without a key", n)
	}
}

func testRate(t *testing.T, h Harness) {
	h.flood(t, "q", "a", 50)
	h.limit(t, "q", ledger.QueueLimit{Rate: 3, Per: time.Minute})
	var first []ledger.Claim
	for range 3 {
		first = append(first, claimIn(t, h, "q", 2)...)
	}
	if len(first) != 3 {
		t.Fatalf("%d starts, want 3 in a minute", len(first))
	}
	for _, c := range first { // that they end gives nothing back
		if err := h.Store.Park(t.Context(), c.Lease, nil, ledger.Parking{Reason: events.ParkSignal}); err != nil {
			t.Fatal(err)
		}
	}
	h.Advance(50 * time.Second)
	if cs := claimIn(t, h, "q", 5); len(cs) != 0 {
		t.Errorf("%d starts within the minute", len(cs))
	}
	h.Advance(11 * time.Second)
	if cs := claimIn(t, h, "q", 5); len(cs) != 3 {
		t.Errorf("%d starts in the next minute, want 3", len(cs))
	}
	if n := h.count(t, `SELECT count(*) FROM queue_starts`); n != 3 {
		t.Errorf("%d starts are kept, want those of the last minute", n)
	}
}

func testLimitBegun(t *testing.T, h Harness) {
	h.limit(t, "q", ledger.QueueLimit{MaxRunning: 1, Rate: 1, Per: time.Hour})
	h.flood(t, "q", "a", 5)
	a := claimIn(t, h, "q", 5)[0]
	if err := h.Store.Park(t.Context(), a.Lease, nil, ledger.Parking{Reason: events.ParkHandover}); err != nil {
		t.Fatal(err)
	}
	cs := claimIn(t, h, "q", 5)
	if len(cs) != 1 || cs[0].Run.ID != a.Run.ID {
		t.Fatalf("after a handover: %+v", cs)
	}
	h.Advance(leaseTTL + time.Second)
	h.limit(t, "q", ledger.QueueLimit{MaxRunning: 1})
	if cs = claimIn(t, h, "q", 5); len(cs) != 1 || cs[0].Run.ID != a.Run.ID || cs[0].Kind != ledger.ClaimTakeover {
		t.Fatalf("after a crash: %+v", cs)
	}
}

func testLimitLapsed(t *testing.T, h Harness) {
	h.limit(t, "q", ledger.QueueLimit{MaxRunning: 1})
	submitWith(t, h, func(s *ledger.Submission) { s.Queue, s.Requires = "q", []string{"mail"} })
	if cs := claimIn(t, h, "q", 5, "mail"); len(cs) != 1 {
		t.Fatal("not claimed")
	}
	h.flood(t, "q", "a", 2)
	h.Advance(leaseTTL + 30*time.Second)
	if cs := claimIn(t, h, "q", 5); len(cs) != 0 {
		t.Fatalf("%d claims while a run waits to be taken over", len(cs))
	}
	h.Advance(time.Minute)
	if cs := claimIn(t, h, "q", 5); len(cs) != 1 {
		t.Errorf("%d claims: the place of a run that nobody takes over has leaked", len(cs))
	}
}

func testPausedQueue(t *testing.T, h Harness) {
	h.flood(t, "q", "a", 3)
	h.flood(t, "other", "a", 1)
	a := claimIn(t, h, "q", 1)[0]
	p, done, err := h.Store.PauseQueue(t.Context(), "q", "ann", "the provider is down")
	if err != nil || !done || p.By != "ann" {
		t.Fatalf("pause: %+v %v %v", p, done, err)
	}
	if p, done, err := h.Store.PauseQueue(t.Context(), "q", "bob", "me too"); err != nil || done || p.By != "ann" {
		t.Errorf("second pause: %+v %v %v; the first stands", p, done, err)
	}
	if cs := claimIn(t, h, "q", 9); len(cs) != 0 {
		t.Errorf("%d claims from a paused queue", len(cs))
	}
	if cs := claimIn(t, h, "other", 9); len(cs) != 1 {
		t.Errorf("%d claims from another queue, want 1", len(cs))
	}
	h.Advance(leaseTTL + time.Second)
	if cs := claimIn(t, h, "q", 9); len(cs) != 1 || cs[0].Run.ID != a.Run.ID {
		t.Errorf("what had begun: %+v", cs)
	}
	if err := h.Store.ResumeQueue(t.Context(), "q", "ann", "it is back"); err != nil {
		t.Fatal(err)
	}
	if err := h.Store.ResumeQueue(t.Context(), "q", "ann", "again"); !errors.Is(err, ledger.ErrNotPaused) {
		t.Errorf("resume of what is not paused: %v", err)
	}
	if cs := claimIn(t, h, "q", 9); len(cs) != 2 {
		t.Errorf("%d claims after the resume, want 2", len(cs))
	}
	acts, err := h.Store.Acts(t.Context(), "queue", "q", 0)
	if err != nil || len(acts) != 2 || acts[0].Verb != "resume" || acts[1].Verb != "pause" || acts[1].By != "ann" || acts[1].Detail != "the provider is down" {
		t.Errorf("acts %+v, %v", acts, err)
	}
}

func testQueueStats(t *testing.T, h Harness) {
	h.flood(t, "q", "a", 3)
	submitWith(t, h, func(s *ledger.Submission) { s.Queue, s.DueAt = "q", time.Now().Add(time.Hour) })
	h.flood(t, "z", "b", 1)
	h.limit(t, "q", ledger.QueueLimit{MaxRunning: 5, Rate: 2, Per: time.Second})
	cs := claimIn(t, h, "q", 2)
	if err := h.Store.Park(t.Context(), cs[0].Lease, nil, ledger.Parking{Reason: events.ParkSignal}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := h.Store.Pause(t.Context(), cs[0].Run.ID, "ann", "x"); err != nil {
		t.Fatal(err)
	}
	all, err := h.Store.QueueStats(t.Context(), "")
	if err != nil || len(all) != 2 || all[0].Queue != "q" || all[1].Queue != "z" {
		t.Fatalf("stats %+v, %v", all, err)
	}
	q := all[0]
	if q.Queued != 2 || q.Due != 1 || q.Tenants != 1 || q.Running != 1 || q.Parked != 1 || q.Held != 1 || q.Limit.MaxRunning != 5 || q.Limit.Per != time.Second {
		t.Errorf("stats %+v", q)
	}
	if q.OldestDue.IsZero() || q.OldestLease.IsZero() || !q.LapsedLease.IsZero() {
		t.Errorf("times %+v", q)
	}
	// riverqueue/river#1258: the oldest lease is there to be seen.
	h.Advance(leaseTTL + time.Second)
	one, err := h.Store.QueueStats(t.Context(), "q")
	if err != nil || len(one) != 1 || one[0].LapsedLease.IsZero() {
		t.Errorf("stats %+v, %v", one, err)
	}
}

// riverqueue/river#1258: 5,133 jobs were shown as running for up to 91 days,
// since the sweep did not get past those that it could not take.
func testPastUntakeable(t *testing.T, h Harness) {
	h.flood(t, "q", "a", 40)
	claimIn(t, h, "q", 40)
	h.sql(t, `UPDATE runs SET requires = $1 WHERE queue = 'q'`, []string{"gone"})
	last := submitWith(t, h, func(s *ledger.Submission) { s.Queue = "q" })
	h.Advance(time.Second)
	if cs := claimIn(t, h, "q", 1); len(cs) != 1 || cs[0].Run.ID != last.ID {
		t.Fatalf("claims %+v", cs)
	}
	h.Advance(2 * leaseTTL)
	if cs := claimIn(t, h, "q", 1); len(cs) != 1 || cs[0].Run.ID != last.ID {
		t.Errorf("the one lapsed run that can be taken was not found behind 40 that cannot: %+v", cs)
	}
}
