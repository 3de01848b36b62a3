package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/script"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

func coded(version int, code func(s *script.Script, in order) (any, error)) loops.Loop {
	return script.New(script.Config{Name: "coded", Version: version}, code)
}

// payThenWait pays, waits for a signal and pays again.
func payThenWait(first string) func(s *script.Script, in order) (any, error) {
	return func(s *script.Script, in order) (any, error) {
		one := s.Tool("pay", text{first + in.Charge})
		go1 := s.Await("go", 0)
		two := s.Tool("pay", text{"more " + in.Charge})
		return []any{one.Text, one.Repeated, go1.Text, two.Text, two.Repeated}, errors.Join(one.Err(), two.Err())
	}
}

// The code is changed under a run that waits. With the new code nothing is done,
// and everybody can read why; the old code goes on.
func TestDivergedRunIsParkedAndGoesOnWithTheOldCode(t *testing.T) {
	var p provider
	w := newWorld(t, judge, payInto(&p, tools.Definition{})).scripts(coded(1, payThenWait("")))
	first := w.start()
	id := w.submit(order{"ch_1"}).ID
	w.parkedFor(id, events.ParkSignal)
	first.stop(t)
	w.loop = coded(1, payThenWait("another "))
	changed := w.start()
	w.signal(id)
	r := w.parkedFor(id, events.ParkDiverged)
	for _, want := range []string{
		`script "coded" diverged at step 1: recorded at seq 4 is a call of pay {"text":"ch_1"}; the code now asks for a call of pay {"text":"another ch_1"}. Nothing was done.`, "Roll the code back",
	} {
		if !strings.Contains(r.ParkDetail, want) {
			t.Errorf("parked: %s\nwant %s", r.ParkDetail, want)
		}
	}
	if p.effects() != 1 {
		t.Errorf("%d effects", p.effects())
	}
	changed.stop(t)
	w.loop = coded(1, payThenWait(""))
	w.advance(2 * time.Minute)
	w.start()
	if r = w.wait(id, false); string(r.Result) != `["paid",false,"now","paid",false]` || p.effects() != 2 {
		t.Errorf("run = %s %s %s, %d effects\n%s", r.State, r.Result, r.Error, p.effects(), w.story(id))
	}
	w.whole()
}

// A worker with older code leaves a run of newer code alone.
func TestOlderScriptLeavesTheRunAlone(t *testing.T) {
	var p provider
	w := newWorld(t, judge, payInto(&p, tools.Definition{})).scripts(coded(2, payThenWait("")))
	first := w.start()
	id := w.submit(order{"ch_1"}).ID
	w.parkedFor(id, events.ParkSignal)
	first.stop(t)
	w.loop = coded(1, payThenWait(""))
	w.start()
	w.signal(id)
	if r := w.parkedFor(id, events.ParkNoCapableWorker); !strings.Contains(r.ParkDetail, `"coded" version 2 is not available here`) {
		t.Errorf("parked: %s", r.ParkDetail)
	}
}

// New code goes on with old runs where it says what is new.
func TestPatchedScriptGoesOnWithOldRuns(t *testing.T) {
	var p provider
	code := func(patch bool) loops.Loop {
		return coded(1, func(s *script.Script, in order) (any, error) {
			said := ""
			if patch && s.Patched("echo first") {
				said = s.Tool("echo", text{"new"}).Text
			}
			s.Tool("pay", text{in.Charge})
			s.Await("go", 0)
			if patch && s.Patched("echo last") {
				said += s.Tool("echo", text{"last"}).Text
			}
			return said, nil
		})
	}
	w := newWorld(t, judge, echo(tools.Readonly), payInto(&p, tools.Definition{})).scripts(code(false))
	first := w.start()
	old := w.submit(order{"ch_1"}).ID
	w.parkedFor(old, events.ParkSignal)
	first.stop(t)
	w.loop = code(true)
	w.start()
	fresh := w.submit(order{"ch_2"}).ID
	w.signal(old)
	w.signal(fresh)
	for id, want := range map[events.RunID]string{old: `"said last"`, fresh: `"said newsaid last"`} {
		if r := w.wait(id, false); string(r.Result) != want {
			t.Errorf("run = %s %s %s, want %s\n%s", r.State, r.Result, r.Error, want, w.story(id))
		}
	}
	if p.effects() != 2 {
		t.Errorf("%d effects", p.effects())
	}
	w.whole()
}

