package runtime_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/events/memory"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/loops/singleshot"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/queue"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long anything may take that must happen. The machine may be
// busy with other tests; nothing waits that long that works.
const patience = 2 * time.Minute

// world is a ledger, a journal and a projector for workers to live in.
type world struct {
	t      *testing.T
	store  *sqlstore.Store
	path   string
	red    *redact.Redactor
	vault  *redact.Vault
	stream *memory.Stream
	waker  *queue.Local
	tools  []tools.Tool
	limits events.Limits
	ttl    time.Duration // of the leases of workers that start from now on
	agent  func(*agents.Agent)
	model  model.Model
	loop   loops.Loop // beside those that ship; the agent's, if it is set
	cfg    func(*runtime.Config)
	n      atomic.Int64
	clock  atomic.Int64 // how far the ledger's clock is ahead
}

func newWorld(t *testing.T, m model.Model, ts ...tools.Tool) *world {
	t.Helper()
	t.Parallel() // most tests wait most of the time, for a lease or a timer
	return newLoneWorld(t, m, ts...)
}

// newLoneWorld is a world that has the machine for itself: it is busy.
func newLoneWorld(t *testing.T, m model.Model, ts ...tools.Tool) *world {
	t.Helper()
	return worldOn(t, filepath.Join(t.TempDir(), "ledger.db"), m, ts...)
}

// worldOn is a world whose ledger is at path, and may be an earlier version's.
func worldOn(t *testing.T, path string, m model.Model, ts ...tools.Tool) *world {
	t.Helper()
	// Leases that lapse on a busy machine count as crashes, and a run that is held
	// back for them waits for a person, whom only some tests have.
	return worldWith(t, path, -1, m, ts...)
}

