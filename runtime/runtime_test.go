package runtime_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	tracing "github.com/daybookhq/daybook/internal/trace"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

type text struct {
	Text string `json:"text"`
}

// pay is a destructive tool that does what f says.
func pay(def tools.Definition, f func(ctx context.Context, inv *tools.Invocation, in text) (string, error)) tools.Tool {
	def.Name, def.Description, def.Effect = "pay", "Pays.", tools.Destructive
	if def.Timeout == 0 {
		def.Timeout = 2 * time.Second
	}
	return must(tools.New(def, f))
}

func calls(cs ...scripted.Call) scripted.Answer { return scripted.Answer{Calls: cs} }

var (
	payOnce = calls(scripted.Call{Name: "pay", Arguments: `{"text":"x"}`})
	finish  = calls(scripted.Call{Name: "finish", Arguments: `{"answer":"done"}`})
)

func TestRunGoesThroughTheWholeSystem(t *testing.T) {
	echo := must(tools.New(tools.Definition{Name: "echo", Description: "Echoes.", Effect: tools.Readonly, Trust: tools.Own},
		func(_ context.Context, _ *tools.Invocation, in text) (string, error) { return "said " + in.Text, nil }))
	paid := atomic.Int64{}
	w := newWorld(t, scripted.Script(
		calls(scripted.Call{Name: "echo", Arguments: `{"text":"a"}`}, scripted.Call{Name: "pay", Arguments: `{"text":"x"}`}),
		finish), echo, pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) {
		paid.Add(1)
		return "paid", nil
	}))
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if r.State != ledger.Finished || string(r.Result) != `"done"` || paid.Load() != 1 {
		t.Errorf("run = %s %s %s, paid %d times", r.State, r.StoppedBy, r.Result, paid.Load())
	}
	w.want(r.ID, "run_queued", "run_started", "turn_started", "model_call_started", "model_call_finished",
		"tool_execution_started", "tool_execution_finished", "tool_execution_started", "tool_execution_finished",
		"turn_started", "model_call_started", "model_call_finished", "tool_execution_started", "tool_execution_finished", "run_finished")
	w.whole()
}

// adham90/ruby_llm-agents PR#35
func TestModelErrorsAreRetriedAndRecorded(t *testing.T) {
	down := func(after time.Duration) scripted.Answer {
		return scripted.Answer{Err: &model.Error{Kind: "overloaded", Retryable: true, RetryAfter: after, Err: errors.New("busy")}}
	}
	w := newWorld(t, scripted.Script(down(time.Millisecond), down(2*time.Second), finish))
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if r.State != ledger.Finished {
		t.Fatalf("run = %s: %s", r.State, r.Error)
	}
	if n, m := count[events.ModelCallError](w, r.ID), count[events.ModelCallStarted](w, r.ID); n != 2 || m != 3 {
		t.Errorf("%d errors of %d attempts, want 2 of 3", n, m)
	}
	// The second wait is longer than a worker sits out, also where it comes to
	// that late: the run was parked for it.
	if p := last[events.RunParked](w, r.ID); p.Reason != events.ParkModelRetry || p.Until.IsZero() {
		t.Errorf("parked = %+v, want model_retry until a moment", p)
	}
	w.whole()
}

func TestModelErrorThatNothingHelpsEndsTheRun(t *testing.T) {
	w := newWorld(t, scripted.Script(scripted.Answer{Err: &model.Error{Kind: "unauthorized", Err: errors.New("bad key")}}))
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if r.State != ledger.Failed || r.StoppedBy != events.StoppedByError || !strings.Contains(r.Error, "bad key") {
		t.Errorf("run = %s %s %q", r.State, r.StoppedBy, r.Error)
	}
}

func TestBadModelAnswersAreToldAndBounded(t *testing.T) {
	bad := calls(
		scripted.Call{Name: "nowhere", Arguments: `{}`, ProviderID: "same"},
		scripted.Call{Name: "pay", Arguments: `{"text":`, ProviderID: "same"},
		scripted.Call{Name: "pay", Arguments: `{"wrong":1}`},
	)
	paid := atomic.Int64{}
	w := newWorld(t, scripted.Script(bad, bad, bad, bad), pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) {
		paid.Add(1)
		return "paid", nil
	}))
	w.limits.MaxTurns = 3
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if r.StoppedBy != events.StoppedByMaxTurns || paid.Load() != 0 {
		t.Errorf("stopped by %s, paid %d times", r.StoppedBy, paid.Load())
	}
	if n := count[events.ToolExecutionBlocked](w, r.ID); n != 9 {
		t.Errorf("%d blocked calls, want 9\n%s", n, w.story(r.ID))
	}
	w.whole()
}

