package ledgertest

import (
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// testCostsOfLineage sums over a run and its descendants: over a tree of three
// generations and a run beside it, in whole and by each key.
func testCostsOfLineage(t *testing.T, h Harness) {
	cost := func(a *actor, pico events.PicoUSD) *actor {
		a.opening()
		a.modelCall(1, 1, pico)
		h.project(t, a.sent()...)
		return a
	}
	root := cost(start(t, h, ownedBy("ann")), 1)
	left := cost(start(t, h, ownedBy("ann"), childOf(root.run)), 10)
	right := cost(start(t, h, ownedBy("bob"), childOf(root.run)), 100)
	grandchild := cost(start(t, h, ownedBy("bob"), childOf(left.run)), 1000)
	again := cost(start(t, h, ownedBy("ann"), childOf(left.run)), 10_000) // tries the grandchild again
	h.sql(t, `UPDATE runs SET retry_of = $2 WHERE id = $1`, again.run.ID, grandchild.run.ID)
	cost(start(t, h, ownedBy("ann")), 100_000)
	for _, tt := range []struct {
		name string
		f    ledger.CostFilter
		want int64
	}{
		{"of the root alone", ledger.CostFilter{Run: root.run.ID}, 1},
		{"of the root's lineage", ledger.CostFilter{Run: root.run.ID, Lineage: true}, 11_111},
		{"of one in the middle", ledger.CostFilter{Run: left.run.ID, Lineage: true}, 11_010},
		{"of a leaf", ledger.CostFilter{Run: right.run.ID, Lineage: true}, 100},
		{"of an owner within it", ledger.CostFilter{Run: root.run.ID, Lineage: true, Owner: "bob"}, 1100},
		{"of another tenant", ledger.CostFilter{Run: root.run.ID, Lineage: true, Tenant: "globex"}, 0},
		{"of a run that nobody has", ledger.CostFilter{Run: events.RunID{1}, Lineage: true}, 0},
	} {
		if got := costs(t, h, tt.f)[""]; got.ModelCost.Int64() != tt.want {
			t.Errorf("%s: %s, want %d", tt.name, got.ModelCost, tt.want)
		}
	}
	by := costs(t, h, ledger.CostFilter{Run: root.run.ID, Lineage: true, By: "run"})
	if len(by) != 5 || by[grandchild.run.ID.String()].ModelCost.Int64() != 1000 {
		t.Errorf("by run: %+v", by)
	}
	if by := costs(t, h, ledger.CostFilter{Run: root.run.ID, Lineage: true, By: "owner"}); len(by) != 2 || by["ann"].ModelCost.Int64() != 10_011 || by["bob"].ModelCost.Int64() != 1100 {
		t.Errorf("by owner: %+v", by)
	}
}
