package loops_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/model"
)

// payload draws any event that could stand in a history, fitting or not: late,
// repeated, of another turn, from a worker that had lost its lease.
func payload(t *rapid.T, epoch *uint64) events.Payload {
	turn, attempt := rapid.IntRange(0, 3).Draw(t, "turn"), rapid.IntRange(0, 3).Draw(t, "attempt")
	c := events.CallID{Turn: turn, Index: rapid.IntRange(-1, 3).Draw(t, "index")}
	r := rapid.SampledFrom([]*events.EffectRef{nil, ref}).Draw(t, "ref")
	res := events.ToolResult{
		Status:  rapid.SampledFrom([]string{"completed", "failed", ""}).Draw(t, "status"),
		Output:  rapid.SampledFrom([]string{"", "out", `{"because":"x"}`}).Draw(t, "output"),
		Trust:   rapid.SampledFrom([]string{"", "own", "external"}).Draw(t, "trust"),
		Control: rapid.SampledFrom([]string{"", "", "", "finish", "decline"}).Draw(t, "control"),
	}
	yes := rapid.Bool().Draw(t, "yes")
	switch rapid.IntRange(0, 19).Draw(t, "kind") {
	case 0, 1:
		return events.TurnStarted{Turn: turn}
	case 2, 3, 4:
		return events.ModelCallStarted{Turn: turn, Attempt: attempt}
	case 5, 6, 7:
		p := events.ModelCallFinished{Turn: turn, Attempt: attempt, Text: rapid.SampledFrom([]string{"", "text"}).Draw(t, "text")}
		for range rapid.IntRange(0, 3).Draw(t, "calls") {
			p.ToolCalls = append(p.ToolCalls, events.ToolCall{Name: "x", Arguments: json.RawMessage(`"bad`), Malformed: true})
		}
		return p
	case 8:
		return events.ModelCallError{Turn: turn, Attempt: attempt, Retryable: yes, Usage: &events.Usage{Input: 1, Missing: yes}}
	case 9, 10:
		return events.ToolExecutionStarted{Call: c, Attempt: attempt, Tool: "x", Ref: r}
	case 11, 12:
		return events.ToolExecutionFinished{Call: c, Attempt: attempt, Tool: "x", Ref: r, Result: res, Repeated: yes}
	case 13:
		return events.ToolExecutionError{Call: c, Attempt: attempt, Tool: "x", Ref: r, Result: res}
	case 14:
		return events.ToolExecutionBlocked{Call: c, Tool: "x", Reason: events.BlockedToolDenied, Result: res}
	case 15:
		return events.ToolExecutionInDoubt{Call: c, Attempt: attempt, Tool: "x", Ref: *ref, Continue: yes}
	case 16:
		s := rapid.SampledFrom([]events.EffectState{events.EffectApplied, events.EffectNotApplied, events.EffectAbandoned}).Draw(t, "state")
		return events.EffectResolved{Call: c, Tool: "x", Ref: *ref, State: s, Result: res}
	case 17:
		*epoch++
		return events.RunResumed{Epoch: *epoch}
	case 18:
		return rapid.SampledFrom([]events.Payload{
			events.RunParked{Reason: events.ParkTimer},
			events.RunUnparked{},
			events.OperatorActed{Verb: "resolve"},
			events.ArtifactValidationFinished{Turn: 1},
			events.ArtifactRevisionStarted{Revision: 1, Input: "again"},
			events.ToolExecutionProgress{Call: c},
			events.TimerFired{},
			events.SignalReceived{},
			events.StepPlanned{Step: attempt, Op: events.OpCalls, Turn: turn, Calls: []events.ToolCall{{Name: "x", Arguments: json.RawMessage(`{}`)}, {Name: "y", Arguments: json.RawMessage(`{}`)}}},
			events.StepPlanned{Step: attempt, Op: events.OpModel, Turn: turn, Text: "?", Tools: yes},
			events.StepPlanned{Step: attempt, Op: events.OpArtifact, Turn: turn, Name: "a"},
			events.StepPlanned{Step: attempt, Op: events.OpPatch, Name: "p"},
		}).Draw(t, "other")
	default:
		return rapid.SampledFrom([]events.Payload{
			events.RunFinished{}, events.RunFailed{}, events.RunCancelled{}, events.OperatorActed{Verb: "cancel"},
		}).Draw(t, "end")
	}
}

func history(t *rapid.T) []events.Event {
	ps := start(`{"order_id":"7"}`)
	epoch := uint64(1)
	for range rapid.IntRange(0, 60).Draw(t, "length") {
		ps = append(ps, payload(t, &epoch))
	}
	return loopstest.Events(ps...)
}

func apply(t *rapid.T, h *loops.History, es []events.Event) {
	for _, e := range es {
		if err := h.Apply(e); err != nil {
			t.Fatalf("apply seq %d %s: %v", e.Seq, e.Type, err)
		}
	}
}

