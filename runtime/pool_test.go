package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
)

// A pool's endpoints are asked one after the other, each as an attempt of its own, before
// the chain goes on; a run stays with the one that answered, on the next worker too.
func TestPoolOfAChain(t *testing.T) {
	c := new(chained)
	var bad atomic.Value
	bad.Store("")
	endpoint := func(name string) model.Endpoint {
		return model.Endpoint{Name: name, Model: link{c, "m", func(turn int) (model.Response, error) {
			if strings.Contains(bad.Load().(string), name) {
				return model.Response{}, &model.Error{Kind: "unauthorized", Err: errors.New("refused")}
			}
			if turn < 3 {
				return signedBy("m"), nil
			}
			return doneBy("m"), nil
		}}}
	}
	p, err := model.NewPool(nil, endpoint("x"), endpoint("y"), endpoint("z"))
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil, looker())
	w.agent = func(a *agents.Agent) { a.Model, a.Fallbacks = "m", []string{"b"} }
	w.cfg = func(cfg *runtime.Config) {
		cfg.Models["m"] = p
		cfg.Models["b"] = link{c, "b", func(int) (model.Response, error) { return doneBy("b"), nil }}
	}
	w.start()
	tell := func(id events.RunID) (s string) {
		for _, e := range w.history(id) {
			switch p := e.Data.(type) {
			case events.ModelCallError:
				s += fmt.Sprintf("%s>%s ", p.Endpoint, p.NextEndpoint)
			case events.ModelCallFinished:
				s += fmt.Sprintf("%s@%s ", p.Model, p.Endpoint)
			}
		}
		return s
	}
	id := w.submit("go").ID
	w.wait(id, false)
	first := tell(id)
	if a := strings.Fields(first); len(a) != 3 || a[0] != a[1] || a[1] != a[2] {
		t.Fatalf("a run moves about: %s", first)
	}
	home := first[2:3]
	bad.Store(home)
	id = w.submit("go").ID
	w.wait(id, false)
	if s := tell(id); strings.Contains(s, "m@"+home) || strings.Contains(s, "b@") {
		t.Errorf("with %s refused: %s", home, s)
	}
	bad.Store("xyz")
	id = w.submit("go").ID
	w.wait(id, false)
	a := strings.Fields(tell(id))
	if len(a) != 4 || a[0][2:] != a[1][:1] || a[1][2:] != a[2][:1] || a[2][1:] != ">" || a[3] != "b@" {
		t.Errorf("with all refused: %v", a)
	}
	w.whole()
}

// max_concurrent holds, nobody starves, and who waits for long is parked by name.
func TestModelLimit(t *testing.T) {
	var busy, most atomic.Int64
	var mu sync.Mutex
	gate := make(chan struct{})
	m := link{new(chained), "m", func(int) (model.Response, error) {
		n := busy.Add(1)
		mu.Lock()
		most.Store(max(most.Load(), n))
		mu.Unlock()
		<-gate
		busy.Add(-1)
		return doneBy("m"), nil
	}}
	w := newWorld(t, nil)
	w.agent = func(a *agents.Agent) { a.Model = "m" }
	w.cfg = func(cfg *runtime.Config) { cfg.Models["m"], cfg.ModelLimits = m, map[string]int{"m": 2} }
	w.start()
	var ids []events.RunID
	for range 5 {
		ids = append(ids, w.submit("go").ID)
	}
	w.until("three are parked by name", func() bool {
		n := 0
		for _, id := range ids {
			for _, e := range w.history(id) {
				if p, ok := e.Data.(events.RunParked); ok && p.Detail == "model m has 2 calls under way here, as many as max_concurrent allows" {
					n++
					break
				}
			}
		}
		return n == 3
	})
	close(gate)
	for _, id := range ids {
		if r := w.wait(id, false); r.State != ledger.Finished {
			t.Errorf("run %s is %s", id, r.State)
		}
	}
	if most.Load() != 2 {
		t.Errorf("%d calls at once, want 2", most.Load())
	}
}

// slowJournal stores no answer of a model before it may.
type slowJournal struct {
	events.Journal
	may <-chan struct{}
}

func (j slowJournal) Append(ctx context.Context, es ...events.Sealed) (events.Receipt, error) {
	for _, e := range es {
		if e.Envelope().Type == events.TypeOf(events.ModelCallFinished{}) {
			<-j.may
		}
	}
	return j.Journal.Append(ctx, es...)
}

// The slot of a call is free once the call has ended, however long its answer takes to
// be recorded, and however it ended: here the first is cancelled.
func TestSlotIsFreeOnceTheCallHasEnded(t *testing.T) {
	asked, may := make(chan int, 3), make(chan struct{})
	var n atomic.Int64
	m := slotted(func(ctx context.Context) (model.Response, error) {
		i := int(n.Add(1))
		asked <- i
		if i == 1 {
			<-ctx.Done()
			return model.Response{}, context.Cause(ctx)
		}
		return doneBy("m"), nil
	})
	w := newWorld(t, nil)
	w.agent = func(a *agents.Agent) { a.Model = "m" }
	w.cfg = func(cfg *runtime.Config) {
		cfg.Models["m"], cfg.ModelLimits, cfg.StayFor = m, map[string]int{"m": 1}, time.Minute
		cfg.Journal = slowJournal{cfg.Journal, may}
	}
	w.start()
	first := w.submit("go").ID
	if i := <-asked; i != 1 {
		t.Fatalf("call %d", i)
	}
	second, third := w.submit("go").ID, w.submit("go").ID
	if _, err := w.client().Cancel(t.Context(), first, "ann", "enough"); err != nil {
		t.Fatal(err)
	}
	for want := 2; want <= 3; want++ { // the third is asked while the answer of the second is not recorded
		select {
		case i := <-asked:
			if i != want {
				t.Errorf("call %d, want %d", i, want)
			}
		case <-time.After(patience):
			t.Fatalf("call %d got no slot", want)
		}
	}
	close(may)
	for _, id := range []events.RunID{second, third} {
		if r := w.wait(id, false); r.State != ledger.Finished {
			t.Errorf("run %s is %s %s", id, r.State, r.Error)
		}
	}
	if r := w.wait(first, false); r.State != ledger.Cancelled {
		t.Errorf("the first is %s", r.State)
	}
	w.whole()
}

type slotted func(ctx context.Context) (model.Response, error)

func (f slotted) Call(ctx context.Context, _ model.Request) (model.Response, error) { return f(ctx) }
