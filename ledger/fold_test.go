package ledger

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
)

var (
	foldRunID = events.RunID{1}
	foldStart = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	foldRef   = &events.EffectRef{OpKey: events.Hash{7}, Generation: 1, Attempt: 1, Token: events.ID{8}, Recovery: RecoveryNone}
)

// history gives payloads their envelopes; the epoch grows with run_resumed.
func history(ps ...events.Payload) []events.Event {
	var es []events.Event
	epoch := uint64(1)
	for i, p := range ps {
		if _, ok := p.(events.RunResumed); ok {
			epoch++
		}
		es = append(es, events.Event{
			Envelope: events.Envelope{
				ID: events.ID{byte(i + 1)}, RunID: foldRunID, Seq: uint64(i + 1), Epoch: epoch, Type: events.TypeOf(p), Version: 1,
				Time: foldStart.Add(time.Duration(i) * time.Second), Tenant: "acme",
			},
			Data: p,
		})
	}
	return es
}

func pico(n int64) *events.PicoUSD { p := events.PicoUSD(n); return &p }

func call(turn, index int) events.CallID { return events.CallID{Turn: turn, Index: index} }

func started(c events.CallID, attempt int, ref *events.EffectRef) events.Payload {
	effect := "readonly"
	if ref != nil {
		effect = "destructive"
	}
	return events.ToolExecutionStarted{Call: c, Attempt: attempt, Tool: "refund", Effect: effect, Arguments: json.RawMessage(`{"id":1}`), Ref: ref}
}

func finished(c events.CallID, attempt int, ref *events.EffectRef, cost *events.PicoUSD) events.Payload {
	return events.ToolExecutionFinished{Call: c, Attempt: attempt, Tool: "refund", Ref: ref, Result: events.ToolResult{Status: "completed", Output: "ok", Cost: cost}, LatencyMS: 5}
}

// line writes what matters of a row.
func line(c CallRecord) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s a%d %s", c.Seq, c.Call, c.Attempt, c.Status)
	add := func(when bool, format string, args ...any) {
		if when {
			b.WriteByte(' ')
			fmt.Fprintf(&b, format, args...)
		}
	}
	add(c.Terminal, "terminal")
	add(len(c.Arguments) > 0, "args")
	add(!c.StartedAt.IsZero(), "since %d", int(c.StartedAt.Sub(foldStart).Seconds())+1)
	add(c.Reason != "", "reason=%s", c.Reason)
	add(c.Detail != "", "detail=%s", c.Detail)
	add(c.Repeated, "repeated")
	add(c.Of != nil, "of")
	add(c.Cost != nil, "cost=%s", c.Cost)
	add(!c.OpKey.IsZero(), "op")
	return b.String()
}

func modelLine(m ModelCallRow) string {
	s := fmt.Sprintf("%d t%d.a%d e%d %s", m.Seq, m.Turn, m.Attempt, m.Epoch, m.State)
	if m.Cost != nil {
		s += " cost=" + m.Cost.String()
	}
	if m.Usage != nil {
		s += fmt.Sprintf(" in=%d", m.Usage.Input)
	}
	if m.Unpriced() {
		s += " unpriced"
	}
	return s
}