func TestReadonlyCallsRunTogetherAndDestructiveOnesAlone(t *testing.T) {
	arrived, both := make(chan struct{}, 2), make(chan struct{})
	go func() { <-arrived; <-arrived; close(both) }()
	running := atomic.Int64{}
	look := must(tools.New(tools.Definition{Name: "look", Description: "Looks.", Effect: tools.Readonly},
		func(ctx context.Context, _ *tools.Invocation, in text) (string, error) {
			running.Add(1)
			defer running.Add(-1)
			arrived <- struct{}{}
			select {
			case <-both:
				return in.Text, nil
			case <-ctx.Done():
				return "", errors.New("the other call never came")
			}
		}))
	alone := true
	p := pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) {
		alone = alone && running.Load() == 0
		return "paid", nil
	})
	w := newWorld(t, scripted.Script(calls(
		scripted.Call{Name: "look", Arguments: `{"text":"1"}`}, scripted.Call{Name: "look", Arguments: `{"text":"2"}`},
		scripted.Call{Name: "pay", Arguments: `{"text":"3"}`}), finish), look, p)
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if r.State != ledger.Finished || !alone {
		t.Errorf("run = %s %s, destructive call alone: %v\n%s", r.State, r.Error, alone, w.story(r.ID))
	}
}

// ablative-io/aion#230
func TestCancelEndsARunningCall(t *testing.T) {
	started := make(chan struct{})
	w := newWorld(t, scripted.Script(payOnce), pay(tools.Definition{Timeout: 20 * time.Second}, func(ctx context.Context, _ *tools.Invocation, _ text) (string, error) {
		close(started)
		<-ctx.Done()
		return "", ctx.Err()
	}))
	w.ttl = 6 * time.Second // the next heartbeat tells it
	w.start()
	id := w.submit("go").ID
	<-started
	if _, err := w.client().Cancel(t.Context(), id, "ann", "wrong customer"); err != nil {
		t.Fatal(err)
	}
	r := w.wait(id, false)
	if r.State != ledger.Cancelled {
		t.Errorf("run = %s %s", r.State, r.StoppedBy)
	}
	if c := last[events.RunCancelled](w, id); c.By != "ann" || c.Reason != "wrong customer" {
		t.Errorf("cancelled = %+v", c)
	}
	if d := last[events.ToolExecutionInDoubt](w, id); d.Cause != "cancelled" {
		t.Errorf("in doubt because of %q, want cancelled", d.Cause)
	}
	w.whole()
	if _, err := w.client().Cancel(t.Context(), id, "ann", ""); !errors.Is(err, ledger.ErrEnded) {
		t.Errorf("cancel an ended run: %v, want ErrEnded", err)
	}
}

func TestDeadlineStopsTheRun(t *testing.T) {
	w := newWorld(t, scripted.Script(scripted.Answer{Delay: time.Minute}))
	w.agent = func(a *agents.Agent) { a.Timeout = 300 * time.Millisecond }
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if r.State != ledger.Failed || r.StoppedBy != events.StoppedByDeadline {
		t.Errorf("run = %s %s %s\n%s", r.State, r.StoppedBy, r.Error, w.story(r.ID))
	}
	w.whole()
}

// onMessage is a handler that says when a message was logged.
type onMessage struct {
	text string
	seen chan<- struct{}
}

func (onMessage) Enabled(context.Context, slog.Level) bool { return true }
func (h onMessage) WithAttrs([]slog.Attr) slog.Handler     { return h }
func (h onMessage) WithGroup(string) slog.Handler          { return h }

func (h onMessage) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.text {
		h.seen <- struct{}{}
	}
	return nil
}

func TestShutdownHandsRunsOver(t *testing.T) {
	in, out := make(chan struct{}), make(chan struct{})
	slow := must(tools.New(tools.Definition{Name: "slow", Description: "Takes its time.", Effect: tools.Readonly},
		func(context.Context, *tools.Invocation, struct{}) (string, error) {
			close(in)
			<-out
			return "at last", nil
		}))
	w := newWorld(t, scripted.Script(calls(scripted.Call{Name: "slow"}), finish), slow)
	asked := make(chan struct{}, 2)
	w.cfg = func(c *runtime.Config) { c.Logger = slog.New(onMessage{"shutting down", asked}) }
	first := w.start()
	id := w.submit("go").ID
	<-in
	stopped := make(chan struct{})
	go func() { defer close(stopped); first.stop(t) }()
	<-asked // a tool that returned before could let the run end instead
	close(out)
	<-stopped
	r, err := w.store.Run(t.Context(), id)
	if err != nil || r.State != ledger.Queued {
		t.Fatalf("after shutdown the run is %s (%v), want queued again", r.State, err)
	}
	w.start()
	if r := w.wait(id, false); r.State != ledger.Finished {
		t.Errorf("run = %s %s", r.State, r.Error)
	}
	if n := count[events.ToolExecutionStarted](w, id); n != 2 { // slow once, finish once
		t.Errorf("%d executions, want 2: nothing is done again after a clean handover\n%s", n, w.story(id))
	}
	w.whole()
}

func TestPanicsEndOnlyTheirRun(t *testing.T) {
	w := newWorld(t, scripted.Script(calls(scripted.Call{Name: "boom"}), finish), must(tools.New(
		tools.Definition{Name: "boom", Description: "Panics.", Effect: tools.Readonly},
		func(context.Context, *tools.Invocation, struct{}) (string, error) { panic("boom") })))
	w.start()
	r := w.wait(w.submit("go").ID, false)
	if r.State != ledger.Finished {
		t.Errorf("run = %s %s", r.State, r.Error)
	}
	if e := last[events.ToolExecutionError](w, r.ID); e.Error.Kind != "panic" {
		t.Errorf("error = %+v, want kind panic", e.Error)
	}
}

