package ledgertest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/redact"
)

// tb is what tests and properties have in common.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Context() context.Context
}

var (
	testIDs   = events.NewIDs(nil, nil)
	testSeal  = redact.New(redact.Config{})
	testCount atomic.Int64
)

const (
	leaseTTL    = 15 * time.Second
	callTimeout = 10 * time.Second
)

// actor is a holder of one run, as the runtime will be: it numbers events,
// appends facts and calls the protocol with its lease, also after it lost it.
type actor struct {
	t      tb
	h      Harness
	run    ledger.Run
	lease  ledger.Lease
	seq    uint64
	prev   events.Hash
	last   time.Time
	prefix ledger.Prefix
	seen   map[events.ID]bool
	facts  []events.Fact // of the claim
	worker string
}

// submission of a run in a queue of its own, so that a claim finds just it.
type submitOption func(*ledger.Submission)

func inSession(id string) submitOption { return func(s *ledger.Submission) { s.SessionID = id } }
func ownedBy(o string) submitOption    { return func(s *ledger.Submission) { s.Owner = o } }
func ofTenant(n string) submitOption   { return func(s *ledger.Submission) { s.Tenant = n } }
func childOf(r ledger.Run) submitOption {
	return func(s *ledger.Submission) { s.Parent, s.Root = r.ID, r.Root }
}

func submit(t tb, h Harness, opts ...submitOption) ledger.Run {
	t.Helper()
	input, err := testSeal.JSON(map[string]string{"ask": "hello"})
	if err != nil {
		t.Fatalf("input: %v", err)
	}
	name := fmt.Sprintf("effects-%d", testCount.Add(1))
	s := ledger.Submission{Tenant: "acme", Queue: name, Agent: "clerk", ClientKey: name, Input: input, InputMAC: []byte("mac")}
	for _, o := range opts {
		o(&s)
	}
	run, _, err := h.Store.Submit(t.Context(), s)
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return run
}

// start submits a run and takes it.
func start(t tb, h Harness, opts ...submitOption) *actor {
	t.Helper()
	return take(t, h, submit(t, h, opts...))
}

// take claims a run that is free and appends its facts, or fails.
func take(t tb, h Harness, run ledger.Run, own ...events.ID) *actor {
	t.Helper()
	a := tryTake(t, h, run, own...)
	if a == nil {
		t.Fatalf("run %s cannot be claimed", run.ID)
	}
	a.absorb(a.facts...)
	return a
}

// tryTake returns nil when there is nothing to claim. Its facts are not appended yet.
func tryTake(t tb, h Harness, run ledger.Run, own ...events.ID) *actor {
	t.Helper()
	worker := fmt.Sprintf("w%d", testCount.Add(1))
	cs, err := h.Store.Claim(t.Context(), ledger.ClaimRequest{
		Worker: worker, Queues: []string{run.Queue}, TTL: leaseTTL, OwnTokens: own, Capabilities: []string{"agent/" + run.Agent},
	})
	if err != nil {
		t.Fatalf("claim run %s: %v", run.ID, err)
	}
	if len(cs) == 0 {
		return nil
	}
	c := cs[0]
	a := &actor{t: t, h: h, run: c.Run, lease: c.Lease, seen: map[events.ID]bool{}, facts: c.Facts, worker: worker}
	base := c.Base
	if c.Kind == ledger.ClaimTakeover {
		if base, err = h.Store.Base(t.Context(), c.Lease); err != nil {
			t.Fatalf("base of run %s: %v", run.ID, err)
		}
		a.facts = base.Facts
	}
	a.seq, a.prev = base.Seq, base.Hash
	if a.seq == 0 {
		a.prev = events.Genesis(run.ID)
	}
	return a
}

