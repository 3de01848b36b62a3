package loops_test

import (
	"encoding/json"
	"fmt"
	"reflect"
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

// compacting is the beginning of a run with a window of 1,000 tokens.
func compacting(c events.Compaction) []events.Payload {
	return []events.Payload{
		events.RunQueued{Agent: "a", Input: json.RawMessage(`"go"`)},
		events.RunStarted{Loop: "singleshot", Model: "m", Limits: events.Limits{MaxTurns: 100}, Compaction: &c, Tools: []events.ToolBinding{{Name: loops.RecallTool}}},
	}
}

func keep(n int) events.Compaction {
	return events.Compaction{At: 80, Keep: n, With: events.CompactedBySummary, Window: 1000}
}

// talked is a turn with one call whose answer says that so many tokens were used.
func talked(turn int, tokens int64, out string) []events.Payload {
	c := id(turn, 0)
	return []events.Payload{
		events.TurnStarted{Turn: turn},
		events.ModelCallStarted{Turn: turn, Attempt: 1},
		events.ModelCallFinished{Turn: turn, Attempt: 1, ToolCalls: []events.ToolCall{{Name: "look", Arguments: json.RawMessage(`{}`)}}, Usage: events.Usage{Input: tokens - 10, CacheRead: 5, Output: 5}},
		began(c, nil), ended(c, out, nil),
	}
}

func turns(n int, tokens int64) (ps []events.Payload) {
	for i := 1; i <= n; i++ {
		ps = append(ps, talked(i, tokens*int64(i), fmt.Sprintf("out %d %s", i, strings.Repeat("x", 300)))...)
	}
	return ps
}

func TestCompactionIsDueWhenTheWindowIsFull(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    events.Compaction
		ps   []events.Payload
		want string // from-to of turns, because; empty = not due
	}{
		{"room enough", keep(2), turns(4, 100), ""},
		{"over 80 in a hundred", keep(2), turns(8, 120), "1-13 t1-t6 full"},
		{"what came since the last answer counts by the byte", keep(1), join(turns(3, 100), talked(4, 780, strings.Repeat("y", 2000))), "1-7 t1-t3 full"},
		{"fewer are kept where all of them would fill it", keep(8), turns(8, 120), "1-13 t1-t6 full"},
		{"nothing that could go", keep(8), turns(1, 900), ""},
		{"too little to be worth it", keep(1), join(turns(1, 100), talked(2, 900, strings.Repeat("y", 2000))), ""},
		{"nobody knows the window", events.Compaction{At: 80, Keep: 2, With: "summary"}, turns(8, 1200), ""},
		{"a refusal says so, in spite of that", events.Compaction{At: 80, Keep: 2, With: "summary"}, join(turns(4, 10), refused(5, 1)), "1-5 t1-t2 refused"},
		{"and again, with less kept", keep(4), join(turns(6, 10), refused(7, 1), cutOff(t, keep(4), join(turns(6, 10), refused(7, 1))), one(events.ModelCallStarted{Turn: 7, Attempt: 2}, full(7, 2))), "1-6 t1-t4 refused"},
		{"a turn that is refused for another reason", keep(2), join(turns(4, 10), one(events.TurnStarted{Turn: 5}, events.ModelCallStarted{Turn: 5, Attempt: 1}, events.ModelCallError{Turn: 5, Attempt: 1, Error: events.ErrorInfo{Kind: "overloaded"}})), ""},
	} {
		h := loopstest.MustFold(t, join(compacting(tt.c), tt.ps)...)
		got := ""
		if due, ok := h.DueCompaction(); ok {
			got = fmt.Sprintf("%d-%d t%d-t%d %s", due.Span.From, due.Span.To, due.Span.FirstTurn, due.Span.LastTurn, due.Because)
		}
		if got != tt.want {
			t.Errorf("%s: due %q, want %q (filled %d)", tt.name, got, tt.want, h.Filled())
		}
	}
	if h := fold(t, turns(8, 1200)); h.Compaction() != nil {
		t.Error("a run without a policy has one")
	} else if _, due := h.DueCompaction(); due {
		t.Error("a run without a policy is compacted")
	}
}

func full(turn, attempt int) events.Payload {
	return events.ModelCallError{Turn: turn, Attempt: attempt, Error: events.ErrorInfo{Kind: events.KindContextFull, Message: "too long"}}
}

func refused(turn, attempt int) []events.Payload {
	return one(events.TurnStarted{Turn: turn}, events.ModelCallStarted{Turn: turn, Attempt: attempt}, full(turn, attempt))
}