func TestConfigErrorsNameWhatIsMissing(t *testing.T) {
	_, err := runtime.NewWorker(runtime.Config{Name: "a b", LeaseTTL: time.Millisecond})
	for _, want := range []string{"name \"a b\"", "ledger is required", "journal is required", "catch-up is required", "redactor is required", "at least one agent", "lease ttl"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not say %q", err, want)
		}
	}
}

func TestSubmitIsIdempotentAndChecked(t *testing.T) {
	w := newWorld(t, scripted.Script(finish))
	c := w.client()
	in := runtime.Submit{Agent: "tester", Input: map[string]any{"id": 9007199254740993}, ClientKey: "k"}
	a, existed, err := c.Submit(t.Context(), in)
	if err != nil || existed {
		t.Fatal(existed, err)
	}
	b, existed, err := c.Submit(t.Context(), in)
	if err != nil || !existed || a.ID != b.ID {
		t.Errorf("again = %s, existed %v, %v; want %s", b.ID, existed, err, a.ID)
	}
	in.Input = map[string]any{"id": 9007199254740992}
	if _, _, err := c.Submit(t.Context(), in); !errors.Is(err, ledger.ErrClientKeyConflict) {
		t.Errorf("other input under the same key: %v, want ErrClientKeyConflict", err)
	}
	for _, bad := range []runtime.Submit{
		{Input: 1, ClientKey: "x"},
		{Agent: "a", ClientKey: "x"},
		{Agent: "a", Input: 1},
		{Agent: "a", Input: 1, ClientKey: "x", Tenant: "no spaces"},
		{Agent: "a", Input: func() {}, ClientKey: "x"},
		{Agent: "a", Input: 1, ClientKey: "x", Trace: "nonsense"},
		{Agent: "a", Input: strings.Repeat("x", 300<<10), ClientKey: "x"},
	} {
		if _, _, err := c.Submit(t.Context(), bad); !errors.Is(err, runtime.ErrInvalidSubmit) {
			t.Errorf("submit %.80v: %v, want ErrInvalidSubmit", bad, err)
		}
	}
}

func TestTraceGoesFromSubmitToEveryEvent(t *testing.T) {
	w := newWorld(t, scripted.Script(payOnce, finish), pay(tools.Definition{}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		return inv.Trace, nil
	}))
	w.start()
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r, _, err := w.client().Submit(t.Context(), runtime.Submit{Agent: "tester", Input: "x", ClientKey: "k", Trace: trace})
	if err != nil {
		t.Fatal(err)
	}
	w.wait(r.ID, false)
	// A call has a span of its own in that trace, and its facts are told by it.
	of := "00-0af7651916cd43dd8448eb211c80319c-" + tracing.Call(r.ID, events.CallID{Turn: 1}, 1).String() + "-01"
	for _, e := range w.history(r.ID) {
		if e.Trace != trace && e.Trace != of {
			t.Errorf("seq %d %s has trace %q", e.Seq, e.Type, e.Trace)
		}
	}
	w.until("the feed has every event", func() bool { return len(w.stream.FeedMessages()) == len(w.history(r.ID)) })
	if f := last[events.ToolExecutionFinished](w, r.ID); !slices.Contains([]string{"done", of}, f.Result.Output) {
		t.Errorf("the tool saw trace %q", f.Result.Output)
	}
}

// julep-ai/julep#786, temporalio/sdk-java PR#2860: an event carries what is new,
// never the conversation so far.
func TestEventsDoNotGrowWithTheHistory(t *testing.T) {
	echo := must(tools.New(tools.Definition{Name: "echo", Description: "Echoes.", Effect: tools.Readonly, Trust: tools.Own},
		func(_ context.Context, _ *tools.Invocation, in text) (string, error) { return "said " + in.Text, nil }))
	const turns = 12
	long := calls(scripted.Call{Name: "echo", Arguments: `{"text":"` + strings.Repeat("word ", 200) + `"}`})
	w := newWorld(t, scripted.Script(append(slices.Repeat([]scripted.Answer{long}, turns), finish)...), echo)
	w.limits.MaxTurns = turns + 2
	w.start()
	r := w.wait(w.submit("go").ID, false)
	sizes, turn := map[int]int{}, 0
	err := w.store.Events(t.Context(), r.ID, 1, func(e events.Sealed) error {
		if e.Envelope().Type == events.TypeOf(events.TurnStarted{}) {
			turn++
		}
		sizes[turn] += len(e.Bytes())
		return nil
	})
	if err != nil || turn != turns+1 {
		t.Fatalf("%d turns, %v\n%s", turn, err, w.story(r.ID))
	}
	for n := 3; n <= turns; n++ {
		if sizes[n] > sizes[2]+100 { // a number may have more digits
			t.Errorf("the events of turn %d have %d bytes, those of turn 2 %d", n, sizes[n], sizes[2])
		}
	}
}
