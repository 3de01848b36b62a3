package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// plan says what a seeded ledger holds. The same plan makes the same ledger, to the byte.
type plan struct {
	runs  int
	seed  uint64
	until time.Time // the last moment in it
	days  int
}

// lease is how long a run is held for; whoever lets one lapse is taken over.
const lease = 2 * time.Hour

// filler plays every client, worker and person of a ledger, one after the other,
// through the store that they use and on a clock of its own.
type filler struct {
	plan
	st       *sqlstore.Store
	redactor *redact.Redactor
	ids      *events.IDs
	now      time.Time // the database's
	r        *rand.Rand
	prompts  map[string]events.Hash
	ending   []ended
	agenda   []due
	kinds    map[events.RunID]kind
	waiting  map[events.RunID]*holder
	messages uint64
	tally    tally
}

// tally counts what was made.
type tally struct{ runs, events, claims, calls int }

// ended is a run that has told its end.
type ended struct {
	h *holder
	e ledger.Ending
}

// due is what a person does later.
type due struct {
	at time.Time
	do func() error
}

// fill makes the ledger at path, which must not be there.
func fill(ctx context.Context, path string, p plan, report func(tally)) (t tally, err error) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], p.seed)
	f := &filler{
		plan: p, redactor: redact.New(redact.Config{}), r: rand.New(rand.NewPCG(p.seed, 0)), //nolint:gosec // to be repeated
		kinds: map[events.RunID]kind{}, waiting: map[events.RunID]*holder{}, prompts: map[string]events.Hash{},
	}
	f.now = p.until.AddDate(0, 0, -p.days)
	now := func() time.Time { return f.now }
	f.ids = events.NewIDs(now, rand.NewChaCha8(key))
	f.st, err = sqlite.Open(ctx, sqlite.Config{Path: path, Now: now, Store: sqlstore.Config{Redactor: f.redactor, IDs: f.ids, TrustRecorded: true}})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, f.st.Close()) }()
	if _, err := f.st.Migrate(ctx); err != nil {
		return t, err
	}
	err = f.run(ctx, report)
	return f.tally, err
}

func (f *filler) run(ctx context.Context, report func(tally)) error {
	for tenant := range tenants {
		for _, a := range agents {
			h, err := f.st.PutBlob(ctx, tenantName(tenant), "text/plain", []byte("You are "+a.name+". Be brief."))
			if err != nil {
				return err
			}
			f.prompts[a.name] = h
		}
	}
	from, span := f.now, f.until.Sub(f.now)
	for i := 0; i < f.runs; {
		n := min(20+f.r.IntN(40), f.runs-i)
		at := from.Add(time.Duration(float64(span) * float64(i+n) / float64(f.runs+20))).Add(-time.Minute)
		if err := f.acts(at); err != nil {
			return err
		}
		for range n {
			f.now = at.Add(time.Duration(f.r.IntN(10_000)) * time.Millisecond)
			if err := f.submit(ctx, i); err != nil {
				return err
			}
			i++
		}
		if i == f.runs {
			break // what came last waits in the queue
		}
		f.now = at.Add(12 * time.Second)
		if err := f.work(ctx); err != nil {
			return err
		}
		report(f.tally)
	}
	f.now = f.until
	if err := f.acts(f.now); err != nil {
		return err
	}
	f.now = f.until
	if err := f.heldAtTheEnd(ctx); err != nil {
		return err
	}
	report(f.tally)
	return f.fed(ctx)
}

func tenantName(i int) string { return fmt.Sprintf("tenant-%02d", i) }

// acts does what is due by then.
func (f *filler) acts(by time.Time) error {
	slices.SortStableFunc(f.agenda, func(a, b due) int { return a.at.Compare(b.at) })
	for len(f.agenda) > 0 && !f.agenda[0].at.After(by) {
		d := f.agenda[0]
		f.agenda = f.agenda[1:]
		f.now = d.at
		if err := d.do(); err != nil {
			return err
		}
	}
	return nil
}

// later has something done to a run within a time; now and then nobody does it.
func (f *filler) later(h *holder, within time.Duration, do func() error) {
	if h.r.IntN(8) == 0 {
		return
	}
	f.agenda = append(f.agenda, due{h.now.Add(within/4 + time.Duration(h.r.Int64N(int64(within)))), do})
}

