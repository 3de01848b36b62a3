package ledgertest

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var gateTests = []conformance{
	{"foreign text lets a call through, makes it ask or denies it", testTaint},
	{"a fork simulates or asks, and replays what was applied", testForkGates},
}

var switchTests = []conformance{
	{"off refuses, paused waits, on lets through, for the tool and tenant it names", testSwitchModes},
	{"a closed switch costs no approval and stops no replay", testSwitchKeepsApproval},
	{"a run that waits for a paused tool is woken", testSwitchWakes},
	{"pausing and parking at once lose no wake-up", testSwitchNoLostWakeUp},
	{"a run in doubt about a call that may be made again is woken", testSwitchWakesDoubt},
	{"switching on and parking in doubt at once lose no wake-up", testSwitchDoubtNoLostWakeUp},
	{"after a switch is set nothing begins", testSwitchRace},
	{"every change is kept", testSwitchRecord},
}

func tainted(policy string) func(*ledger.Intent) {
	return func(in *ledger.Intent) { in.Tainted, in.TaintPolicy, in.TaintBy = true, policy, "t1.c0 fetch_page" }
}

func testTaint(t *testing.T, h Harness) {
	a := start(t, h)
	v := a.want(ledger.Refused, refund(tainted(ledger.TaintDeny)))
	if v.Detail != ledger.DetailTaint || !strings.Contains(v.Text, "t1.c0 fetch_page") {
		t.Errorf("denied: %+v", v)
	}
	if effectsOf(t, h, a.run.ID) != 0 {
		t.Error("something was executed")
	}
	w := a.asked(refund(ask, tainted(ledger.TaintAsk)))
	if got := approvalOf(t, h, w.Approval); got.Why != "policy,taint" || got.TaintBy != "t1.c0 fetch_page" {
		t.Errorf("asked: %+v", got)
	}
	decide(t, h, w.Approval, true)
	a.flush()
	begun := a.want(ledger.Execute, refund(ask, tainted(ledger.TaintAsk)))
	if p := payload[events.ToolExecutionStarted](t, begun.Fact); p.Taint != ledger.TaintAsk || p.Approval != w.Approval {
		t.Errorf("started: %+v", p)
	}
	in := refund(tainted(""), order(8), call(1, 1))
	begun = a.want(ledger.Execute, in)
	if p := payload[events.ToolExecutionStarted](t, begun.Fact); p.Taint != ledger.TaintAllow {
		t.Errorf("started: %+v", p)
	}
	if n := h.count(t, `SELECT count(*) FROM effects WHERE taint = 'allow'`); n != 1 {
		t.Errorf("%d effects show that they were let through", n)
	}
	again := a.want(ledger.Execute, in) // the lost answer says the same
	if d := cmp.Diff(begun.Fact.Data, again.Fact.Data); d != "" {
		t.Error(d)
	}
	// Without foreign text the policy says nothing.
	clean := refund(order(9), call(1, 2))
	clean.TaintPolicy = ledger.TaintDeny
	a.want(ledger.Execute, clean)
	bad := refund(order(10), call(1, 3))
	bad.TaintPolicy = "maybe"
	if _, err := a.begin(bad); err == nil {
		t.Error("an unknown policy was taken")
	}
}

func testForkGates(t *testing.T, h Harness) {
	first := start(t, h)
	in := refund()
	first.want(ledger.Execute, in)
	first.end(in.Token, ledger.Applied)
	fork := func(mode ledger.ForkEffects) *actor {
		a := start(t, h, childOf(first.run))
		h.sql(t, `UPDATE runs SET fork_effects = $2, fork_of = $3 WHERE id = $1`, a.run.ID, mode, first.run.ID)
		return a
	}
	sim, asks, replay := fork(ledger.ForkSimulate), fork(ledger.ForkAsk), fork(ledger.ForkReplay)
	for _, a := range []*actor{sim, asks, replay} {
		a.want(ledger.Replay, refund(call(3, 0)))
	}
	sim.want(ledger.Simulated, refund(order(8)))
	if effectsOf(t, h, sim.run.ID) != 0 {
		t.Error("a simulation left an effect")
	}
	v := asks.asked(refund(order(8)))
	if got := approvalOf(t, h, v.Approval); got.Why != ledger.WhyFork {
		t.Errorf("asked: %+v", got)
	}
	decide(t, h, v.Approval, true)
	asks.flush()
	asks.want(ledger.Execute, refund(order(8)))
	replay.want(ledger.Execute, refund(order(9)))
}

