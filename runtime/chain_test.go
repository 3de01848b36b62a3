package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
)

// chained are models of a chain: each answers by the turn it is asked in. What it is
// asked is kept.
type chained struct {
	mu    sync.Mutex
	asked []string
	seen  map[string][]model.Request
}

func turnOf(r model.Request) int {
	n := 1
	for _, m := range r.Messages {
		if m.Role == model.Assistant {
			n++
		}
	}
	return n
}

type link struct {
	c    *chained
	name string
	f    func(turn int) (model.Response, error)
}

func (l link) Call(_ context.Context, r model.Request) (model.Response, error) {
	turn := turnOf(r)
	l.c.mu.Lock()
	l.c.asked = append(l.c.asked, fmt.Sprintf("%d %s", turn, l.name))
	if l.c.seen == nil {
		l.c.seen = map[string][]model.Request{}
	}
	l.c.seen[l.name] = append(l.c.seen[l.name], r)
	l.c.mu.Unlock()
	if r.Model != l.name {
		return model.Response{}, &model.Error{Kind: "invalid_request", Err: fmt.Errorf("asked for %q", r.Model)}
	}
	return l.f(turn)
}

func (c *chained) calls() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.asked)
}

func (c *chained) requests(name string) []model.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.seen[name])
}

// signedBy is an answer that asks for a look, with reasoning that its model signed. Both
// models of a chain have the same wire format.
func signedBy(name string) model.Response {
	r := signed(`{"signature":"by ` + name + `"}`)
	r.Model, r.Text, r.RequestID = name, "looking", ""
	r.Blocks = []events.Block{r.Blocks[0], {Kind: events.BlockText}, r.Blocks[1]}
	return r
}

func doneBy(name string) model.Response {
	return model.Response{Model: name, Text: "done", StopReason: "end_turn", Usage: events.Usage{Input: 3, Output: 1}}
}

func down(kind string, wait time.Duration) error {
	return &model.Error{Kind: kind, Retryable: true, RetryAfter: wait, Err: errors.New("down")}
}

// chainOf puts models into a world as a chain, in this order.
func (w *world) chainOf(links ...link) {
	w.agent = func(a *agents.Agent) {
		a.Model, a.Fallbacks = links[0].name, nil
		for _, l := range links[1:] {
			a.Fallbacks = append(a.Fallbacks, l.name)
		}
	}
	w.cfg = func(c *runtime.Config) {
		for _, l := range links {
			c.Models[l.name] = l
		}
	}
}

// served is which model was asked in each turn, and which answered: what a crash must
// not change. An attempt that was cut short is made again where it was.
func (w *world) served(id events.RunID) string {
	w.t.Helper()
	var asked []string
	s := ""
	for _, e := range w.history(id) {
		switch p := e.Data.(type) {
		case events.ModelCallStarted:
			if a := fmt.Sprintf("turn %d asks %s", p.Turn, p.Model); len(asked) == 0 || asked[len(asked)-1] != a {
				asked = append(asked, a)
			}
		case events.ModelCallFinished:
			s += fmt.Sprintf("turn %d answered by %s, degraded %+v, cost %v\n", p.Turn, p.ServedModel, p.Degraded, p.Cost)
		}
	}
	return strings.Join(asked, "\n") + "\n" + s
}

