package ledgertest

import (
	"errors"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// switchedOff brings a run to where its keyed or fenced call is in doubt and its
// tool off: Begin says why it is not made again.
func switchedOff(t *testing.T, h Harness, kind string) (*actor, ledger.Verdict) {
	t.Helper()
	a := start(t, h)
	in := refund(recovery(kind))
	a.want(ledger.Execute, in)
	a.end(in.Token, ledger.Unclear)
	setSwitch(t, h, "refund", ledger.SwitchOff)
	v := a.want(ledger.InDoubt, refund(recovery(kind)))
	if v.Detail != ledger.DetailKillSwitch {
		t.Fatalf("verdict %+v does not say that the tool is off", v)
	}
	return a, v
}

func (a *actor) parkSwitched(key events.Hash) error {
	a.t.Helper()
	a.flush()
	return a.h.Store.Park(a.t.Context(), a.lease, a.prefix, ledger.Parking{Reason: events.ParkInDoubt, OpKey: key, Tool: "refund"})
}

func testSwitchWakesDoubt(t *testing.T, h Harness) {
	for _, kind := range []string{ledger.RecoveryKeyed, ledger.RecoveryFenced} {
		for _, on := range []string{"refund", ledger.EveryTool} {
			setSwitch(t, h, "refund", ledger.SwitchOn)
			a, v := switchedOff(t, h, kind)
			if on == ledger.EveryTool {
				setSwitch(t, h, ledger.EveryTool, ledger.SwitchOff)
				setSwitch(t, h, "refund", ledger.SwitchOn)
			}
			// Parked first, then switched on: the run is found.
			if err := a.parkSwitched(v.Ref.OpKey); err != nil {
				t.Fatal(err)
			}
			if tryTake(t, h, a.run) != nil {
				t.Fatal("a waiting run was claimed")
			}
			if w := setSwitch(t, h, on, ledger.SwitchPaused); w.Woken != 0 { // still not to be made
				t.Errorf("%s: paused woke %d", kind, w.Woken)
			}
			if w := setSwitch(t, h, on, ledger.SwitchOn); w.Woken != 1 {
				t.Errorf("%s: woken by %q: %d", kind, on, w.Woken)
			}
			a = take(t, h, a.run)
			again := refund(recovery(kind))
			if v := a.want(ledger.Execute, again); !v.Prior {
				t.Error("made again without a word of the first attempt")
			}
			a.end(again.Token, ledger.Applied)

			// Switched on first, then parked: the wait is refused.
			setSwitch(t, h, "refund", ledger.SwitchOn)
			b, v := switchedOff(t, h, kind)
			setSwitch(t, h, "refund", ledger.SwitchOn)
			if err := b.parkSwitched(v.Ref.OpKey); !errors.Is(err, ledger.ErrFactsPending) {
				t.Errorf("%s: waits for a tool that is on: %v", kind, err)
			}
			b.want(ledger.Execute, refund(recovery(kind)))
		}
	}
	// The run that waits is not the one that has the effect.
	setSwitch(t, h, "refund", ledger.SwitchOn)
	r, v := switchedOff(t, h, ledger.RecoveryKeyed)
	other := submit(t, h)
	h.sql(t, `UPDATE runs SET state = 'parked', park_reason = 'in_doubt', park_key = $2 WHERE id = $1`, other.ID, v.Ref.OpKey)
	if w := setSwitch(t, h, "refund", ledger.SwitchOn); w.Woken != 1 {
		t.Errorf("woken beside run %s, which has the effect: %d", r.run.ID, w.Woken)
	}
	h.sql(t, `UPDATE runs SET park_key = NULL WHERE id = $1`, other.ID)
	// What no provider absorbs waits for a person, whatever the switch says; so
	// does what is in doubt for another reason.
	a, v := doubtful(t, h)
	if err := a.park(events.ParkInDoubt, v.Ref.OpKey); err != nil {
		t.Fatal(err)
	}
	setSwitch(t, h, "refund", ledger.SwitchOff)
	if w := setSwitch(t, h, "refund", ledger.SwitchOn); w.Woken != 0 {
		t.Errorf("woken for an opaque effect: %d", w.Woken)
	}
}

func testSwitchDoubtNoLostWakeUp(t *testing.T, h Harness) {
	for range 10 {
		a, v := switchedOff(t, h, ledger.RecoveryFenced)
		a.flush()
		a.parkBesideSwitchOn(func() error { return a.parkSwitched(v.Ref.OpKey) })
	}
}
