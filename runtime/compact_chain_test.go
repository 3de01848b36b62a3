package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// summariser answers turns as the talker does, and compactions by itself.
type summariser struct {
	*talker
	calls *atomic.Int64 // of all models
	sum   func() (model.Response, error)
}

func (m summariser) Call(ctx context.Context, r model.Request) (model.Response, error) {
	m.calls.Add(1)
	if strings.HasPrefix(r.System, "You will be shown a part") {
		resp, err := m.sum()
		resp.Model = r.Model
		return resp, err
	}
	resp, err := m.talker.Call(ctx, r)
	resp.Model = r.Model
	return resp, err
}

// compactingChain is gpt-5, which is overloaded when it is asked for a summary, gpt-5-mini
// at two endpoints, of which one refuses the key and the other takes no request of that length,
// and claude-haiku-4-5, which writes it.
func compactingChain(w *world, calls *atomic.Int64) {
	m := func(sum func() (model.Response, error)) model.Model {
		return summariser{talker: &talker{turns: 9}, calls: calls, sum: sum}
	}
	fails := func(kind string, retry bool) func() (model.Response, error) {
		return func() (model.Response, error) {
			return model.Response{}, &model.Error{Kind: kind, Retryable: retry, RetryAfter: time.Hour, Err: errors.New("no")}
		}
	}
	endpoint := func(name string) model.Endpoint {
		return model.Endpoint{Name: name, Model: m(fails(map[string]string{"x": "unauthorized", "y": events.KindContextFull}[name], false))}
	}
	x, y := endpoint("x"), endpoint("y")
	x.Weight = 1 << 30 // first
	pool, err := model.NewPool(nil, x, y)
	if err != nil {
		w.t.Fatal(err)
	}
	w.limits.MaxTurns = 100
	w.agent = func(a *agents.Agent) {
		c := byHalf(7000)
		a.Model, a.Fallbacks, a.Compaction, a.Budget = "gpt-5", []string{"gpt-5-mini", "claude-haiku-4-5"}, &c, usd(events.USD)
	}
	w.cfg = func(c *runtime.Config) {
		c.Models["gpt-5"] = m(fails("overloaded", true))
		c.Models["gpt-5-mini"] = pool
		c.Models["claude-haiku-4-5"] = m(func() (model.Response, error) {
			return model.Response{Text: "They looked.", StopReason: "end_turn", Usage: events.Usage{Input: 3000, Output: 3}}, nil
		})
	}
}

// askedFor tells who was asked, how each failed, and what came of it. An attempt that was
// cut short is made again where it was made.
func (w *world) askedFor(id events.RunID, only func(turn int) bool) string {
	w.t.Helper()
	var lines []string
	for _, e := range w.history(id) {
		s := ""
		switch p := e.Data.(type) {
		case events.ModelCallStarted:
			if only(p.Turn) {
				s = strings.TrimSpace(fmt.Sprintf("turn %d %s asks %s %s", p.Turn, p.Purpose, p.Model, p.Endpoint))
			}
		case events.ModelCallError:
			if only(p.Turn) {
				s = fmt.Sprintf("%s, next endpoint %q", p.Error.Kind, p.NextEndpoint)
			}
		case events.ModelCallFinished:
			if only(p.Turn) {
				s = fmt.Sprintf("%s answers, degraded %+v, priced %t", p.Model, p.Degraded, p.Cost != nil)
			}
		case events.TranscriptCompacted:
			s = fmt.Sprintf("by %s: %q %s", p.By, p.Text, p.Failed)
		}
		if s != "" && (len(lines) == 0 || lines[len(lines)-1] != s) {
			lines = append(lines, s)
		}
	}
	return strings.Join(lines, "\n")
}

