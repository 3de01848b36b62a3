package ledgertest

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var retryTests = []conformance{
	{"a failed run is tried again as a new run", testRetry},
	{"the wait doubles and has a floor", testRetryWait},
	{"what is not an error is not tried again", testNoRetry},
	{"attempts come to an end, and then the run is dead", testDead},
	{"a dead run is queued again, once", testRequeue},
	{"a retry begins no effect that was applied", testRetryReplays},
	{"a retry takes over what its dead predecessor left in doubt", testRetryInherits},
	{"a keyed effect of a dead predecessor is made again under its key", testRetryRepeats},
}

// fail ends a run with an error, as its agent wants it tried again.
func (a *actor) fail(by events.StoppedBy, retry ledger.Retry) {
	a.t.Helper()
	a.note(events.RunFailed{StoppedBy: by, Error: events.ErrorInfo{Kind: "test", Message: "broken"}})
	err := a.h.Store.Finish(a.t.Context(), a.lease, a.prefix, ledger.Ending{State: ledger.Failed, StoppedBy: by, Error: "broken", Retry: retry})
	if err != nil {
		a.t.Fatalf("finish: %v", err)
	}
}

var thrice = ledger.Retry{MaxAttempts: 3, Backoff: 10 * time.Second, MaxBackoff: 15 * time.Second}

// next returns the run that tries r again.
func next(t tb, h Harness, r ledger.Run) ledger.Run {
	t.Helper()
	r = h.state(t, r.ID)
	if r.Successor.IsZero() {
		t.Fatalf("run %s has no successor", r.ID)
	}
	return h.state(t, r.Successor)
}

func testRetry(t *testing.T, h Harness) {
	deadline := time.Now().Add(time.Hour)
	r := submitWith(t, h, func(s *ledger.Submission) {
		s.Owner, s.SessionID, s.Requires, s.Priority, s.Trace, s.Deadline = "o", "s", []string{}, 3, "00-x", deadline
		s.ConcurrencyKey, s.Schedule = "k", "nightly"
	})
	a := take(t, h, r)
	a.fail(events.StoppedByError, thrice)
	// The answer to the first COMMIT was lost: it is done once.
	if err := h.Store.Finish(t.Context(), a.lease, a.prefix, ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByError, Retry: thrice}); err != nil {
		t.Fatal(err)
	}
	old := h.state(t, r.ID)
	got := next(t, h, r)
	if old.State != ledger.Failed || !old.DeadAt.IsZero() {
		t.Errorf("old run %+v", old)
	}
	if wait := got.DueAt.Sub(got.CreatedAt); wait != 10*time.Second {
		t.Errorf("tried again after %s, want 10 s", wait)
	}
	want := r
	want.ID, want.ClientKey, want.Attempt, want.MaxAttempts, want.RetryOf = got.ID, r.ClientKey+"#attempt-2", 2, 3, r.ID
	want.CreatedAt, want.DueAt = got.CreatedAt, got.DueAt
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if n := h.count(t, `SELECT count(*) FROM runs WHERE retry_of = $1`, r.ID); n != 1 {
		t.Errorf("%d retries", n)
	}
	if tryTake(t, h, got) != nil {
		t.Error("tried again before its time")
	}
	h.Advance(11 * time.Second)
	take(t, h, got)
}

// inngest/inngest PR#2775: 21 attempts in one second. The floor and the ceiling
// are the database's.
func testRetryWait(t *testing.T, h Harness) {
	for name, tt := range map[string]struct {
		retry ledger.Retry
		want  []time.Duration
	}{
		"doubles up to the most": {ledger.Retry{MaxAttempts: 5, Backoff: 10 * time.Second, MaxBackoff: 30 * time.Second}, []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second, 30 * time.Second}},
		"no loop without waits":  {ledger.Retry{MaxAttempts: 3, Backoff: time.Nanosecond, MaxBackoff: time.Nanosecond}, []time.Duration{time.Second, time.Second}},
		"by itself":              {ledger.Retry{MaxAttempts: 3}, []time.Duration{5 * time.Second, 10 * time.Second}},
	} {
		r := submit(t, h)
		for i, want := range tt.want {
			take(t, h, r).fail(events.StoppedByError, tt.retry)
			r = next(t, h, r)
			if wait := r.DueAt.Sub(r.CreatedAt); wait != want || r.Attempt != i+2 {
				t.Errorf("%s: attempt %d after %s, want %s", name, r.Attempt, wait, want)
			}
			h.Advance(want + time.Millisecond)
		}
	}
}

