package ledgertest

import (
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// agentrust-io/cmcp#571
func testKeyedRepeat(t *testing.T, h Harness) {
	keyed := recovery(ledger.RecoveryKeyed)
	a := start(t, h)
	in := refund(keyed)
	first := a.want(ledger.Execute, in)
	a.want(ledger.InDoubt, refund(keyed)) // the same epoch: it may be running
	b := a.successor()
	second := refund(keyed)
	v := b.want(ledger.Execute, second)
	if !v.Prior || v.Ref.OpKey != first.Ref.OpKey || v.Ref.Attempt != 2 || v.Ref.Token != second.Token {
		t.Errorf("repeated: %+v", v)
	}
	// No answer to the repetition either: the same epoch may ask once more.
	b.end(second.Token, ledger.Unclear)
	if e := effect(t, h, v.Ref.OpKey); e.State != events.EffectInDoubt {
		t.Errorf("state = %s", e.State)
	}
	third := refund(keyed)
	if v := b.want(ledger.Execute, third); v.Ref.Attempt != 3 || !v.Prior {
		t.Errorf("third: %+v", v)
	}
	s := b.end(third.Token, ledger.Applied)
	if s.State != events.EffectApplied || s.PossibleDuplicate {
		t.Errorf("settled: %+v", s)
	}
	// The first attempt's reply comes in after all: absorbed by the provider.
	if s := a.end(in.Token, ledger.Applied); s.PossibleDuplicate || s.LeaseHeld {
		t.Errorf("late: %+v", s)
	}
	b.want(ledger.Replay, refund(keyed))
}

// RELIABILITY row 18.
func testKeyedExpired(t *testing.T, h Harness) {
	keyed := recovery(ledger.RecoveryKeyed)
	a := start(t, h)
	v := a.want(ledger.Execute, refund(keyed))
	h.Advance(keyTTL*8/10 - time.Minute)
	b := take(t, h, a.run)
	in := refund(keyed)
	again := b.want(ledger.Execute, in) // just in time
	end := effect(t, h, v.Ref.OpKey).CreatedAt.Add(keyTTL)
	if !again.Deadline.Before(end) {
		t.Errorf("deadline %v is not before %v", again.Deadline, end)
	}
	h.Advance(2 * time.Minute)
	c := take(t, h, a.run)
	c.want(ledger.InDoubt, refund(keyed))
	if e := effect(t, h, v.Ref.OpKey); e.State != events.EffectInDoubt || e.Attempts != 2 {
		t.Errorf("effect: %+v", e)
	}
	c.want(ledger.InDoubt, refund(keyed)) // and it stays so
	c.end(in.Token, ledger.Applied)
	c.want(ledger.Replay, refund(keyed))
}

func testKeyedDeadline(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund(recovery(ledger.RecoveryKeyed), timeout(2*keyTTL))
	v := a.want(ledger.Execute, in)
	first := effect(t, h, v.Ref.OpKey).CreatedAt
	if !v.Deadline.Before(first.Add(keyTTL)) || v.Remaining >= keyTTL {
		t.Errorf("deadline is %v after the first sending, the key is kept for %v", v.Deadline.Sub(first), keyTTL)
	}
	// A refused attempt does not start the provider's clock again.
	a.end(in.Token, ledger.NotApplied)
	h.Advance(keyTTL / 2)
	b := take(t, h, a.run)
	in = refund(recovery(ledger.RecoveryKeyed), timeout(2*keyTTL))
	if v := b.want(ledger.Execute, in); !v.Deadline.Before(first.Add(keyTTL)) {
		t.Errorf("second deadline is %v after the first sending", v.Deadline.Sub(first))
	}
	h.Advance(keyTTL * 4 / 10)
	c := take(t, h, a.run)
	c.want(ledger.InDoubt, refund(recovery(ledger.RecoveryKeyed)))
}

func testFencedRepeat(t *testing.T, h Harness) {
	fenced := recovery(ledger.RecoveryFenced)
	a := start(t, h)
	first := a.want(ledger.Execute, refund(fenced))
	h.Advance(365 * 24 * time.Hour) // no time limit
	b := take(t, h, a.run)
	in := refund(fenced)
	v := b.want(ledger.Execute, in)
	if !v.Prior || v.Ref.Attempt != first.Ref.Attempt+1 || v.Ref.OpKey != first.Ref.OpKey {
		t.Errorf("fence: %+v after %+v", v.Ref, first.Ref)
	}
	b.end(in.Token, ledger.Applied)
	b.want(ledger.Replay, refund(fenced))
}

func testStricterRecovery(t *testing.T, h Harness) {
	for _, c := range [][2]string{
		{ledger.RecoveryNone, ledger.RecoveryKeyed},
		{ledger.RecoveryNone, ledger.RecoveryFenced},
		{ledger.RecoveryFenced, ledger.RecoveryNone},
		{ledger.RecoveryKeyed, ledger.RecoveryFenced},
	} {
		a := start(t, h)
		a.want(ledger.Execute, refund(recovery(c[0])))
		b := a.successor()
		b.want(ledger.InDoubt, refund(recovery(c[1])))
	}
	// The shorter time of the two counts.
	a := start(t, h)
	a.want(ledger.Execute, refund(recovery(ledger.RecoveryKeyed)))
	b := a.successor()
	b.want(ledger.InDoubt, refund(recovery(ledger.RecoveryKeyed), func(in *ledger.Intent) { in.Recovery.TTL = 10 * time.Second }))
	// With nothing outstanding the present declaration holds.
	c := start(t, h)
	in := refund()
	c.want(ledger.Execute, in)
	c.end(in.Token, ledger.NotApplied)
	if v := c.want(ledger.Execute, refund(recovery(ledger.RecoveryFenced))); v.Ref.Recovery != ledger.RecoveryFenced {
		t.Errorf("recovery = %s", v.Ref.Recovery)
	}
	c.successor().want(ledger.Execute, refund(recovery(ledger.RecoveryFenced)))
}

func testCancellingRepeatsNothing(t *testing.T, h Harness) {
	for _, kind := range []string{ledger.RecoveryKeyed, ledger.RecoveryFenced} {
		a := start(t, h)
		in := refund(recovery(kind))
		a.want(ledger.Execute, in)
		a.end(in.Token, ledger.Unclear)
		if _, err := h.Store.Cancel(t.Context(), a.run.ID, "eva", "enough"); err != nil {
			t.Fatal(err)
		}
		a.want(ledger.InDoubt, refund(recovery(kind)))
	}
}

// agentarea/agentarea PR#320
func testScopesAndRecoveries(t *testing.T, h Harness) {
	n := 0
	for _, s := range []ledger.Scope{ledger.ScopeRun, ledger.ScopeSession, ledger.ScopeOwner, ledger.ScopeTenant} {
		for _, kind := range []string{ledger.RecoveryNone, ledger.RecoveryKeyed, ledger.RecoveryFenced, ledger.RecoveryProbe} {
			n++
			repeats := kind == ledger.RecoveryKeyed || kind == ledger.RecoveryFenced
			opts := []func(*ledger.Intent){scope(s, 0), recovery(kind), order(n)}
			if s == ledger.ScopeOwner || s == ledger.ScopeTenant {
				opts[0] = scope(s, time.Hour)
			}
			intent := func() ledger.Intent { return refund(opts...) }
			a := start(t, h, inSession("s"), ownedBy("eva"))
			in := intent()
			first := a.want(ledger.Execute, in)
			sharer := []submitOption{inSession("s"), ownedBy("eva")}
			if s == ledger.ScopeRun {
				sharer = append(sharer, func(sub *ledger.Submission) { sub.Root = a.run.Root }) // a retry or fork
			}
			b := start(t, h, sharer...)
			b.want(ledger.Busy, intent())
			a = a.successor()
			want := ledger.InDoubt
			if repeats {
				want = ledger.Execute
			}
			again := intent()
			if v := a.want(want, again); v.Ref.OpKey != first.Ref.OpKey {
				t.Errorf("%s %s: another key", s, kind)
			}
			b = take(t, h, b.run)
			b.want(ledger.Busy, intent())
			end := in.Token
			if repeats {
				end = again.Token
			}
			a.end(end, ledger.Applied)
			b.want(ledger.Replay, intent())
			if e := effect(t, h, first.Ref.OpKey); e.Scope != s || e.Recovery.Kind != kind {
				t.Errorf("effect: %+v", e)
			}
		}
	}
}

func testStrangers(t *testing.T, h Harness) {
	for _, c := range []struct {
		scope ledger.Scope
		other submitOption
	}{
		{ledger.ScopeRun, inSession("s")},
		{ledger.ScopeSession, inSession("other")},
		{ledger.ScopeOwner, ownedBy("adam")},
		{ledger.ScopeTenant, ofTenant("globex")},
	} {
		in := func() ledger.Intent { return refund(scope(c.scope, time.Hour)) }
		start(t, h, inSession("s"), ownedBy("eva")).want(ledger.Execute, in())
		start(t, h, inSession("s"), ownedBy("eva"), c.other).want(ledger.Execute, in())
	}
	// Without a session or an owner nobody is the same as anybody.
	for _, s := range []ledger.Scope{ledger.ScopeSession, ledger.ScopeOwner} {
		for range 2 {
			start(t, h).want(ledger.Execute, refund(scope(s, time.Hour), order(50)))
		}
	}
}

func testWindows(t *testing.T, h Harness) {
	monthly := scope(ledger.ScopeTenant, 30*24*time.Hour)
	a := start(t, h)
	in := refund(monthly)
	first := a.want(ledger.Execute, in)
	h.Advance(20 * 24 * time.Hour) // the call takes its time: nothing ages meanwhile
	a.end(in.Token, ledger.Applied)
	h.Advance(30*24*time.Hour - time.Minute)
	b := start(t, h)
	b.want(ledger.Replay, refund(monthly)) // the window runs from the outcome
	b.want(ledger.Conflict, refund(monthly, amount(6)))
	b.want(ledger.Replay, refund(scope(ledger.ScopeTenant, time.Hour))) // of two windows the longer one counts
	h.Advance(2 * time.Minute)
	b = take(t, h, b.run)
	b.want(ledger.Replay, refund(scope(ledger.ScopeTenant, 60*24*time.Hour)))
	in = refund(monthly, amount(6))
	second := b.want(ledger.Execute, in)
	if second.Ref.Generation != 2 || second.Ref.OpKey == first.Ref.OpKey || second.Ref.Attempt != 1 || second.Prior {
		t.Errorf("second generation: %+v", second)
	}
	c := start(t, h)
	c.want(ledger.Busy, refund(monthly))
	b.end(in.Token, ledger.NotApplied)
	h.Advance(31 * 24 * time.Hour)
	c = take(t, h, c.run)
	if v := c.want(ledger.Execute, refund(monthly)); v.Ref.Generation != 2 || v.Ref.Attempt != 2 {
		t.Errorf("what took no effect needs no new generation: %+v", v.Ref)
	}
}

func testForever(t *testing.T, h Harness) {
	once := scope(ledger.ScopeTenant, ledger.Forever)
	a := start(t, h)
	in := refund(once)
	a.want(ledger.Execute, in)
	a.end(in.Token, ledger.Applied)
	h.Advance(50 * 365 * 24 * time.Hour)
	b := start(t, h)
	b.want(ledger.Replay, refund(once))
	b.want(ledger.Replay, refund(scope(ledger.ScopeTenant, time.Hour))) // the longer window counts
}

func testOwnGeneration(t *testing.T, h Harness) {
	daily := scope(ledger.ScopeTenant, 24*time.Hour)
	a := start(t, h)
	in := refund(daily)
	first := a.want(ledger.Execute, in)
	a.end(in.Token, ledger.Applied)
	h.Advance(25 * time.Hour)
	b := start(t, h)
	next := refund(daily)
	b.want(ledger.Execute, next)
	b.end(next.Token, ledger.Applied)
	a = take(t, h, a.run)
	if v := a.want(ledger.Replay, refund(daily)); v.Ref.OpKey != first.Ref.OpKey || v.Of.Run != a.run.ID {
		t.Errorf("own outcome: %+v", v)
	}
	h.Advance(25 * time.Hour)
	a = take(t, h, a.run)
	if v := a.want(ledger.Replay, refund(daily)); v.Ref.OpKey != first.Ref.OpKey {
		t.Errorf("own outcome, a window later: %+v", v)
	}
	if v := a.want(ledger.Execute, refund(daily, call(2, 0))); v.Ref.Generation != 3 {
		t.Errorf("another call: %+v", v.Ref)
	}
}
