package ledgertest

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

var projectionTests = []conformance{
	{"the order of arrival does not matter", testAnyOrder},
	{"what arrives twice is there once", testArrivesTwice},
	{"an event of a fenced epoch is set aside, its cost is kept", testZombieEvents},
	{"a gap stops the fold until it heals", testGap},
	{"poison does not block its neighbours", testPoison},
	{"an event that the database refuses does not block the batch", testRefusedEvent},
	{"an unknown type is archived and stops the fold", testUnknownType},
	{"a second event for one sequence is refused", testForkedEvent},
	{"an event id stands once", testEventIDTwice},
	{"a secret in a recorded event goes to quarantine", testSecretFound},
	{"events of runs that nobody knows go to quarantine", testUnknownRunEvents},
	{"an epoch that was never given goes to quarantine", testUnknownEpoch},
	{"what barriers inserted is folded", testFoldBehind},
	{"a run that cannot be folded keeps nobody waiting", testFoldBehindRound},
	{"a rebuild gives the same rows", testRebuild},
	{"a late answer counts as cost", testLateAnswer},
}

// plainRun is a run of one holder, told to the journal alone.
func plainRun(t tb, h Harness, turns, calls int) (*actor, []events.Sealed) {
	t.Helper()
	a := start(t, h, ownedBy("ann"))
	a.opening()
	for i := range turns {
		a.turn(i+1, calls)
	}
	a.finished()
	return a, a.sent()
}

func testAnyOrder(t *testing.T, h Harness) {
	rapid.Check(t, func(rt *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1)) //nolint:gosec // a test's order
		var all []events.Sealed
		var histories [][]events.Sealed
		for range rapid.IntRange(1, 3).Draw(rt, "runs") {
			_, es := plainRun(rt, h, rapid.IntRange(0, 3).Draw(rt, "turns"), rapid.IntRange(0, 3).Draw(rt, "calls"))
			histories = append(histories, es)
			all = append(all, es...)
		}
		events, repeats := 0, 0
		for _, b := range shuffled(r, all) {
			p, err := h.Store.Project(rt.Context(), b)
			if err != nil {
				rt.Fatalf("project: %v", err)
			}
			events, repeats = events+p.Events, repeats+p.Duplicates
			if p.Quarantined > 0 || p.SetAside > 0 {
				rt.Fatalf("projected %+v", p)
			}
		}
		if events != len(all) {
			rt.Fatalf("%d events went in, %d duplicates; want %d", events, repeats, len(all))
		}
		for _, es := range histories {
			h.wantRows(rt, es)
			h.wantWhole(rt, es[0].Envelope().RunID)
		}
	})
}

// nats-io/nats-server#7302
func testArrivesTwice(t *testing.T, h Harness) {
	_, es := plainRun(t, h, 1, 2)
	if p := h.project(t, es...); p.Events != len(es) || p.Folded != len(es) {
		t.Errorf("first: %+v, want %d", p, len(es))
	}
	if p := h.project(t, es...); p.Events != 0 || p.Duplicates != len(es) || p.Folded != 0 {
		t.Errorf("again: %+v", p)
	}
	if p := h.project(t, es[0], es[0]); p.Duplicates != 2 {
		t.Errorf("twice in one message: %+v", p)
	}
	h.wantRows(t, es)
}

// takeover lets the lease of a run out and takes the run over: run_resumed
// comes first, then the facts.
func takeover(t tb, h Harness, run ledger.Run) *actor {
	t.Helper()
	h.Advance(leaseTTL + time.Second)
	b := take(t, h, run)
	if es := b.sent(); len(es) > 0 {
		b.seq, b.prev = es[0].Envelope().Seq-1, es[0].Envelope().Prev
		clear(b.seen)
	}
	b.note(events.RunResumed{Worker: b.worker, Epoch: b.lease.Epoch, BaseSeq: b.seq, BaseHash: b.prev})
	b.absorb(b.facts...)
	return b
}

// nats-io/nats-server#4786
func testZombieEvents(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.note(events.TurnStarted{Turn: 1})
	early := a.sent()
	a.note(events.ModelCallStarted{Turn: 1, Attempt: 1, Model: "m"})
	cost := events.PicoUSD(77)
	a.note(events.ModelCallFinished{Turn: 1, Attempt: 1, Model: "m", ServedModel: "m", Cost: &cost, Usage: events.Usage{Input: 5}})
	late := a.sent()
	h.project(t, early...)

	b := takeover(t, h, a.run)
	b.note(events.ModelCallStarted{Turn: 1, Attempt: 2, Model: "m"})
	h.project(t, b.sent()...)
	for range 2 { // however often they come
		if p := h.project(t, late...); p.SetAside+p.Duplicates != len(late) || p.Events != 0 || p.Quarantined != 0 {
			t.Fatalf("late events: %+v", p)
		}
	}
	fs := pendingOf(t, h, a.run.ID)
	if len(fs) != 1 || fs[0].ID != late[1].Envelope().ID || fs[0].Type != late[1].Envelope().Type {
		t.Fatalf("facts %v, want the answer's", types(fs))
	}
	b.absorb(fs...)
	h.project(t, b.sent()...)
	ms, err := h.Store.ModelCalls(t.Context(), a.run.ID)
	if err != nil || len(ms) != 2 || ms[0].State != "unsettled" || ms[1].State != "late" || *ms[1].Cost != cost {
		t.Errorf("model calls %+v, %v", ms, err)
	}
	if n := h.count(t, `SELECT count(*) FROM set_aside`); n != len(late) {
		t.Errorf("%d rows set aside, want %d", n, len(late))
	}
	h.wantWhole(t, a.run.ID)
}