func (f *filler) submit(ctx context.Context, i int) error {
	r := rand.New(rand.NewPCG(f.seed, uint64(i)+1)) //nolint:gosec // to be repeated
	a, tenant := pickAgent(r), skewed(r, tenants)
	input, err := f.redactor.JSON(map[string]any{"case": i, "ask": prose(r, 90)})
	if err != nil {
		return err
	}
	s := ledger.Submission{
		Tenant: tenantName(tenant), Queue: a.queue, Agent: a.name, ClientKey: fmt.Sprintf("case-%07d", i), Input: input, InputMAC: []byte("seed"),
		Owner: fmt.Sprintf("owner-%02d-%03d", tenant, skewed(r, ownersPerTenant)),
	}
	if r.IntN(5) == 0 {
		s.SessionID = fmt.Sprintf("session-%06d", i/4)
	}
	run, _, err := f.st.Submit(ctx, s)
	if err != nil {
		return err
	}
	f.kinds[run.ID] = kindOf(r)
	f.tally.runs++
	return nil
}

// work claims what there is and goes on with it until it ends or waits.
func (f *filler) work(ctx context.Context) error {
	at := f.now
	for {
		f.now = at
		cs, err := f.st.Claim(ctx, ledger.ClaimRequest{Worker: fmt.Sprintf("worker-%d", f.tally.claims%4), Limit: 50, TTL: lease})
		if err != nil {
			return err
		}
		for _, c := range cs {
			f.tally.claims++
			if err := f.act(ctx, c, at); err != nil {
				return err
			}
		}
		if err := f.finishAll(ctx); err != nil {
			return err
		}
		if len(cs) == 0 {
			return nil
		}
	}
}

// act goes on with one run.
func (f *filler) act(ctx context.Context, c ledger.Claim, at time.Time) error {
	k := f.kinds[c.Run.ID]
	h, err := f.hold(ctx, c, at)
	if err != nil {
		return err
	}
	switch c.Kind {
	case ledger.ClaimFresh:
		if !c.Run.RetryOf.IsZero() || !c.Run.ForkOf.IsZero() || !c.Run.Parent.IsZero() {
			k = plain
		}
		switch k {
		case cancelled:
			h.cancelled()
		default:
			h.tell(k)
		}
		if len(h.told) == 0 && k != abandoned { // parked: its history is in the archive
			f.waiting[c.Run.ID] = h
		}
	case ledger.ClaimSettle:
		h.flush()
		h.barrier(func(p ledger.Prefix) ([]events.Fact, error) { return nil, f.st.Release(ctx, h.lease, p) })
	default:
		delete(f.waiting, c.Run.ID)
		h.resume(k)
	}
	f.tally.calls += h.turn
	return h.err
}

// hold returns the holder of a claim, which has numbered what there was.
func (f *filler) hold(ctx context.Context, c ledger.Claim, at time.Time) (*holder, error) {
	h := f.waiting[c.Run.ID]
	if h == nil {
		h = &holder{
			ctx: ctx, f: f, r: rand.New(rand.NewPCG(f.seed, binary.BigEndian.Uint64(c.Run.ID[8:]))), //nolint:gosec // to be repeated
			seen: map[events.ID]bool{}, agent: &agents[slices.IndexFunc(agents, func(a agent) bool { return a.name == c.Run.Agent })],
		}
		h.turn = int(c.Base.Seq / 8) // beyond what was
	}
	h.run, h.lease, h.now, h.told = c.Run, c.Lease, at, nil
	base, facts := c.Base, c.Facts
	if c.Kind == ledger.ClaimTakeover {
		f.now = at
		var err error
		if base, err = f.st.Base(ctx, h.lease); err != nil {
			return nil, err
		}
		facts, h.turn = base.Facts, int(base.Seq/8) //nolint:gosec // small
	}
	if h.seq, h.prev = base.Seq, base.Hash; h.seq == 0 {
		h.prev = events.Genesis(c.Run.ID)
		h.opening(c.Lease.Worker)
	} else {
		h.note(events.RunResumed{Worker: c.Lease.Worker, Epoch: h.lease.Epoch, BaseSeq: base.Seq, BaseHash: base.Hash, SetAside: base.SetAside})
	}
	h.absorb(facts...)
	return h, h.err
}

