package ledgertest

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var approvalTests = []conformance{
	{"a call is asked about, approved, executed, and never again under it", testApprovalOnce},
	{"an approval is bound to arguments, tool and policy", testApprovalDigest},
	{"an approval is another call's and another run's no more", testApprovalOfOthers},
	{"what is denied is refused", testApprovalDenied},
	{"what nobody answers in time is refused", testApprovalExpires},
	{"a request is answered once", testDecideOnce},
	{"a crash before the execution keeps the approval, one after it does not", testApprovalCrash},
	{"a repetition that the provider absorbs is the same use", testApprovalRepeat},
	{"what may have happened is not told as refused", testApprovalDoubt},
	{"a run that waits for an approval is woken by the decision", testApprovalWakes},
	{"a decision and a park at once lose no wake-up", testApprovalNoLostWakeUp},
	{"racing begins of one call use an approval once", testApprovalRace},
	{"an approval is used up by whoever is first, and no other", testApprovalOfTheFirst},
	{"racing people decide once", testDecideRace},
	{"the list has pages and leaves out what is over", testListApprovals},
	{"a decision names who made it", testDecideNames},
}

// ask makes policy want an approval.
func ask(in *ledger.Intent) { in.Ask, in.ToolHash, in.Policy = true, events.Hash{1}, events.Hash{2} }

func policy(h events.Hash) func(*ledger.Intent) { return func(in *ledger.Intent) { in.Policy = h } }

func toolHash(h events.Hash) func(*ledger.Intent) { return func(in *ledger.Intent) { in.ToolHash = h } }

func lasting(d time.Duration) func(*ledger.Intent) {
	return func(in *ledger.Intent) { in.ApprovalTTL = d }
}

// asked begins a call that needs an approval, and returns what it waits for.
func (a *actor) asked(in ledger.Intent) ledger.Verdict {
	a.t.Helper()
	v := a.want(ledger.NeedsApproval, in)
	if v.Approval.IsZero() || v.Remaining <= 0 || v.Expires.IsZero() {
		a.t.Fatalf("asked: %+v", v)
	}
	if v.Fact != nil {
		a.absorb(*v.Fact)
	}
	return v
}

func decide(t tb, h Harness, id events.ID, approve bool) ledger.Approval {
	t.Helper()
	a, err := h.Store.Decide(t.Context(), ledger.Decision{Approval: id, Approve: approve, By: "ada", Reason: "seen the order"})
	if err != nil {
		t.Fatalf("decide: %v", err)
	}
	return a
}

func approvalOf(t tb, h Harness, id events.ID) ledger.Approval {
	t.Helper()
	a, err := h.Store.Approval(t.Context(), id)
	if err != nil {
		t.Fatalf("read approval: %v", err)
	}
	return a
}

func wantApproval(t tb, h Harness, id events.ID, state ledger.ApprovalState) {
	t.Helper()
	if a := approvalOf(t, h, id); a.State != state || (state == ledger.ApprovalConsumed) == a.ConsumedAt.IsZero() {
		t.Errorf("approval is %s, want %s: %+v", a.State, state, a)
	}
}

func effectsOf(t tb, h Harness, run events.RunID) int {
	t.Helper()
	return h.count(t, `SELECT count(*) FROM effects WHERE run_id = $1`, run)
}

func testApprovalOnce(t *testing.T, h Harness) {
	a := start(t, h)
	in := refund(ask)
	in.AskRule = `too much (rule 2 of agent "refunds")`
	v := a.asked(in)
	p := payload[events.ApprovalRequested](t, v.Fact)
	if row := approvalOf(t, h, v.Approval); row.Rule != in.AskRule {
		t.Errorf("the row's rule is %q", row.Rule)
	}
	want := events.ApprovalRequested{
		Approval: v.Approval, Call: in.Call, Tool: "refund", Expires: v.Expires, Why: ledger.WhyPolicy, Rule: in.AskRule,
		Digest: ledger.ApprovalDigest("refund", in.Arguments, in.ToolHash, in.Policy),
	}
	if d := cmp.Diff(want, p); d != "" {
		t.Error(d)
	}
	if effectsOf(t, h, a.run.ID) != 0 {
		t.Error("a call that is not allowed yet has begun")
	}
	// Asked again, nobody is asked twice.
	if again := a.asked(refund(ask)); again.Approval != v.Approval || again.Fact != nil {
		t.Errorf("asked twice: %+v", again)
	}
	got := decide(t, h, v.Approval, true)
	if got.State != ledger.ApprovalApproved || got.By != "ada" || got.Reason != "seen the order" || got.DecidedAt.IsZero() {
		t.Errorf("decided: %+v", got)
	}
	a.flush()
	in = refund(ask)
	begun := a.want(ledger.Execute, in)
	if p := payload[events.ToolExecutionStarted](t, begun.Fact); p.Approval != v.Approval || p.Taint != "" {
		t.Errorf("started: %+v", p)
	}
	wantApproval(t, h, v.Approval, ledger.ApprovalConsumed)
	a.want(ledger.Execute, in) // the same token is the same use
	a.end(in.Token, ledger.NotApplied)
	// A further attempt is a further use.
	if next := a.asked(refund(ask)); next.Approval == v.Approval {
		t.Error("an approval was used twice")
	}
	_, err := h.Store.Decide(t.Context(), ledger.Decision{Approval: v.Approval, Approve: true, By: "ada"})
	wantError(t, err, ledger.ErrDecided)
}