// The chain and the pools serve a compaction as they serve a turn: each attempt is
// recorded and paid for, and a worker killed before and after each of its events
// changes neither who is asked nor what comes of it.
func TestCompactionOfAChainIsKilledAtEveryEvent(t *testing.T) {
	var calls atomic.Int64
	w := newWorld(t, nil, lookout(tools.Own))
	compactingChain(w, &calls)
	first := w.start()
	r := w.wait(w.submit("go").ID, false)
	first.stop(t)
	w.caughtUp()
	if r.State != ledger.Finished || w.compactions(r.ID) != 1 {
		t.Fatalf("%s %s\n%s", r.State, r.Error, w.story(r.ID))
	}
	from, to, turn := 0, 0, 0
	for i, e := range w.history(r.ID) {
		switch p := e.Data.(type) {
		case events.ModelCallStarted:
			if p.Purpose != "" && from == 0 {
				from, turn = i, p.Turn
			}
		case events.TranscriptCompacted:
			to = i + 4
		}
	}
	these := func(n int) bool { return n == turn }
	want, transcript := w.askedFor(r.ID, these), w.transcript(r.ID)
	if d := cmp.Diff(strings.ReplaceAll(`turn 8 compaction asks gpt-5
overloaded, next endpoint ""
turn 8 compaction asks gpt-5-mini x
unauthorized, next endpoint "y"
turn 8 compaction asks gpt-5-mini y
context_full, next endpoint ""
turn 8 compaction asks claude-haiku-4-5
claude-haiku-4-5 answers, degraded &{From:gpt-5 To:claude-haiku-4-5 Reason:overloaded Chain:[gpt-5 gpt-5-mini claude-haiku-4-5]}, priced true
by summary: "They looked." 
turn 8  asks gpt-5-mini x
gpt-5-mini answers, degraded &{From:gpt-5 To:gpt-5-mini Reason:overloaded Chain:[gpt-5 gpt-5-mini claude-haiku-4-5]}, priced true`, "turn 8", fmt.Sprint("turn ", turn)), want); d != "" {
		t.Fatalf("undisturbed (-want +got):\n%s", d)
	}
	rows, err := w.store.ModelCalls(t.Context(), r.ID)
	if err != nil || int64(len(rows)) != calls.Load() {
		t.Errorf("%d rows of %d wire calls: %v", len(rows), calls.Load(), err)
	}
	cost, _ := w.modelCost(r)
	if b := w.budgets()[0]; b.Spent == 0 || b.Reserved != 0 || cost.Int64() != int64(b.Spent) {
		t.Errorf("spent %s of %s, reserved %s", b.Spent, cost, b.Reserved)
	}
	for _, after := range []bool{false, true} {
		for at := from; at <= to; at++ {
			before := calls.Load()
			compactingChain(w, &calls)
			id := w.killedHere(at, after)
			w.caughtUp()
			if d := cmp.Diff(want, w.askedFor(id, these)); d != "" {
				t.Fatalf("killed at event %d (after it: %t):\n%s\n%s", at, after, d, w.story(id))
			}
			if d := cmp.Diff(transcript, w.transcript(id)); d != "" {
				t.Fatalf("killed at event %d (after it: %t):\n%s", at, after, d)
			}
			if n := w.compactions(id); n != 1 {
				t.Errorf("killed at event %d (after it: %t): %d compactions", at, after, n)
			}
			started := int64(0)
			for _, e := range w.history(id) {
				if _, ok := e.Data.(events.ModelCallStarted); ok {
					started++
				}
			}
			if made := calls.Load() - before; made > started {
				t.Errorf("killed at event %d (after it: %t): %d wire calls, %d rows\n%s", at, after, made, started, w.story(id))
			}
		}
	}
	w.whole()
}

// It is cut only once nobody is left who could write it.
func TestCompactionThatNobodyWrites(t *testing.T) {
	answer := model.Response{Text: "They looked.", StopReason: "end_turn", Usage: events.Usage{Input: 1, Output: 1}}
	says := func(kind string) func() (model.Response, error) {
		return func() (model.Response, error) {
			if kind == "" {
				return answer, nil
			}
			return model.Response{}, &model.Error{Kind: kind, Err: errors.New("no")}
		}
	}
	for _, tt := range []struct {
		name, policy, a, b, c string
		by, want              string
	}{
		{"a window too small, a key refused, the third writes", "", events.KindContextFull, "unauthorized", "", "c", ""},
		{"all through", "", events.KindContextFull, "unauthorized", "panic", "", "the models failed 3 times, the last one c: panic"},
		{"a bad request is as bad elsewhere", "", "invalid_request", "", "", "", "the models failed 1 times, the last one a: invalid_request"},
		{"the policy's model first, then the agent's", "c", "", "", "unauthorized", "a", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls atomic.Int64
			w := newWorld(t, nil, lookout(tools.Own))
			c := byHalf(7000)
			c.Model = tt.policy
			w.limits.MaxTurns = 100
			w.agent = func(a *agents.Agent) { a.Model, a.Fallbacks, a.Compaction = "a", []string{"b", "c"}, &c }
			w.cfg = func(cfg *runtime.Config) {
				for name, kind := range map[string]string{"a": tt.a, "b": tt.b, "c": tt.c} {
					cfg.Models[name] = summariser{talker: &talker{turns: 9}, calls: &calls, sum: says(kind)}
				}
			}
			w.start()
			r := w.wait(w.submit("go").ID, false)
			w.caughtUp()
			p := last[events.TranscriptCompacted](w, r.ID)
			by := ""
			for _, e := range w.history(r.ID) {
				if f, ok := e.Data.(events.ModelCallFinished); ok && f.Purpose != "" {
					by = f.Model
				}
			}
			if r.State != ledger.Finished || by != tt.by || p.Failed != tt.want || w.compactions(r.ID) != 1 {
				t.Errorf("%s, written by %q, %+v\n%s", r.State, by, p, w.story(r.ID))
			}
			w.whole()
		})
	}
}
