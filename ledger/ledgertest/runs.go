package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var runTests = []conformance{
	{"a submission asked twice is the same run", testSubmitTwice},
	{"of many submissions with one key one is the run", testSubmitRace},
	{"a client key with another input is refused", testClientKeyConflict},
	{"a client key is a tenant's own", testClientKeyPerTenant},
	{"the database refuses the name of a tenant that no subject can carry", testTenantName},
	{"a submission comes back whole", testSubmissionComesBack},
	{"a submission must be complete", testIncompleteSubmission},
	{"an unknown run is not found", testUnknownRun},
	{"cancelling is recorded as a fact, once", testCancelFact},
	{"a queued run is cancelled", testCancelQueued},
	{"a parked run is cancelled", testCancelParked},
	{"an ended run is not cancelled", testCancelEnded},
}

func submission(t tb) ledger.Submission {
	t.Helper()
	input, err := testSeal.JSON(map[string]any{"ask": "hello", "n": 9007199254740993})
	if err != nil {
		t.Fatalf("input: %v", err)
	}
	name := fmt.Sprintf("run-%d", testCount.Add(1))
	return ledger.Submission{Tenant: "acme", Queue: name, Agent: "clerk", ClientKey: name, Input: input, InputMAC: []byte("mac")}
}

// mastra-ai/mastra#13629
func testSubmitTwice(t *testing.T, h Harness) {
	s := submission(t)
	first, existed, err := h.Store.Submit(t.Context(), s)
	if err != nil || existed {
		t.Fatalf("first: existed %v, %v", existed, err)
	}
	second, existed, err := h.Store.Submit(t.Context(), s)
	if err != nil || !existed {
		t.Fatalf("second: existed %v, %v", existed, err)
	}
	if d := cmp.Diff(first, second); d != "" {
		t.Error(d)
	}
}

func testSubmitRace(t *testing.T, h Harness) {
	s := submission(t)
	var mu sync.Mutex
	fresh, ids := 0, map[events.RunID]bool{}
	together(16, func(int) {
		r, existed, err := h.Store.Submit(t.Context(), s)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		ids[r.ID] = true
		if !existed {
			fresh++
		}
	})
	if fresh != 1 || len(ids) != 1 {
		t.Errorf("%d fresh, %d ids; want 1 and 1", fresh, len(ids))
	}
}

func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

func testClientKeyConflict(t *testing.T, h Harness) {
	s := submission(t)
	if _, _, err := h.Store.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	s.InputMAC = []byte("other")
	if _, _, err := h.Store.Submit(t.Context(), s); !errors.Is(err, ledger.ErrClientKeyConflict) {
		t.Errorf("error %v, want %v", err, ledger.ErrClientKeyConflict)
	}
}

func testClientKeyPerTenant(t *testing.T, h Harness) {
	s := submission(t)
	a, _, err := h.Store.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	s.Tenant, s.InputMAC = "globex", []byte("other")
	b, existed, err := h.Store.Submit(t.Context(), s)
	if err != nil || existed || a.ID == b.ID {
		t.Errorf("existed %v, same %v, %v", existed, a.ID == b.ID, err)
	}
}

func testTenantName(t *testing.T, h Harness) {
	for _, name := range []string{"a.b", "a b", "a>", "é", "a*", string(bytes.Repeat([]byte("a"), 65))} {
		s := submission(t)
		s.Tenant = name
		if _, _, err := h.Store.Submit(t.Context(), s); err == nil || errors.Is(err, ledger.ErrUnavailable) {
			t.Errorf("tenant %q: %v", name, err)
		}
	}
	s := submission(t)
	s.Tenant = "A-z_09" + string(bytes.Repeat([]byte("a"), 58))
	if _, _, err := h.Store.Submit(t.Context(), s); err != nil {
		t.Error(err)
	}
}

func testSubmissionComesBack(t *testing.T, h Harness) {
	s := submission(t)
	s.ID, s.Owner, s.SessionID, s.Parent, s.Root = testIDs.Run(), "o", "s", testIDs.Run(), testIDs.Run()
	s.Requires, s.Priority, s.Trace = []string{"a", "b"}, 3, "00-x"
	s.DueAt, s.Deadline = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
	s.ConcurrencyKey, s.MaxAttempts, s.Schedule = "k", 4, "nightly"
	s.Loop = mustSeal(t, map[string]any{"strategy": "revise", "validators": []string{"v"}})
	s.Prompt = mustSeal(t, map[string]any{"no_layers": true, "text": "Be kind."})
	if _, _, err := h.Store.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	got := h.state(t, s.ID)
	if got.CreatedAt.IsZero() {
		t.Error("no time of creation")
	}
	got.CreatedAt = time.Time{}
	want := ledger.Run{
		ID: s.ID, Root: s.Root, Parent: s.Parent, Tenant: s.Tenant, Queue: s.Queue, Agent: s.Agent, Owner: "o", SessionID: "s",
		ClientKey: s.ClientKey, Input: s.Input.Bytes(), Requires: s.Requires, Priority: 3, Trace: "00-x",
		DueAt: events.Timestamp(s.DueAt), Deadline: events.Timestamp(s.Deadline), State: ledger.Queued,
		ConcurrencyKey: "k", Attempt: 1, MaxAttempts: 4, Schedule: "nightly", Loop: s.Loop.Bytes(), Prompt: s.Prompt.Bytes(),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func testIncompleteSubmission(t *testing.T, h Harness) {
	for name, spoil := range map[string]func(*ledger.Submission){
		"tenant": func(s *ledger.Submission) { s.Tenant = "" },
		"queue":  func(s *ledger.Submission) { s.Queue = "" },
		"agent":  func(s *ledger.Submission) { s.Agent = "" },
		"key":    func(s *ledger.Submission) { s.ClientKey = "" },
		"input":  func(s *ledger.Submission) { s.Input = submissionless.Input },
		"mac":    func(s *ledger.Submission) { s.InputMAC = nil },
	} {
		s := submission(t)
		spoil(&s)
		if _, _, err := h.Store.Submit(t.Context(), s); err == nil {
			t.Errorf("accepted without %s", name)
		}
	}
}

var submissionless ledger.Submission

func testUnknownRun(t *testing.T, h Harness) {
	if _, err := h.Store.Run(t.Context(), testIDs.Run()); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("Run: %v", err)
	}
	if _, err := h.Store.Cancel(t.Context(), testIDs.Run(), "ann", ""); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("Cancel: %v", err)
	}
	if _, err := h.Store.Flush(t.Context(), ledger.Lease{RunID: testIDs.Run(), Epoch: 1}, nil); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("Flush: %v", err)
	}
}