// extra-org/extra#139: a person approved one value, another ran.
func testApprovalDigest(t *testing.T, h Harness) {
	a := start(t, h)
	first := a.asked(refund(ask))
	decide(t, h, first.Approval, true)
	a.flush()
	last := first
	for name, in := range map[string]ledger.Intent{
		"arguments": refund(ask, amount(6)),
		"tool":      refund(ask, toolHash(events.Hash{9})),
		"policy":    refund(ask, policy(events.Hash{9})),
	} {
		v := a.asked(in)
		if v.Approval == last.Approval {
			t.Errorf("other %s run under the same approval", name)
		}
		wantApproval(t, h, last.Approval, ledger.ApprovalExpired)
		last = v
	}
	if effectsOf(t, h, a.run.ID) != 0 {
		t.Error("something was executed")
	}
	// Who answers what was replaced is told so.
	_, err := h.Store.Decide(t.Context(), ledger.Decision{Approval: first.Approval, By: "ada"})
	wantError(t, err, ledger.ErrExpired)
	if !strings.Contains(err.Error(), "another request took its place") {
		t.Error(err)
	}
}

func testApprovalOfOthers(t *testing.T, h Harness) {
	a, b := start(t, h), start(t, h)
	v := a.asked(refund(ask))
	decide(t, h, v.Approval, true)
	a.flush()
	if w := a.asked(refund(ask, call(1, 1))); w.Approval == v.Approval {
		t.Error("another call of the run got the approval")
	}
	if w := b.asked(refund(ask)); w.Approval == v.Approval {
		t.Error("another run got the approval")
	}
	wantApproval(t, h, v.Approval, ledger.ApprovalApproved)
}

func testApprovalDenied(t *testing.T, h Harness) {
	a := start(t, h)
	v := a.asked(refund(ask))
	decide(t, h, v.Approval, false)
	a.flush()
	for range 2 { // after a crash before the refusal is recorded, it is the same
		got := a.want(ledger.Refused, refund(ask))
		if got.Detail != ledger.DetailApprovalDenied || !strings.Contains(got.Text, "ada") || !strings.Contains(got.Text, "seen the order") {
			t.Errorf("refused: %+v", got)
		}
	}
	if effectsOf(t, h, a.run.ID) != 0 {
		t.Error("something was executed")
	}
}

func testApprovalExpires(t *testing.T, h Harness) {
	a := start(t, h)
	silent := a.asked(refund(ask, lasting(5*time.Second)))
	late := a.asked(refund(ask, lasting(5*time.Second), call(1, 1), order(8)))
	decide(t, h, late.Approval, true)
	a.flush()
	h.Advance(6 * time.Second)
	if r := a.want(ledger.Refused, refund(ask)); r.Detail != ledger.DetailApprovalExpired || !strings.Contains(r.Text, "nobody") {
		t.Errorf("not answered: %+v", r)
	}
	if r := a.want(ledger.Refused, refund(ask, call(1, 1), order(8))); r.Detail != ledger.DetailApprovalExpired || !strings.Contains(r.Text, " approved it") {
		t.Errorf("answered, and used too late: %+v", r)
	}
	_, err := h.Store.Decide(t.Context(), ledger.Decision{Approval: silent.Approval, Approve: true, By: "ada"})
	wantError(t, err, ledger.ErrExpired)
	wantApproval(t, h, silent.Approval, ledger.ApprovalExpired)
	wantApproval(t, h, late.Approval, ledger.ApprovalExpired)
	if d := a.asked(refund(ask, call(1, 2), order(9))); d.Remaining != ledger.DefaultApprovalTTL {
		t.Errorf("lasts %s by default", d.Remaining)
	}
}

