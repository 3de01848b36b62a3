package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

// async is a tool that hands off, and what it was started with.
type async struct {
	mu     sync.Mutex
	tokens []events.ID
	keys   []string
}

func (a *async) tool(name string, effect tools.Effect, within time.Duration) tools.Tool {
	return must(tools.New(tools.Definition{Name: name, Description: "Is done outside.", Effect: effect, Trust: tools.Own, Timeout: 5 * time.Second},
		func(_ context.Context, inv *tools.Invocation, _ text) (tools.HandedOff, error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.tokens, a.keys = append(a.tokens, inv.Token), append(a.keys, inv.OpKey)
			return tools.HandOff(within), nil
		}))
}

func (a *async) started() []events.ID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.tokens)
}

func (w *world) complete(c ledger.Completion) ledger.Settlement {
	w.t.Helper()
	c.By = "ann"
	s, err := w.store.Complete(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// parkedFor waits until the run is parked for a reason, and holds nothing.
func (w *world) parkedFor(id events.RunID, reason events.ParkReason) ledger.Run {
	w.t.Helper()
	var r ledger.Run
	w.until(fmt.Sprintf("run %s parked for %s", id, reason), func() bool {
		var err error
		if r, err = w.store.Run(context.Background(), id); err != nil {
			w.t.Fatal(err)
		}
		if r.State.Ended() {
			w.t.Fatalf("run ended as %s %s\n%s", r.State, r.Error, w.story(id))
		}
		return r.State == ledger.Parked && r.ParkReason == reason
	})
	if !r.LeaseUntil.IsZero() {
		w.t.Errorf("a parked run has a lease until %v", r.LeaseUntil)
	}
	return r
}

var ask = calls(scripted.Call{Name: "survey", Arguments: `{"text":"x"}`})

// Nobody is hinted: a sweep finds what was completed. dapr/dapr#8316.
func TestAsyncToolIsCompletedFromOutside(t *testing.T) {
	for _, effect := range []tools.Effect{tools.Readonly, tools.Idempotent, tools.Destructive} {
		for _, kind := range []ledger.OutcomeKind{ledger.Applied, ledger.NotApplied} {
			t.Run(string(effect)+" "+string(kind), func(t *testing.T) {
				var a async
				w := newWorld(t, scripted.Script(ask, finish), a.tool("survey", effect, time.Hour))
				w.start()
				id := w.submit("go").ID
				w.parkedFor(id, events.ParkAsyncTool)
				tokens := a.started()
				if len(tokens) != 1 || tokens[0].IsZero() {
					t.Fatalf("started with %v", tokens)
				}
				c := ledger.Completion{Token: tokens[0], Kind: kind, Result: events.ToolResult{Output: "42"}}
				if kind != ledger.Applied {
					c.Error.Message = "nobody answered"
				}
				w.complete(c)
				r := w.wait(id, false)
				if r.State != ledger.Finished || len(a.started()) != 1 {
					t.Fatalf("run = %s %s, started %d times\n%s", r.State, r.Error, len(a.started()), w.story(id))
				}
				if p := last[events.ToolExecutionProgress](w, id); p.HandedOff == nil || p.HandedOff.Token != tokens[0] || p.HandedOff.Until.IsZero() {
					t.Errorf("progress %+v", p)
				}
				if kind == ledger.Applied && count[events.ToolExecutionFinished](w, id) != 2 || kind != ledger.Applied && count[events.ToolExecutionError](w, id) != 1 {
					t.Errorf("outcomes:\n%s", w.story(id))
				}
				w.whole()
			})
		}
	}
}

// quickLedger completes every hand-off the moment it is registered.
type quickLedger struct {
	*sqlstore.Store
	early bool // or just before
}

func (q quickLedger) HandOff(ctx context.Context, l ledger.Lease, p ledger.Prefix, h ledger.Handoff) ([]events.Fact, error) {
	c := ledger.Completion{Token: h.Token, Kind: ledger.Applied, Result: events.ToolResult{Output: "quick"}, By: "bot"}
	if q.early {
		if _, err := q.Complete(ctx, c); err != nil {
			return nil, err
		}
	}
	fs, err := q.Store.HandOff(ctx, l, p, h)
	if err == nil && !q.early {
		_, err = q.Complete(ctx, c)
	}
	return fs, err
}

func TestCompletedBeforeTheRunParks(t *testing.T) {
	for _, tt := range []struct {
		effect tools.Effect
		early  bool
	}{{tools.Idempotent, false}, {tools.Destructive, false}, {tools.Destructive, true}} {
		t.Run(fmt.Sprint(tt.effect, " early ", tt.early), func(t *testing.T) {
			var a async
			w := newWorld(t, scripted.Script(ask, finish), a.tool("survey", tt.effect, time.Hour))
			w.startOn(quickLedger{w.store, tt.early})
			r := w.wait(w.submit("go").ID, true)
			if r.State != ledger.Finished || len(a.started()) != 1 {
				t.Errorf("run = %s %s %s, started %d times\n%s", r.State, r.ParkReason, r.ParkDetail, len(a.started()), w.story(r.ID))
			}
			w.whole()
		})
	}
}

// dyingLedger is that of a worker which dies once a hand-off is committed:
// nothing it asks is answered any more.
type dyingLedger struct {
	*sqlstore.Store
	dead atomic.Bool
}

func (d *dyingLedger) HandOff(ctx context.Context, l ledger.Lease, p ledger.Prefix, h ledger.Handoff) ([]events.Fact, error) {
	if d.dead.Load() {
		return nil, ledger.ErrUnavailable
	}
	_, err := d.Store.HandOff(ctx, l, p, h)
	d.dead.Store(true)
	return nil, errors.Join(ledger.ErrUnavailable, err)
}

func (d *dyingLedger) Heartbeat(ctx context.Context, worker string, ls []ledger.Lease) ([]ledger.Beat, error) {
	if d.dead.Load() {
		return nil, ledger.ErrUnavailable
	}
	return d.Store.Heartbeat(ctx, worker, ls)
}

func (d *dyingLedger) Claim(ctx context.Context, r ledger.ClaimRequest) ([]ledger.Claim, error) {
	if d.dead.Load() {
		return nil, ledger.ErrUnavailable
	}
	return d.Store.Claim(ctx, r)
}

func TestWorkerDiesBetweenHandOffAndItsRecord(t *testing.T) {
	for _, effect := range []tools.Effect{tools.Idempotent, tools.Destructive} {
		t.Run(string(effect), func(t *testing.T) {
			var a async
			w := newWorld(t, scripted.Script(ask, finish), a.tool("survey", effect, time.Hour))
			w.cfg = func(c *runtime.Config) { c.LeaseTTL = time.Second }
			d := &dyingLedger{Store: w.store}
			w.startOn(d)
			id := w.submit("go").ID
			w.until("the worker is dead", d.dead.Load)
			w.start()
			w.parkedFor(id, events.ParkAsyncTool)
			if n := len(a.started()); n != 1 {
				t.Errorf("started %d times", n)
			}
			w.complete(ledger.Completion{Token: a.started()[0], Kind: ledger.Applied, Result: events.ToolResult{Output: "42"}})
			if r := w.wait(id, false); r.State != ledger.Finished || count[events.ToolExecutionInDoubt](w, id) != 0 || len(a.started()) != 1 {
				t.Errorf("run = %s %s, started %d times\n%s", r.State, r.Error, len(a.started()), w.story(id))
			}
			w.whole()
		})
	}
}

func TestNobodyCompletesInTime(t *testing.T) {
	t.Run("an effect is in doubt until late evidence comes", func(t *testing.T) {
		var a async
		w := newWorld(t, scripted.Script(ask, finish), a.tool("survey", tools.Destructive, 100*time.Millisecond))
		w.start()
		id := w.submit("go").ID
		w.parkedFor(id, events.ParkInDoubt)
		if s := w.complete(ledger.Completion{Token: a.started()[0], Kind: ledger.Applied, Result: events.ToolResult{Output: "42"}}); s.State != events.EffectApplied {
			t.Errorf("settled as %s", s.State)
		}
		if r := w.wait(id, false); r.State != ledger.Finished || len(a.started()) != 1 {
			t.Errorf("run = %s, started %d times\n%s", r.State, len(a.started()), w.story(id))
		}
		if e := last[events.EffectResolved](w, id); e.By != events.ResolvedByLateEvidence {
			t.Errorf("resolved by %s", e.By)
		}
		w.whole()
	})
	t.Run("any other call has failed", func(t *testing.T) {
		var a async
		w := newWorld(t, scripted.Script(ask, finish), a.tool("survey", tools.Readonly, 100*time.Millisecond))
		w.start()
		r := w.wait(w.submit("go").ID, false)
		if e := last[events.ToolExecutionError](w, r.ID); r.State != ledger.Finished || e.Error.Kind != "timeout" || len(a.started()) != 1 {
			t.Errorf("run = %s, error %+v\n%s", r.State, e, w.story(r.ID))
		}
		w.whole()
	})
}

// What stands behind a handed-off call in a turn waits for it, what stands
// beside it does not.
func TestTurnKeepsItsOrderAroundHandOffs(t *testing.T) {
	var a async
	var paid, echoed atomic.Int64
	w := newWorld(t, scripted.Script(calls(
		scripted.Call{Name: "survey", Arguments: `{"text":"x"}`}, scripted.Call{Name: "echo", Arguments: `{"text":"x"}`},
		scripted.Call{Name: "pay", Arguments: `{"text":"x"}`},
	), finish), a.tool("survey", tools.Readonly, time.Hour),
		must(tools.New(tools.Definition{Name: "echo", Description: "Echoes.", Effect: tools.Readonly, Trust: tools.Own},
			func(_ context.Context, _ *tools.Invocation, in text) (string, error) {
				echoed.Add(1)
				return in.Text, nil
			})),
		pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) { paid.Add(1); return "paid", nil }))
	w.start()
	id := w.submit("go").ID
	w.parkedFor(id, events.ParkAsyncTool)
	if paid.Load() != 0 || echoed.Load() != 1 {
		t.Errorf("paid %d times, echoed %d times before the survey is done", paid.Load(), echoed.Load())
	}
	w.complete(ledger.Completion{Token: a.started()[0], Kind: ledger.Applied, Result: events.ToolResult{Output: "42"}})
	if r := w.wait(id, false); r.State != ledger.Finished || paid.Load() != 1 || echoed.Load() != 1 {
		t.Errorf("run = %s, paid %d times, echoed %d times\n%s", r.State, paid.Load(), echoed.Load(), w.story(id))
	}
	w.whole()
}