func testGap(t *testing.T, h Harness) {
	a, es := plainRun(t, h, 2, 2)
	lost := 5
	h.project(t, es[:lost]...)
	h.project(t, es[lost+1:]...)
	if folded, top, _ := h.foldOf(t, a.run.ID); folded != uint64(lost) || top != uint64(len(es)) {
		t.Errorf("folded %d of %d", folded, top)
	}
	h.Advance(10 * time.Second)
	if n, err := h.Store.FoldBehind(t.Context(), time.Second, 10); n != 0 || err != nil {
		t.Errorf("folded %d, %v", n, err)
	}
	if _, _, incomplete := h.foldOf(t, a.run.ID); !strings.Contains(incomplete, "seq 6: missing") {
		t.Errorf("incomplete is %q", incomplete)
	}
	if fs := h.verify(t, a.run.ID); !hasFinding(fs, ledger.Incomplete, 6, "missing") {
		t.Errorf("findings %v", fs)
	}
	if p := h.project(t, es[lost]); p.Folded != len(es)-lost {
		t.Errorf("healed: %+v", p)
	}
	h.wantRows(t, es)
	h.wantWhole(t, a.run.ID)
}

func hasFinding(fs []ledger.Finding, kind ledger.FindingKind, seq uint64, text string) bool {
	for _, f := range fs {
		if f.Kind == kind && f.Seq == seq && strings.Contains(f.Text, text) {
			return true
		}
	}
	return false
}

// hatchet-dev/hatchet#2803
func testPoison(t *testing.T, h Harness) {
	_, es := plainRun(t, h, 1, 1)
	data := events.AppendMessage(nil, es)
	data = bytes.Replace(data, []byte(`"messages":1`), []byte(`"messages":2`), 1) // its hash does not fit any more
	broken := ledger.Incoming{Message: events.Message{Worker: "w", Sequence: 2, Data: data}}
	broken.Events, broken.Rejected, broken.Err = events.ParseMessage(data)
	if len(broken.Rejected) != 1 {
		t.Fatalf("%d rejected", len(broken.Rejected))
	}
	garbage := ledger.Incoming{Message: events.Message{Worker: "w\x00", Sequence: 1, Data: []byte("\xff{")}}
	garbage.Events, garbage.Rejected, garbage.Err = events.ParseMessage(garbage.Message.Data)
	for i, want := range []int{2, 0} {
		p, err := h.Store.Project(t.Context(), []ledger.Incoming{garbage, broken})
		if err != nil || p.Quarantined != want {
			t.Errorf("delivery %d: %+v, %v; want %d quarantined", i+1, p, err, want)
		}
	}
	if err := h.Store.Quarantine(t.Context(), garbage.Message, "again", garbage.Message.Data); err != nil {
		t.Error(err)
	}
	if n := h.count(t, `SELECT count(*) FROM quarantine`); n != 2 {
		t.Errorf("%d rows in quarantine, want 2", n)
	}
	h.project(t, es...) // the barrier, or the journal, brings the right one
	h.wantRows(t, es)
}

func testRefusedEvent(t *testing.T, h Harness) {
	a, es := plainRun(t, h, 1, 1)
	bad := forge(t, events.Envelope{
		ID: testIDs.Event(), RunID: a.run.ID, Seq: math.MaxUint64, Epoch: 1, Type: "turn_started", Version: 1, Time: a.last, Tenant: "acme", Prev: a.prev,
	}, `{"turn":1}`)
	_, others := plainRun(t, h, 1, 1)
	all := append(append(append([]events.Sealed{}, es...), bad), others...)
	if p := h.project(t, all...); p.Events != len(all)-1 || p.Quarantined != 1 {
		t.Errorf("projected %+v of %d", p, len(all))
	}
	h.wantRows(t, others)
	if folded, _, incomplete := h.foldOf(t, a.run.ID); folded != uint64(len(es)) || incomplete == "" {
		t.Errorf("folded %d, incomplete %q", folded, incomplete)
	}
}