// A fork from every event, and a run that is tried again, find what was done.
func TestScriptForksAndRetriesRepeatNoEffect(t *testing.T) {
	var p provider
	var broken atomic.Bool
	w := newWorld(t, judge, echo(tools.Readonly), payInto(&p, tools.Definition{})).scripts(coded(1, func(s *script.Script, in order) (any, error) {
		o := s.Tool("pay", map[string]string{"text": in.Charge + " " + s.NewID()})
		a, err := s.Model(script.Ask{Text: "judge " + o.Text})
		if err == nil && broken.Load() {
			err = script.Fail("broken", "not today")
		}
		return []any{o.Text, a.Text, s.Now().IsZero()}, err
	}))
	k := w.start()
	origin := w.wait(w.submit(order{"ch_1"}).ID, false)
	if origin.State != ledger.Finished {
		t.Fatalf("run = %s %s\n%s", origin.State, origin.Error, w.story(origin.ID))
	}
	for _, e := range w.history(origin.ID) {
		f := w.wait(w.fork(origin.ID, e.Seq, nil).ID, true)
		if f.State != ledger.Finished || string(f.Result) != string(origin.Result) {
			t.Errorf("fork at seq %d %s: %s %s %s\n%s", e.Seq, e.Type, f.State, f.Result, f.Error, w.story(f.ID))
		}
	}
	if p.effects() != 1 {
		t.Errorf("%d effects after the forks", p.effects())
	}
	w.whole()
	k.stop(t)
	w.agent, w.loop = twice, coded(2, func(s *script.Script, in order) (any, error) {
		o := s.Tool("pay", map[string]string{"text": in.Charge + " " + s.NewID()})
		if !broken.CompareAndSwap(false, true) {
			return o.Repeated, nil
		}
		return nil, script.Fail("broken", "not today")
	})
	w.start()
	r := w.waitRetries(w.submit(order{"ch_2"}).ID, false)
	if r.Attempt != 2 || string(r.Result) != "true" || p.effects() != 2 {
		t.Errorf("tried again: run = %s, attempt %d, %s %s, %d effects\n%s", r.State, r.Attempt, r.Result, r.Error, p.effects(), w.story(r.ID))
	}
}

// What an agent's policy says of calls that a model asks for holds for a script's.
func TestScriptedCallIsApproved(t *testing.T) {
	for _, approve := range []bool{true, false} {
		t.Run(fmt.Sprint("approved ", approve), func(t *testing.T) {
			var p provider
			w := newWorld(t, judge, payInto(&p, tools.Definition{Approval: true})).scripts(coded(1, func(s *script.Script, in order) (any, error) {
				o := s.Tool("pay", text{in.Charge})
				return []any{o.Status, o.Reason, o.Detail}, nil
			}))
			first := w.start()
			id := w.submit(order{"ch_1"}).ID
			a := w.asked(id)
			first.stop(t)
			w.decide(a.ID, approve)
			w.start()
			want, did := `["completed","",""]`, 1
			if !approve {
				want, did = `["blocked","permission_denied","approval_denied"]`, 0
			}
			if r := w.wait(id, false); string(r.Result) != want || p.effects() != did {
				t.Errorf("run = %s %s %s, %d effects\n%s", r.State, r.Result, r.Error, p.effects(), w.story(id))
			}
			w.whole()
		})
	}
}

// Foreign text that came in by one of a script's calls taints the next.
func TestScriptIsTainted(t *testing.T) {
	var p provider
	w := newWorld(t, judge, payInto(&p, tools.Definition{})).scripts(coded(1, func(s *script.Script, in order) (any, error) {
		o := s.Await("go", 0)
		return s.Tool("pay", text{in.Charge + o.Text}).Reason, nil
	}))
	w.agent = func(a *agents.Agent) { a.Taint = ledger.TaintDeny }
	w.start()
	id := w.submit(order{"ch_1"}).ID
	w.signal(id)
	if r := w.wait(id, false); string(r.Result) != `"permission_denied"` || p.effects() != 0 {
		t.Errorf("run = %s %s %s, %d effects\n%s", r.State, r.Result, r.Error, p.effects(), w.story(id))
	}
}