func setSwitch(t tb, h Harness, tool string, mode ledger.SwitchMode) ledger.Switch {
	t.Helper()
	w, err := h.Store.SetSwitch(t.Context(), ledger.SwitchChange{Tenant: "acme", Tool: tool, Mode: mode, By: "ada", Reason: "provider is down"})
	if err != nil {
		t.Fatalf("set switch: %v", err)
	}
	return w
}

func testSwitchModes(t *testing.T, h Harness) {
	a, other := start(t, h), start(t, h, ofTenant("globex"))
	n := 0
	next := func() ledger.Intent { n++; return refund(order(n), call(1, n)) }
	for _, c := range []struct {
		tool string
		mode ledger.SwitchMode
		want ledger.VerdictKind
	}{
		{"refund", ledger.SwitchOff, ledger.Refused},
		{"refund", ledger.SwitchPaused, ledger.Paused},
		{ledger.EveryTool, ledger.SwitchOff, ledger.Refused}, // the stricter one counts
		{"refund", ledger.SwitchOn, ledger.Refused},
		{ledger.EveryTool, ledger.SwitchPaused, ledger.Paused},
		{ledger.EveryTool, ledger.SwitchOn, ledger.Execute},
		{"wire_money", ledger.SwitchOff, ledger.Execute}, // another tool's
	} {
		setSwitch(t, h, c.tool, c.mode)
		v := a.want(c.want, next())
		if c.want == ledger.Execute {
			continue
		}
		if !strings.Contains(v.Text, "ada") || !strings.Contains(v.Text, "provider is down") || c.want == ledger.Refused && v.Detail != ledger.DetailKillSwitch {
			t.Errorf("%s %s: %+v", c.tool, c.mode, v)
		}
		other.want(ledger.Execute, next()) // another tenant's run
	}
	for _, bad := range []ledger.SwitchChange{
		{Tenant: "acme", Tool: "x", Mode: "half", By: "ada", Reason: "r"},
		{Tenant: "acme", Tool: "x", Mode: ledger.SwitchOff, Reason: "r"},
		{Tenant: "acme", Mode: ledger.SwitchOff, By: "ada", Reason: "r"},
		{Tool: "x", Mode: ledger.SwitchOff, By: "ada", Reason: "r"},
		{Tenant: "acme", Tool: "x", Mode: ledger.SwitchOff, By: "ada"},
	} {
		if _, err := h.Store.SetSwitch(t.Context(), bad); err == nil {
			t.Errorf("taken: %+v", bad)
		}
	}
}

func testSwitchKeepsApproval(t *testing.T, h Harness) {
	a := start(t, h)
	done := refund(order(8), call(1, 1))
	a.want(ledger.Execute, done)
	a.end(done.Token, ledger.Applied)
	v := a.asked(refund(ask))
	decide(t, h, v.Approval, true)
	a.flush()
	setSwitch(t, h, "refund", ledger.SwitchOff)
	a.want(ledger.Refused, refund(ask))
	wantApproval(t, h, v.Approval, ledger.ApprovalApproved)
	a.want(ledger.Refused, refund(ask, order(9), call(1, 2))) // and nobody is asked
	if n := h.count(t, `SELECT count(*) FROM approvals`); n != 1 {
		t.Errorf("%d approvals, want 1", n)
	}
	a.want(ledger.Replay, refund(order(8), call(1, 1)))
	setSwitch(t, h, "refund", ledger.SwitchOn)
	a.want(ledger.Execute, refund(ask))
}

// waitsFor parks a new run on a paused tool.
func waitsFor(t *testing.T, h Harness, tool string) *actor {
	t.Helper()
	a := start(t, h)
	in := refund()
	in.Tool = tool
	a.want(ledger.Paused, in)
	if err := a.parkPaused(tool); err != nil {
		t.Fatal(err)
	}
	if tryTake(t, h, a.run) != nil {
		t.Fatal("a waiting run was claimed")
	}
	return a
}

func (a *actor) parkPaused(tool string) error {
	a.t.Helper()
	a.flush()
	return a.h.Store.Park(a.t.Context(), a.lease, a.prefix, ledger.Parking{Reason: events.ParkPaused, Tool: tool})
}

