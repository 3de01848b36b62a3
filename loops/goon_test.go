package loops_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/model"
)

func runID(n int) events.RunID { return events.RunID{0x01, 0x9b, 15: byte(n)} }

// inSession is the first event of a session's run that goes on from the last of es.
func inSession(place int, es []events.Event, input string) events.RunQueued {
	q := events.RunQueued{Agent: "a", Input: json.RawMessage(input), Session: &events.SessionPlace{Place: uint64(place)}}
	if len(es) > 0 {
		l := es[len(es)-1]
		q.Session.Run, q.Session.Seq, q.Session.Hash = l.RunID, l.Seq, l.Hash
	}
	return q
}

// Wherever a run was when it ended, the next one has a transcript that a provider takes,
// turns and limits of its own, and what came in from outside.
func TestGoingOnFromEveryEvent(t *testing.T) {
	limits := events.RunStarted{Loop: "singleshot", Model: "m", Limits: events.Limits{MaxTurns: 2}}
	whole := join(one(inSession(1, nil, `"go"`), limits), ask(1, 1, "a", "b"), one(
		began(id(1, 0), nil), ended(id(1, 0), "A", nil), began(id(1, 1), ref), doubt(id(1, 1), false),
		events.RunParked{Reason: events.ParkInDoubt}, resolved(id(1, 1), events.EffectApplied, "B"),
		events.SignalReceived{Name: "s", Data: json.RawMessage(`"news"`)},
		events.TurnStarted{Turn: 2}, events.ModelCallStarted{Turn: 2, Attempt: 1},
		events.ModelCallError{Turn: 2, Attempt: 1, Error: events.ErrorInfo{Kind: "x"}},
	))
	for cut := 2; cut <= len(whole); cut++ {
		for _, end := range []events.Payload{events.RunFailed{StoppedBy: events.StoppedByMaxTurns}, events.RunCancelled{By: "ann"}, events.RunFinished{}} {
			first := loopstest.EventsOf(runID(1), join(whole[:cut], one(end))...)
			own := loopstest.EventsOf(runID(2), inSession(2, first, `"and then?"`), limits)
			h := inherit(t, runID(2), own, first)
			ms := h.Messages()
			loopstest.Whole(t, fmt.Sprintf("cut at %d, %T", cut, end), ms)
			if last := ms[len(ms)-1]; last.Role != model.User || last.Text != "and then?" {
				t.Fatalf("cut at %d: the last message is %+v", cut, last)
			}
			_, finished := end.(events.RunFinished)
			if told := strings.HasPrefix(ms[len(ms)-2].Text, "Note: the work on the message before was stopped"); told == finished {
				t.Errorf("cut at %d, %T: the model was told %t", cut, end, told)
			}
			if h.Turns() != 0 || h.ModelTurns() != 0 || h.ModelFailures() != 0 || len(h.Pending()) != 0 || h.Answer() != nil || h.CancelRequested() != nil {
				t.Errorf("cut at %d: %d turns of its own, %d failures, pending %v", cut, h.Turns(), h.ModelFailures(), h.Pending())
			}
			step, err := singleshot.New().Next(h)
			call, ok := step.(loops.CallModel)
			if err != nil || !ok || call.Turn != h.Turn()+1 {
				t.Fatalf("cut at %d: %+v, %v", cut, step, err)
			}
			// max_turns counts from here.
			turn := h.Turn()
			ps := one(inSession(2, first, `"and then?"`), limits)
			for i := range 2 {
				ps = append(ps, ask(turn+1+i, 1, "a")...)
				ps = append(ps, began(id(turn+1+i, 0), nil), ended(id(turn+1+i, 0), "C", nil))
			}
			h = inherit(t, runID(2), loopstest.EventsOf(runID(2), ps...), first)
			if step, _ := singleshot.New().Next(h); h.Turns() != 2 {
				t.Errorf("cut at %d: %d turns, %+v", cut, h.Turns(), step)
			} else if s, ok := step.(loops.Stop); !ok || s.By != events.StoppedByMaxTurns {
				t.Errorf("cut at %d: after two turns: %+v", cut, step)
			}
		}
	}
}

