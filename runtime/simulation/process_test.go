package simulation_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

// process is a worker, and all that dies with it.
type process struct {
	p      *plant
	name   string
	dead   chan struct{}
	kill   func()    // nobody hears from it any more; what it has sent is on its way
	cut    time.Time // the database is out of its reach from here …
	healed time.Time // … to here
	cancel context.CancelFunc
	done   chan struct{}
}

// startProcess starts a worker with a name of its own.
func (p *plant) startProcess() {
	p.mu.Lock()
	k := &process{p: p, name: fmt.Sprintf("w%d", len(p.processes)+1), dead: make(chan struct{}), done: make(chan struct{})}
	p.processes = append(p.processes, k)
	p.mu.Unlock()
	d := p.draw("start " + k.name)
	if d.Float64() < p.rates.cut {
		k.cut = time.Now().Add(between(d, 0, 40*time.Second))
		k.healed = k.cut.Add(between(d, time.Second, 40*time.Second))
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	after := between(d, 0, 10*time.Second)
	k.kill = sync.OnceFunc(func() {
		close(k.dead)
		cancel()
		p.mu.Lock()
		p.deaths++
		p.mu.Unlock()
		p.wg.Go(func() {
			if p.sleep(after) {
				p.startProcess()
			}
		})
	})
	reg := new(tools.Registry)
	if err := reg.Add(append([]tools.Tool{builtin.Finish()}, k.tools()...)...); err != nil {
		p.t.Error(err)
	}
	j := newJournal(k)
	models := map[string]model.Model{}
	for name, m := range p.models {
		models[name] = slowModel{p, m}
	}
	w, err := runtime.NewWorker(runtime.Config{
		Name: k.name, Ledger: ledgertest.Between{Store: p.store, Call: k.call}, Journal: j, Redactor: p.red, Secrets: p.vault,
		Tools: reg, Agents: p.agents, Models: models, Waker: p.waker,
		CatchUp: func(ctx context.Context, worker string) error {
			return k.call(ctx, "catch up on "+worker, events.RunID{}, func(ctx context.Context) error {
				_, err := ledger.ProjectTail(ctx, p.store, p.stream.Consumer(), worker)
				return err
			})
		},
		Sweep: between(d, 1500*time.Millisecond, 2500*time.Millisecond), ShutdownGrace: 2 * time.Second, ProbeEvery: 5 * time.Second,
		Random: func() float64 { return p.draw("jitter of " + k.name).Float64() },
	})
	if err != nil {
		p.t.Error(err)
		return
	}
	p.wg.Go(func() {
		defer close(k.done)
		p.sleep(brief(d))
		if err := w.Run(ctx); err != nil {
			p.t.Errorf("worker %s: %v", k.name, err)
		}
		end, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		_ = j.Close(end)
	})
}

func (k *process) gone() bool {
	select {
	case <-k.dead:
		return true
	default:
		return false
	}
}

// last decides whether a step is the process's last.
func (k *process) last(d *rand.Rand) bool {
	return !k.p.calm.Load() && d.Float64() < k.p.rates.crash
}

// away is what a caller hears without an answer.
func away(what string) error { return fmt.Errorf("simulated: %s: %w", what, ledger.ErrUnavailable) }

// call is the network between a worker and the database. A request that was sent
// is on its way whatever becomes of whoever sent it.
func (k *process) call(ctx context.Context, what string, run events.RunID, ask func(context.Context) error) error {
	p := k.p
	if !run.IsZero() {
		what = fmt.Sprintf("%s of run %d", what, p.index(run))
	}
	d := p.draw(k.name + " " + what)
	last := k.last(d)
	if k.gone() || last && d.IntN(2) == 0 {
		k.kill()
		return away(what)
	}
	fate, there := k.fate(d)
	answer := make(chan error, 1)
	sent := context.WithoutCancel(ctx)
	p.wg.Go(func() {
		p.travel(there)
		if fate == "refuse" {
			answer <- away(what)
			return
		}
		err := ask(sent)
		p.note(k.name, what, fate, err)
		switch {
		case last:
			k.kill()
			return
		case fate == "twice":
			p.travel(brief(d))
			err = ask(sent)
		}
		p.travel(brief(d))
		if fate == "lose" {
			err = away(what + ": done, and the answer is lost")
		}
		answer <- err
		if fate == "again" { // a packet that got lost on the way turns up
			p.travel(between(d, 0, 20*time.Second))
			_ = ask(sent)
			p.note(k.name, what, "late", nil)
		}
	})
	select {
	case err := <-answer:
		if k.gone() {
			return away(what)
		}
		return err
	case <-ctx.Done():
		return fmt.Errorf("simulated: %s: %w", what, context.Cause(ctx))
	case <-k.dead:
		return away(what)
	}
}

// fate decides what becomes of a request, and when it arrives.
func (k *process) fate(d *rand.Rand) (fate string, there time.Duration) {
	p, now := k.p, time.Now()
	there = brief(d)
	if p.calm.Load() {
		return "", there
	}
	if now.After(k.cut) && now.Before(k.healed) {
		if d.IntN(2) == 0 {
			p.count("cut off")
			return "refuse", between(d, 0, 3*time.Second)
		}
		p.count("slow")
		return "slow", k.healed.Sub(now) + there
	}
	r := p.rates
	fate = pick(d, []string{"refuse", "lose", "twice", "again", "slow"}, []float64{r.refuse, r.lose, r.twice, r.again, r.slow})
	p.count(fate)
	switch {
	case fate == "slow" && d.IntN(8) == 0:
		there = between(d, 5*time.Second, 40*time.Second) // longer than a lease
	case fate == "slow":
		there = between(d, 0, 5*time.Second)
	}
	return fate, there
}

// slowModel takes its time, and sometimes has none.
type slowModel struct {
	p     *plant
	model model.Model
}

func (m slowModel) Call(ctx context.Context, r model.Request) (model.Response, error) {
	who, attempt, _ := strings.Cut(r.AttemptID, ".")
	id, _ := events.ParseRunID(who)
	d := m.p.draw(fmt.Sprintf("model %d %s", m.p.index(id), attempt))
	t := time.NewTimer(between(d, 20*time.Millisecond, 2*time.Second))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return model.Response{}, context.Cause(ctx)
	}
	if !m.p.calm.Load() && d.IntN(20) == 0 {
		m.p.count("model")
		return model.Response{}, &model.Error{Kind: "overloaded", Retryable: true, Err: errLost}
	}
	return m.model.Call(ctx, r)
}