// sound checks what holds of every history, whatever is in it.
func sound(t *rapid.T, h *loops.History) {
	ms := h.Messages()
	if ms[0].Role != model.User || ms[0].Text != `{"order_id":"7"}` {
		t.Fatalf("the transcript begins with %+v", ms[0])
	}
	for i, m := range ms {
		if len(m.Calls) == 0 {
			continue
		}
		if i+1 == len(ms) {
			if len(h.Pending()) == 0 {
				t.Fatal("calls without an outcome, and nothing is pending")
			}
			continue
		}
		if ms[i+1].Role != model.Tool || len(ms[i+1].Results) != len(m.Calls) {
			t.Fatalf("message %d asks for %d calls and is followed by %+v", i, len(m.Calls), ms[i+1])
		}
		for j, r := range ms[i+1].Results {
			if r.CallID != m.Calls[j].ID {
				t.Fatalf("message %d: result %d answers %s, want %s", i+1, j, r.CallID, m.Calls[j].ID)
			}
		}
	}
	if len(h.InDoubt()) > len(h.Pending()) {
		t.Fatal("a call in doubt has an outcome")
	}
}

func TestHistoryFoldsCutAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := history(t)
		cut := rapid.IntRange(2, len(es)).Draw(t, "cut")
		whole, pieces := loops.NewHistory(loopstest.Run), loops.NewHistory(loopstest.Run)
		apply(t, pieces, es[:cut])
		sound(t, pieces)
		before := len(pieces.Messages())
		asked, _ := singleshot.New().Next(pieces) // asking changes nothing
		again, _ := singleshot.New().Next(pieces)
		if !reflect.DeepEqual(asked, again) {
			t.Fatalf("Next = %+v, asked again %+v", asked, again)
		}
		first := fmt.Sprint(pieces.Messages())
		apply(t, pieces, es[cut:])
		if got := fmt.Sprint(pieces.Messages()[:before]); got != first {
			t.Fatalf("later events changed the transcript:\n%s\nbefore:\n%s", got, first)
		}
		apply(t, whole, es)
		if !reflect.DeepEqual(whole, pieces) {
			t.Fatalf("folded at once:\n%+v\nin two pieces:\n%+v", whole, pieces)
		}
		sound(t, whole)
	})
}

// PR-18: a loop sees a history and gives a step; that it can do nothing else,
// internal/arch keeps by what it may import.
func TestNextIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := history(t)
		a, b := loops.NewHistory(loopstest.Run), loops.NewHistory(loopstest.Run)
		apply(t, a, es)
		apply(t, b, es)
		x, errX := singleshot.New().Next(a)
		y, errY := singleshot.New().Next(b)
		if !reflect.DeepEqual(x, y) || fmt.Sprint(errX) != fmt.Sprint(errY) {
			t.Fatalf("%+v, %v and %+v, %v from the same history", x, errX, y, errY)
		}
		if _, ok := x.(loops.CheckArtifact); ok { // PR-14
			t.Fatal("single shot made an artifact")
		}
	})
}

func TestFactsAfterTheEndChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := history(t)
		h := loops.NewHistory(loopstest.Run)
		var messages, pending string
		for _, e := range es {
			_, ended := h.Terminal()
			apply(t, h, []events.Event{e})
			if ended && (fmt.Sprint(h.Messages()) != messages || fmt.Sprint(h.Pending()) != pending) {
				t.Fatalf("seq %d %s after the end changed the history", e.Seq, e.Type)
			}
			if !h.Has(e.ID) || h.Seq() != e.Seq || h.Hash() != e.Hash {
				t.Fatalf("seq %d is not in the history", e.Seq)
			}
			messages, pending = fmt.Sprint(h.Messages()), fmt.Sprint(h.Pending())
		}
	})
}

// tenThousand is a run of 1,000 turns and 10,000 events.
func tenThousand() []events.Event {
	ps := start(`"go"`)
	for turn := 1; len(ps) < 10_000; turn++ {
		ps = append(ps, ask(turn, 1, "a", "b", "c")...)
		for i := range 3 {
			ps = append(ps, began(id(turn, i), nil), ended(id(turn, i), "out", nil))
		}
		ps = append(ps, events.ToolExecutionProgress{Call: id(turn, 0)})
	}
	return loopstest.Events(ps[:10_000]...)
}

// BenchmarkFold folds 10,000 events and asks for 1,000 steps on the way. Per
// event it must not cost more than for a history a tenth as long.
func BenchmarkFold(b *testing.B) {
	all := tenThousand()
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("%d events", n), func(b *testing.B) {
			b.ReportAllocs()
			loop := singleshot.New()
			for b.Loop() {
				h := loops.NewHistory(loopstest.Run)
				for i, e := range all[:n] {
					if err := h.Apply(e); err != nil {
						b.Fatal(err)
					}
					if i%10 == 9 {
						if _, err := loop.Next(h); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/event")
		})
	}
}