func testDecideOnce(t *testing.T, h Harness) {
	a := start(t, h)
	v := a.asked(refund(ask))
	a.flush()
	other := ledger.ApprovalDigest("refund", []byte(`{}`), events.Hash{1}, events.Hash{2})
	for _, yes := range []bool{true, false} { // of what was not shown nothing is decided
		_, err := h.Store.Decide(t.Context(), ledger.Decision{Approval: v.Approval, Approve: yes, By: "bob", Digest: other})
		wantError(t, err, ledger.ErrOtherCall)
	}
	decide(t, h, v.Approval, false)
	_, err := h.Store.Decide(t.Context(), ledger.Decision{Approval: v.Approval, Approve: true, By: "bob"})
	wantError(t, err, ledger.ErrDecided)
	if !strings.Contains(err.Error(), "ada") {
		t.Errorf("does not say by whom: %v", err)
	}
	// gagan114662/openbot#73: every verb of a person is an event.
	fs := a.pending()
	if len(fs) != 1 {
		t.Fatalf("facts: %v", types(fs))
	}
	p := payload[events.ApprovalDecided](t, &fs[0])
	if p.Approval != v.Approval || p.Decision != "denied" || !strings.HasPrefix(p.By, "ada") || p.Reason != "seen the order" {
		t.Errorf("decided: %+v", p)
	}
	_, err = h.Store.Decide(t.Context(), ledger.Decision{Approval: testIDs.Event(), By: "ada"})
	wantError(t, err, ledger.ErrNotFound)
	_, err = h.Store.Approval(t.Context(), testIDs.Event())
	wantError(t, err, ledger.ErrNotFound)
	w := a.asked(refund(ask, call(1, 1), order(8)))
	a.flush()
	a.note(events.RunFailed{StoppedBy: events.StoppedByDeadline})
	if err := h.Store.Finish(t.Context(), a.lease, a.prefix, ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByDeadline}); err != nil {
		t.Fatal(err)
	}
	_, err = h.Store.Decide(t.Context(), ledger.Decision{Approval: w.Approval, Approve: true, By: "ada"})
	wantError(t, err, ledger.ErrEnded)
}

// andrewyng/openworker#443: approved, sent, crash before the result, and the
// resumed run took the approval for its next sending.
func testApprovalCrash(t *testing.T, h Harness) {
	a := start(t, h)
	v := a.asked(refund(ask))
	decide(t, h, v.Approval, true)
	b := a.successor()
	b.flush()
	begun := b.want(ledger.Execute, refund(ask))
	wantApproval(t, h, v.Approval, ledger.ApprovalConsumed)
	c := b.successor()
	c.want(ledger.InDoubt, refund(ask))
	mustResolve(t, h, begun.Ref.OpKey, events.EffectNotApplied, force)
	c.flush()
	if again := c.asked(refund(ask)); again.Approval == v.Approval {
		t.Error("the approval was used again")
	}
}

func testApprovalRepeat(t *testing.T, h Harness) {
	for _, kind := range []string{ledger.RecoveryFenced, ledger.RecoveryKeyed} {
		a := start(t, h)
		v := a.asked(refund(ask, recovery(kind)))
		decide(t, h, v.Approval, true)
		a.flush()
		a.want(ledger.Execute, refund(ask, recovery(kind)))
		b := a.successor()
		begun := b.want(ledger.Execute, refund(ask, recovery(kind)))
		if p := payload[events.ToolExecutionStarted](t, begun.Fact); p.Approval != v.Approval {
			t.Errorf("%s: repeated under %s, want %s", kind, p.Approval, v.Approval)
		}
		b.end(begun.Ref.Token, ledger.Applied)
		b.want(ledger.Replay, refund(ask, recovery(kind), call(2, 0))) // nothing runs, nobody is asked
	}
}

