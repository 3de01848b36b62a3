package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// steady answers by how many answers the conversation has, so that a fork is
// answered as its origin was. Each answer is the arguments of calls, by tool.
type steady struct {
	turns []model.Response
	asked atomic.Int64
	saw   atomic.Pointer[model.Request] // the last request
}

func (s *steady) Call(_ context.Context, r model.Request) (model.Response, error) {
	s.asked.Add(1)
	s.saw.Store(&r)
	n := 0
	for _, m := range r.Messages {
		if m.Role == model.Assistant {
			n++
		}
	}
	out := s.turns[min(n, len(s.turns)-1)]
	out.Model = r.Model
	return out, nil
}

func asks(cs ...string) model.Response {
	r := model.Response{StopReason: "tool_use", Usage: events.Usage{Input: 10, Output: 1}}
	for _, c := range cs {
		name, args, _ := strings.Cut(c, " ")
		r.Calls = append(r.Calls, events.ToolCall{Name: name, Arguments: json.RawMessage(args)})
	}
	return r
}

func echo(effect tools.Effect) tools.Tool {
	return must(tools.New(tools.Definition{Name: "echo", Description: "Echoes.", Effect: effect, Trust: tools.Own},
		func(_ context.Context, _ *tools.Invocation, in text) (string, error) { return "said " + in.Text, nil }))
}

const payX, saidDone = `pay {"text":"x"}`, `finish {"answer":"done"}`

func paying() *steady {
	return &steady{turns: []model.Response{asks(`echo {"text":"a"}`, payX), asks(`echo {"text":"b"}`), asks(saidDone)}}
}

func (w *world) fork(run events.RunID, seq uint64, note any) ledger.Run {
	w.t.Helper()
	f, existed, err := w.client().Fork(w.t.Context(), runtime.Fork{Run: run, Seq: seq, Effects: ledger.ForkReplay, By: "ann", Note: note})
	if err != nil || existed {
		w.t.Fatalf("fork run %s at %d: existed %v, %v\n%s", run, seq, existed, err, w.story(run))
	}
	return f
}

// seqOf is the sequence of the first event of a type, once it is archived.
func seqOf[T events.Payload](w *world, id events.RunID) (seq uint64) {
	w.until("an event is archived", func() bool {
		for _, e := range w.history(id) {
			if _, ok := e.Data.(T); ok {
				seq = e.Seq
				return true
			}
		}
		return false
	})
	return seq
}

// langchain-ai/langgraph#7361, mastra-ai/mastra#21749: whichever event a run is
// continued from, what it did is not done again.
func TestForkFromEveryEventRepeatsNoEffect(t *testing.T) {
	var p provider
	m := paying()
	w := newWorld(t, m, echo(tools.Readonly), pay(tools.Definition{}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "paid", nil
	}))
	w.start()
	origin := w.wait(w.submit("go").ID, false)
	es := w.history(origin.ID)
	paidAt := slices.IndexFunc(es, func(e events.Event) bool {
		f, ok := e.Data.(events.ToolExecutionFinished)
		return ok && f.Tool == "pay"
	})
	forks := map[events.RunID]int{}
	for i := range es {
		forks[w.fork(origin.ID, es[i].Seq, nil).ID] = i
	}
	for id, cut := range forks {
		r := w.wait(id, true)
		if r.State != ledger.Finished || r.StoppedBy != events.StoppedByFinish || string(r.Result) != string(origin.Result) || r.Root != origin.Root {
			t.Errorf("fork at %s: %s %s %s\n%s", es[cut].Type, r.State, r.StoppedBy, r.Error, w.story(id))
		}
		repeated := 0
		for _, e := range w.history(id) {
			if f, ok := e.Data.(events.ToolExecutionFinished); ok && f.Tool == "pay" {
				if !f.Repeated || f.Of == nil || f.Of.Run != origin.ID {
					t.Errorf("fork at %s: pay finished as %+v", es[cut].Type, f)
				}
				repeated++
			}
		}
		if want := map[bool]int{true: 1}[cut < paidAt]; repeated != want {
			t.Errorf("fork at %s: pay was handed back %d times, want %d", es[cut].Type, repeated, want)
		}
	}
	if p.effects() != 1 {
		t.Errorf("%d effects over a run and %d forks", p.effects(), len(forks))
	}
	if now := w.history(origin.ID); !slices.EqualFunc(es, now[:len(es)], func(a, b events.Event) bool { return a.Hash == b.Hash }) {
		t.Error("the history of the run was rewritten")
	}
	// A fork of a fork inherits both.
	for id := range forks {
		if es := w.history(id); len(es) > 3 {
			if r := w.wait(w.fork(id, es[2].Seq, nil).ID, true); r.State != ledger.Finished || p.effects() != 1 {
				t.Errorf("fork of a fork: %s %s, %d effects\n%s", r.State, r.Error, p.effects(), w.story(r.ID))
			}
			break
		}
	}
	w.whole()
}

