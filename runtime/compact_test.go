package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/loopstest"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

// talker looks so many times and finishes; what it does is in its conversation alone.
// Its tokens are the bytes that it is sent.
type talker struct {
	turns     int
	window    int64 // 0 = takes any request; else refuses one that is larger
	summaries atomic.Int64
	calls     atomic.Int64
	summary   func(n int64, asked string) (model.Response, error)
	mu        sync.Mutex
	longest   int64
	asked     []string // of compactions
	recall    string   // the turn that is recalled in the last but one
}

func (m *talker) Call(_ context.Context, r model.Request) (model.Response, error) {
	size := r.InputBound() - 1024
	if strings.HasPrefix(r.System, "You will be shown a part") {
		m.mu.Lock()
		m.asked = append(m.asked, r.Messages[0].Text)
		m.mu.Unlock()
		n := m.summaries.Add(1)
		if m.summary != nil {
			return m.summary(n, r.Messages[0].Text)
		}
		return model.Response{Text: "They looked.", StopReason: "end_turn", Usage: events.Usage{Input: size, Output: 3}}, nil
	}
	m.calls.Add(1)
	if m.window > 0 && size > m.window {
		return model.Response{}, &model.Error{Kind: events.KindContextFull, Err: errors.New("prompt is too long")}
	}
	m.mu.Lock()
	m.longest = max(m.longest, size)
	m.mu.Unlock()
	n := 0
	for _, msg := range r.Messages {
		for _, res := range msg.Results {
			if _, err := fmt.Sscanf(res.Text, "seen %d", &n); err != nil && res.Name == "look" {
				return model.Response{}, fmt.Errorf("a result says %q", res.Text)
			}
			if res.Name == "recall_turns" {
				n++
			}
		}
	}
	n++
	resp := model.Response{StopReason: "tool_use", Usage: events.Usage{Input: size, Output: 1}}
	call := events.ToolCall{Name: "look", Arguments: json.RawMessage(fmt.Sprintf(`{"text":"%d"}`, n))}
	switch {
	case n >= m.turns:
		call = events.ToolCall{Name: "finish", Arguments: json.RawMessage(`{"answer":"done"}`)}
	case m.recall != "" && n == m.turns-1:
		call = events.ToolCall{Name: "recall_turns", Arguments: json.RawMessage(`{"ids":"` + m.recall + ` t99"}`)}
	}
	resp.Calls = []events.ToolCall{call}
	return resp, nil
}

// lookout is a tool whose result is long, and of that trust.
func lookout(trust tools.Trust) tools.Tool {
	return must(tools.New(tools.Definition{Name: "look", Description: "Looks.", Effect: tools.Readonly, Trust: trust},
		func(_ context.Context, _ *tools.Invocation, in text) (string, error) {
			return "seen " + in.Text + " " + strings.Repeat("x", 400), nil
		}))
}

// compacted has the agent's transcript compacted in a window of so many tokens.
func (w *world) compacted(c events.Compaction) {
	w.limits.MaxTurns = 100
	w.agent = func(a *agents.Agent) { a.Compaction = &c }
}

func byHalf(window int64) events.Compaction {
	return events.Compaction{At: 60, Keep: 2, With: events.CompactedBySummary, Window: window}
}

func (w *world) compactions(id events.RunID) int {
	w.t.Helper()
	return loopstest.TestCompactions(w.t, loops.NewHistory(id), w.history(id))
}