func testNoRetry(t *testing.T, h Harness) {
	for _, by := range []events.StoppedBy{events.StoppedByBudget, events.StoppedByDeadline, events.StoppedByMaxTurns} {
		a := start(t, h)
		a.fail(by, thrice)
		if r := h.state(t, a.run.ID); !r.Successor.IsZero() || r.DeadAt.IsZero() {
			t.Errorf("%s: %+v", by, r)
		}
	}
	a := start(t, h)
	a.finish(ledger.Finished)
	if r := h.state(t, a.run.ID); !r.Successor.IsZero() || !r.DeadAt.IsZero() {
		t.Errorf("finished: %+v", r)
	}
	// The run's own number wins over the agent's.
	once := take(t, h, submit(t, h, func(s *ledger.Submission) { s.MaxAttempts = 1 }))
	once.fail(events.StoppedByError, thrice)
	if r := h.state(t, once.run.ID); !r.Successor.IsZero() {
		t.Errorf("tried again although it asked for one attempt: %+v", r)
	}
	// There is no time left for another one.
	late := take(t, h, submit(t, h, func(s *ledger.Submission) { s.Deadline = time.Now().Add(5 * time.Second) }))
	late.fail(events.StoppedByError, thrice)
	if r := h.state(t, late.run.ID); !r.Successor.IsZero() || r.DeadAt.IsZero() {
		t.Errorf("tried again behind its deadline: %+v", r)
	}
}

// exhaust lets a run fail until nothing tries it again, and returns the last attempt.
func exhaust(t *testing.T, h Harness) ledger.Run {
	t.Helper()
	r := submit(t, h)
	for range 2 {
		take(t, h, r).fail(events.StoppedByError, thrice)
		r = next(t, h, r)
		h.Advance(time.Minute)
	}
	take(t, h, r).fail(events.StoppedByError, thrice)
	return h.state(t, r.ID)
}

func testDead(t *testing.T, h Harness) {
	r := exhaust(t, h)
	if r.Attempt != 3 || r.DeadAt.IsZero() || !r.Successor.IsZero() {
		t.Errorf("run %+v", r)
	}
	for f, want := range map[ledger.DeadFilter]int{
		{}:                             1,
		{Tenant: r.Tenant, Limit: 5}:   1,
		{Queue: "no"}:                  0,
		{Agent: "no"}:                  0,
		{Queue: r.Queue, Before: r.ID}: 0,
	} {
		got, err := h.Store.Dead(t.Context(), f)
		if err != nil || len(got) != want {
			t.Errorf("dead %+v: %d runs, %v; want %d", f, len(got), err, want)
		}
	}
	if st, err := h.Store.QueueStats(t.Context(), r.Queue); err != nil || st[0].Dead != 1 {
		t.Errorf("stats %+v, %v", st, err)
	}
}

func testRequeue(t *testing.T, h Harness) {
	alive := start(t, h)
	if _, err := h.Store.Requeue(t.Context(), alive.run.ID, 1, "ann", "x"); !errors.Is(err, ledger.ErrNotDead) {
		t.Errorf("requeue of a running one: %v", err)
	}
	dead := exhaust(t, h)
	r, err := h.Store.Requeue(t.Context(), dead.ID, 2, "ann", "the provider is back")
	if err != nil {
		t.Fatal(err)
	}
	if r.Attempt != 4 || r.MaxAttempts != 5 || r.RetryOf != dead.ID || r.Root != dead.Root || r.State != ledger.Queued {
		t.Errorf("run %+v", r)
	}
	if got := h.state(t, dead.ID); got.Successor != r.ID || !got.DeadAt.IsZero() || got.State != ledger.Failed {
		t.Errorf("dead run %+v", got)
	}
	if _, err := h.Store.Requeue(t.Context(), dead.ID, 1, "bob", "x"); !errors.Is(err, ledger.ErrNotDead) {
		t.Errorf("requeued twice: %v", err)
	}
	fs := pendingOf(t, h, dead.ID)
	if len(fs) != 1 || payload[events.OperatorActed](t, &fs[0]).Verb != "requeue" || payload[events.OperatorActed](t, &fs[0]).By != "ann" {
		t.Errorf("facts %v", types(fs))
	}
	settle := take(t, h, dead)
	if err := h.Store.Release(t.Context(), settle.lease, settle.prefix); err != nil {
		t.Fatal(err)
	}
	take(t, h, r).fail(events.StoppedByError, thrice) // the fourth of five
	if got := next(t, h, r); got.Attempt != 5 || got.MaxAttempts != 5 {
		t.Errorf("run %+v", got)
	}
}