func TestForkWaitsForTheEffectOfALiveRun(t *testing.T) {
	var p provider
	in, out := make(chan struct{}), make(chan struct{})
	w := newWorld(t, paying(), echo(tools.Readonly), pay(tools.Definition{Timeout: 20 * time.Second}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		close(in)
		<-out
		return "paid", nil
	}))
	w.start()
	origin := w.submit("go").ID
	<-in
	f := w.fork(origin, seqOf[events.ModelCallFinished](w, origin), nil)
	if r := w.wait(f.ID, true); r.ParkReason != events.ParkEffectBusy {
		t.Errorf("fork = %s %s\n%s", r.State, r.ParkReason, w.story(f.ID))
	}
	close(out)
	for _, id := range []events.RunID{origin, f.ID} {
		if r := w.wait(id, false); r.State != ledger.Finished {
			t.Errorf("run = %s %s\n%s", r.State, r.Error, w.story(id))
		}
	}
	if p.effects() != 1 {
		t.Errorf("%d effects", p.effects())
	}
	w.whole()
}

// A run that ended while nobody knew whether it paid leaves its effect to its
// fork: nothing waits for an ended run.
func TestForkSettlesWhatAnEndedRunLeftInDoubt(t *testing.T) {
	const unknown, happened, not = 0, 1, 2
	for _, tt := range []struct {
		name     string
		recovery bool // has a probe
		answer   int64
		effects  int
		repeated bool
	}{
		{"the provider says that it happened", true, happened, 1, true},
		{"the provider says that it did not", true, not, 1, false},
		{"a person says that it happened", false, unknown, 1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var p provider
			var answer, tries atomic.Int64
			var def tools.Definition
			if tt.recovery {
				def.Recovery = tools.Probed()
			}
			tool := pay(def, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
				if tries.Add(1) > 1 || tt.repeated {
					p.apply(inv.OpKey)
				}
				if tries.Load() == 1 {
					return "", errLost
				}
				return "paid", nil
			})
			if tt.recovery {
				tool = must(tools.WithProbe(tool, func(context.Context, *tools.Invocation) (tools.ProbeResult, error) {
					switch answer.Load() {
					case happened:
						return tools.ProbeResult{State: tools.ProbeHappened, Result: "paid"}, nil
					case not:
						return tools.ProbeResult{State: tools.ProbeDidNotHappen}, nil
					}
					return tools.ProbeResult{}, errors.New("try later")
				}), nil)
			}
			w := newWorld(t, paying(), echo(tools.Readonly), tool)
			w.start()
			origin := w.submit("go").ID
			if r := w.wait(origin, true); r.ParkReason != events.ParkInDoubt {
				t.Fatalf("run = %s %s\n%s", r.State, r.ParkReason, w.story(origin))
			}
			if _, err := w.client().Cancel(t.Context(), origin, "ann", "stuck"); err != nil {
				t.Fatal(err)
			}
			w.wait(origin, false)
			answer.Store(tt.answer)
			f := w.fork(origin, seqOf[events.ToolExecutionInDoubt](w, origin), nil)
			if !tt.recovery {
				r := w.wait(f.ID, true)
				if r.ParkReason != events.ParkInDoubt {
					t.Fatalf("fork = %s %s\n%s", r.State, r.ParkReason, w.story(f.ID))
				}
				w.until("resolved", func() bool {
					_, err := w.store.Resolve(t.Context(), ledger.Resolution{OpKey: r.ParkKey, State: events.EffectApplied, By: "bob"})
					return err == nil
				})
			}
			r := w.wait(f.ID, false)
			paid := last[events.ToolExecutionFinished](w, f.ID)
			for _, e := range w.history(f.ID) {
				if x, ok := e.Data.(events.ToolExecutionFinished); ok && x.Tool == "pay" {
					paid = x
				}
			}
			if r.State != ledger.Finished || p.effects() != tt.effects || paid.Repeated != tt.repeated {
				t.Errorf("fork = %s %s, %d effects, pay %+v\n%s", r.State, r.Error, p.effects(), paid, w.story(f.ID))
			}
			w.whole()
		})
	}
}