// The first model of a chain is down from the second turn on, the second one after it
// fails once; the worker is killed at every event, before it and after it, and another one goes on. Every
// decision is the one of the run that nobody disturbed, each wire call has a row, and
// none is made for an answer that is recorded.
func TestChainIsKilledAtEveryEvent(t *testing.T) {
	c := new(chained)
	links := []link{
		{c, "gpt-5", func(turn int) (model.Response, error) {
			if turn == 1 {
				return signedBy("gpt-5"), nil
			}
			return model.Response{}, down("overloaded", time.Hour)
		}},
		{c, "gpt-5-mini", func(turn int) (model.Response, error) {
			if turn == 2 {
				return model.Response{}, &model.Error{Kind: "unauthorized", Err: errors.New("no such key")}
			}
			return doneBy("gpt-5-mini"), nil
		}},
		{c, "claude-haiku-4-5", func(turn int) (model.Response, error) {
			if turn < 4 {
				return signedBy("claude-haiku-4-5-20251001"), nil
			}
			return doneBy("claude-haiku-4-5-20251001"), nil
		}},
	}
	w := newWorld(t, nil, looker())
	w.chainOf(links...)
	first := w.start()
	id := w.submit("go").ID
	if r := w.wait(id, true); r.State != ledger.Finished {
		t.Fatalf("the run is %s\n%s", r.State, w.story(id))
	}
	first.stop(t)
	w.caughtUp()
	want, transcript, n := w.served(id), w.transcript(id), len(w.history(id))
	if d := cmp.Diff(`turn 1 asks gpt-5
turn 2 asks gpt-5
turn 2 asks gpt-5-mini
turn 2 asks claude-haiku-4-5
turn 3 asks claude-haiku-4-5
turn 4 asks claude-haiku-4-5
turn 1 answered by gpt-5, degraded <nil>, cost 0.00002375
turn 2 answered by claude-haiku-4-5-20251001, degraded &{From:gpt-5 To:claude-haiku-4-5 Reason:overloaded Chain:[gpt-5 gpt-5-mini claude-haiku-4-5]}, cost 0.000013
turn 3 answered by claude-haiku-4-5-20251001, degraded &{From:gpt-5 To:claude-haiku-4-5 Reason:overloaded Chain:[gpt-5 gpt-5-mini claude-haiku-4-5]}, cost 0.000013
turn 4 answered by claude-haiku-4-5-20251001, degraded &{From:gpt-5 To:claude-haiku-4-5 Reason:overloaded Chain:[gpt-5 gpt-5-mini claude-haiku-4-5]}, cost 0.000008
`, want); d != "" {
		t.Fatalf("undisturbed (-want +got):\n%s\n%s", d, w.story(id))
	}
	w.onlyOwnReasoning(c)
	for _, after := range []bool{false, true} {
		for at := 1; at <= n; at++ {
			before := c.calls()
			id := w.killedChain(links, at, after)
			w.caughtUp()
			if d := cmp.Diff(want, w.served(id)); d != "" {
				t.Fatalf("killed at event %d of %d (after it: %t):\n%s\n%s", at, n, after, d, w.story(id))
			}
			if d := cmp.Diff(transcript, w.transcript(id)); d != "" {
				t.Fatalf("killed at event %d of %d (after it: %t):\n%s", at, n, after, d)
			}
			started, answered := 0, 0
			for _, e := range w.history(id) {
				switch p := e.Data.(type) {
				case events.ModelCallStarted:
					started++
					if p.Turn <= answered {
						t.Errorf("killed at event %d: turn %d is asked again, and its answer is recorded", at, p.Turn)
					}
				case events.ModelCallFinished:
					answered = max(answered, p.Turn)
				}
			}
			// A call whose start was lost with its worker was not made: it waits for the journal.
			if made := c.calls() - before; made > started {
				t.Errorf("killed at event %d: %d wire calls, %d rows\n%s", at, made, started, w.story(id))
			}
		}
	}
	w.onlyOwnReasoning(c)
	w.whole()
}

// onlyOwnReasoning fails the test if a model was sent what another one had signed, or
// lost what was said and called.
func (w *world) onlyOwnReasoning(c *chained) {
	w.t.Helper()
	for name, own := range map[string]string{"gpt-5": "by gpt-5", "gpt-5-mini": "none", "claude-haiku-4-5": "by claude"} {
		for _, r := range c.requests(name) {
			signatures := 0
			for _, m := range r.Messages {
				if m.Role != model.Assistant {
					continue
				}
				if m.Text != "looking" || len(m.Calls) != 1 {
					w.t.Errorf("%s is told of an answer %q with %d calls", name, m.Text, len(m.Calls))
				}
				for _, b := range m.Blocks {
					if b.Data != nil {
						signatures++
						if !strings.Contains(string(b.Data), own) {
							w.t.Errorf("%s is sent %s", name, b.Data)
						}
					}
				}
			}
			if want := turnOf(r) - 2; name == "claude-haiku-4-5" && signatures != want {
				w.t.Errorf("%s gets %d of its own signatures back in turn %d, want %d", name, signatures, turnOf(r), want)
			}
		}
	}
}

