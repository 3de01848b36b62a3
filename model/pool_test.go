package model_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/modeltest"
)

type at struct {
	limited time.Duration
	err     error
	calls   *int
}

func (a at) Call(context.Context, model.Request) (model.Response, error) {
	if a.calls != nil {
		*a.calls++
	}
	return model.Response{Model: "m", LimitedFor: a.limited}, a.err
}

func pool(t *testing.T, now *time.Time, es ...model.Endpoint) *model.Pool {
	t.Helper()
	p, err := model.NewPool(func() time.Time { return *now }, es...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPoolSpreadsRunsByWeight: a run gets the same endpoint on every worker, and an
// endpoint that is added moves no more runs than it takes.
func TestPoolSpreadsRunsByWeight(t *testing.T) {
	now := time.Now()
	a, b, c := model.Endpoint{Name: "a", Model: at{}, Weight: 3}, model.Endpoint{Name: "b", Model: at{}}, model.Endpoint{Name: "c", Model: at{}, Weight: 4}
	two, same, three := pool(t, &now, a, b), pool(t, &now, b, a), pool(t, &now, a, b, c)
	got, moved := map[string]int{}, 0
	for i := range 8000 {
		run := fmt.Sprint("run", i)
		x, _ := two.Choose(run, "", nil)
		got[x]++
		if y, _ := same.Choose(run, "", nil); y != x {
			t.Fatalf("%s gets %s here and %s there", run, x, y)
		}
		if y, _ := three.Choose(run, "", nil); y != x && y != "c" {
			t.Fatalf("%s moves from %s to %s", run, x, y)
		} else if y == "c" {
			moved++
		}
	}
	if got["a"] < 5800 || got["a"] > 6200 || moved < 3800 || moved > 4200 {
		t.Errorf("a gets %d of 8000 with 3 of 4 parts, the new one %d with 4 of 8", got["a"], moved)
	}
}

func TestPoolGoesByLimits(t *testing.T) {
	now := time.Now()
	busy := at{err: &model.Error{Kind: "rate_limited", Retryable: true, RetryAfter: time.Minute, Err: errors.New("slow down")}}
	spent := at{limited: 10 * time.Second}
	p := pool(t, &now, model.Endpoint{Name: "busy", Model: busy}, model.Endpoint{Name: "spent", Model: spent}, model.Endpoint{Name: "free", Model: at{}})
	choose := func(last string, tried ...string) string { n, _ := p.Choose("r", last, tried); return n }
	if choose("spent") != "spent" || choose("busy") != "busy" || choose("free") != "free" {
		t.Error("a run does not stay where it was")
	}
	for _, e := range []string{"busy", "spent", "free"} {
		_, _ = p.Call(t.Context(), model.Request{Endpoint: e})
	}
	if got := choose("busy"); got != "free" {
		t.Errorf("with the limit of its own used up the run goes to %s", got)
	}
	if got := choose("", "free"); got != "spent" {
		t.Errorf("of two that have nothing left the one that is free first is asked, not %s", got)
	}
	now = now.Add(11 * time.Second)
	if got := choose("spent"); got != "spent" {
		t.Errorf("after the limit has reset: %s", got)
	}
	if _, ok := p.Choose("r", "", []string{"busy", "spent", "free"}); ok {
		t.Error("all were tried, and there is one more")
	}
}

func TestPoolMakesOneCall(t *testing.T) {
	now := time.Now()
	n := 0
	p := pool(t, &now, model.Endpoint{Name: "a", Model: at{calls: &n, err: errors.New("no")}}, model.Endpoint{Name: "b", Model: at{calls: &n, err: errors.New("no")}})
	if _, err := p.Call(t.Context(), model.Request{AttemptID: "RUN.e1.t1.a1"}); err == nil || n != 1 {
		t.Errorf("%d calls, %v: trying again is the runtime's", n, err)
	}
	for _, es := range [][]model.Endpoint{nil, {{Name: "a"}}, {{Name: "a", Model: at{}}, {Name: "a", Model: at{}}}, {{Name: "a", Model: at{}, Weight: -1}}} {
		if _, err := model.NewPool(nil, es...); err == nil {
			t.Errorf("a pool of %v", es)
		}
	}
}

type hello struct{}

func (hello) Call(ctx context.Context, _ model.Request) (model.Response, error) {
	return model.Response{Model: "m", Text: "hello", StopReason: "end_turn", Usage: events.Usage{Input: 1, Output: 1}}, ctx.Err()
}

// TestPoolConformance: a pool is a model.
func TestPoolConformance(t *testing.T) {
	modeltest.TestModel(t, func(t *testing.T) model.Model {
		now := time.Now()
		return pool(t, &now, model.Endpoint{Name: "a", Model: hello{}}, model.Endpoint{Name: "b", Model: hello{}})
	}, modeltest.Features{})
}
