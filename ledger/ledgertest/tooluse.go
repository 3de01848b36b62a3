package ledgertest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

// testToolUses counts a call of each kind once, by what it came to.
func testToolUses(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	n := 0
	begin := func(tool, effect string) events.CallID {
		n++
		id := events.CallID{Turn: 1, Index: n}
		a.note(events.ToolExecutionStarted{Call: id, Attempt: 1, Tool: tool, Effect: effect, Arguments: json.RawMessage(`{}`)})
		return id
	}
	cost := 3 * events.MicroUSD
	done := events.ToolResult{Status: "completed", Trust: "own", Cost: &cost}
	a.note(events.ToolExecutionFinished{Call: begin("search", "readonly"), Attempt: 1, Tool: "search", Result: done})
	done.Cost = nil
	a.note(events.ToolExecutionFinished{Call: begin("search", "destructive"), Attempt: 1, Tool: "search", Result: done})
	a.note(events.ToolExecutionError{Call: begin("search", "readonly"), Attempt: 1, Tool: "search", Result: events.ToolResult{Status: "failed", Error: "gone"}})
	// Found out about an earlier run's call, which was counted there.
	a.note(events.ToolExecutionError{
		Call: events.CallID{Turn: 1, Index: 8}, Attempt: 1, Tool: "search", Repeated: true, Of: &events.CallRef{Run: a.run.ID}, Ref: &events.EffectRef{Token: events.ID{1}, OpKey: events.Hash{1}},
		Error: events.ErrorInfo{Kind: "not_applied"}, Result: events.ToolResult{Status: "failed", Trust: "own"},
	})
	a.note(events.ToolExecutionBlocked{Call: events.CallID{Turn: 1, Index: 9}, Tool: "refund", Reason: "unknown_tool", Arguments: json.RawMessage(`{}`), Result: events.ToolResult{Status: "failed", Error: "no"}})
	begin("search", "readonly") // still open
	h.project(t, a.sent()...)
	other := start(t, h, ofTenant("other"))
	other.opening()
	h.project(t, other.sent()...)
	if _, err := h.Store.SetSwitch(t.Context(), ledger.SwitchChange{Tenant: a.run.Tenant, Tool: "search", Mode: ledger.SwitchPaused, Reason: "drill", By: "ann"}); err != nil {
		t.Fatal(err)
	}
	uses, err := h.Store.ToolUses(t.Context(), ledger.ToolFilter{Tenant: a.run.Tenant})
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]ledger.ToolUse{}
	for _, u := range uses {
		byName[u.Tool] = u
	}
	got := byName["search"]
	if got.Calls != 4 || got.Repeated != 1 || got.Errors != 1 || got.Blocked != 0 || got.Effect != "destructive" || got.Cost.Int64() != int64(cost) || got.Unmeasured != 2 || got.LastUsed.IsZero() || got.Switch != ledger.SwitchPaused {
		t.Errorf("search: %+v", got)
	}
	if got := byName["refund"]; got.Calls != 1 || got.Blocked != 1 || got.Switch != ledger.SwitchOn {
		t.Errorf("refund: %+v", got)
	}
	if rs, err := h.Store.Summaries(t.Context(), ledger.RunFilter{Tenant: a.run.Tenant, Limit: 10}); err != nil || len(rs) != 1 || rs[0].ToolCalls != 4 || rs[0].Repeated != 1 || rs[0].Unmeasured != 2 {
		t.Errorf("runs: %+v, %v", rs, err)
	}
	for name, f := range map[string]ledger.ToolFilter{"another tenant": {Tenant: "nobody"}, "later": {Since: time.Now().Add(100 * 365 * 24 * time.Hour)}} {
		if uses, err := h.Store.ToolUses(t.Context(), f); err != nil || len(uses) != 0 {
			t.Errorf("%s: %+v, %v", name, uses, err)
		}
	}
}
