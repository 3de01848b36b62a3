package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
)

// lateJournal takes 7 seconds of a worker's clock to store anything.
type lateJournal struct {
	events.Journal
	clock *atomic.Int64
}

func (j lateJournal) Append(ctx context.Context, es ...events.Sealed) (events.Receipt, error) {
	j.clock.Add(int64(7 * time.Second))
	return j.Journal.Append(ctx, es...)
}

// The latency of a model call is the call's alone, by the worker's clock: not the time in
// which its start and its outcome were recorded; and of an attempt that failed, too.
func TestLatencyOfModelCalls(t *testing.T) {
	begun := time.Now()
	var clock, n atomic.Int64 // the clock stands still but for what is said here
	m := answering(func(context.Context, model.Request) (model.Response, error) {
		if n.Add(1) == 1 {
			clock.Add(int64(1500 * time.Millisecond))
			return model.Response{}, &model.Error{Kind: "unavailable", Retryable: true, RetryAfter: time.Millisecond, Err: errors.New("away")}
		}
		clock.Add(int64(250*time.Millisecond + 999*time.Microsecond))
		return model.Response{StopReason: "tool_use", Usage: events.Usage{Input: 1, Output: 1}, Calls: []events.ToolCall{{Name: "finish", Arguments: json.RawMessage(`{"answer":"done"}`)}}}, nil
	})
	w := newWorld(t, m)
	w.cfg = func(c *runtime.Config) {
		c.Now = func() time.Time { return begun.Add(time.Duration(clock.Load())) }
		c.Journal = lateJournal{c.Journal, &clock}
	}
	w.start()
	r := w.wait(w.submit("go").ID, false)
	var got []int64
	for _, e := range w.history(r.ID) {
		switch p := e.Data.(type) {
		case events.ModelCallError:
			got = append(got, p.LatencyMS)
		case events.ModelCallFinished:
			got = append(got, p.LatencyMS)
		}
	}
	if want := []int64{1500, 250}; !slices.Equal(got, want) {
		t.Errorf("latencies %v ms, want %v\n%s", got, want, w.story(r.ID))
	}
	w.whole()
}