func TestAnotherOriginIsRefused(t *testing.T) {
	first := loopstest.EventsOf(runID(1), inSession(1, nil, `"go"`), events.RunStarted{Loop: "singleshot", Model: "m"}, events.RunFinished{})
	for name, change := range map[string]func(*events.SessionPlace){
		"none":         func(p *events.SessionPlace) { *p = events.SessionPlace{Place: 2} },
		"another hash": func(p *events.SessionPlace) { p.Hash = events.Hash{1} },
		"another run":  func(p *events.SessionPlace) { p.Run = runID(7) },
		"earlier":      func(p *events.SessionPlace) { p.Seq-- },
	} {
		q := inSession(2, first, `"x"`)
		change(q.Session)
		h := inherit(t, runID(2), nil, first)
		if err := h.Apply(loopstest.EventsOf(runID(2), q)[0]); err == nil {
			t.Errorf("%s: folded", name)
		}
	}
}

// A transcript that is restored from a snapshot is the one that is folded from all
// events, however often it was compacted, and whatever follows it.
func TestSnapshotsAreTheHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := keep(rapid.IntRange(1, 3).Draw(t, "keep"))
		started := events.RunStarted{Loop: "singleshot", Model: "m", Limits: events.Limits{MaxTurns: 100}, Compaction: &c}
		var runs [][]events.Event
		type point struct {
			run, seq int
			text     []byte
		}
		var last *point
		restored := func(run events.RunID, runs ...[]events.Event) *loops.History {
			short := loops.NewHistory(run)
			if err := short.Restore(runs[last.run][last.seq], last.text); err != nil {
				t.Fatal(err)
			}
			for i := last.run; i < len(runs); i++ {
				from := 0
				if i == last.run {
					from = last.seq + 1
				}
				for _, e := range runs[i][from:] {
					if err := short.Inherit(e); err != nil {
						t.Fatal(err)
					}
				}
			}
			return short
		}
		for n := 1; n <= rapid.IntRange(1, 5).Draw(t, "runs"); n++ {
			var before []events.Event
			if n > 1 {
				before = runs[n-2]
			}
			ps := one(inSession(n, before, fmt.Sprintf("%q", strings.Repeat("message ", n))), started)
			fold := func() *loops.History {
				return inherit(tb{t: t}, runID(n), loopstest.EventsOf(runID(n), ps...), runs...)
			}
			h := fold()
			if last != nil { // as a later run begins
				short := restored(runID(n), runs...)
				apply(t, short, loopstest.EventsOf(runID(n), ps...))
				same(t, h, short)
			}
			turn, revision := h.Turn(), 0
			for range rapid.IntRange(0, 6).Draw(t, "turns") {
				turn++
				attempt := 1
				if rapid.IntRange(0, 9).Draw(t, "signal") == 0 {
					ps = append(ps, events.SignalReceived{Name: "s", Data: json.RawMessage(`"news"`)})
					h = fold()
				}
				if due, ok := h.DueCompaction(); ok {
					p := events.TranscriptCompacted{Turn: turn, Span: due.Span, Because: due.Because, Trust: "external", By: events.CompactedByCut}
					ps = append(ps, events.TurnStarted{Turn: turn})
					if rapid.Bool().Draw(t, "asked") { // the model's answer is of no use
						ps = append(ps, events.ModelCallStarted{Turn: turn, Attempt: 1, Compacts: &due.Span},
							events.ModelCallError{Turn: turn, Attempt: 1, Error: events.ErrorInfo{Kind: "refused"}})
						attempt++
					}
					text, err := fold().Snapshot(p)
					if err != nil || text == nil {
						t.Fatalf("no snapshot: %v", err)
					}
					ps = append(ps, p)
					last = &point{n - 1, len(ps) - 1, text}
				}
				f := events.ModelCallFinished{Turn: turn, Attempt: attempt, Text: fmt.Sprint("answer <", turn, ">"), Usage: events.Usage{Input: rapid.Int64Range(0, 1000).Draw(t, "tokens")}}
				if rapid.Bool().Draw(t, "call") {
					f.ToolCalls = []events.ToolCall{{Name: "look", Arguments: json.RawMessage(`{"a":"<&>"}`)}}
					f.Blocks = []events.Block{{Kind: events.BlockReasoning, Format: "x", Data: json.RawMessage(`{"s":"<sig>"}`)}, {Kind: events.BlockCall}}
				}
				ps = append(ps, events.TurnStarted{Turn: turn}, events.ModelCallStarted{Turn: turn, Attempt: attempt, Tools: []string{"look"}}, f)
				if f.ToolCalls == nil && rapid.IntRange(0, 4).Draw(t, "revise") == 0 {
					revision++
					ps = append(ps, events.ArtifactRevisionStarted{Revision: revision, Input: "once more"})
				}
				switch {
				case f.ToolCalls == nil:
				case rapid.IntRange(0, 4).Draw(t, "doubt") == 0:
					ps = append(ps, began(id(turn, 0), ref), doubt(id(turn, 0), true))
				default:
					ps = append(ps, began(id(turn, 0), nil), ended(id(turn, 0), strings.Repeat("out ", 40), nil))
				}
				h = fold()
			}
			ps = append(ps, rapid.SampledFrom([]events.Payload{events.RunFinished{}, events.RunCancelled{}, events.RunFailed{StoppedBy: "error"}}).Draw(t, "end"))
			runs = append(runs, loopstest.EventsOf(runID(n), ps...))
			if last != nil { // and as a fork does, from any event behind the compaction
				origins := slices.Clone(runs[:rapid.IntRange(last.run, len(runs)-1).Draw(t, "forked")+1])
				of, from := origins[len(origins)-1], 0
				if len(origins)-1 == last.run {
					from = last.seq
				}
				of = of[:rapid.IntRange(from, len(of)-1).Draw(t, "from")+1]
				origins[len(origins)-1] = of
				l := of[len(of)-1]
				own := loopstest.EventsOf(runID(100), events.RunQueued{Agent: "a", Input: json.RawMessage(`"in French"`), Fork: &events.Fork{Run: l.RunID, Seq: l.Seq, Hash: l.Hash, Effects: "live"}}, started)
				whole, short := inherit(tb{t: t}, runID(100), own, origins...), restored(runID(100), origins...)
				apply(t, short, own)
				same(t, whole, short)
			}
		}
	})
}

// same compares two histories of a run, the second one from a snapshot.
func same(t *rapid.T, whole, short *loops.History) {
	if d := cmp.Diff(whole.Messages(), short.Messages()); d != "" {
		t.Fatalf("(-whole +restored):\n%s", d)
	}
	say := func(h *loops.History) map[string]any {
		due, ok := h.DueCompaction()
		step, err := singleshot.New().Next(h)
		offered, current := h.Offered()
		return map[string]any{
			"turns":  []int{h.Turn(), h.NextTurn(), h.Turns(), h.ModelTurns(), h.ModelAttempts(), h.ModelFailures(), h.Revision(), h.Compactions()},
			"filled": h.Filled(), "external": h.External(), "basis": h.Basis(), "unknown": h.Unknown(), "left by others": h.InheritedUnknown(),
			"due": due, "is due": ok, "step": step, "error": err, "offered": offered, "current": current, "begun": h.Begun().UTC(), "first": h.Origin(),
			"pending": h.Pending(), "open": h.OpenCalls(),
		}
	}
	if a, b := say(whole), say(short); !reflect.DeepEqual(a, b) {
		t.Fatalf("(-whole +restored):\n%s", cmp.Diff(a, b))
	}
}
