package ledgertest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
)

var queryTests = []conformance{
	{"runs are listed newest first, in pages", testSummaryPages},
	{"calls are listed as terminal or open, in pages", testCallPages},
	{"calls are found by what they are", testCallFilters},
	{"sums are exact beyond an int64", testCostSums},
	{"what is not known stands beside the sum", testCostUnknowns},
	{"costs of a run with those that work for it", testCostsOfLineage},
	{"sums are those of the single calls however they are asked for", testCostsAddUp},
	{"who waits for an effect", testWaiting},
	{"how tools were used", testToolUses},
	{"versions of artifacts are listed newest first, in pages", testArtifacts},
}

func testSummaryPages(t *testing.T, h Harness) {
	want := []events.RunID{}
	for i := range 5 {
		a := start(t, h, ownedBy(fmt.Sprintf("o%d", i%2)))
		if i == 2 {
			a = start(t, h, ofTenant("other"), func(s *ledger.Submission) { s.SessionID = "s-1" })
		}
		if i != 4 { // the last one has no events
			a.opening()
			h.project(t, a.sent()...)
		}
		want = append(want, a.run.ID)
	}
	var got []events.RunID
	f := ledger.RunFilter{Limit: 2}
	for {
		page, err := h.Store.Summaries(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page {
			got = append(got, s.ID)
			f.Before = s.ID
		}
		if len(page) < 2 {
			break
		}
	}
	if len(got) != 6 || got[0] != want[4] {
		t.Errorf("%d runs, newest %s; want 6 from %s on", len(got), got[0], want[4])
	}
	for _, tt := range []struct {
		name string
		f    ledger.RunFilter
		want int
	}{
		{"by tenant", ledger.RunFilter{Tenant: "other"}, 1},
		{"by owner", ledger.RunFilter{Owner: "o1"}, 2},
		{"by agent", ledger.RunFilter{Agent: "clerk"}, 6},
		{"by state", ledger.RunFilter{States: []ledger.State{ledger.Running, ledger.Parked}}, 6},
		{"by another state", ledger.RunFilter{States: []ledger.State{ledger.Failed}}, 0},
		{"by queue", ledger.RunFilter{Queue: "nowhere"}, 0},
		{"by session", ledger.RunFilter{SessionID: "s-1"}, 1},
		{"by another session", ledger.RunFilter{SessionID: "s-2"}, 0},
		{"from the first on", ledger.RunFilter{Since: queuedAt(want[0])}, 6},
		{"from after the last", ledger.RunFilter{Since: queuedAt(want[4]).Add(time.Millisecond)}, 0},
		{"before the first", ledger.RunFilter{Until: queuedAt(want[0])}, 0},
		{"before what comes after the last", ledger.RunFilter{Until: queuedAt(want[4]).Add(time.Millisecond)}, 6},
	} {
		if page, err := h.Store.Summaries(t.Context(), tt.f); err != nil || len(page) != tt.want {
			t.Errorf("%s: %d runs, %v; want %d", tt.name, len(page), err, tt.want)
		}
	}
}

// queuedAt is the millisecond in which a run got its id.
func queuedAt(r events.RunID) time.Time {
	var b [8]byte
	copy(b[2:], r[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:]))) //nolint:gosec // 48 bits
}

// openCall tells of a call without an outcome.
func (a *actor) openCall(turn, index int, tool string) {
	a.note(events.ToolExecutionStarted{Call: events.CallID{Turn: turn, Index: index}, Attempt: 1, Tool: tool, Effect: "readonly", Arguments: json.RawMessage(`{}`)})
}