// cutOff is the compaction that is due after ps, without a model.
func cutOff(t testing.TB, c events.Compaction, ps []events.Payload) []events.Payload {
	t.Helper()
	h := loopstest.MustFold(t, join(compacting(c), ps)...)
	due, ok := h.DueCompaction()
	if !ok {
		t.Fatal("no compaction is due")
	}
	return one(events.TranscriptCompacted{Turn: h.NextTurn(), Span: due.Span, By: events.CompactedByCut, Because: due.Because, Trust: "own"})
}

func TestRefusedForGood(t *testing.T) {
	c := keep(4)
	ps := turns(9, 10)
	var steps []string
	for attempt := 1; attempt <= 4; attempt++ {
		if attempt == 1 {
			ps = join(ps, refused(10, 1))
		} else {
			ps = join(ps, one(events.ModelCallStarted{Turn: 10, Attempt: attempt}, full(10, attempt)))
		}
		h := loopstest.MustFold(t, join(compacting(c), ps)...)
		step, err := singleshot.New().Next(h)
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := step.(loops.Stop); ok {
			steps = append(steps, s.Err.Kind)
			continue
		}
		steps = append(steps, fmt.Sprintf("%T", step))
		ps = join(ps, cutOff(t, c, ps))
	}
	// 9 turns: 4 are kept, then 2, then 1; then there is nothing more to leave out.
	if d := cmp.Diff([]string{"loops.CallModel", "loops.CallModel", "loops.CallModel", events.KindContextFull}, steps); d != "" {
		t.Error(d)
	}
	h := loopstest.MustFold(t, join(start(`"go"`), turns(4, 10), refused(5, 1))...)
	if step, _ := singleshot.New().Next(h); fmt.Sprintf("%T", step) != "loops.Stop" {
		t.Errorf("without a policy: %T", step)
	}
}