func TestWaitParksOnATimer(t *testing.T) {
	w := newWorld(t, scripted.Script(calls(scripted.Call{Name: "wait", Arguments: `{"seconds":1}`}), finish), builtin.Wait(0))
	w.start()
	began := time.Now()
	id := w.submit("go").ID
	if r := w.parkedFor(id, events.ParkTimer); r.WakeAt.IsZero() {
		t.Error("it never wakes")
	}
	r := w.wait(id, false)
	if d := time.Since(began); r.State != ledger.Finished || d < time.Second {
		t.Errorf("run = %s after %v\n%s", r.State, d, w.story(id))
	}
	for _, e := range w.history(id) {
		if p, ok := e.Data.(events.ToolExecutionFinished); ok && p.Tool == "wait" && !strings.HasPrefix(p.Result.Output, "waited until ") {
			t.Errorf("result %+v", p.Result)
		}
	}
	w.whole()
}

// listener is a model that keeps what it was last asked, and answers as told.
type listener func(r model.Request) model.Response

func (l listener) Call(_ context.Context, r model.Request) (model.Response, error) { return l(r), nil }

func answer(name, arguments string) model.Response {
	return model.Response{StopReason: "tool_use", Calls: []events.ToolCall{{Name: name, Arguments: json.RawMessage(arguments)}}}
}

