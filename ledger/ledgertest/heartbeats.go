package ledgertest

import (
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

func (a *actor) beat(ls ...ledger.Lease) []ledger.Beat {
	a.t.Helper()
	if len(ls) == 0 {
		ls = []ledger.Lease{a.lease}
	}
	bs, err := a.h.Store.Heartbeat(a.t.Context(), a.worker, ls)
	if err != nil {
		a.t.Fatalf("heartbeat: %v", err)
	}
	return bs
}

func testHeartbeatKeeps(t *testing.T, h Harness) {
	a := start(t, h)
	for range 3 {
		h.Advance(leaseTTL - time.Second)
		if b := a.beat()[0]; !b.Held || b.Remaining != leaseTTL || b.Cancelling {
			t.Fatalf("beat %+v", b)
		}
	}
	if tryTake(t, h, a.run) != nil {
		t.Error("a lease that is kept was taken")
	}
}

func testHeartbeatRenews(t *testing.T, h Harness) {
	a := start(t, h)
	a.crash()
	if b := a.beat()[0]; !b.Held {
		t.Fatal("nobody took it, and it is lost")
	}
	if tryTake(t, h, a.run) != nil {
		t.Error("a renewed lease was taken")
	}
	a.flush()
}

func testHeartbeatLost(t *testing.T, h Harness) {
	a := start(t, h)
	b := a.successor()
	if x := a.beat()[0]; x.Held || x.Facts != nil {
		t.Errorf("beat %+v", x)
	}
	b.crash()
	a.beat() // must not extend what is b's
	take(t, h, a.run)
	c := start(t, h)
	if bs, err := h.Store.Heartbeat(t.Context(), "somebody", []ledger.Lease{c.lease}); err != nil || bs[0].Held {
		t.Errorf("another worker's lease: %+v, %v", bs, err)
	}
	c.parkOn(ledger.Parking{Reason: events.ParkSignal})
	if c.beat()[0].Held {
		t.Error("a parked run is held")
	}
}

func testHeartbeatMany(t *testing.T, h Harness) {
	for range 3 {
		submitWith(t, h, func(s *ledger.Submission) { s.Queue = "q" })
	}
	var ls []ledger.Lease
	for _, c := range claimIn(t, h, "q", 3) {
		ls = append(ls, c.Lease)
	}
	if _, err := h.Store.Cancel(t.Context(), ls[1].RunID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	ls[2].Epoch = 7
	bs, err := h.Store.Heartbeat(t.Context(), "w", ls)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range bs {
		if b.RunID != ls[i].RunID || b.Held != (i < 2) || b.Cancelling != (i == 1) || len(b.Facts) != map[bool]int{true: 1}[i == 1] {
			t.Errorf("beat %d: %+v", i, b)
		}
	}
	if bs, err := h.Store.Heartbeat(t.Context(), "w", nil); err != nil || bs != nil {
		t.Errorf("no leases: %v, %v", bs, err)
	}
}