// agentarea/agentarea PR#320: the engine tried the whole workflow again 30 s
// later, and the command ran a second time.
func testRetryReplays(t *testing.T, h Harness) {
	a := start(t, h)
	v := a.want(ledger.Execute, refund())
	a.absorb(*v.Fact)
	f := a.end(v.Ref.Token, ledger.Applied).Fact
	a.absorb(*f)
	a.fail(events.StoppedByError, thrice)
	h.Advance(time.Minute)
	b := take(t, h, next(t, h, a.run))
	if w := b.want(ledger.Replay, refund()); w.Of.Run != a.run.ID || w.Ref.OpKey != v.Ref.OpKey {
		t.Errorf("verdict %+v", w)
	}
}

// restatedev/restate#5196: nothing waits for what only itself could bring about.
func testRetryInherits(t *testing.T, h Harness) {
	for _, late := range []bool{false, true} {
		a := start(t, h)
		v := a.want(ledger.Execute, refund(recovery(ledger.RecoveryProbe)))
		a.absorb(*v.Fact)
		if !late {
			a.absorb(*a.end(v.Ref.Token, ledger.Unclear).Fact)
		}
		a.fail(events.StoppedByError, thrice)
		h.Advance(time.Minute)
		b := take(t, h, next(t, h, a.run))
		w := b.want(ledger.InDoubt, refund(recovery(ledger.RecoveryProbe)))
		if w.Ref.OpKey != v.Ref.OpKey || w.Of.Run != a.run.ID {
			t.Errorf("verdict %+v", w)
		}
		b.absorb(b.pending()...)
		if e := effect(t, h, v.Ref.OpKey); e.Run != b.run.ID || e.State != events.EffectInDoubt || e.Attempts != 2 {
			t.Errorf("effect %+v", e)
		}
		// Asked again with another token it is this run's own.
		b.want(ledger.InDoubt, refund(recovery(ledger.RecoveryProbe)))
		if late { // the executor of the first run comes back after all
			a.end(v.Ref.Token, ledger.Applied)
		} else if _, err := h.Store.Resolve(t.Context(), ledger.Resolution{OpKey: v.Ref.OpKey, State: events.EffectApplied, By: "probe", Lease: &b.lease}); err != nil {
			t.Fatal(err)
		}
		fs := b.pending()
		if len(fs) != 1 || payload[events.EffectResolved](t, &fs[0]).State != events.EffectApplied {
			t.Fatalf("the retry is told %v", types(fs))
		}
		b.absorb(fs...)
		if told := types(pendingOf(t, h, a.run.ID)); len(told) == 0 {
			t.Error("the run that began it is not told")
		}
		b.want(ledger.Replay, refund(recovery(ledger.RecoveryProbe)))
	}
}

func testRetryRepeats(t *testing.T, h Harness) {
	a := start(t, h)
	keyed := refund(recovery(ledger.RecoveryKeyed))
	v := a.want(ledger.Execute, keyed)
	a.absorb(*v.Fact)
	a.absorb(*a.end(v.Ref.Token, ledger.Unclear).Fact)
	a.fail(events.StoppedByError, thrice)
	h.Advance(time.Minute)
	b := take(t, h, next(t, h, a.run))
	keyed.Token = testIDs.Event()
	w := b.want(ledger.Execute, keyed)
	if w.Ref.OpKey != v.Ref.OpKey || w.Ref.Attempt != 2 || !w.Prior {
		t.Errorf("verdict %+v", w)
	}
	b.end(w.Ref.Token, ledger.Applied)
	if e := effect(t, h, v.Ref.OpKey); e.State != events.EffectApplied || e.Run != b.run.ID {
		t.Errorf("effect %+v", e)
	}
}
