package runtime_test

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/bogus"
)

// SG-38, SG-52: a gate over the fixtures in a real run. It goes by declared effects:
// order_pizza is refused, feed_cat is made again by the next worker when the first
// one goes away in the middle of it, my_notes goes through. The receipts in the run's
// result say which tools fed it.
func TestAGateOverTheFixtures(t *testing.T) {
	var fed, pizzas atomic.Int64
	inside := make(chan struct{})
	watched := func(t tools.Tool, fn func(context.Context, *tools.Invocation) (any, error)) tools.Tool {
		def := *t.Definition()
		schema := def.Schema
		def.Schema = nil
		return must(tools.Raw(def, schema, fn))
	}
	cat := watched(bogus.FeedCat(), func(ctx context.Context, inv *tools.Invocation) (any, error) {
		if fed.Add(1) == 1 {
			close(inside)
			<-ctx.Done() // the worker is told to stop
			return nil, context.Cause(ctx)
		}
		return bogus.FeedCat().Call(ctx, inv)
	})
	pizza := watched(bogus.OrderPizza(), func(ctx context.Context, inv *tools.Invocation) (any, error) {
		pizzas.Add(1)
		return bogus.OrderPizza().Call(ctx, inv)
	})
	w := newWorld(t, listener(func(r model.Request) model.Response {
		switch len(r.Messages) {
		case 1:
			return answer("order_pizza", `{"pizza":"quattro","size":"large"}`)
		case 3:
			return answer("feed_cat", `{"portion":"small"}`)
		case 5:
			return answer("my_notes", `{"topic":"wifi"}`)
		}
		var said []string
		for _, m := range r.Messages {
			for _, res := range m.Results {
				said = append(said, res.Text)
			}
		}
		b, _ := json.Marshal(map[string]string{"answer": "I know this: " + strings.Join(said, " ")})
		return answer("finish", string(b))
	}), pizza, cat, bogus.MyNotes())
	w.cfg = func(c *runtime.Config) {
		c.Dispatch.Permission = func(_ context.Context, _ tools.Env, def *tools.Definition, _ tools.Call) error {
			if def.IsDestructive() {
				return &tools.Denial{Detail: "destructive", Text: "nothing that cannot be undone"}
			}
			return nil
		}
	}
	first := w.start()
	id := w.submit("go").ID
	<-inside
	first.stop(t)
	w.start()
	r := w.wait(id, false)
	if r.State != ledger.Finished {
		t.Fatalf("run = %s %s\n%s", r.State, r.Error, w.story(id))
	}
	b := last[events.ToolExecutionBlocked](w, id)
	if b.Tool != "order_pizza" || b.Reason != events.BlockedPermissionDenied || b.Detail != "destructive" || pizzas.Load() != 0 {
		t.Errorf("blocked %+v, ordered %d times", b, pizzas.Load())
	}
	var attempts []int
	for _, e := range w.history(id) {
		if p, ok := e.Data.(events.ToolExecutionStarted); ok && p.Tool == "feed_cat" {
			attempts = append(attempts, p.Attempt)
		}
	}
	if !slices.Equal(attempts, []int{1, 2}) || fed.Load() != 2 {
		t.Errorf("feed_cat: attempts %v, reached %d times, want it made again once\n%s", attempts, fed.Load(), w.story(id))
	}
	receipts := regexp.MustCompile(`bogus-[a-z_]+-[0-9a-f]{6}`).FindAllString(string(r.Result), -1)
	if want := []string{bogus.Receipt("feed_cat", "small"), bogus.Receipt("my_notes", "wifi")}; !slices.Equal(receipts, want) {
		t.Errorf("receipts %q in the result, want %q", receipts, want)
	}
	w.whole()
}
