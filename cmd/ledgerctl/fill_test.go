package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/postgres"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// began is when the ledger of the tests begins; asked is when the tests look at it.
var (
	began = time.Date(2026, 1, 15, 10, 0, 0, 0, time.UTC)
	asked = began.Add(2 * time.Hour)
)

// filler writes a small ledger as a runtime would: through the real store, on a
// clock and with ids that are the same in every test run.
type filler struct {
	ctx  context.Context
	st   *sqlstore.Store
	seal *redact.Redactor
	ids  *events.IDs
	now  time.Time
	key  int
	// bind changes what the next runs are bound to; nil = nothing.
	bind func(*events.RunStarted)
	path string // of the database
	err  error  // the first thing that went wrong
	// tick brings the database's clock to now; nil = it is now by itself.
	tick func() error
}

// sync is called before the database looks at its clock.
func (f *filler) sync() {
	if f.tick != nil {
		f.check(f.tick())
	}
}

func (f *filler) check(err error) {
	if err != nil && f.err == nil {
		f.err = err
	}
}

func (f *filler) json(v any) redact.JSON {
	j, err := f.seal.JSON(v)
	f.check(err)
	return j
}

// holder holds a run's lease.
type holder struct {
	f      *filler
	run    ledger.Run
	lease  ledger.Lease
	seq    uint64
	prev   events.Hash
	prefix ledger.Prefix
	seen   map[events.ID]bool
	facts  []events.Fact
}

func (f *filler) submit(s ledger.Submission) ledger.Run {
	f.now = f.now.Add(time.Minute)
	f.key++
	s.Tenant, s.ClientKey = "acme", fmt.Sprintf("R-%03d", f.key)
	if s.Agent == "" {
		s.Agent = "refunds"
	}
	if s.Queue == "" {
		s.Queue = "default"
	}
	f.sync()
	s.Input, s.InputMAC = f.json(map[string]string{"ask": "refund order 7"}), []byte("mac")
	r, _, err := f.st.Submit(f.ctx, s)
	f.check(err)
	return r
}

// take claims a run that must be the only one to have.
func (f *filler) take(r ledger.Run, worker string, ttl time.Duration) *holder {
	f.sync()
	h := &holder{f: f, run: r, seen: map[events.ID]bool{}}
	cs, err := f.st.Claim(f.ctx, ledger.ClaimRequest{Worker: worker, Queues: []string{r.Queue}, TTL: ttl})
	f.check(err)
	if len(cs) != 1 || cs[0].Run.ID != r.ID {
		f.check(fmt.Errorf("claim of run %s gave %v", r.ID, cs))
		return h
	}
	base := cs[0].Base
	h.lease, h.facts = cs[0].Lease, cs[0].Facts
	if cs[0].Kind == ledger.ClaimTakeover {
		base, err = f.st.Base(f.ctx, h.lease)
		f.check(err)
		h.facts = base.Facts
	}
	if h.seq, h.prev = base.Seq, base.Hash; h.seq == 0 {
		h.prev = events.Genesis(r.ID)
		queued := events.RunQueued{
			Agent: r.Agent, Input: r.Input, ClientKey: r.ClientKey, Queue: r.Queue, Owner: r.Owner, Root: r.Root, Parent: r.Parent, QueuedAt: r.CreatedAt,
			RetryOf: r.RetryOf,
		}
		if !r.RetryOf.IsZero() {
			queued.Attempt = r.Attempt
		}
		if !r.ForkOf.IsZero() {
			queued.Fork = &events.Fork{Run: r.ForkOf, Seq: r.ForkSeq, Effects: string(r.ForkEffects)}
		}
		h.note(queued)
		started := events.RunStarted{Worker: worker, Agent: r.Agent, Model: "scripted/refunds", Loop: "singleshot", LoopVersion: 1, Tools: []events.ToolBinding{}}
		if f.bind != nil {
			f.bind(&started)
		}
		h.note(started)
	} else {
		h.note(events.RunResumed{Worker: worker, Epoch: h.lease.Epoch, BaseSeq: base.Seq, BaseHash: base.Hash, SetAside: base.SetAside})
	}
	h.absorb(h.facts...)
	return h
}

func (h *holder) record(id events.ID, data redact.JSON, t events.Type) {
	v, _ := events.CurrentVersion(t)
	h.f.now = h.f.now.Add(time.Second)
	s, err := events.Seal(events.Envelope{
		ID: id, RunID: h.run.ID, Seq: h.seq + 1, Epoch: h.lease.Epoch, Type: t, Version: v, Time: h.f.now,
		Tenant: h.run.Tenant, SessionID: h.run.SessionID, Prev: h.prev,
	}, data)
	h.f.check(err)
	h.seq, h.prev = h.seq+1, s.Hash()
	h.prefix = append(h.prefix, s)
	h.seen[id] = true
}

func (h *holder) note(p events.Payload) { h.record(h.f.ids.Event(), h.f.json(p), events.TypeOf(p)) }

func (h *holder) absorb(fs ...events.Fact) {
	for _, fact := range fs {
		if !h.seen[fact.ID] {
			h.record(fact.ID, h.f.json(fact.Data), fact.Type)
		}
	}
}