func TestForkWithANoteGoesOnAfterTheEnd(t *testing.T) {
	m := paying()
	w := newWorld(t, m, echo(tools.Readonly), pay(tools.Definition{}, func(context.Context, *tools.Invocation, text) (string, error) { return "paid", nil }))
	w.start()
	origin := w.wait(w.submit("go").ID, false)
	end := w.history(origin.ID)
	asked := m.asked.Load()
	r := w.wait(w.fork(origin.ID, end[len(end)-1].Seq, nil).ID, true)
	if r.State != ledger.Finished || m.asked.Load() != asked {
		t.Errorf("without a note: %s %s, asked %d more times", r.State, r.Error, m.asked.Load()-asked)
	}
	r = w.wait(w.fork(origin.ID, end[len(end)-1].Seq, "and say it in French").ID, true)
	ms := m.saw.Load().Messages
	if r.State != ledger.Finished || m.asked.Load() != asked+1 || ms[len(ms)-1].Text != "and say it in French" {
		t.Errorf("with a note: %s %s, the model read %+v\n%s", r.State, r.Error, ms[len(ms)-1], w.story(r.ID))
	}
	w.whole()
}

func TestForkKeepsTheStricterEffect(t *testing.T) {
	var p provider
	def := tools.Definition{Name: "pay", Description: "Pays.", Timeout: 2 * time.Second, Trust: tools.Own}
	f := func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply("all")
		return "paid", nil
	}
	strict, loose := def, def
	strict.Effect, loose.Effect = tools.Destructive, tools.Readonly
	w := newWorld(t, paying(), echo(tools.Readonly), must(tools.New(strict, f)))
	first := w.start()
	origin := w.wait(w.submit("go").ID, false)
	first.stop(t)
	w.tools[len(w.tools)-1] = must(tools.New(loose, f))
	w.start()
	r := w.wait(w.fork(origin.ID, seqOf[events.ModelCallFinished](w, origin.ID), nil).ID, true)
	if r.State != ledger.Finished || p.effects() != 1 {
		t.Errorf("fork = %s %s, paid %d times\n%s", r.State, r.Error, p.effects(), w.story(r.ID))
	}
	for _, b := range last[events.RunStarted](w, r.ID).Tools {
		if b.Name == "pay" && b.Effect != string(tools.Destructive) {
			t.Errorf("bound to %+v", b)
		}
	}
}

func TestForkIsToldWhatWasDoneThoughItIsForbiddenNow(t *testing.T) {
	var p provider
	var forbidden atomic.Bool
	w := newWorld(t, paying(), echo(tools.Readonly), pay(tools.Definition{}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "paid", nil
	}))
	w.cfg = func(c *runtime.Config) {
		c.Dispatch.Permission = func(_ context.Context, _ tools.Env, def *tools.Definition, _ tools.Call) error {
			if def.Name == "pay" && forbidden.Load() {
				return errors.New("payments are switched off")
			}
			return nil
		}
	}
	w.start()
	origin := w.wait(w.submit("go").ID, false)
	forbidden.Store(true)
	var begun uint64
	for _, e := range w.history(origin.ID) {
		if s, ok := e.Data.(events.ToolExecutionStarted); ok && s.Tool == "pay" {
			begun = e.Seq
		}
	}
	r := w.wait(w.fork(origin.ID, begun, nil).ID, true)
	if r.State != ledger.Finished || count[events.ToolExecutionBlocked](w, r.ID) != 0 || p.effects() != 1 {
		t.Errorf("fork = %s %s %s\n%s", r.State, r.ParkReason, r.Error, w.story(r.ID))
	}
	w.whole()
}

func TestForkNeedsGoodWords(t *testing.T) {
	w := newWorld(t, paying())
	id := w.submit("go").ID
	for name, c := range map[string]struct {
		fork runtime.Fork
		want error
	}{
		"nobody asks":     {runtime.Fork{Run: id, Seq: 1, Effects: "replay"}, runtime.ErrInvalidSubmit},
		"no effects":      {runtime.Fork{Run: id, Seq: 1, By: "ann"}, runtime.ErrInvalidSubmit},
		"unknown effects": {runtime.Fork{Run: id, Seq: 1, By: "ann", Effects: "all"}, runtime.ErrInvalidSubmit},
		"no traceparent":  {runtime.Fork{Run: id, Seq: 1, By: "ann", Effects: "ask", Trace: "x"}, runtime.ErrInvalidSubmit},
		"no history":      {runtime.Fork{Run: id, Seq: 1, Effects: "ask", By: "ann"}, ledger.ErrNoSuchEvent},
		"no run":          {runtime.Fork{Seq: 1, Effects: "ask", By: "ann"}, ledger.ErrNotFound},
	} {
		if _, _, err := w.client().Fork(t.Context(), c.fork); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}