func TestSignals(t *testing.T) {
	send := func(w *world, id events.RunID, data string) {
		w.t.Helper()
		if err := w.client().Signal(w.t.Context(), id, ledger.Signal{Name: "go", Data: json.RawMessage(data), From: "ann"}); err != nil {
			w.t.Fatal(err)
		}
	}
	wait := calls(scripted.Call{Name: "wait_for_signal", Arguments: `{"name":"go"}`})
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before the wait %v", before), func(t *testing.T) {
			w := newWorld(t, scripted.Script(wait, finish), builtin.WaitForSignal(0))
			id := w.submit("go").ID
			if before {
				send(w, id, `"now"`)
				w.start()
			} else {
				w.start()
				w.parkedFor(id, events.ParkSignal)
				send(w, id, `"now"`)
			}
			r := w.wait(id, false)
			if r.State != ledger.Finished {
				t.Fatalf("run = %s %s\n%s", r.State, r.ParkReason, w.story(id))
			}
			told := ""
			for _, e := range w.history(id) {
				if p, ok := e.Data.(events.ToolExecutionFinished); ok && p.Tool == "wait_for_signal" {
					told = p.Result.Output
				}
			}
			if told != "now" {
				t.Errorf("told %q\n%s", told, w.story(id))
			}
			w.whole()
		})
	}
	t.Run("nobody waits for it: a note", func(t *testing.T) {
		var a async
		var heard atomic.Pointer[model.Request]
		w := newWorld(t, listener(func(r model.Request) model.Response {
			if len(r.Messages) == 1 {
				return answer("survey", `{"text":"x"}`)
			}
			heard.Store(&r)
			return answer("finish", `{"answer":"done"}`)
		}), a.tool("survey", tools.Readonly, time.Hour))
		w.start()
		id := w.submit("go").ID
		w.parkedFor(id, events.ParkAsyncTool)
		send(w, id, `{"budget":7}`)
		w.until("the signal is in the history", func() bool { return count[events.SignalReceived](w, id) == 1 })
		w.parkedFor(id, events.ParkAsyncTool)
		w.complete(ledger.Completion{Token: a.started()[0], Kind: ledger.Applied, Result: events.ToolResult{Output: "42"}})
		w.wait(id, false)
		r := heard.Load()
		if r == nil {
			t.Fatalf("the model was not asked again\n%s", w.story(id))
		}
		m := r.Messages[len(r.Messages)-1]
		if m.Role != model.User || !strings.Contains(m.Text, `"go"`) || !strings.Contains(m.Text, `{"budget":7}`) || !strings.Contains(m.Text, "external") {
			t.Errorf("the last message is %+v", m)
		}
		w.whole()
	})
}