// done takes the prefix as written.
func (h *holder) done(err error) {
	h.f.check(err)
	h.prefix = nil
}

// turn is a model call that asks for the tools named.
func (h *holder) turn(n int, cost *events.PicoUSD, tools ...string) {
	h.note(events.TurnStarted{Turn: n})
	h.note(events.ModelCallStarted{Turn: n, Attempt: 1, Model: "scripted/refunds", Messages: n, Tools: []string{"check_refund", "refund"}})
	e := events.ModelCallFinished{
		Turn: n, Attempt: 1, Model: "scripted/refunds", ServedModel: "scripted/refunds", StopReason: "tool_use",
		Usage: events.Usage{Input: 1200, Output: 80}, Cost: cost, LatencyMS: 900,
	}
	for _, t := range tools {
		e.ToolCalls = append(e.ToolCalls, events.ToolCall{Name: t, Arguments: json.RawMessage(`{}`)})
	}
	if len(tools) == 0 {
		e.StopReason, e.Text = "end_turn", "The refund of order 7 is on its way."
	}
	h.note(e)
}

func (h *holder) readonly(call events.CallID) {
	h.note(events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: "check_refund", Effect: "readonly", Arguments: json.RawMessage(`{"order":7}`), At: h.f.now})
	h.note(events.ToolExecutionFinished{Call: call, Attempt: 1, Tool: "check_refund", Result: events.ToolResult{Status: "completed", Output: "order 7 was paid, 50.00 EUR, not refunded", Trust: "external"}, LatencyMS: 12, At: h.f.now})
}

// begin asks to refund an order, within the session.
func (h *holder) begin(call events.CallID, order int, timeout time.Duration) ledger.Verdict {
	in := ledger.Intent{
		Token: h.f.ids.Event(), Call: call, CallAttempt: 1, Tool: "refund", Effect: "destructive", Scope: ledger.ScopeSession,
		Identity: json.RawMessage(fmt.Sprintf(`{"order":%d}`, order)), Arguments: json.RawMessage(fmt.Sprintf(`{"amount":"50.00","order":%d}`, order)),
		Timeout: timeout,
	}
	if h.run.SessionID == "" {
		in.Scope = ledger.ScopeRun
	}
	return h.beginAs(in)
}

func (h *holder) beginAs(in ledger.Intent) ledger.Verdict {
	h.f.sync()
	v, err := h.f.st.Begin(h.f.ctx, h.lease, h.prefix, in)
	h.done(err)
	if v.Fact != nil {
		h.absorb(*v.Fact)
	}
	return v
}

func (h *holder) end(o ledger.Outcome) {
	h.f.now = h.f.now.Add(2 * time.Second)
	h.f.sync()
	set, err := h.f.st.End(h.f.ctx, h.lease, h.prefix, o)
	h.done(err)
	if set.Fact != nil {
		h.absorb(*set.Fact)
	}
}

func (h *holder) flush() {
	h.f.sync()
	fs, err := h.f.st.Flush(h.f.ctx, h.lease, h.prefix)
	h.done(err)
	h.absorb(fs...)
}

func (h *holder) park(p ledger.Parking) {
	h.note(events.RunParked{Reason: p.Reason, Detail: p.Detail, OpKey: p.OpKey})
	h.f.sync()
	h.done(h.f.st.Park(h.f.ctx, h.lease, h.prefix, p))
}

func (h *holder) finish(p events.Payload, e ledger.Ending) {
	h.note(p)
	h.f.sync()
	h.done(h.f.st.Finish(h.f.ctx, h.lease, h.prefix, e))
}

// fill writes the ledger of the scripts into dir.
func fill(dir string) error { return fillWith(dir, sqlstore.Config{}, (*filler).fill) }

// fillWith makes a ledger in dir and lets write fill it.
func fillWith(dir string, cfg sqlstore.Config, write func(*filler)) (err error) {
	f := &filler{ctx: context.Background(), seal: redact.New(redact.Config{}), now: began}
	now := func() time.Time { return f.now }
	f.ids = events.NewIDs(now, rand.NewChaCha8([32]byte{7}))
	cfg.Redactor, cfg.IDs = f.seal, f.ids
	f.path = filepath.Join(dir, "ledger.db")
	f.st, err = sqlite.Open(f.ctx, sqlite.Config{Path: f.path, Now: now, Store: cfg})
	if err != nil {
		return err
	}
	return f.run(write)
}

