package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// TestParkedRunsCostRows: what waits costs rows. Looking for work takes the same
// memory, and about the same time, beside 100,000 parked runs as beside 1,000,
// and each of them can be woken.
func TestParkedRunsCostRows(t *testing.T) {
	if testing.Short() {
		t.Skip("inserts 100,000 runs")
	}
	h := harness(t)
	ids := events.NewIDs(nil, nil)
	var tokens []events.ID
	park := func(n int) {
		t.Helper()
		runs, offs := make([][]any, n), make([][]any, n)
		at := time.Now()
		for i := range n {
			id := ids.Run()
			call := events.CallID{Turn: 1}
			token := events.CallToken(id, call, "survey", nil)
			tokens = append(tokens, token)
			runs[i] = []any{
				id, "acme", "default", "clerk", id, fmt.Sprint(id),
				[]byte{},
				json.RawMessage(`"x"`),
				[]string{"agent/clerk"},
				at, at,
				ledger.Parked, events.ParkAsyncTool, at, at.Add(24 * time.Hour),
			}
			offs[i] = []any{token, id, 1, 0, 1, "survey", events.ParkAsyncTool, "own", at.Add(24 * time.Hour), "open", at}
		}
		err := h.DB.Write(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
			_, err := tx.InsertMany(ctx, "runs", []string{
				"id", "tenant", "queue", "agent", "root_id", "client_key", "input_mac", "input", "requires", "created_at", "due_at",
				"state", "park_reason", "parked_at", "wake_at",
			}, runs, "")
			if err != nil {
				return err
			}
			_, err = tx.InsertMany(ctx, "handoffs", []string{
				"token", "run_id", "turn", "call_index", "call_attempt", "tool", "reason", "trust", "until", "state", "created_at",
			}, offs, "")
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	claim := func() []ledger.Claim {
		cs, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{Worker: "w", Capabilities: []string{"agent/clerk"}, Limit: 16, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return cs
	}
	look := func() (allocs float64, least time.Duration) {
		least = time.Hour
		allocs = testing.AllocsPerRun(20, func() {
			began := time.Now()
			if n := len(claim()); n != 0 {
				t.Fatalf("%d runs claimed that wait", n)
			}
			least = min(least, time.Since(began))
		})
		return allocs, least
	}
	park(1_000)
	allocs, took := look()
	park(99_000)
	manyAllocs, manyTook := look()
	t.Logf("a claim that finds nothing: %.0f allocations, %v beside 1,000 parked runs; %.0f, %v beside 100,000", allocs, took, manyAllocs, manyTook)
	if manyAllocs > 1.2*allocs {
		t.Errorf("allocations grew from %.0f to %.0f", allocs, manyAllocs)
	}
	if manyTook > 20*took+5*time.Millisecond {
		t.Errorf("a claim took %v at best, with a hundredth of the runs %v", manyTook, took)
	}
	for _, i := range []int{0, 500, 99_999} {
		if _, err := h.Store.Complete(t.Context(), ledger.Completion{Token: tokens[i], Kind: ledger.Applied, By: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	if cs := claim(); len(cs) != 3 {
		t.Errorf("%d runs woke, want 3", len(cs))
	}
}