// journal is a worker's, over the plant's stream: one envelope in flight, sent
// again byte for byte while nobody knows whether it was stored.
type journal struct {
	k    *process
	wake chan struct{}
	done chan struct{}

	mu       sync.Mutex
	queue    []events.Sealed
	receipts []*receipt
	accepted int // ever
	stored   int
	closing  bool
}

type receipt struct {
	end  int
	done chan struct{}
}

func (r *receipt) Done() <-chan struct{} { return r.done }

func newJournal(k *process) *journal {
	j := &journal{k: k, wake: make(chan struct{}, 1), done: make(chan struct{})}
	k.p.wg.Go(j.run)
	return j
}

// Append implements [events.Journal]. It never waits: locks are held around it.
func (j *journal) Append(_ context.Context, es ...events.Sealed) (events.Receipt, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closing || j.k.gone() {
		return nil, events.ErrJournalClosed
	}
	j.queue = append(j.queue, es...)
	j.accepted += len(es)
	r := &receipt{end: j.accepted, done: make(chan struct{})}
	j.receipts = append(j.receipts, r)
	j.signal()
	return r, nil
}

// Record implements [events.Journal].
func (j *journal) Record(ctx context.Context, es ...events.Sealed) error {
	r, err := j.Append(ctx, es...)
	if err != nil {
		return err
	}
	select {
	case <-r.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-j.done:
		return events.ErrJournalClosed
	}
}

// Err implements [events.Journal].
func (j *journal) Err() error { return nil }

// Close implements [events.Journal].
func (j *journal) Close(ctx context.Context) error {
	j.mu.Lock()
	j.closing = true
	j.signal()
	j.mu.Unlock()
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (j *journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

func (j *journal) run() {
	defer close(j.done)
	for {
		// Whatever is recorded at the same moment goes together, in any order.
		j.k.p.travel(between(j.k.p.draw("linger "+j.k.name), time.Microsecond, time.Millisecond))
		j.mu.Lock()
		batch, closing := j.queue[:events.Fits(j.queue)], j.closing
		j.mu.Unlock()
		switch {
		case j.k.gone() || len(batch) == 0 && closing:
			return
		case len(batch) == 0:
			select {
			case <-j.wake:
			case <-j.k.dead:
			}
			continue
		}
		data := events.AppendMessage(nil, batch)
		for !j.send(data) {
			if j.k.gone() || !j.k.p.sleep(between(j.k.p.draw("retry "+j.k.name), 20*time.Millisecond, 2*time.Second)) {
				return
			}
		}
		j.mu.Lock()
		j.queue, j.stored = j.queue[len(batch):], j.stored+len(batch)
		for len(j.receipts) > 0 && j.receipts[0].end <= j.stored {
			close(j.receipts[0].done)
			j.receipts = j.receipts[1:]
		}
		j.mu.Unlock()
	}
}

// send tries once and reports whether the broker's answer says that it is stored.
func (j *journal) send(data []byte) bool {
	k, p := j.k, j.k.p
	d := p.draw("journal " + k.name)
	last := k.last(d)
	fate := ""
	if r := p.rates; !p.calm.Load() {
		fate = pick(d, []string{"refuse", "lose", "drop", "again", "slow"}, []float64{r.journalRefuse, r.journalLose, r.journalDrop, r.journalAgain, r.journalSlow})
	}
	if fate != "" {
		p.count("journal " + fate)
	}
	there := brief(d)
	if fate == "slow" {
		there = between(d, 0, 10*time.Second)
	}
	p.travel(there)
	if last {
		defer k.kill()
		fate = pick(d, []string{"refuse"}, []float64{0.5})
	}
	var err error
	if fate != "refuse" && fate != "drop" { // dropped: acknowledged, and lost with the broker's page cache
		err = p.stream.PublishRaw(k.name, data)
	}
	p.note(k.name, "send", fate, err)
	if fate == "again" {
		late := between(d, 0, 30*time.Second)
		p.wg.Go(func() {
			p.travel(late)
			_ = p.stream.PublishRaw(k.name, data)
		})
	}
	p.travel(brief(d))
	return err == nil && fate != "refuse" && fate != "lose"
}