// record numbers an event and keeps it for the next barrier.
func (a *actor) record(id events.ID, p redact.JSON, typ events.Type) {
	a.t.Helper()
	v, _ := events.CurrentVersion(typ)
	now := events.Timestamp(time.Now())
	if now.Before(a.last) {
		now = a.last
	}
	s, err := events.Seal(events.Envelope{
		ID: id, RunID: a.run.ID, Seq: a.seq + 1, Epoch: a.lease.Epoch, Type: typ, Version: v, Time: now,
		Tenant: a.run.Tenant, SessionID: a.run.SessionID, Prev: a.prev,
	}, p)
	if err != nil {
		a.t.Fatalf("seal %s: %v", typ, err)
	}
	a.seq, a.prev, a.last = a.seq+1, s.Hash(), now
	a.prefix = append(a.prefix, s)
	a.seen[id] = true
}

// note records an event of the loop's own.
func (a *actor) note(p events.Payload) {
	a.t.Helper()
	j, err := testSeal.JSON(p)
	if err != nil {
		a.t.Fatalf("note: %v", err)
	}
	a.record(testIDs.Event(), j, events.TypeOf(p))
}

// absorb appends facts that are not in the history yet.
func (a *actor) absorb(fs ...events.Fact) {
	a.t.Helper()
	for _, f := range fs {
		if a.seen[f.ID] {
			continue
		}
		j, err := testSeal.JSON(f.Data)
		if err != nil {
			a.t.Fatalf("absorb %s: %v", f.Type, err)
		}
		a.record(f.ID, j, f.Type)
	}
}

// flush appends all pending facts and flushes.
func (a *actor) flush() []events.Fact {
	a.t.Helper()
	for {
		fs, err := a.h.Store.Flush(a.t.Context(), a.lease, a.prefix)
		if err != nil {
			a.t.Fatalf("flush: %v", err)
		}
		a.prefix = nil
		if len(fs) == 0 {
			return nil
		}
		a.absorb(fs...)
	}
}

func (a *actor) begin(in ledger.Intent) (ledger.Verdict, error) {
	v, err := a.h.Store.Begin(a.t.Context(), a.lease, a.prefix, in)
	if err == nil {
		a.prefix = nil
	}
	return v, err
}

// want begins and checks the verdict.
func (a *actor) want(kind ledger.VerdictKind, in ledger.Intent) ledger.Verdict {
	a.t.Helper()
	v, err := a.begin(in)
	if err != nil {
		a.t.Fatalf("begin: %v", err)
	}
	if v.Kind != kind {
		a.t.Fatalf("verdict = %s, want %s (%+v)", verdictName(v.Kind), verdictName(kind), v)
	}
	if kind == ledger.Execute && v.Fact != nil {
		a.absorb(*v.Fact)
	}
	return v
}

// end records an outcome with the actor's lease, held or not.
func (a *actor) end(token events.ID, kind ledger.OutcomeKind) ledger.Settlement {
	a.t.Helper()
	s, err := a.h.Store.End(a.t.Context(), a.lease, a.prefix, outcome(token, kind))
	if err != nil {
		a.t.Fatalf("end: %v", err)
	}
	if s.LeaseHeld {
		a.prefix = nil
		if s.Fact != nil {
			a.absorb(*s.Fact)
		}
	}
	return s
}

func outcome(token events.ID, kind ledger.OutcomeKind) ledger.Outcome {
	o := ledger.Outcome{Token: token, Kind: kind, LatencyMS: 5}
	switch kind {
	case ledger.Applied:
		o.Result = events.ToolResult{Status: "completed", Output: "done by " + token.String()}
	case ledger.NotApplied:
		o.Error = events.ErrorInfo{Kind: "refused", Message: "no such account"}
		o.Result = events.ToolResult{Status: "failed", Error: "no such account"}
	case ledger.Unclear:
		o.Cause, o.Error = "timeout", events.ErrorInfo{Kind: "timeout", Message: "no answer"}
	}
	return o
}

// park waits for an effect with everything recorded.
func (a *actor) park(reason events.ParkReason, key events.Hash) error {
	a.t.Helper()
	a.flush()
	return a.h.Store.Park(a.t.Context(), a.lease, a.prefix, ledger.Parking{Reason: reason, OpKey: key})
}

// crash lets the lease lapse: whoever held the run is dead, or asleep.
func (a *actor) crash() { a.h.Advance(leaseTTL + time.Second) }

// successor crashes a and takes its run over.
func (a *actor) successor() *actor {
	a.t.Helper()
	a.crash()
	return take(a.t, a.h, a.run)
}