func TestCompactedTranscript(t *testing.T) {
	c := keep(2)
	before := join(compacting(c), turns(8, 120))
	h := loopstest.MustFold(t, before...)
	due, _ := h.DueCompaction()
	was := h.Messages()
	call := one(
		events.TurnStarted{Turn: 9},
		events.ModelCallStarted{Turn: 9, Attempt: 1, Purpose: events.PurposeCompaction, Compacts: &due.Span},
		events.ModelCallFinished{Turn: 9, Attempt: 1, Text: "they looked", Purpose: events.PurposeCompaction, Usage: events.Usage{Input: 700, Output: 9}},
	)
	h = loopstest.MustFold(t, join(before, call)...)
	again, ok := h.DueCompaction()
	if !ok || again.Answer == nil || again.Answer.Text != "they looked" || again.Span != due.Span || h.Answer() != nil || h.ModelFailures() != 0 {
		t.Fatalf("after the call: due %t %+v, answer of the turn %+v", ok, again, h.Answer())
	}
	es := loopstest.Events(join(before, call, one(
		events.TranscriptCompacted{Turn: 9, Span: due.Span, By: "summary", Because: "full", Text: "they looked", Attempt: 1, Trust: "own"},
		events.ModelCallStarted{Turn: 9, Attempt: 2, Messages: 6},
	))...)
	h = loops.NewHistory(loopstest.Run)
	if n := loopstest.TestCompactions(t, h, es); n != 1 {
		t.Fatalf("%d compactions", n)
	}
	ms := h.Messages()
	want := "Earlier messages of this conversation, turns t1 to t6, were replaced by this summary to make room. Calls that it tells of have been made; their effects stand. " +
		"To read the original of a turn word for word, call recall_turns with its id, such as t6.\n\nthey looked"
	if len(ms) != 6 || ms[0].Text != "go" || ms[1].Text != want || ms[1].Role != model.User || !reflect.DeepEqual(ms[2:], was[13:]) {
		t.Errorf("transcript: %+v", ms)
	}
	if h.ModelAttempts() != 2 || h.NextTurn() != 9 {
		t.Errorf("attempt %d of turn %d", h.ModelAttempts(), h.NextTurn())
	}
	if past := h.Completed("look"); len(past) != 8 || !strings.HasPrefix(past[0].Output, "out 1 ") || !strings.HasPrefix(past[7].Output, "out 8 ") {
		t.Errorf("%d calls are known of the past", len(past))
	}
	ds, err := loops.Rehearse(loops.NewHistory(loopstest.Run), es, singleshot.New())
	if err != nil || len(ds) > 0 {
		t.Errorf("rehearsed: %v %v", ds, err)
	}
	whole := loops.NewOriginal(loopstest.Run)
	for _, e := range es {
		if err := whole.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(whole.Messages(), was) {
		t.Errorf("the original has %d messages, want %d", len(whole.Messages()), len(was))
	}
	if got := whole.TurnText(3); !strings.HasPrefix(got, "agent: \ncalls look: {}\nresult of look: out 3 xxx") || whole.TurnText(9) != "" || !strings.HasPrefix(whole.TurnText(1), "user: go\n") {
		t.Errorf("turn 3: %.80q", got)
	}
}

// What a fork was told stays as its origin's input does, however often it is compacted
// around them.
func TestCompactionKeepsWhatAForkWasTold(t *testing.T) {
	c := keep(2)
	origin := loopstest.Events(join(compacting(c), turns(3, 10))...)
	own := one(forked(origin, `"refund nothing"`), events.RunStarted{Loop: "singleshot", Model: "m", Limits: events.Limits{MaxTurns: 100}, Compaction: &c})
	turn, compacted := 4, 0
	for ; turn < 20; turn++ {
		h := inherit(t, fork1, loopstest.EventsOf(fork1, own...), origin)
		if due, ok := h.DueCompaction(); ok {
			own = append(own, events.TurnStarted{Turn: turn}, events.TranscriptCompacted{Turn: turn, Span: due.Span, By: events.CompactedByCut, Because: due.Because, Trust: "own"})
			compacted++
		}
		own = append(own, talked(turn, 900, fmt.Sprintf("out %d %s", turn, strings.Repeat("x", 300)))...)
	}
	es := loopstest.EventsOf(fork1, own...)
	if n := loopstest.TestCompactions(t, inherit(t, fork1, nil, origin), es); n < 2 || n != compacted {
		t.Fatalf("%d compactions of %d", n, compacted)
	}
	said := func(ms []model.Message) (s []string) {
		for _, m := range ms {
			if m.Role == model.User {
				s = append(s, strings.SplitN(m.Text, ",", 2)[0])
			}
		}
		return s
	}
	h := inherit(t, fork1, es, origin)
	if d := cmp.Diff([]string{"go", "refund nothing", "Earlier messages of this conversation"}, said(h.Messages())); d != "" {
		t.Error(d)
	}
	// A fork of the fork without a word of its own is still told that; one with a word, that instead.
	for word, want := range map[string][]string{
		"null":       {"go", "refund nothing", "Earlier messages of this conversation"},
		`"refund 7"`: {"go", "refund 7", "Earlier messages of this conversation"},
	} {
		second := one(forked(es, word), own[1])
		for i := range 9 {
			h := inherit(t, fork2, loopstest.EventsOf(fork2, second...), origin, es)
			if due, ok := h.DueCompaction(); ok {
				second = append(second, events.TurnStarted{Turn: turn + i}, events.TranscriptCompacted{Turn: turn + i, Span: due.Span, By: events.CompactedByCut, Because: due.Because, Trust: "own"})
			}
			second = append(second, talked(turn+i, 900, strings.Repeat("x", 300))...)
		}
		h := inherit(t, fork2, loopstest.EventsOf(fork2, second...), origin, es)
		if d := cmp.Diff(want, said(h.Messages())); d != "" || h.Compactions() < compacted+2 {
			t.Errorf("%s: %d compactions\n%s", word, h.Compactions(), d)
		}
	}
}

func TestDivergentCompaction(t *testing.T) {
	c := keep(2)
	ps := join(compacting(c), turns(8, 120))
	due, _ := loopstest.MustFold(t, ps...).DueCompaction()
	due.Span.Digest = events.Hash{1}
	es := loopstest.Events(join(ps, one(events.TurnStarted{Turn: 9}, events.TranscriptCompacted{Turn: 9, Span: due.Span, By: "cut"}))...)
	ds, err := loops.Rehearse(loops.NewHistory(loopstest.Run), es, singleshot.New())
	if err != nil || len(ds) != 1 || !strings.Contains(ds[0].Expected, "messages 1 to 13 compacted") {
		t.Errorf("%v %v", ds, err)
	}
}

// What does not fit is left out of the transcript, whatever a record says.
func TestCompactionThatDoesNotFit(t *testing.T) {
	for _, p := range []events.TranscriptCompacted{
		{Turn: 3, Span: events.Span{From: 1, To: 3}},
		{Turn: 9, Span: events.Span{From: 3, To: 3}},
		{Turn: 9, Span: events.Span{From: -1, To: 3}},
		{Turn: 9, Span: events.Span{From: 1, To: 99}},
		{Turn: 9, Span: events.Span{From: 1, To: 2}},
		{Turn: 9, Span: events.Span{From: 2, To: 3}},
	} {
		h := loopstest.MustFold(t, join(compacting(keep(2)), turns(8, 120), one(events.TurnStarted{Turn: 9}, p))...)
		if len(h.Messages()) != 17 || h.Compactions() != 0 {
			t.Errorf("%+v: %d messages", p.Span, len(h.Messages()))
		}
	}
}

func TestObservations(t *testing.T) {
	s := events.Span{FirstTurn: 2, LastTurn: 5}
	text := "Here they are:\n[t2] order 7 is paid\n- [t3, t5]  refunded 4.20\n[t9] made up\n[t2 t1] half made up\nno id\n[t4]\n* [t4] done\n"
	if got, want := loops.Observations(text, s), "[t2] order 7 is paid\n[t3 t5] refunded 4.20\n[t4] done"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestWritten(t *testing.T) {
	h := loopstest.MustFold(t, join(compacting(keep(2)), talked(1, 1, "ä"+strings.Repeat("ö", 10_000)))...)
	ms := h.Messages()
	got := loops.Written(ms, h.OriginalTurns(events.Span{To: len(ms)}))
	if !strings.HasPrefix(got, "user: go\n\n[t1] agent: \n[t1] calls look: {}\n\n[t1] result of look: äö") || len(got) > 7000 || !strings.Contains(got, "bytes left out") || strings.ContainsRune(got, '�') {
		t.Errorf("%d bytes: %.200q", len(got), got)
	}
}

// A history that is compacted over and over is the same wherever it was cut, and no
// answer of a turn is lost but by a compaction.
func TestCompactedHistoriesFoldCutAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := keep(rapid.IntRange(1, 4).Draw(t, "keep"))
		ps, trust := compacting(c), "own"
		h := loopstest.MustFold(tb{t: t}, ps...)
		for turn := 1; turn <= rapid.IntRange(1, 25).Draw(t, "turns"); turn++ {
			if due, ok := h.DueCompaction(); ok {
				ps = append(ps, events.TurnStarted{Turn: turn}, events.ModelCallStarted{Turn: turn, Attempt: 1, Purpose: events.PurposeCompaction, Compacts: &due.Span})
				p := events.TranscriptCompacted{Turn: turn, Span: due.Span, By: events.CompactedByCut, Because: due.Because, Trust: trust}
				if rapid.Bool().Draw(t, "summary") {
					ps = append(ps, events.ModelCallFinished{Turn: turn, Attempt: 1, Text: "sum", Purpose: events.PurposeCompaction})
					p.By, p.Text, p.Attempt = events.CompactedBySummary, "sum", 1
				} else {
					ps = append(ps, events.ModelCallError{Turn: turn, Attempt: 1, Purpose: events.PurposeCompaction})
				}
				ps = append(ps, p)
			}
			if rapid.IntRange(0, 3).Draw(t, "signal") == 0 {
				trust = "external"
				ps = append(ps, events.SignalReceived{Name: "s", Data: json.RawMessage(`"news"`)})
			}
			attempt := 2
			ps = append(ps, events.TurnStarted{Turn: turn}, events.ModelCallStarted{Turn: turn, Attempt: attempt})
			n := rapid.IntRange(0, 2).Draw(t, "calls")
			f := events.ModelCallFinished{Turn: turn, Attempt: attempt, Text: fmt.Sprint("answer ", turn), Usage: events.Usage{Input: rapid.Int64Range(0, 1000).Draw(t, "tokens")}}
			for range n {
				f.ToolCalls = append(f.ToolCalls, events.ToolCall{Name: "look", Arguments: json.RawMessage(`{}`)})
			}
			ps = append(ps, f)
			for i := range n {
				ps = append(ps, began(id(turn, i), nil), ended(id(turn, i), rapid.SampledFrom([]string{"o", strings.Repeat("o", 200)}).Draw(t, "out"), nil))
			}
			h = loopstest.MustFold(tb{t: t}, ps...)
		}
		es := loopstest.Events(ps...)
		loopstest.TestCompactions(tb{t: t}, loops.NewHistory(loopstest.Run), es)
		cut := rapid.IntRange(2, len(es)).Draw(t, "cut")
		pieces := loops.NewHistory(loopstest.Run)
		apply(t, pieces, es[:cut])
		loopstest.Whole(tb{t: t}, "cut", pieces.Messages())
		pieces.DueCompaction() // asking changes nothing
		apply(t, pieces, es[cut:])
		if !reflect.DeepEqual(h, pieces) {
			t.Fatal("folded in two pieces it is another history")
		}
		whole := loops.NewOriginal(loopstest.Run)
		apply(t, whole, es)
		if h.Compactions() > 0 && len(whole.Messages()) <= len(h.Messages()) {
			t.Fatalf("%d messages compacted to %d", len(whole.Messages()), len(h.Messages()))
		}
	})
}

// tb lets rapid's T stand for a testing.TB, as far as it is used here.
type tb struct {
	testing.TB
	t *rapid.T
}

func (b tb) Helper()                      { b.t.Helper() }
func (b tb) Fatal(args ...any)            { b.t.Fatal(args...) }
func (b tb) Fatalf(f string, args ...any) { b.t.Fatalf(f, args...) }
func (b tb) Errorf(f string, args ...any) { b.t.Errorf(f, args...) }