func testSwitchWakes(t *testing.T, h Harness) {
	setSwitch(t, h, "refund", ledger.SwitchPaused)
	setSwitch(t, h, "wire_money", ledger.SwitchPaused)
	a, b := waitsFor(t, h, "refund"), waitsFor(t, h, "wire_money")
	if w := setSwitch(t, h, "refund", ledger.SwitchPaused); w.Woken != 0 { // still paused
		t.Errorf("woken: %d", w.Woken)
	}
	if w := setSwitch(t, h, "refund", ledger.SwitchOn); w.Woken != 1 {
		t.Errorf("woken: %d", w.Woken)
	}
	fs := a.pending()
	if len(fs) != 1 {
		t.Fatalf("facts: %v", types(fs))
	}
	if p := payload[events.OperatorActed](t, &fs[0]); p.Verb != "tool_on" || !strings.HasPrefix(p.By, "ada") || p.Detail != "refund: provider is down" {
		t.Errorf("woken by %+v", p)
	}
	a = take(t, h, a.run)
	a.want(ledger.Execute, refund())
	if fs := b.pending(); len(fs) != 0 {
		t.Errorf("the other tool's run was woken: %v", types(fs))
	}
	if err := a.parkPaused("refund"); !errors.Is(err, ledger.ErrFactsPending) {
		t.Errorf("waits for a tool that is on: %v", err)
	}
	// Off ends the wait as well: the call is refused.
	if w := setSwitch(t, h, ledger.EveryTool, ledger.SwitchOff); w.Woken != 1 {
		t.Errorf("woken: %d", w.Woken)
	}
	b = take(t, h, b.run)
	in := refund()
	in.Tool = "wire_money"
	b.want(ledger.Refused, in)
}

func testSwitchNoLostWakeUp(t *testing.T, h Harness) {
	for range 10 {
		setSwitch(t, h, "refund", ledger.SwitchPaused)
		a := start(t, h)
		a.want(ledger.Paused, refund())
		a.flush()
		a.parkBesideSwitchOn(func() error {
			return h.Store.Park(t.Context(), a.lease, a.prefix, ledger.Parking{Reason: events.ParkPaused, Tool: "refund"})
		})
	}
}

// parkBesideSwitchOn parks a run that waits for the tool refund while that is
// switched on: the wait is refused, or the run is woken.
func (a *actor) parkBesideSwitchOn(park func() error) {
	t, h := a.t, a.h
	t.Helper()
	var parked error
	var group sync.WaitGroup
	group.Go(func() { parked = park() })
	group.Go(func() {
		_, err := h.Store.SetSwitch(t.Context(), ledger.SwitchChange{Tenant: "acme", Tool: "refund", Mode: ledger.SwitchOn, By: "ada", Reason: "up again"})
		if err != nil {
			t.Errorf("switch on: %v", err)
		}
	})
	group.Wait()
	switch {
	case parked == nil:
		if tryTake(t, h, a.run) == nil {
			t.Fatalf("parked and never woken")
		}
	case !errors.Is(parked, ledger.ErrFactsPending):
		t.Fatalf("park: %v", parked)
	}
}

// testSwitchRace sets the switch while runs begin. The effects that are there
// when it has been set are all there will ever be.
func testSwitchRace(t *testing.T, h Harness) {
	const n = 6
	as := make([]*actor, n)
	for i := range as {
		as[i] = start(t, h)
	}
	var group sync.WaitGroup
	off := make(chan int, 1)
	for _, a := range as {
		group.Go(func() {
			for i := range 200 {
				v, err := h.Store.Begin(t.Context(), a.lease, nil, refund(order(i), call(1, i)))
				if err != nil {
					t.Error(err)
				}
				if v.Kind != ledger.Execute {
					return
				}
			}
			t.Error("the switch was never seen")
		})
	}
	group.Go(func() {
		setSwitch(t, h, "refund", ledger.SwitchOff)
		off <- h.count(t, `SELECT count(*) FROM effects`)
	})
	group.Wait()
	if got, then := h.count(t, `SELECT count(*) FROM effects`), <-off; got != then {
		t.Errorf("%d effects when the switch was off, %d now", then, got)
	}
}

func testSwitchRecord(t *testing.T, h Harness) {
	setSwitch(t, h, "refund", ledger.SwitchOff)
	setSwitch(t, h, "refund", ledger.SwitchPaused)
	setSwitch(t, h, "wire_money", ledger.SwitchOff)
	setSwitch(t, h, "wire_money", ledger.SwitchOn)
	for name, c := range map[string]struct {
		f    ledger.SwitchFilter
		want []int64
	}{
		"as they stand":    {ledger.SwitchFilter{}, []int64{2}},
		"every change":     {ledger.SwitchFilter{All: true}, []int64{1, 2, 3, 4}},
		"second page":      {ledger.SwitchFilter{All: true, After: 1, Limit: 2}, []int64{2, 3}},
		"another tenant's": {ledger.SwitchFilter{Tenant: "globex", All: true}, nil},
	} {
		ws, err := h.Store.Switches(t.Context(), c.f)
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for _, w := range ws {
			got = append(got, w.Seq)
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if name == "as they stand" && (ws[0].Mode != ledger.SwitchPaused || ws[0].By != "ada" || ws[0].Reason != "provider is down" || ws[0].At.IsZero()) {
			t.Errorf("switch: %+v", ws[0])
		}
	}
}