func TestFold(t *testing.T) {
	queued := events.RunQueued{Agent: "clerk", Owner: "ann", Root: foldRunID}
	resumed := events.RunResumed{Epoch: 2}
	asked := func(attempt int) events.Payload {
		return events.ModelCallStarted{Turn: 1, Attempt: attempt, Model: "m"}
	}
	answered := func(attempt int, cost *events.PicoUSD) events.Payload {
		return events.ModelCallFinished{Turn: 1, Attempt: attempt, Model: "m", ServedModel: "m2", Usage: events.Usage{Input: 10, Output: 2}, Cost: cost}
	}
	doubt := events.ToolExecutionInDoubt{Call: call(1, 0), Attempt: 1, Tool: "refund", Ref: *foldRef, Cause: "takeover"}
	resolved := events.EffectResolved{Call: call(1, 0), Tool: "refund", Ref: *foldRef, State: events.EffectApplied, By: "ann", Result: events.ToolResult{Status: "completed"}}
	repeated := events.ToolExecutionFinished{
		Call: call(2, 0), Attempt: 1, Tool: "refund", Repeated: true, Of: &events.CallRef{Run: foldRunID, Call: call(1, 0)},
		Result: events.ToolResult{Status: "completed", Cost: pico(7)},
	}
	blocked := events.ToolExecutionBlocked{Call: call(1, 1), Tool: "rm", Arguments: json.RawMessage(`{}`), Reason: events.BlockedToolDenied, Result: events.ToolResult{Status: "failed"}}
	for _, tt := range []struct {
		name   string
		events []events.Payload
		calls  []string
		models []string
		totals Totals // only what is not zero is compared with Cost as Cost
		cost   int64
	}{
		{
			name:   "a call tells itself in its terminal row",
			events: []events.Payload{queued, started(call(1, 0), 1, nil), events.ToolExecutionProgress{Call: call(1, 0), Attempt: 1, Progress: "half"}, finished(call(1, 0), 1, nil, pico(3))},
			calls:  []string{"2 t1.c0 a1 started args since 2", "3 t1.c0 a1 progress since 2", "4 t1.c0 a1 finished terminal args since 2 cost=0.000000000003"},
			totals: Totals{ToolCalls: 1}, cost: 3,
		},
		{
			name:   "blocked has no started row and costs nothing",
			events: []events.Payload{queued, blocked},
			calls:  []string{"2 t1.c1 a0 blocked terminal args reason=tool_denied"},
			totals: Totals{Blocked: 1},
		},
		{
			name:   "an error without a cost is unmeasured",
			events: []events.Payload{queued, started(call(1, 0), 1, nil), events.ToolExecutionError{Call: call(1, 0), Attempt: 1, Tool: "refund", Error: events.ErrorInfo{Kind: "boom"}}},
			calls:  []string{"2 t1.c0 a1 started args since 2", "3 t1.c0 a1 error terminal args since 2 reason=boom"},
			totals: Totals{ToolCalls: 1, Unmeasured: 1},
		},
		{
			name:   "a repeated outcome is paid for where it was made",
			events: []events.Payload{queued, started(call(1, 0), 1, foldRef), finished(call(1, 0), 1, foldRef, pico(7)), events.TurnStarted{Turn: 2}, repeated},
			calls:  []string{"2 t1.c0 a1 started args since 2 op", "3 t1.c0 a1 finished terminal args since 2 cost=0.000000000007 op", "5 t2.c0 a1 finished terminal repeated of"},
			totals: Totals{Turns: 1, ToolCalls: 1, Destructive: 1, Repeated: 1}, cost: 7,
		},
		{
			name:   "in doubt over a takeover until it is resolved",
			events: []events.Payload{queued, started(call(1, 0), 1, foldRef), resumed, doubt, resolved},
			calls: []string{
				"2 t1.c0 a1 started args since 2 op", "4 t1.c0 a1 in_doubt args since 2 reason=takeover op",
				"5 t1.c0 a1 resolved terminal args since 2 reason=applied detail=ann op",
			},
			totals: Totals{ToolCalls: 1, Destructive: 1, Resumes: 1, Unmeasured: 1},
		},
		{
			name:   "in doubt now",
			events: []events.Payload{queued, started(call(1, 0), 1, foldRef), resumed, doubt},
			calls:  []string{"2 t1.c0 a1 started args since 2 op", "4 t1.c0 a1 in_doubt args since 2 reason=takeover op"},
			totals: Totals{ToolCalls: 1, Destructive: 1, Resumes: 1, Doubtful: 1},
		},
		{
			name:   "late evidence after a resolution is a row and a cost, and no second outcome",
			events: []events.Payload{queued, started(call(1, 0), 1, foldRef), resumed, doubt, resolved, finished(call(1, 0), 1, foldRef, pico(9))},
			calls: []string{
				"2 t1.c0 a1 started args since 2 op", "4 t1.c0 a1 in_doubt args since 2 reason=takeover op",
				"5 t1.c0 a1 resolved terminal args since 2 reason=applied detail=ann op", "6 t1.c0 a1 finished detail=late cost=0.000000000009 op",
			},
			totals: Totals{ToolCalls: 1, Destructive: 1, Resumes: 1, Unmeasured: 1}, cost: 9,
		},
		{
			name:   "a readonly attempt that a resume closed is late, the next one counts",
			events: []events.Payload{queued, started(call(1, 0), 1, nil), resumed, finished(call(1, 0), 1, nil, pico(1)), started(call(1, 0), 2, nil), finished(call(1, 0), 2, nil, pico(2))},
			calls: []string{
				"2 t1.c0 a1 started args since 2", "4 t1.c0 a1 finished args since 2 detail=late cost=0.000000000001",
				"5 t1.c0 a2 started args since 5", "6 t1.c0 a2 finished terminal args since 5 cost=0.000000000002",
			},
			totals: Totals{ToolCalls: 1, Resumes: 1}, cost: 3,
		},
		{
			name:   "a model call is settled on its own row",
			events: []events.Payload{queued, asked(1), answered(1, pico(5))},
			models: []string{"2 t1.a1 e1 finished cost=0.000000000005 in=10"},
			totals: Totals{ModelCalls: 1, InputTokens: 10, OutputTokens: 2}, cost: 5,
		},
		{
			name:   "an attempt without an outcome is unsettled",
			events: []events.Payload{queued, asked(1), resumed, asked(2), answered(2, nil)},
			models: []string{"2 t1.a1 e1 unsettled", "4 t1.a2 e2 finished in=10 unpriced"},
			totals: Totals{ModelCalls: 2, Resumes: 1, InputTokens: 10, OutputTokens: 2, Unpriced: 1},
		},
		{
			name:   "an answer after a resume is late on the row of its start",
			events: []events.Payload{queued, asked(1), resumed, answered(1, pico(5)), asked(2), answered(2, pico(6))},
			models: []string{"2 t1.a1 e1 late cost=0.000000000005 in=10", "5 t1.a2 e2 finished cost=0.000000000006 in=10"},
			totals: Totals{ModelCalls: 2, Resumes: 1, InputTokens: 20, OutputTokens: 4}, cost: 11,
		},
		{
			name:   "an answer without a start is late on a row of its own",
			events: []events.Payload{queued, resumed, answered(1, pico(5))},
			models: []string{"3 t1.a1 e2 late cost=0.000000000005 in=10"},
			totals: Totals{ModelCalls: 1, Resumes: 1, InputTokens: 10, OutputTokens: 2}, cost: 5,
		},
		{
			name: "an error is unpriced only if something was billed",
			events: []events.Payload{
				queued, asked(1),
				events.ModelCallError{Turn: 1, Attempt: 1, Model: "m"},
				asked(2),
				events.ModelCallError{Turn: 1, Attempt: 2, Model: "m", Usage: &events.Usage{Missing: true}},
			},
			models: []string{"2 t1.a1 e1 error", "4 t1.a2 e1 error in=0 unpriced"},
			totals: Totals{ModelCalls: 2, Unpriced: 1},
		},
		{
			name:   "the state is where the run is, and the end stands",
			events: []events.Payload{queued, events.RunParked{Reason: events.ParkTimer}, events.RunUnparked{}, events.RunFinished{StoppedBy: events.StoppedByFinish}, events.RunUnparked{}},
			totals: Totals{State: "finish"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := NewFold(foldRunID)
			var rows Rows
			for _, e := range history(tt.events...) {
				if err := f.Apply(e, &rows); err != nil {
					t.Fatal(err)
				}
			}
			var calls, models []string
			for _, c := range rows.Calls {
				calls = append(calls, line(c))
			}
			for _, m := range rows.Models {
				models = append(models, modelLine(m))
			}
			if got, want := strings.Join(calls, "\n"), strings.Join(tt.calls, "\n"); got != want {
				t.Errorf("calls:\n%s\nwant:\n%s", got, want)
			}
			if got, want := strings.Join(models, "\n"), strings.Join(tt.models, "\n"); got != want {
				t.Errorf("model calls:\n%s\nwant:\n%s", got, want)
			}
			want := tt.totals
			want.Tenant, want.Agent, want.Owner, want.Events = "acme", "clerk", "ann", int64(len(tt.events))
			want.Cost, want.FirstAt, want.LastAt = big.NewInt(tt.cost), foldStart, f.Totals.LastAt
			if d := Differences(f.Totals, want); d != "" {
				t.Errorf("totals: %s", d)
			}
			restored(t, history(tt.events...), rows, f)
		})
	}
}