// finishAll projects what runs told that have ended, ends them, and folds what
// barriers carried.
func (f *filler) finishAll(ctx context.Context) error {
	var es []events.Sealed
	project := func() error {
		if len(es) == 0 {
			return nil
		}
		f.messages++
		p, err := f.st.Project(ctx, []ledger.Incoming{{Message: events.Message{Worker: "worker", Sequence: f.messages}, Events: es}})
		if err == nil && (p.Quarantined > 0 || p.SetAside > 0 || p.Events != len(es)) {
			err = fmt.Errorf("projected %+v of %d events", p, len(es))
		}
		es = nil
		return err
	}
	for _, e := range f.ending {
		if es = append(es, e.h.told...); len(es) > 2000 {
			if err := project(); err != nil {
				return err
			}
		}
	}
	if err := project(); err != nil {
		return err
	}
	for _, e := range f.ending {
		f.tally.events += int(e.h.seq) //nolint:gosec // small
		f.now = e.h.now
		if err := f.st.Finish(ctx, e.h.lease, nil, e.e); err != nil {
			return err
		}
		if run := e.h.run.ID; f.kinds[run] == forked && e.h.run.ForkOf.IsZero() {
			f.later(e.h, time.Hour, func() error {
				_, _, err := f.st.Fork(ctx, ledger.ForkRequest{Run: run, Seq: 5, Effects: ledger.ForkReplay, By: "ada"})
				return err
			})
		}
		delete(f.waiting, e.h.run.ID)
	}
	f.ending = f.ending[:0]
	f.now = f.now.Add(lease) // whatever a barrier carried is older than that
	for {
		n, err := f.st.FoldBehind(ctx, 0, 500)
		if err != nil || n == 0 {
			return err
		}
	}
}

// heldAtTheEnd leaves a few runs at work, and the rest of the last ones queued.
func (f *filler) heldAtTheEnd(ctx context.Context) error {
	cs, err := f.st.Claim(ctx, ledger.ClaimRequest{Worker: "worker-0", Limit: 8, TTL: 1000 * time.Hour})
	if err != nil {
		return err
	}
	for _, c := range cs {
		if c.Kind != ledger.ClaimFresh {
			if err := f.act(ctx, c, f.until); err != nil {
				return err
			}
			continue
		}
		h, err := f.hold(ctx, c, f.until)
		if err != nil {
			return err
		}
		h.asks(1, "")
		h.note(events.ToolExecutionStarted{Call: events.CallID{Turn: h.turn}, Attempt: 1, Tool: h.agent.tools[0].name, Effect: "readonly", Arguments: []byte(`{}`), At: h.now})
		h.flush()
		if h.err != nil {
			return h.err
		}
	}
	return f.finishAll(ctx)
}

// fed takes it that the feed got everything: there is none.
func (f *filler) fed(ctx context.Context) error {
	return f.st.DB().Write(ctx, func(ctx context.Context, tx sqlstore.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE run_folds SET fed_seq = folded_seq`)
		return err
	})
}

func (*filler) destructive(a *agent) string {
	if a.name == "refunds" {
		return "refund"
	}
	return "send_letter"
}

// resolve is a person's word on an effect in doubt.
func (f *filler) resolve(ctx context.Context, key events.Hash) error {
	r := ledger.Resolution{OpKey: key, State: events.EffectApplied, By: "ada", Note: "seen in the payments service", Result: events.ToolResult{Status: "completed", Output: "it was done"}}
	if f.r.IntN(2) == 0 {
		r.State, r.Note, r.Result = events.EffectNotApplied, "the payments service has no such payment", events.ToolResult{Status: "failed", Error: "it was not done"}
	}
	_, err := f.st.Resolve(ctx, r)
	return err
}

func (f *filler) decide(ctx context.Context, approval events.ID) error {
	_, err := f.st.Decide(ctx, ledger.Decision{Approval: approval, Approve: f.r.IntN(8) > 0, By: "ada", Reason: "within the limits"})
	return err
}

// cancelled is told to end after a while.
func (h *holder) cancelled() {
	h.turnWith(2)
	h.barrier(func(p ledger.Prefix) ([]events.Fact, error) {
		fs, err := h.f.st.Flush(h.ctx, h.lease, p)
		if err == nil {
			_, err = h.f.st.Cancel(h.ctx, h.run.ID, "ada", "wrong customer")
		}
		return fs, err
	})
	h.flush()
	h.finish(events.RunCancelled{By: "ada", Reason: "wrong customer", Turns: h.turn},
		ledger.Ending{State: ledger.Cancelled, StoppedBy: events.StoppedByCancelled})
}