func testApprovalDoubt(t *testing.T, h Harness) {
	a := start(t, h)
	fenced := recovery(ledger.RecoveryFenced)
	in := refund(fenced)
	a.want(ledger.Execute, in)
	b := a.successor()
	// Policy became stricter meanwhile: the repetition needs an approval, and
	// while nobody gives one the effect is undecided, not refused.
	v := b.asked(refund(ask, fenced))
	decide(t, h, v.Approval, false)
	b.flush()
	w := b.want(ledger.InDoubt, refund(ask, fenced))
	if e := effect(t, h, w.Ref.OpKey); e.State != events.EffectInDoubt || e.Attempts != 1 {
		t.Errorf("effect: %+v", e)
	}
	b.end(in.Token, ledger.Applied)
	b.want(ledger.Replay, refund(ask, fenced))
}

func (a *actor) parkFor(v ledger.Verdict) error {
	a.t.Helper()
	a.flush()
	return a.h.Store.Park(a.t.Context(), a.lease, a.prefix, ledger.Parking{
		Reason: events.ParkApproval, Detail: "ledgerctl approve", Approval: v.Approval, After: v.Remaining,
	})
}

func testApprovalWakes(t *testing.T, h Harness) {
	a := start(t, h)
	if err := h.Store.Park(t.Context(), a.lease, nil, ledger.Parking{Reason: events.ParkApproval}); err == nil {
		t.Error("waits for no approval in particular")
	}
	v := a.asked(refund(ask, lasting(time.Hour)))
	if err := a.parkFor(v); err != nil {
		t.Fatal(err)
	}
	if tryTake(t, h, a.run) != nil {
		t.Fatal("a waiting run was claimed")
	}
	decide(t, h, v.Approval, true)
	b := take(t, h, a.run)
	b.want(ledger.Execute, refund(ask))
	// Nobody answers: it wakes when the time is over.
	w := b.asked(refund(ask, lasting(time.Hour), call(1, 1), order(8)))
	if err := b.parkFor(w); err != nil {
		t.Fatal(err)
	}
	h.Advance(time.Hour)
	c := take(t, h, a.run)
	c.want(ledger.Refused, refund(ask, call(1, 1), order(8)))
	// Answered before it parks: it does not wait.
	x := c.asked(refund(ask, call(1, 2), order(9)))
	decide(t, h, x.Approval, false)
	err := c.parkFor(x)
	wantError(t, err, ledger.ErrFactsPending)
}

func testApprovalNoLostWakeUp(t *testing.T, h Harness) {
	for range 10 {
		a := start(t, h)
		v := a.asked(refund(ask))
		a.flush()
		var parked error
		var group sync.WaitGroup
		group.Go(func() {
			parked = h.Store.Park(t.Context(), a.lease, a.prefix, ledger.Parking{Reason: events.ParkApproval, Approval: v.Approval, After: v.Remaining})
		})
		group.Go(func() {
			if _, err := h.Store.Decide(t.Context(), ledger.Decision{Approval: v.Approval, Approve: true, By: "ada"}); err != nil {
				t.Error(err)
			}
		})
		group.Wait()
		switch {
		case parked == nil:
			if tryTake(t, h, a.run) == nil {
				t.Fatal("parked and never woken")
			}
		case !errors.Is(parked, ledger.ErrFactsPending):
			t.Fatal(parked)
		}
	}
}

func testApprovalRace(t *testing.T, h Harness) {
	a := start(t, h)
	v := a.asked(refund(ask))
	decide(t, h, v.Approval, true)
	a.flush()
	const n = 8
	kinds := make([]ledger.VerdictKind, n)
	together(n, func(i int) {
		got, err := h.Store.Begin(t.Context(), a.lease, nil, refund(ask))
		if err != nil {
			t.Error(err)
		}
		kinds[i] = got.Kind
	})
	counts := map[ledger.VerdictKind]int{}
	for _, k := range kinds {
		counts[k]++
	}
	if want := (map[ledger.VerdictKind]int{ledger.Execute: 1, ledger.InDoubt: n - 1}); !cmp.Equal(counts, want) {
		t.Errorf("verdicts: %v", counts)
	}
	wantApproval(t, h, v.Approval, ledger.ApprovalConsumed)
}