// restored breaks the fold off after every event and goes on from the rows.
func restored(t *testing.T, es []events.Event, want Rows, whole *Fold) {
	t.Helper()
	var rows Rows
	f := NewFold(foldRunID)
	for _, e := range es {
		calls, models := map[uint64]CallRecord{}, map[uint64]ModelCallRow{}
		for _, c := range rows.Calls {
			calls[c.Seq] = c
		}
		for _, m := range rows.Models {
			models[m.Seq] = m
		}
		open := f.Open()
		var err error
		f, err = RestoreFold(f.Run, f.Seq, f.Totals, open,
			func(seq uint64) (CallRecord, error) { return calls[seq], nil },
			func(seq uint64) (ModelCallRow, error) { return models[seq], nil })
		if err != nil {
			t.Fatal(err)
		}
		if string(f.Open()) != string(open) {
			t.Fatalf("before seq %d: open is %s, restored %s", e.Seq, open, f.Open())
		}
		if err := f.Apply(e, &rows); err != nil {
			t.Fatal(err)
		}
	}
	if string(f.Open()) != string(whole.Open()) {
		t.Errorf("open is %s, in one go %s", f.Open(), whole.Open())
	}
	for i := range want.Calls {
		if d := Differences(rows.Calls[i], want.Calls[i]); d != "" {
			t.Errorf("restored at every step: %s", d)
		}
	}
	for i := range want.Models {
		if d := Differences(rows.Models[i], want.Models[i]); d != "" {
			t.Errorf("restored at every step: %s", d)
		}
	}
}