func TestBrokenScriptsEndOnlyTheirRun(t *testing.T) {
	free := make(chan struct{})
	w := newWorld(t, judge, echo(tools.Readonly)).scripts(coded(1, func(s *script.Script, in order) (any, error) {
		switch in.Charge {
		case "panic":
			panic("boo")
		case "blocks":
			s.Tool("echo", text{"x"})
			<-free
		case "goroutine":
			done := make(chan struct{})
			go func() { defer close(done); s.Now() }()
			<-done
		case "large":
			_, err := s.Model(script.Ask{Text: strings.Repeat("x", events.MaxDataBytes)})
			return nil, err
		case "model":
			s.Tool(loops.ChildTool, map[string]string{"agent": "helper"})
		}
		return "fine", nil
	}))
	inner := w.cfg
	w.cfg = func(cfg *runtime.Config) { inner(cfg); cfg.CallbackTimeout = 300 * time.Millisecond }
	k := w.start()
	ids := map[string]events.RunID{}
	for _, what := range []string{"panic", "blocks", "goroutine", "large", "model", "fine"} {
		ids[what] = w.submit(order{what}).ID
	}
	for what, want := range map[string]string{
		"panic": "script_panic boo (script_change_test.go:", "blocks": "script_blocked has not come back for 300ms since it was given a call of echo", "goroutine": "script_misuse Script.Now was called from another goroutine",
		"large": "step_unrecordable step 1 of the script (model)", "model": "script Tool: script__child is no tool",
	} {
		kind, text, _ := strings.Cut(want, " ")
		if r := w.wait(ids[what], false); r.State != ledger.Failed || last[events.RunFailed](w, r.ID).Error.Kind != kind || !strings.Contains(r.Error, text) {
			t.Errorf("%s: run = %s %s\n%s", what, r.State, r.Error, w.story(r.ID))
		}
	}
	if r := w.wait(ids["fine"], false); string(r.Result) != `"fine"` {
		t.Errorf("the others: %s %s", r.State, r.Error)
	}
	close(free) // else the worker waits for it when it stops
	k.stop(t)
}

// A step is found again by its name: code whose names redaction would change is told,
// rather than asked the same for ever or found to have diverged from itself.
func TestNamesThatLookLikeSecrets(t *testing.T) {
	const key = "sk-2026-04-vat-rounding-v2"
	w := newWorld(t, judge, echo(tools.Readonly)).scripts(script.New(script.Config{Name: "coded", Version: 1, Validators: []string{key}}, func(s *script.Script, in order) (any, error) {
		if in.Charge != "fine" {
			s.Tool("echo", text{"before"})
		}
		switch in.Charge {
		case "patch":
			s.Patched(key)
		case "artifact":
			if _, err := s.Artifact(script.Artifact{Name: key, Value: "x"}); err != nil {
				return nil, err
			}
		case "validator":
			if _, err := s.Artifact(script.Artifact{Name: "report", Value: "x", Validators: []string{key}}); err != nil {
				return nil, err
			}
		case "tool":
			s.Tool(key, nil)
		case "fine": // a marker that the code wrote itself is recorded as it is
			s.Patched("[REDACTED:openai-key:0123abcd]")
			s.Patched("vat rounding v2")
		}
		return s.Tool("echo", text{"x"}).Text, nil
	}))
	inner := w.cfg
	w.cfg = func(cfg *runtime.Config) {
		inner(cfg)
		cfg.Artifacts.Validators[key] = cfg.Artifacts.Validators["v"]
	}
	w.start()
	ids := map[string]events.RunID{}
	for _, what := range []string{"patch", "artifact", "validator", "tool", "fine"} {
		ids[what] = w.submit(order{what}).ID
	}
	for what, op := range map[string]events.Op{"patch": events.OpPatch, "artifact": events.OpArtifact, "validator": events.OpArtifact, "tool": events.OpCalls} {
		r := w.wait(ids[what], false)
		e := last[events.RunFailed](w, r.ID).Error
		if r.State != ledger.Failed || e.Kind != "step_name_redacted" || !strings.Contains(e.Message, fmt.Sprintf("step 2 of the script (%s)", op)) || !strings.Contains(e.Message, "[REDACTED:") || strings.Contains(w.story(r.ID), key) {
			t.Errorf("%s: run = %s %s\n%s", what, r.State, r.Error, w.story(r.ID))
		}
	}
	if r := w.wait(ids["fine"], false); r.State != ledger.Finished {
		t.Errorf("a name like others: %s %s", r.State, r.Error)
	}
}