func testCancelFact(t *testing.T, h Harness) {
	a := start(t, h)
	for range 2 {
		r, err := h.Store.Cancel(t.Context(), a.run.ID, "ann", "changed my mind")
		if err != nil || r.State != ledger.Cancelling || r.CancelBy != "ann" || r.CancelReason != "changed my mind" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	beats, err := h.Store.Heartbeat(t.Context(), a.lease.Worker, []ledger.Lease{a.lease})
	if err != nil {
		t.Fatal(err)
	}
	b := beats[0]
	if !b.Held || !b.Cancelling || b.CancelBy != "ann" || b.CancelReason != "changed my mind" || len(b.Facts) != 1 {
		t.Fatalf("beat %+v", b)
	}
	want := events.OperatorActed{Verb: "cancel", By: "ann", Detail: "changed my mind"}
	if d := cmp.Diff(want, payload[events.OperatorActed](t, &b.Facts[0])); d != "" {
		t.Error(d)
	}
	if err := h.Store.Park(t.Context(), a.lease, nil, ledger.Parking{Reason: events.ParkSignal}); !errors.Is(err, ledger.ErrFactsPending) {
		t.Errorf("a cancelling run parks: %v", err)
	}
}

func testCancelQueued(t *testing.T, h Harness) {
	s := submission(t)
	s.Requires, s.DueAt = []string{"tool-nobody-has"}, time.Now().Add(time.Hour)
	run, _, err := h.Store.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if tryTake(t, h, run) != nil {
		t.Fatal("claimed before it was due, without its capabilities")
	}
	if _, err := h.Store.Cancel(t.Context(), run.ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	a := take(t, h, run)
	if a.run.State != ledger.Cancelling || len(a.facts) != 1 {
		t.Errorf("claim %+v with facts %v", a.run.State, types(a.facts))
	}
	a.finish(ledger.Cancelled)
	if r := h.state(t, run.ID); r.State != ledger.Cancelled || r.EndedAt.IsZero() || !r.LeaseUntil.IsZero() {
		t.Errorf("run %+v", r)
	}
}

func testCancelParked(t *testing.T, h Harness) {
	a := start(t, h)
	a.parkOn(ledger.Parking{Reason: events.ParkTimer, After: time.Hour})
	if _, err := h.Store.Cancel(t.Context(), a.run.ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	if r := h.state(t, a.run.ID); r.State != ledger.Cancelling || r.ParkReason != "" || !r.WakeAt.IsZero() {
		t.Errorf("run %+v", r)
	}
	b := take(t, h, a.run)
	if d := cmp.Diff([]events.Type{"operator_acted"}, types(b.facts)); d != "" {
		t.Error(d)
	}
}

func testCancelEnded(t *testing.T, h Harness) {
	a := start(t, h)
	a.finish(ledger.Finished)
	if _, err := h.Store.Cancel(t.Context(), a.run.ID, "ann", ""); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("error %v, want %v", err, ledger.ErrEnded)
	}
	if fs := a.pending(); len(fs) != 0 {
		t.Errorf("facts %v", types(fs))
	}
}

// finish ends the actor's run.
func (a *actor) finish(s ledger.State) {
	a.t.Helper()
	if err := a.tryFinish(s); err != nil {
		a.t.Fatalf("finish: %v", err)
	}
}

func (a *actor) tryFinish(s ledger.State) error {
	a.t.Helper()
	a.absorb(a.facts...)
	end := ledger.Ending{State: s, StoppedBy: events.StoppedByFinish}
	switch s {
	case ledger.Cancelled:
		end.StoppedBy = events.StoppedByCancelled
		a.note(events.RunCancelled{By: "ann"})
	case ledger.Failed:
		end.StoppedBy, end.Error = events.StoppedByError, "broken"
		a.note(events.RunFailed{StoppedBy: events.StoppedByError})
	default:
		a.note(events.RunFinished{StoppedBy: events.StoppedByFinish})
	}
	err := a.h.Store.Finish(a.t.Context(), a.lease, a.prefix, end)
	if err == nil {
		a.prefix = nil
	}
	return err
}

// parkOn parks with everything recorded.
func (a *actor) parkOn(p ledger.Parking) {
	a.t.Helper()
	a.absorb(a.facts...)
	a.note(events.RunParked{Reason: p.Reason, Detail: p.Detail, OpKey: p.OpKey})
	if err := a.h.Store.Park(a.t.Context(), a.lease, a.prefix, p); err != nil {
		a.t.Fatalf("park: %v", err)
	}
	a.prefix = nil
}