// temporalio/temporal#1106
func testCallPages(t *testing.T, h Harness) {
	want := 0
	for i := range 4 {
		a := start(t, h)
		a.opening()
		a.turn(1, 3) // two finished, one blocked
		a.openCall(2, 0, "search")
		a.openCall(2, 1, "search")
		if i%2 == 0 {
			a.note(events.ToolExecutionFinished{Call: events.CallID{Turn: 2, Index: 1}, Attempt: 1, Tool: "search"})
		}
		h.project(t, a.sent()...)
		want += 5
	}
	for _, limit := range []int{1, 2, 3, 7, 100} {
		f := ledger.CallFilter{Limit: limit, Tenant: "acme"}
		seen := map[string]bool{}
		var last ledger.CallRecord
		for {
			page, err := h.Store.Calls(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range page {
				key := c.Run.String() + c.Call.String()
				if seen[key] {
					t.Errorf("limit %d: call %s twice", limit, key)
				}
				if seen[key] = true; !last.Run.IsZero() && (c.Run.String() > last.Run.String() || c.Run == last.Run && c.Seq >= last.Seq) {
					t.Errorf("limit %d: %s seq %d after %s seq %d", limit, c.Run, c.Seq, last.Run, last.Seq)
				}
				last, f.BeforeRun, f.BeforeSeq = c, c.Run, c.Seq
			}
			if len(page) < limit {
				break
			}
		}
		if len(seen) != want {
			t.Errorf("limit %d: %d calls, want %d", limit, len(seen), want)
		}
	}
}

func testCallFilters(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.turn(1, 3)
	key := events.Hash{5}
	ref := events.EffectRef{OpKey: key, Generation: 1, Attempt: 1, Token: testIDs.Event(), Recovery: "none"}
	a.note(events.ToolExecutionStarted{Call: events.CallID{Turn: 2}, Attempt: 1, Tool: "refund", Effect: "destructive", Arguments: json.RawMessage(`{}`), Ref: &ref})
	a.note(events.ToolExecutionInDoubt{Call: events.CallID{Turn: 2}, Attempt: 1, Tool: "refund", Ref: ref, Cause: "timeout"})
	a.openCall(2, 1, "search")
	h.project(t, a.sent()...)
	other := start(t, h)
	other.opening()
	other.openCall(1, 0, "refund")
	h.project(t, other.sent()...)
	for _, tt := range []struct {
		name string
		f    ledger.CallFilter
		want int
	}{
		{"of one run", ledger.CallFilter{Run: a.run.ID}, 5},
		{"all rows of it", ledger.CallFilter{Run: a.run.ID, All: true}, 10},
		{"blocked", ledger.CallFilter{Status: "blocked"}, 1},
		{"finished", ledger.CallFilter{Status: "finished"}, 2},
		{"in doubt now", ledger.CallFilter{Status: "in_doubt"}, 1},
		{"open", ledger.CallFilter{Status: "started"}, 2},
		{"by tool", ledger.CallFilter{Tool: "refund"}, 2},
		{"by effect", ledger.CallFilter{OpKey: key}, 1},
		{"all rows of an effect", ledger.CallFilter{OpKey: key, All: true}, 2},
		{"of another tenant", ledger.CallFilter{Tenant: "other"}, 0},
	} {
		if list, err := h.Store.Calls(t.Context(), tt.f); err != nil || len(list) != tt.want {
			t.Errorf("%s: %d calls, %v; want %d", tt.name, len(list), err, tt.want)
		}
	}
}

func costs(t tb, h Harness, f ledger.CostFilter) map[string]ledger.CostRow {
	t.Helper()
	rows, err := h.Store.Costs(t.Context(), f)
	if err != nil {
		t.Fatalf("costs: %v", err)
	}
	m := map[string]ledger.CostRow{}
	for _, r := range rows {
		m[r.Key] = r
	}
	return m
}

func testCostSums(t *testing.T, h Harness) {
	if sum := costs(t, h, ledger.CostFilter{}); len(sum) != 1 || sum[""].ModelCost.Sign() != 0 {
		t.Errorf("of nothing: %+v", sum)
	}
	most := events.PicoUSD(1<<63 - 1)
	want := new(big.Int)
	for i := range 3 {
		a := start(t, h, ownedBy(fmt.Sprintf("o%d", i%2)))
		a.opening()
		for n := range 2 {
			a.note(events.ModelCallStarted{Turn: n + 1, Attempt: 1, Model: "m"})
			a.note(events.ModelCallFinished{Turn: n + 1, Attempt: 1, Model: "m", ServedModel: fmt.Sprintf("m%d", n), Cost: &most, Usage: events.Usage{Input: 1, Output: 2}})
			want.Add(want, big.NewInt(int64(most)))
		}
		id := events.CallID{Turn: 1}
		a.note(events.ToolExecutionStarted{Call: id, Attempt: 1, Tool: "search", Effect: "readonly", Arguments: json.RawMessage(`{}`)})
		a.note(events.ToolExecutionFinished{Call: id, Attempt: 1, Tool: "search", Result: events.ToolResult{Status: "completed", Cost: &most}})
		h.project(t, a.sent()...)
	}
	tools := new(big.Int).Mul(big.NewInt(int64(most)), big.NewInt(3))
	total := costs(t, h, ledger.CostFilter{Tenant: "acme"})[""]
	if total.ModelCost.Cmp(want) != 0 || total.ToolCost.Cmp(tools) != 0 || total.ModelCalls != 6 || total.ToolCalls != 3 || total.InputTokens != 6 || total.OutputTokens != 12 {
		t.Errorf("total %+v, want models %s, tools %s", total, want, tools)
	}
	for by, keys := range map[string]int{"run": 3, "owner": 2, "model": 2, "tool": 1, "agent": 1, "queue": 3, "day": 1} {
		sums := costs(t, h, ledger.CostFilter{By: by})
		models, calls := new(big.Int), new(big.Int)
		for _, r := range sums {
			models.Add(models, r.ModelCost)
			calls.Add(calls, r.ToolCost)
		}
		if len(sums) != keys || by != "tool" && models.Cmp(want) != 0 || by != "model" && calls.Cmp(tools) != 0 {
			t.Errorf("by %s: %d rows, models %s, tools %s", by, len(sums), models, calls)
		}
	}
	if _, ok := costs(t, h, ledger.CostFilter{By: "model"})["m1"]; !ok {
		t.Error("no sum for the model that served")
	}
	if _, err := h.Store.Costs(t.Context(), ledger.CostFilter{By: "moon"}); err == nil {
		t.Error("a sum by the moon")
	}
	sums, err := h.Store.Summaries(t.Context(), ledger.RunFilter{})
	if err != nil || sums[0].Cost.Cmp(new(big.Int).Mul(big.NewInt(int64(most)), big.NewInt(3))) != 0 {
		t.Errorf("summary %+v, %v", sums[0].Cost, err)
	}
}

func testCostUnknowns(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	started := func(attempt int) {
		a.note(events.ModelCallStarted{Turn: 1, Attempt: attempt, Model: "m"})
	}
	started(1)
	a.note(events.ModelCallError{Turn: 1, Attempt: 1, Model: "m"}) // not billed as far as is known
	started(2)
	a.note(events.ModelCallError{Turn: 1, Attempt: 2, Model: "m", Usage: &events.Usage{Input: 3}})
	started(3)
	a.note(events.ModelCallFinished{Turn: 1, Attempt: 3, Model: "m", Usage: events.Usage{Missing: true}})
	started(4) // unsettled
	id := events.CallID{Turn: 1}
	a.note(events.ToolExecutionStarted{Call: id, Attempt: 1, Tool: "search", Effect: "readonly", Arguments: json.RawMessage(`{}`)})
	a.note(events.ToolExecutionFinished{Call: id, Attempt: 1, Tool: "search", Result: events.ToolResult{Status: "completed"}})
	h.project(t, a.sent()...)
	got := costs(t, h, ledger.CostFilter{Run: a.run.ID})[""]
	if got.Unpriced != 2 || got.Unsettled != 1 || got.Unmeasured != 1 || got.ModelCalls != 4 || got.InputTokens != 3 || got.ModelCost.Sign() != 0 {
		t.Errorf("got %+v", got)
	}
	if got := costs(t, h, ledger.CostFilter{By: "model"}); len(got) != 1 || got["m"].Unpriced != 2 {
		t.Errorf("by model: %+v", got)
	}
	h.wantWhole(t, a.run.ID)
}

func testWaiting(t *testing.T, h Harness) {
	key := events.Hash{9}
	a, b := start(t, h), start(t, h)
	h.sql(t, `UPDATE runs SET state = 'parked', park_reason = 'effect_busy', park_key = $2, lease_until = NULL WHERE id = $1`, a.run.ID, key)
	list, err := h.Store.Waiting(t.Context(), key)
	if err != nil || len(list) != 1 || list[0].ID != a.run.ID || list[0].ParkKey != key {
		t.Errorf("waiting: %+v, %v", list, err)
	}
	if list, err := h.Store.Waiting(t.Context(), events.Hash{}); err != nil || len(list) != 0 {
		t.Errorf("waiting for nothing: %+v, %v", list, err)
	}
	if _, err := h.Store.Cancel(t.Context(), b.run.ID, "ann", "enough"); err != nil {
		t.Fatal(err)
	}
	fs, err := h.Store.Pending(t.Context(), b.run.ID)
	if err != nil || len(fs) != 1 || fs[0].Type != "operator_acted" {
		t.Errorf("pending: %+v, %v", fs, err)
	}
}