// However many steps it has, code runs from its top once for each lease, and not
// for each step.
func TestScriptRunsOncePerLease(t *testing.T) {
	var began, went atomic.Int64
	const steps = 60
	w := newWorld(t, judge, echo(tools.Readonly)).scripts(coded(1, func(s *script.Script, _ order) (any, error) {
		began.Add(1)
		for i := range steps {
			if i == steps/2 {
				s.Await("go", 0)
			}
			s.Tool("echo", text{fmt.Sprint(i)})
			went.Add(1)
		}
		return nil, nil
	}))
	w.start()
	id := w.submit(order{}).ID
	w.parkedFor(id, events.ParkSignal)
	w.signal(id)
	w.wait(id, false)
	leases := int64(1)
	for _, e := range w.history(id) {
		if _, ok := e.Data.(events.RunResumed); ok {
			leases++
		}
	}
	if began.Load() != leases || went.Load() > leases*steps {
		t.Errorf("over %d leases it began %d times and made %d steps", leases, began.Load(), went.Load())
	}
}

// A model cannot wait, or start runs, by the names of a script's own tools.
func TestModelsHaveNoUseOfAScriptsTools(t *testing.T) {
	w := newWorld(t, listener(func(r model.Request) model.Response {
		if len(r.Messages) == 1 {
			return answer(loops.ChildTool, `{"agent":"helper","input":"x"}`)
		}
		return model.Response{Text: r.Messages[len(r.Messages)-1].Results[0].Text, StopReason: "end_turn"}
	})).scripts(coded(1, func(s *script.Script, _ order) (any, error) {
		a, err := s.Model(script.Ask{Text: "go", Tools: true})
		return a.Text, err
	}))
	w.start()
	r := w.wait(w.submit(order{}).ID, false)
	if b := last[events.ToolExecutionBlocked](w, r.ID); b.Reason != events.BlockedUnknownTool || count[events.ChildStarted](w, r.ID) != 0 {
		t.Errorf("blocked %+v\n%s", b, w.story(r.ID))
	}
}

// What code writes is redacted before it is recorded, and is still the same code.
func TestScriptIsRedacted(t *testing.T) {
	const canary = "hunter2-canary-5b1f7c"
	var saw atomic.Pointer[model.Request]
	w := newWorld(t, listener(func(r model.Request) model.Response {
		saw.Store(&r)
		return model.Response{Text: "ok", StopReason: "end_turn"}
	}), echo(tools.Readonly)).scripts(coded(1, func(s *script.Script, _ order) (any, error) {
		_, err := s.Model(script.Ask{Text: "is " + canary + " a good password?"})
		s.Tool("echo", map[string]any{"text": "x " + canary})
		s.Await("go", 0)
		return canary, err
	}))
	if err := w.vault.Set("canary", canary); err != nil {
		t.Fatal(err)
	}
	first := w.start()
	id := w.submit(order{"x"}).ID
	w.parkedFor(id, events.ParkSignal)
	first.stop(t)
	w.start()
	w.signal(id)
	r := w.wait(id, false)
	if r.State != ledger.Finished || strings.Contains(saw.Load().Messages[0].Text, canary) {
		t.Errorf("run = %s %s %s; the model read %q", r.State, r.ParkDetail, r.Error, saw.Load().Messages[0].Text)
	}
	if err := w.store.Events(context.Background(), id, 1, func(s events.Sealed) error {
		if strings.Contains(string(s.Bytes()), canary) {
			t.Errorf("event %s", s.Bytes())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