func TestFoldRefusesWhatIsNotNext(t *testing.T) {
	f := NewFold(foldRunID)
	es := history(events.RunQueued{Agent: "clerk"}, events.TurnStarted{Turn: 1})
	if err := f.Apply(es[1], &Rows{}); err == nil || f.Seq != 0 || f.Totals.Events != 0 {
		t.Errorf("a gap: %v, seq %d", err, f.Seq)
	}
	if err := NewFold(events.RunID{9}).Apply(es[0], &Rows{}); err == nil {
		t.Error("an event of another run was folded")
	}
}

func TestOpenCallsNamesOneRowPerCall(t *testing.T) {
	f := NewFold(foldRunID)
	var rows Rows
	for _, e := range history(
		events.RunQueued{Agent: "clerk"}, started(call(1, 0), 1, foldRef), started(call(1, 1), 1, nil), started(call(1, 2), 1, nil),
		finished(call(1, 1), 1, nil, nil), events.ToolExecutionInDoubt{Call: call(1, 0), Attempt: 1, Ref: *foldRef},
	) {
		if err := f.Apply(e, &rows); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := OpenCalls(f.Open()); err != nil || fmt.Sprint(got) != "[4 6]" {
		t.Errorf("open calls %v, %v", got, err)
	}
}

func TestMoneyOfAFoldIsNotAnInt64(t *testing.T) {
	f := NewFold(foldRunID)
	var rows Rows
	ps := []events.Payload{events.RunQueued{Agent: "clerk"}}
	for i := range 3 {
		ps = append(ps, started(call(1, i), 1, nil), finished(call(1, i), 1, nil, pico(1<<62)))
	}
	for _, e := range history(ps...) {
		if err := f.Apply(e, &rows); err != nil {
			t.Fatal(err)
		}
	}
	if want := new(big.Int).Mul(big.NewInt(1<<62), big.NewInt(3)); f.Totals.Cost.Cmp(want) != 0 {
		t.Errorf("cost %s, want %s", f.Totals.Cost, want)
	}
}

func TestTextWithNULIsMadeStorable(t *testing.T) {
	if got := clean("a\x00b"); got != "a\uFFFDb" {
		t.Errorf("clean = %q", got)
	}
}