func testApprovalOfTheFirst(t *testing.T, h Harness) {
	const n = 6
	intent := func() ledger.Intent { return refund(ask, scope(ledger.ScopeTenant, time.Hour)) }
	as, ids, kinds := make([]*actor, n), make([]events.ID, n), make([]ledger.VerdictKind, n)
	for i := range as {
		as[i] = start(t, h)
		ids[i] = as[i].asked(intent()).Approval
		decide(t, h, ids[i], true)
		as[i].flush()
	}
	together(n, func(i int) {
		v, err := h.Store.Begin(t.Context(), as[i].lease, nil, intent())
		if err != nil {
			t.Error(err)
		}
		kinds[i] = v.Kind
	})
	used := 0
	for i, k := range kinds {
		state := approvalOf(t, h, ids[i]).State
		if (k == ledger.Execute) != (state == ledger.ApprovalConsumed) {
			t.Errorf("%s, approval %s", verdictName(k), state)
		}
		if state == ledger.ApprovalConsumed {
			used++
		}
	}
	if used != 1 {
		t.Errorf("%d approvals were used, want 1", used)
	}
}

func testDecideRace(t *testing.T, h Harness) {
	a := start(t, h)
	v := a.asked(refund(ask))
	a.flush()
	const n = 8
	errs := make([]error, n)
	together(n, func(i int) {
		_, errs[i] = h.Store.Decide(t.Context(), ledger.Decision{Approval: v.Approval, Approve: i%2 == 0, By: "ada"})
	})
	won := -1
	for i, err := range errs {
		switch {
		case err == nil && won < 0:
			won = i
		case err == nil:
			t.Errorf("%d and %d decided both", won, i)
		default:
			wantError(t, err, ledger.ErrDecided)
		}
	}
	if got := approvalOf(t, h, v.Approval).State; (got == ledger.ApprovalApproved) != (won%2 == 0) {
		t.Errorf("%d decided, and it is %s", won, got)
	}
	if fs := a.pending(); len(fs) != 1 {
		t.Errorf("facts: %v", types(fs))
	}
}

func testListApprovals(t *testing.T, h Harness) {
	a, b := start(t, h, ofTenant("globex")), start(t, h)
	var ids []events.ID
	for i := range 4 {
		ids = append(ids, a.asked(refund(ask, order(i), call(1, i))).Approval)
	}
	other := b.asked(refund(ask)).Approval
	decide(t, h, ids[1], true)
	gone := start(t, h)
	over := gone.asked(refund(ask, lasting(time.Second))).Approval
	h.Advance(2 * time.Second)
	for name, c := range map[string]struct {
		f    ledger.ApprovalFilter
		want []events.ID
	}{
		"all":                {ledger.ApprovalFilter{}, append(append([]events.ID{}, ids...), other, over)},
		"open":               {ledger.ApprovalFilter{Open: true}, []events.ID{ids[0], ids[2], ids[3], other}},
		"open of a tenant":   {ledger.ApprovalFilter{Open: true, Tenant: "globex"}, []events.ID{ids[0], ids[2], ids[3]}},
		"of a run":           {ledger.ApprovalFilter{Run: b.run.ID}, []events.ID{other}},
		"first page":         {ledger.ApprovalFilter{Tenant: "globex", Limit: 2}, ids[:2]},
		"second page":        {ledger.ApprovalFilter{Tenant: "globex", Limit: 2, After: ids[1]}, ids[2:]},
		"of nobody's tenant": {ledger.ApprovalFilter{Tenant: "nobody"}, nil},
	} {
		as, err := h.Store.Approvals(t.Context(), c.f)
		if err != nil {
			t.Fatal(err)
		}
		var got []events.ID
		for _, a := range as {
			got = append(got, a.ID)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	got := approvalOf(t, h, ids[2])
	in := refund(ask, order(2), call(1, 2))
	if d := cmp.Diff(ledger.Approval{
		ID: ids[2], Run: a.run.ID, Tenant: "globex", Call: in.Call, Tool: "refund", Arguments: json.RawMessage(`{"amount":5,"order":2}`),
		Digest: ledger.ApprovalDigest("refund", in.Arguments, in.ToolHash, in.Policy), ToolHash: in.ToolHash, Policy: in.Policy,
		Why: ledger.WhyPolicy, State: ledger.ApprovalRequested, CreatedAt: got.CreatedAt, ExpiresAt: got.CreatedAt.Add(ledger.DefaultApprovalTTL),
	}, got); d != "" {
		t.Error(d)
	}
}

// openai/openai-agents-python PR#5105
func testDecideNames(t *testing.T, h Harness) {
	a := start(t, h)
	v := a.asked(refund(ask))
	if _, err := h.Store.Decide(t.Context(), ledger.Decision{Approval: v.Approval, Approve: true}); err == nil {
		t.Error("decided by nobody")
	}
	wantApproval(t, h, v.Approval, ledger.ApprovalRequested)
}