func TestWindowThatFillsIsCompacted(t *testing.T) {
	m := &talker{turns: 25}
	w := newWorld(t, m, lookout(tools.Own))
	w.compacted(byHalf(5000))
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if r.State != ledger.Finished {
		t.Fatalf("%s: %s\n%s", r.State, r.Error, w.story(r.ID))
	}
	w.caughtUp()
	n := w.compactions(r.ID)
	if n < 2 || int64(n) != m.summaries.Load() {
		t.Errorf("%d compactions, %d summaries", n, m.summaries.Load())
	}
	if m.longest > 5000 {
		t.Errorf("a request of %d bytes in a window of 5000", m.longest)
	}
	rows, err := w.store.ModelCalls(t.Context(), r.ID)
	if err != nil || len(rows) != 25+n {
		t.Errorf("%d rows of model calls, want %d: %v", len(rows), 25+n, err)
	}
	for _, row := range rows {
		if row.State != "finished" || row.Usage == nil {
			t.Errorf("turn %d attempt %d is %s", row.Turn, row.Attempt, row.State)
		}
	}
	p := last[events.TranscriptCompacted](w, r.ID)
	if p.By != "summary" || p.Text != "They looked." || p.Because != loops.CompactFull || p.Span.FirstTurn != 1 {
		t.Errorf("%+v", p)
	}
	w.whole()
}

// A summary is asked for once, whatever happens around it, and the transcript is the
// bytes of the run that nobody disturbed.
func TestCompactedRunIsKilledAtEveryEvent(t *testing.T) {
	m := &talker{turns: 9}
	w := newWorld(t, m, lookout(tools.Own))
	w.compacted(byHalf(7000))
	first := w.start()
	r := w.wait(w.submit("go").ID, false)
	first.stop(t)
	w.caughtUp()
	want, es := w.transcript(r.ID), w.history(r.ID)
	n := w.compactions(r.ID)
	if n != 1 {
		t.Fatalf("%d compactions\n%s", n, w.story(r.ID))
	}
	from, to, answered := 0, 0, 0
	for i, e := range es {
		switch p := e.Data.(type) {
		case events.ModelCallStarted:
			if p.Purpose != "" {
				from = i
			}
		case events.ModelCallFinished:
			if p.Purpose != "" {
				answered = i + 1
			}
		case events.TranscriptCompacted:
			to = i + 4
		}
	}
	for _, after := range []bool{false, true} {
		for at := from; at <= to; at++ {
			before := m.summaries.Load()
			id := w.killedHere(at, after)
			w.caughtUp()
			if d := cmp.Diff(want, w.transcript(id)); d != "" {
				t.Fatalf("killed at event %d (after it: %t):\n%s\n%s", at, after, d, w.story(id))
			}
			if n := w.compactions(id); n != 1 {
				t.Errorf("killed at event %d: %d compactions", at, n)
			}
			paid := m.summaries.Load() - before
			if recorded := at > answered || after && at == answered; recorded && paid != 1 || paid > 2 {
				t.Errorf("killed at event %d (after it: %t, the answer is %d): %d summaries were paid for\n%s", at, after, answered, paid, w.story(id))
			}
		}
	}
	w.whole()
}

// killedHere submits a run whose first worker dies at an event of its own.
func (w *world) killedHere(at int, after bool) events.RunID {
	w.t.Helper()
	return w.heir(w.dies(at, after, func() events.RunID { return w.submit("go").ID }, nil))
}

func TestRefusedRequestIsCompacted(t *testing.T) {
	m := &talker{turns: 20, window: 4000}
	w := newWorld(t, m, lookout(tools.Own))
	w.compacted(events.Compaction{At: 80, Keep: 4, With: events.CompactedBySummary}) // nobody knows the window
	w.start()
	r := w.wait(w.submit("go").ID, false)
	w.caughtUp()
	if r.State != ledger.Finished || w.compactions(r.ID) < 2 {
		t.Fatalf("%s %s\n%s", r.State, r.Error, w.story(r.ID))
	}
	if p := last[events.TranscriptCompacted](w, r.ID); p.Because != loops.CompactRefused {
		t.Errorf("%+v", p)
	}
	w.whole()
}