func (w *world) killedChain(links []link, at int, after bool) events.RunID {
	w.t.Helper()
	w.chainOf(links...)
	return w.heir(w.dies(at, after, func() events.RunID { return w.submit("go").ID }, nil))
}

// A limit that ends far from now does not park a run that has somebody else to ask; one
// without does, by name.
func TestLongLimitMovesOn(t *testing.T) {
	c := new(chained)
	limited := func(int) (model.Response, error) { return model.Response{}, down("rate_limited", time.Hour) }
	w := newWorld(t, nil)
	w.chainOf(link{c, "a", limited}, link{c, "b", limited})
	w.start()
	r := w.wait(w.submit("go").ID, true)
	if r.ParkReason != events.ParkModelRetry || r.ParkDetail != "model a asked to wait: rate_limited" || len(c.asked) != 2 {
		t.Errorf("parked %s %q after %v", r.ParkReason, r.ParkDetail, c.asked)
	}
}

// What was billed before a call failed is priced by who served, and the rates are on
// the row as they were then.
func TestFailedAttemptsHaveRates(t *testing.T) {
	c := new(chained)
	w := newWorld(t, nil)
	w.chainOf(link{c, "gpt-5", func(int) (model.Response, error) {
		return model.Response{}, &model.Error{Kind: "timeout", Retryable: true, Err: errors.New("cut off"), Model: "gpt-5-mini-2025-08-07", Usage: &events.Usage{Input: 1000, Output: 10}}
	}}, link{c, "claude-haiku-4-5", func(int) (model.Response, error) { return doneBy("claude-haiku-4-5"), nil }})
	w.start()
	id := w.submit("go").ID
	w.wait(id, false)
	w.caughtUp()
	for _, e := range w.history(id) {
		if p, ok := e.Data.(events.ModelCallError); ok {
			want := &events.Rates{Table: "daybook-list-2026-01", Input: events.USD / 4, Output: 2 * events.USD, CacheRead: 25_000 * events.MicroUSD}
			if d := cmp.Diff(want, p.Rates); d != "" || p.Cost == nil || p.Cost.String() != "0.00027" || p.Model != "gpt-5" {
				t.Errorf("asked %s, cost %v, rates (-want +got):\n%s", p.Model, p.Cost, d)
			}
		}
	}
	rows, err := w.store.ModelCalls(context.Background(), id)
	if err != nil || len(rows) == 0 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	found := false
	for _, m := range rows {
		if m.State == "error" {
			var r events.Rates
			found = json.Unmarshal(m.Rates, &r) == nil && r.Output == 2*events.USD
		}
	}
	if !found {
		t.Errorf("no rates on the row of the failed attempt: %+v", rows)
	}
}

// A role is frozen as the chain that it was when the run began.
func TestRoleIsFrozen(t *testing.T) {
	c := new(chained)
	a := link{c, "a", func(int) (model.Response, error) { return model.Response{}, down("rate_limited", 200*time.Millisecond) }}
	b := link{c, "b", func(int) (model.Response, error) { return model.Response{}, down("unavailable", time.Hour) }}
	w := newWorld(t, nil)
	roles := map[string][]string{"fast": {"a", "b"}}
	w.agent = func(a *agents.Agent) { a.Model = "fast" }
	w.cfg = func(cfg *runtime.Config) {
		cfg.Models["a"], cfg.Models["b"], cfg.Models["c"] = a, b, link{c, "c", func(int) (model.Response, error) { return doneBy("c"), nil }}
		cfg.Roles = roles
	}
	first := w.start()
	id := w.submit("go").ID
	w.wait(id, true)
	first.stop(t)
	roles = map[string][]string{"fast": {"c"}}
	w.start()
	next := w.submit("go").ID
	if r := w.wait(next, false); r.State != ledger.Finished {
		t.Fatalf("the new run is %s", r.State)
	}
	w.until("the old run goes on", func() bool { return len(c.requests("a")) > 3 })
	for run, want := range map[events.RunID][]string{id: {"a", "b"}, next: nil} {
		for _, e := range w.history(run) {
			if p, ok := e.Data.(events.RunStarted); ok && (!slices.Equal(p.Chain, want) || p.ModelRole != "fast") {
				t.Errorf("bound to %v, role %q, want %v", p.Chain, p.ModelRole, want)
			}
		}
	}
}
