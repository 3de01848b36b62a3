package tools_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// Time that is up, before or while the tool runs.
// hatchet-dev/hatchet#1022
func TestTimeOfADestructiveCall(t *testing.T) {
	lease := errors.Join(errors.New("epoch 4 took over"), tools.ErrLeaseLost)
	tests := []struct {
		name  string
		fn    func(ctx context.Context, cancel context.CancelCauseFunc) (any, error)
		cause string // empty: applied
	}{
		{"own timeout", func(ctx context.Context, _ context.CancelCauseFunc) (any, error) { <-ctx.Done(); return nil, ctx.Err() }, tools.CauseTimeout},
		{"deaf", func(context.Context, context.CancelCauseFunc) (any, error) {
			time.Sleep(time.Hour)
			return nil, errors.New("x")
		}, tools.CauseTimeout},
		{"lease lost", func(ctx context.Context, c context.CancelCauseFunc) (any, error) {
			c(lease)
			<-ctx.Done()
			return nil, ctx.Err()
		}, tools.CauseLeaseLost},
		{"cancelled", func(ctx context.Context, c context.CancelCauseFunc) (any, error) {
			c(nil)
			<-ctx.Done()
			return nil, ctx.Err()
		}, tools.CauseCancelled},
		{"applied although the lease is gone", func(ctx context.Context, c context.CancelCauseFunc) (any, error) {
			c(lease)
			<-ctx.Done()
			return "ok", nil
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				p := &provider{fn: func(ctx context.Context, _ *tools.Invocation) (any, error) { return tt.fn(ctx, cancel) }}
				b := newBench(t, tools.Config{}, tool(t, refund, p.call))
				start := time.Now()
				disp, err := b.d.Dispatch(ctx, b.run.Env(), at(1, `{"order":"A1"}`))
				if err != nil {
					t.Fatal(err)
				}
				if took := time.Since(start); took > time.Minute+tools.DefaultGrace {
					t.Errorf("it took %v", took)
				}
				if tt.cause == "" {
					if disp.State != tools.StateDone || disp.Result.Output != "ok" {
						t.Errorf("%+v", disp)
					}
				} else if disp.State != tools.StateInDoubt || disp.Cause != tt.cause || last[events.ToolExecutionInDoubt](b).Cause != tt.cause {
					t.Errorf("%+v", disp)
				}
				if err := b.d.Wait(context.Background()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Late evidence is never dropped: a call that comes back after its time settles its effect.
func TestLateOutcomeSettles(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		state events.EffectState
	}{
		{"applied", nil, events.EffectApplied},
		{"not applied", tools.NoEffect(errors.New("refused")), events.EffectNotApplied},
		{"still unclear", errors.New("x"), events.EffectInDoubt},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &provider{fn: func(context.Context, *tools.Invocation) (any, error) { time.Sleep(time.Hour); return "late", tt.err }}
				b := newBench(t, tools.Config{}, tool(t, refund, p.call))
				ledger := toolstest.NewLedger()
				b.run = ledger.Run()
				disp := b.dispatch(at(1, `{"order":"A1"}`))
				if disp.State != tools.StateInDoubt {
					t.Fatalf("%+v", disp)
				}
				if err := b.d.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := ledger.State(disp.Verdict.Ref.OpKey); got != tt.state {
					t.Errorf("state %q, want %q; events %v", got, tt.state, b.run.Types())
				}
			})
		})
	}
}

// Nothing is sent when the time is up before the first byte, or a secret is missing.
func TestNothingSent(t *testing.T) {
	for _, prior := range []bool{false, true} {
		p := &provider{}
		d := refund
		d.Recovery = tools.Keyed(time.Hour)
		b := newBench(t, tools.Config{Now: func() time.Time { return time.Now().Add(24 * time.Hour) }}, tool(t, d, p.call))
		if prior {
			crashOnce(t, b)
		}
		disp := b.dispatch(at(1, `{"order":"A1"}`))
		if len(p.keys) != 0 || (disp.State == tools.StateInDoubt) != prior {
			t.Errorf("prior %v: ran %v, %+v", prior, p.keys, disp)
		}
		if !prior && last[events.ToolExecutionError](b).Error.Kind != tools.KindNotRun {
			t.Errorf("%+v", last[events.ToolExecutionError](b))
		}
	}
	p := &provider{}
	b := newBench(t, tools.Config{Secrets: vault{errors.New("no secret canary " + canary)}}, tool(t, refund, p.call))
	disp := b.dispatch(at(1, `{"order":"A1"}`))
	if len(p.keys) != 0 || disp.State != tools.StateDone || last[events.ToolExecutionError](b).Error.Kind != tools.KindSecret {
		t.Errorf("%+v", disp)
	}
}

// Infrastructure: a refused Begin runs nothing; an End is tried again, and an
// outcome that cannot be stored is handed up.
func TestLedgerFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("database away")
		p := &provider{}
		b := newBench(t, tools.Config{}, tool(t, refund, p.call))
		ledger := toolstest.NewLedger()
		b.run = ledger.Run()
		ledger.BeginFunc = func(tools.Intent) error { return down }
		if _, err := b.d.Dispatch(t.Context(), b.run.Env(), at(1, `{"order":"A1"}`)); !errors.Is(err, down) || len(p.keys) != 0 {
			t.Errorf("begin: %v, ran %v", err, p.keys)
		}
		if es := b.run.Types(); len(es) > 0 {
			t.Errorf("a refused Begin recorded %v", es)
		}
		fails := 3
		ledger.BeginFunc = nil
		ledger.EndFunc = func(tools.Outcome) error {
			if fails--; fails >= 0 {
				return down
			}
			return nil
		}
		if disp := b.dispatch(at(1, `{"order":"A1"}`)); disp.Result.Status != tools.Completed {
			t.Errorf("after three failures: %+v", disp)
		}
		ledger.EndFunc = func(tools.Outcome) error { return down }
		_, err := b.d.Dispatch(t.Context(), b.run.Env(), at(2, `{"order":"B2"}`))
		var ee *tools.EndError
		if !errors.As(err, &ee) || !errors.Is(err, down) || ee.Outcome.Kind != tools.Applied || ee.Outcome.Call.Turn != 2 {
			t.Errorf("end: %v", err)
		}
		if _, err := b.d.Dispatch(t.Context(), tools.Env{Recorder: b.run}, at(3, `{"order":"C3"}`)); err == nil {
			t.Error("no effects, no error")
		}
	})
}