func testUnknownType(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.forged("run_dreamt", 1, `{"of":"sheep"}`)
	a.note(events.TurnStarted{Turn: 1})
	es := a.sent()
	if p := h.project(t, es...); p.Events != 4 || p.Folded != 2 {
		t.Errorf("projected %+v", p)
	}
	if _, _, incomplete := h.foldOf(t, a.run.ID); !strings.Contains(incomplete, "run_dreamt") {
		t.Errorf("incomplete is %q", incomplete)
	}
	var got int
	if err := h.Store.Events(t.Context(), a.run.ID, 1, func(events.Sealed) error { got++; return nil }); err != nil || got != 4 {
		t.Errorf("archive gives %d events, %v", got, err)
	}
}

func testForkedEvent(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	es := a.sent()
	a.note(events.TurnStarted{Turn: 1})
	first := a.sent()
	a.seq, a.prev = es[1].Envelope().Seq, es[1].Hash()
	a.note(events.TurnStarted{Turn: 2})
	second := a.sent()
	h.project(t, append(es, first...)...)
	if p := h.project(t, second...); p.Quarantined != 1 || p.Events != 0 {
		t.Errorf("second: %+v", p)
	}
	var stands events.Hash
	if err := h.Store.Events(t.Context(), a.run.ID, 3, func(e events.Sealed) error { stands = e.Hash(); return nil }); err != nil || stands != first[0].Hash() {
		t.Errorf("seq 3 is %s, %v; want the first", stands, err)
	}
	a.note(events.TurnStarted{Turn: 3})
	if _, _, incomplete := h.foldOf(t, a.run.ID); !strings.Contains(incomplete, "seq 3: another event stands here") {
		t.Errorf("incomplete is %q", incomplete)
	}
	if fs := h.verify(t, a.run.ID); !hasFinding(fs, ledger.Incomplete, 0, "another event") {
		t.Errorf("findings %v", fs)
	}
}

func testEventIDTwice(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	id := testIDs.Event()
	j, _ := testSeal.JSON(events.TurnStarted{Turn: 1})
	a.record(id, j, "turn_started")
	a.record(id, j, "turn_started")
	if p := h.project(t, a.sent()...); p.Events != 3 || p.Quarantined != 1 {
		t.Errorf("projected %+v", p)
	}
}

func testSecretFound(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.forged("tool_execution_started", 1, `{"arguments":{"password":"correct horse battery"},"at":"2026-01-01T00:00:00Z","attempt":1,"call":{"index":0,"turn":1},"effect":"readonly","tool":"login"}`)
	if p := h.project(t, a.sent()...); p.Events != 2 || p.Quarantined != 1 {
		t.Errorf("projected %+v", p)
	}
	if n := h.count(t, `SELECT count(*) FROM quarantine WHERE reason LIKE '%secret%'`); n != 1 {
		t.Errorf("%d rows in quarantine", n)
	}
	var kept []byte
	err := h.DB.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		return tx.QueryRow(ctx, `SELECT bytes FROM quarantine`).Scan(&kept)
	})
	if err != nil || bytes.Contains(kept, []byte("battery")) || !bytes.Contains(kept, []byte("login")) {
		t.Errorf("quarantine keeps %s, %v", kept, err)
	}
}

func testUnknownRunEvents(t *testing.T, h Harness) {
	_, es := plainRun(t, h, 1, 1)
	stranger := forge(t, events.Envelope{ID: testIDs.Event(), RunID: testIDs.Run(), Seq: 1, Epoch: 1, Type: "turn_started", Version: 1, Time: time.Now().UTC(), Tenant: "acme"}, `{"turn":1}`)
	if p := h.project(t, append(es, stranger)...); p.Events != len(es) || p.Quarantined != 1 {
		t.Errorf("projected %+v", p)
	}
	h.wantRows(t, es)
}

func testUnknownEpoch(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	es := a.sent()
	a.lease.Epoch = 9
	a.note(events.TurnStarted{Turn: 1})
	if p := h.project(t, append(es, a.sent()...)...); p.Events != len(es) || p.Quarantined != 1 {
		t.Errorf("projected %+v", p)
	}
}

func testLateAnswer(t *testing.T, h Harness) {
	a := start(t, h)
	a.opening()
	a.note(events.ModelCallStarted{Turn: 1, Attempt: 1, Model: "m"})
	h.project(t, a.sent()...)
	b := takeover(t, h, a.run)
	h.project(t, b.sent()...)
	cost := events.PicoUSD(5)
	b.note(events.ModelCallFinished{Turn: 1, Attempt: 1, Model: "m", ServedModel: "m", Cost: &cost})
	b.note(events.ToolExecutionStarted{Call: events.CallID{Turn: 1}, Attempt: 1, Tool: "x", Arguments: json.RawMessage(`{}`)})
	h.project(t, b.sent()...)
	ms, err := h.Store.ModelCalls(t.Context(), a.run.ID)
	if err != nil || len(ms) != 1 || ms[0].State != "late" || *ms[0].Cost != cost {
		t.Errorf("model calls %+v, %v", ms, err)
	}
	h.wantWhole(t, a.run.ID)
}