func TestRefusedRequestEndsTheRun(t *testing.T) {
	for name, c := range map[string]*events.Compaction{"without a policy": nil, "that nothing can be left out of": {At: 80, Keep: 90, With: events.CompactedByCut}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, &talker{turns: 20, window: 300}, lookout(tools.Own))
			w.agent = func(a *agents.Agent) { a.Compaction = c }
			w.start()
			r := w.wait(w.submit("go").ID, false)
			if r.State != ledger.Failed || !strings.Contains(r.Error, events.KindContextFull) {
				t.Errorf("%s: %s", r.State, r.Error)
			}
			w.whole()
		})
	}
}

// Whatever is wrong with a summary, the run goes on without one.
func TestCompactionWithoutASummary(t *testing.T) {
	answer := func(text, stop string) func(int64, string) (model.Response, error) {
		return func(int64, string) (model.Response, error) {
			return model.Response{Text: text, StopReason: stop, Usage: events.Usage{Input: 1, Output: 1}}, nil
		}
	}
	fails := func(retryable bool) func(int64, string) (model.Response, error) {
		return func(int64, string) (model.Response, error) {
			return model.Response{}, &model.Error{Kind: "overloaded", Retryable: retryable, RetryAfter: time.Millisecond, Err: errors.New("busy")}
		}
	}
	for _, tt := range []struct {
		name    string
		with    string
		summary func(int64, string) (model.Response, error)
		failed  string
		paid    int64
	}{
		{"empty", events.CompactedBySummary, answer(" \n", "end_turn"), "no summary", 1},
		{"refused", events.CompactedBySummary, answer("I will not", "refusal"), "refused", 1},
		{"cut off", events.CompactedBySummary, answer("They looked at", "max_tokens"), "cut off at the limit of 4096 tokens", 1},
		{"observations cut off", events.CompactedByObservations, answer("[t1] looked\n[t2] loo", "max_tokens"), "cut off", 1},
		{"larger than what it replaces", events.CompactedBySummary, answer(strings.Repeat("word ", 5000), "end_turn"), "no smaller", 1},
		{"no observation of a turn", events.CompactedByObservations, answer("they looked\n[t77] at nothing", "end_turn"), "no summary", 1},
		{"the model fails for good", events.CompactedBySummary, fails(false), "failed 1 times: overloaded", 1},
		{"the model goes on failing", events.CompactedBySummary, fails(true), "failed 3 times: overloaded", 3},
		{"none is wanted", events.CompactedByCut, nil, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &talker{turns: 9, summary: tt.summary}
			w := newWorld(t, m, lookout(tools.Own))
			c := byHalf(7000)
			c.With = tt.with
			w.compacted(c)
			w.start()
			r := w.wait(w.submit("go").ID, false)
			w.caughtUp()
			p := last[events.TranscriptCompacted](w, r.ID)
			if r.State != ledger.Finished || p.By != events.CompactedByCut || p.Text != "" || !strings.Contains(p.Failed, tt.failed) || m.summaries.Load() != tt.paid {
				t.Errorf("%s, %d asked, %+v", r.State, m.summaries.Load(), p)
			}
			w.compactions(r.ID)
			w.whole()
		})
	}
}

// PR-104: observations name the turns that they are from, and a turn is read back
// by its exact id.
func TestObservationsAndRecall(t *testing.T) {
	m := &talker{turns: 9, recall: "t2", summary: func(_ int64, asked string) (model.Response, error) {
		if !strings.Contains(asked, "[t2] calls look") {
			return model.Response{}, fmt.Errorf("the turns are not named: %s", asked)
		}
		return model.Response{Text: "- [t1, t2] looked twice\nand so on", StopReason: "end_turn", Usage: events.Usage{Input: 9, Output: 9}}, nil
	}}
	w := newWorld(t, m, lookout(tools.Own), builtin.RecallTurns())
	c := byHalf(7000)
	c.With = events.CompactedByObservations
	w.compacted(c)
	w.start()
	r := w.wait(w.submit("go").ID, false)
	w.caughtUp()
	if r.State != ledger.Finished || w.compactions(r.ID) != 1 {
		t.Fatalf("%s %s\n%s", r.State, r.Error, w.story(r.ID))
	}
	if p := last[events.TranscriptCompacted](w, r.ID); p.Text != "[t1 t2] looked twice" || p.By != events.CompactedByObservations {
		t.Errorf("%+v", p)
	}
	found := ""
	for _, e := range w.history(r.ID) {
		if p, ok := e.Data.(events.ToolExecutionFinished); ok && p.Tool == "recall_turns" {
			found = p.Result.Output
		}
	}
	want := "t2:\nagent: \ncalls look: {\"text\":\"2\"}\nresult of look: seen 2 " + strings.Repeat("x", 400) + "\n\nt99:\n(there is no such turn)"
	if found != want {
		t.Errorf("recalled %q, want %q", found, want)
	}
	w.whole()
}