// worldWith is worldOn with a bound on crashes in a row.
func worldWith(t *testing.T, path string, maxCrashes int, m model.Model, ts ...tools.Tool) *world {
	t.Helper()
	// A busy machine may let a worker stand still for seconds: only tests about
	// leases have short ones.
	w := &world{t: t, ttl: 15 * time.Second, red: redact.New(redact.Config{}), stream: memory.NewStream(memory.Config{}), waker: new(queue.Local), model: m}
	w.vault = redact.NewVault(w.red)
	w.tools = append([]tools.Tool{builtin.Finish(), builtin.Decline()}, ts...)
	w.limits = events.Limits{MaxTurns: 8}
	var err error
	w.path = path
	w.store, err = sqlite.Open(t.Context(), sqlite.Config{
		Path:  path,
		Now:   func() time.Time { return time.Now().Add(time.Duration(w.clock.Load())) },
		Store: sqlstore.Config{Redactor: w.red, Grace: 50 * time.Millisecond, MaxCrashes: maxCrashes},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.begin()
	return w
}

// begin migrates the ledger and projects what workers record.
func (w *world) begin() {
	t := w.t
	t.Helper()
	if _, err := w.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	p := ledger.NewProjector(w.store, w.stream.Consumer(), w.stream.Feed(), ledger.ProjectorConfig{Wait: 20 * time.Millisecond, FoldEvery: 50 * time.Millisecond})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-done
		if err := w.store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// worker is a running worker of a world.
type worker struct {
	*runtime.Worker
	cancel context.CancelFunc
	done   chan error
	once   sync.Once
}

// stop asks for a graceful shutdown and waits for it.
func (w *worker) stop(t *testing.T) {
	t.Helper()
	w.once.Do(func() {
		w.cancel()
		if err := <-w.done; err != nil {
			t.Errorf("worker %s: %v", w.Name(), err)
		}
	})
}

// advance moves the ledger's clock: leases, deadlines and quiescence pass.
func (w *world) advance(d time.Duration) { w.clock.Add(int64(d)) }

func (w *world) start() *worker { return w.startOn(w.store) }

// startOn starts a worker on l, which may be a ledger with faults.
func (w *world) startOn(l runtime.Ledger) *worker {
	w.t.Helper()
	name := fmt.Sprintf("w%d", w.n.Add(1))
	reg := new(tools.Registry)
	if err := reg.Add(w.tools...); err != nil {
		w.t.Fatal(err)
	}
	a := &agents.Agent{Name: "tester", Model: "test", Loop: "singleshot", Prompt: "Do it.", Limits: w.limits}
	for _, tool := range w.tools {
		a.Tools = append(a.Tools, tool.Definition().Name)
	}
	if w.agent != nil {
		w.agent(a)
	}
	if w.loop != nil {
		a.Loop = w.loop.Name()
	}
	j := w.stream.Journal(name)
	consumer := w.stream.Consumer()
	cfg := runtime.Config{
		Name: name, Ledger: l, Journal: j, Redactor: w.red, Secrets: w.vault, Tools: reg, Agents: []*agents.Agent{a},
		Models: map[string]model.Model{"test": w.model}, Prices: model.DefaultPrices(), Waker: w.waker,
		CatchUp: func(ctx context.Context, worker string) error {
			_, err := ledger.ProjectTail(ctx, w.store, consumer, worker)
			return err
		},
		LeaseTTL: w.ttl, Sweep: 20 * time.Millisecond, ShutdownGrace: 5 * time.Second, ProbeEvery: 30 * time.Millisecond,
		StayFor: 100 * time.Millisecond, Random: func() float64 { return 0 },
	}
	if w.loop != nil {
		cfg.Loops = []loops.Loop{w.loop}
	}
	if w.cfg != nil {
		w.cfg(&cfg)
	}
	rw, err := runtime.NewWorker(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	k := &worker{Worker: rw, cancel: cancel, done: make(chan error, 1)}
	go func() {
		err := rw.Run(ctx)
		end, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		_ = j.Close(end)
		k.done <- err
	}()
	w.t.Cleanup(func() { k.stop(w.t) })
	return k
}

func (w *world) client() *runtime.Client { return runtime.NewClient(w.store, w.red, w.waker) }

// submit queues a run with a key of its own.
func (w *world) submit(input any) ledger.Run {
	w.t.Helper()
	r, _, err := w.client().Submit(w.t.Context(), runtime.Submit{Agent: "tester", Input: input, ClientKey: fmt.Sprint("key-", w.n.Add(1))})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// wait returns the run once it has ended or, with parked, waits.
func (w *world) wait(id events.RunID, parked bool) ledger.Run {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	c := w.client()
	c.Poll = 5 * time.Millisecond
	r, err := c.Wait(ctx, id, parked)
	if err != nil {
		w.t.Fatalf("wait for run %s in state %s (%s %s): %v\n%s", id, r.State, r.ParkReason, r.ParkDetail, err, w.story(id))
	}
	return r
}

// until waits for a condition that some worker brings about.
func (w *world) until(what string, ok func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			w.t.Fatalf("never happened: %s", what)
		case <-tick.C:
		}
	}
}

// history returns the archived events of a run.
func (w *world) history(id events.RunID) []events.Event {
	w.t.Helper()
	var es []events.Event
	err := w.store.Events(context.Background(), id, 1, func(s events.Sealed) error {
		e, err := s.Decode()
		es = append(es, e)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return es
}

func (w *world) types(id events.RunID) []string {
	var ts []string
	for _, e := range w.history(id) {
		ts = append(ts, string(e.Type))
	}
	return ts
}

func (w *world) story(id events.RunID) string {
	s := ""
	for _, e := range w.history(id) {
		s += fmt.Sprintf("%4d e%d %s %+v\n", e.Seq, e.Epoch, e.Type, e.Data)
	}
	return s
}

// whole fails the test unless the record proves itself.
func (w *world) whole() {
	w.t.Helper()
	w.caughtUp()
	_, err := w.store.Verify(context.Background(), events.RunID{}, func(f ledger.Finding) error {
		if f.Kind != ledger.Note {
			w.t.Errorf("verify: %s run %s seq %d: %s", f.Kind, f.Run, f.Seq, f.Text)
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.rehearse()
}

// rehearse fails the test if today's loop would decide otherwise anywhere in
// what was just recorded.
func (w *world) rehearse() {
	w.t.Helper()
	rs, err := w.store.Summaries(context.Background(), ledger.RunFilter{Limit: 200})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range rs {
		h := loops.NewHistory(r.ID)
		if err := runtime.Inherit(context.Background(), w.store, r.Run, h); err != nil {
			w.t.Fatal(err)
		}
		var loop loops.Loop = singleshot.New()
		if slices.ContainsFunc(w.history(r.ID), func(e events.Event) bool { p, ok := e.Data.(events.RunStarted); return ok && p.Loop == revise.Name }) {
			loop = revise.New()
		}
		if w.loop != nil && slices.ContainsFunc(w.history(r.ID), func(e events.Event) bool {
			p, ok := e.Data.(events.RunStarted)
			return ok && p.Loop == w.loop.Name()
		}) {
			loop = w.loop
		}
		ds, err := loops.Rehearse(h, w.history(r.ID), loop)
		if err != nil || len(ds) > 0 {
			w.t.Errorf("rehearse run %s: %v %v\n%s", r.ID, ds, err, w.story(r.ID))
		}
	}
}

func (w *world) want(id events.RunID, types ...string) {
	w.t.Helper()
	if got := w.types(id); !slices.Equal(got, types) {
		w.t.Errorf("events of run %s:\n got %q\nwant %q\n%s", id, got, types, w.story(id))
	}
}

func count[T events.Payload](w *world, id events.RunID) (n int) {
	for _, e := range w.history(id) {
		if _, ok := e.Data.(T); ok {
			n++
		}
	}
	return n
}

func last[T events.Payload](w *world, id events.RunID) T {
	w.t.Helper()
	var found T
	ok := false
	for _, e := range w.history(id) {
		if p, is := e.Data.(T); is {
			found, ok = p, true
		}
	}
	if !ok {
		w.t.Fatalf("run %s has no %T\n%s", id, found, w.story(id))
	}
	return found
}

func must(t tools.Tool, err error) tools.Tool {
	if err != nil {
		panic(err)
	}
	return t
}