// fillPostgres makes a ledger in an empty PostgreSQL database. Its ids are those of
// the other, its moments near to them.
func fillPostgres(dsn string, write func(*filler)) (err error) {
	f := &filler{ctx: context.Background(), seal: redact.New(redact.Config{}), now: began}
	f.ids = events.NewIDs(func() time.Time { return f.now }, rand.NewChaCha8([32]byte{7}))
	f.st, err = postgres.Open(f.ctx, postgres.Config{DSN: dsn, Store: sqlstore.Config{Redactor: f.seal, IDs: f.ids}})
	if err != nil {
		return err
	}
	f.tick = func() error {
		return f.st.DB().Write(f.ctx, func(ctx context.Context, tx sqlstore.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO clock_offset (amount) VALUES ($1::timestamptz - clock_timestamp())
				ON CONFLICT (one) DO UPDATE SET amount = greatest(clock_offset.amount, excluded.amount)`, f.now)
			return err
		})
	}
	return f.run(write)
}

// run migrates, writes, folds what was written and closes the ledger.
func (f *filler) run(write func(*filler)) error {
	_, err := f.st.Migrate(f.ctx)
	f.check(err)
	write(f)
	// What barriers wrote is folded as the projector does it.
	f.now = f.now.Add(time.Minute)
	f.sync()
	for {
		n, err := f.st.FoldBehind(f.ctx, 0, 100)
		f.check(err)
		if n == 0 || err != nil {
			break
		}
	}
	f.check(f.st.Close())
	return f.err
}

func (f *filler) fill() {
	cost := events.PicoUSD(12_300_000_000) // 0.0123
	first, second := events.CallID{Turn: 1}, events.CallID{Turn: 1, Index: 1}

	// R-001 refunded order 7 and finished.
	h := f.take(f.submit(ledger.Submission{SessionID: "s-1", Owner: "u-17"}), "w1", time.Minute)
	h.turn(1, &cost, "check_refund", "refund")
	h.readonly(first)
	v := h.begin(second, 7, 10*time.Second)
	refunded := &cost
	h.end(ledger.Outcome{Token: v.Ref.Token, Kind: ledger.Applied, LatencyMS: 2000, Result: events.ToolResult{Status: "completed", Output: "refund re_7 made", Trust: "external", Cost: refunded}})
	h.turn(2, &cost)
	h.finish(events.RunFinished{StoppedBy: events.StoppedBySilent, Output: json.RawMessage(`"The refund of order 7 is on its way."`), Turns: 2},
		ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedBySilent, Result: json.RawMessage(`"The refund of order 7 is on its way."`)})
	done := h.run

	// R-002 asked for the same again, was blocked elsewhere, and has no price.
	h = f.take(f.submit(ledger.Submission{SessionID: "s-1", Owner: "u-18"}), "w1", time.Minute)
	h.turn(1, nil, "refund", "wire_money")
	v = h.begin(first, 7, 10*time.Second)
	h.note(events.ToolExecutionFinished{Call: first, Attempt: 1, Tool: "refund", Result: v.Result, Ref: &v.Ref, Repeated: true, Of: &v.Of, At: f.now})
	h.note(events.ToolExecutionBlocked{Call: second, Tool: "wire_money", Arguments: json.RawMessage(`{"to":"=cmd()"}`), Reason: events.BlockedToolDenied, Result: events.ToolResult{Status: "failed", Error: "agent refunds may not use wire_money"}, At: f.now})
	h.finish(events.RunFailed{StoppedBy: events.StoppedByMaxTurns, Error: events.ErrorInfo{Kind: "max_turns", Message: "1 turn was not enough"}, Turns: 1},
		ledger.Ending{State: ledger.Failed, StoppedBy: events.StoppedByMaxTurns, Error: "1 turn was not enough"})
	_ = done

	// R-003 lost its worker inside a refund: nobody can know.
	r := f.submit(ledger.Submission{SessionID: "s-2", Owner: "u-17"})
	h = f.take(r, "w1", 15*time.Second)
	h.turn(1, &cost, "refund")
	v = h.begin(first, 8, 10*time.Second)
	f.now = f.now.Add(30 * time.Second)
	h = f.take(r, "w2", time.Minute)
	h.flush()
	h.park(ledger.Parking{Reason: events.ParkInDoubt, Detail: "refund t1.c0 may have taken effect", OpKey: v.Ref.OpKey})

	// R-004 waits for that effect.
	h = f.take(f.submit(ledger.Submission{SessionID: "s-2"}), "w2", time.Minute)
	h.turn(1, &cost, "refund")
	v = h.begin(first, 8, 10*time.Second)
	h.park(ledger.Parking{Reason: events.ParkEffectBusy, Detail: "refund is in doubt in another run", OpKey: v.Ref.OpKey})

	// R-005 is running; its refund timed out, and may still happen for very long.
	h = f.take(f.submit(ledger.Submission{Queue: "slow", Owner: "\x1b[31mu-19"}), "w3", 24*time.Hour)
	h.turn(1, &cost, "refund")
	v = h.begin(first, 9, 100*365*24*time.Hour)
	h.end(ledger.Outcome{Token: v.Ref.Token, Kind: ledger.Unclear, Cause: "timeout", Error: events.ErrorInfo{Kind: "timeout", Message: "no answer from the payments service in 10s"}})
	h.flush()

	// R-006 was told to stop, R-007 is not due, R-008 waits for a worker.
	r = f.submit(ledger.Submission{Agent: "hello", Queue: "other"})
	_, err := f.st.Cancel(f.ctx, r.ID, "ada", "wrong customer")
	f.check(err)
	f.submit(ledger.Submission{Agent: "hello", DueAt: asked.Add(time.Hour)})
	f.submit(ledger.Submission{Agent: "hello", Requires: []string{"greet"}})
}