// What came in from outside stays known when its text is gone, and nothing
// unredacted is in a summary.
func TestCompactionKeepsTaintAndSecrets(t *testing.T) {
	const canary = "s3cr3t-canary-7f9a1c"
	m := &talker{turns: 9, summary: func(int64, string) (model.Response, error) {
		return model.Response{Text: "The password is " + canary + ".", StopReason: "end_turn", Usage: events.Usage{Input: 9, Output: 9}}, nil
	}}
	w := newWorld(t, m, lookout(tools.External))
	w.red.Register("canary", canary)
	w.compacted(byHalf(7000))
	w.start()
	r := w.wait(w.submit("go "+canary).ID, false)
	w.caughtUp()
	if r.State != ledger.Finished || w.compactions(r.ID) != 1 {
		t.Fatalf("%s %s\n%s", r.State, r.Error, w.story(r.ID))
	}
	p := last[events.TranscriptCompacted](w, r.ID)
	if p.Trust != "external" || !strings.Contains(p.Text, "The password is ") {
		t.Errorf("%+v", p)
	}
	if strings.Contains(w.story(r.ID), canary) || strings.Contains(strings.Join(m.asked, ""), canary) {
		t.Error("the canary is out")
	}
	w.whole()
}

// A fork from before a compaction has the original, one from behind it the summary.
func TestForkAroundACompaction(t *testing.T) {
	m := &talker{turns: 9}
	w := newWorld(t, m, lookout(tools.Own))
	w.compacted(byHalf(7000))
	w.start()
	r := w.wait(w.submit("go").ID, false)
	w.caughtUp()
	var at, third uint64
	for _, e := range w.history(r.ID) {
		switch p := e.Data.(type) {
		case events.TranscriptCompacted:
			at = e.Seq
		case events.TurnStarted:
			if p.Turn == 4 {
				third = e.Seq - 1
			}
		}
	}
	for _, tt := range []struct {
		seq  uint64
		want int // messages that the fork begins with
		told any
	}{{at - 4, 15, nil}, {at - 1, 15, nil}, {at, 6, nil}, {at + 2, 7, nil}, {third, 7, "and then"}, {at, 6, "and then"}} {
		f, _, err := w.client().Fork(t.Context(), runtime.Fork{Run: r.ID, Seq: tt.seq, Effects: ledger.ForkReplay, By: "ann", Note: tt.told})
		if err != nil {
			t.Fatal(err)
		}
		h := loops.NewHistory(f.ID)
		if err := runtime.Inherit(t.Context(), w.store, f, h); err != nil {
			t.Fatal(err)
		}
		if n := len(h.Messages()); n < tt.want-2 || n > tt.want+2 {
			t.Errorf("a fork at %d begins with %d messages, want about %d", tt.seq, n, tt.want)
		}
		if end := w.wait(f.ID, false); end.State != ledger.Finished {
			t.Errorf("a fork at %d: %s %s", tt.seq, end.State, end.Error)
		}
		w.caughtUp()
		loopstest.TestCompactions(t, h, w.history(f.ID))
	}
	w.whole()
}