// pending are the facts of the run that have no number yet.
func (a *actor) pending() []events.Fact {
	a.t.Helper()
	return pendingOf(a.t, a.h, a.run.ID)
}

func pendingOf(t tb, h Harness, run events.RunID) []events.Fact {
	t.Helper()
	fs, err := h.Store.Pending(t.Context(), run)
	if err != nil {
		t.Fatalf("pending facts: %v", err)
	}
	return fs
}

func types(fs []events.Fact) []events.Type {
	var ts []events.Type
	for _, f := range fs {
		ts = append(ts, f.Type)
	}
	return ts
}

// payload decodes a fact.
func payload[P events.Payload](t tb, f *events.Fact) P {
	t.Helper()
	var zero P
	if f == nil {
		t.Fatalf("no fact, want %s", events.TypeOf(zero))
		return zero
	}
	p, err := events.DecodePayload(f.Type, f.Version, f.Data)
	if err != nil {
		t.Fatalf("decode fact: %v", err)
	}
	v, ok := p.(P)
	if !ok {
		t.Fatalf("fact is %s, want %s", f.Type, events.TypeOf(zero))
	}
	return v
}

// refund is a call of the tool that the tests use.
func refund(opts ...func(*ledger.Intent)) ledger.Intent {
	in := ledger.Intent{
		Token: testIDs.Event(), Call: events.CallID{Turn: 1}, CallAttempt: 1, Tool: "refund", Effect: "destructive",
		Identity: json.RawMessage(`{"order":7}`), Arguments: json.RawMessage(`{"amount":5,"order":7}`), Timeout: callTimeout,
	}
	for _, o := range opts {
		o(&in)
	}
	return in
}

func call(turn, index int) func(*ledger.Intent) {
	return func(in *ledger.Intent) { in.Call = events.CallID{Turn: turn, Index: index} }
}

func amount(n int) func(*ledger.Intent) {
	return func(in *ledger.Intent) { in.Arguments = json.RawMessage(fmt.Sprintf(`{"amount":%d,"order":7}`, n)) }
}

func order(n int) func(*ledger.Intent) {
	return func(in *ledger.Intent) {
		in.Identity = json.RawMessage(fmt.Sprintf(`{"order":%d}`, n))
		in.Arguments = json.RawMessage(fmt.Sprintf(`{"amount":5,"order":%d}`, n))
	}
}

func scope(s ledger.Scope, window time.Duration) func(*ledger.Intent) {
	return func(in *ledger.Intent) { in.Scope, in.Window = s, window }
}

// keyTTL is how long the keyed provider of the tests remembers.
const keyTTL = time.Hour

func recovery(kind string) func(*ledger.Intent) {
	return func(in *ledger.Intent) {
		in.Recovery = ledger.Recovery{Kind: kind}
		if kind == ledger.RecoveryKeyed {
			in.Recovery.TTL = keyTTL
		}
	}
}

func timeout(d time.Duration) func(*ledger.Intent) {
	return func(in *ledger.Intent) { in.Timeout = d }
}

func verdictName(k ledger.VerdictKind) string {
	return map[ledger.VerdictKind]string{
		ledger.Execute: "execute", ledger.Replay: "replay", ledger.Conflict: "conflict",
		ledger.InDoubt: "in doubt", ledger.Busy: "busy", ledger.GivenUp: "given up",
		ledger.Refused: "refused", ledger.NeedsApproval: "needs approval", ledger.Paused: "paused", ledger.Simulated: "simulated",
	}[k]
}

// effect reads one effect.
func effect(t tb, h Harness, key events.Hash) ledger.Effect {
	t.Helper()
	var after events.Hash
	for {
		es, err := h.Store.Effects(t.Context(), ledger.EffectFilter{After: after})
		if err != nil {
			t.Fatalf("effects: %v", err)
		}
		if len(es) == 0 {
			t.Fatalf("no effect %s", key)
		}
		for _, e := range es {
			if e.OpKey == key {
				return e
			}
		}
		after = es[len(es)-1].OpKey
	}
}
