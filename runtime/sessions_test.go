package runtime_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/tools"
)

// companion talks: to every message it looks once, with reasoning that has to come
// back as it was, and then answers. What it does is in its conversation alone.
type companion struct {
	mu    sync.Mutex
	asked []model.Request
	say   func(message string, step int) (model.Response, error) // nil response = as usual
}

func (m *companion) Call(_ context.Context, r model.Request) (model.Response, error) {
	size := r.InputBound() - 1024
	if strings.HasPrefix(r.System, "You will be shown a part") {
		return model.Response{Text: "They talked.", StopReason: "end_turn", Usage: events.Usage{Input: size, Output: 3}}, nil
	}
	m.mu.Lock()
	m.asked = append(m.asked, r)
	m.mu.Unlock()
	said, step := "", 0
	for _, msg := range r.Messages {
		switch {
		case msg.Role == model.Assistant:
			step++
		case msg.Role == model.User && !strings.HasPrefix(msg.Text, "Earlier messages") && !strings.HasPrefix(msg.Text, "Note"):
			said, step = msg.Text, 0
		}
	}
	out := model.Response{Text: "answer to " + said, StopReason: "end_turn"}
	if step == 0 {
		out = signed(fmt.Sprintf(`{"signature":%q}`, "EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"+said))
		out.Calls[0].Arguments = json.RawMessage(fmt.Sprintf(`{"text":%q}`, said))
	}
	if m.say != nil {
		if got, err := m.say(said, step); err != nil || got.StopReason != "" {
			out = got
			if err != nil {
				return out, err
			}
		}
	}
	out.Model, out.Usage = "test-2026-01-01", events.Usage{Input: size, Output: 1}
	return out, nil
}

// heard returns the first and the last request that were made about a message.
func (m *companion) heard(said string) (first, last model.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.asked {
		at := slices.IndexFunc(r.Messages, func(m model.Message) bool { return m.Role == model.User && m.Text == said })
		if at < 0 || slices.ContainsFunc(r.Messages[at+1:], func(m model.Message) bool {
			return m.Role == model.User && !strings.HasPrefix(m.Text, "Earlier") && !strings.HasPrefix(m.Text, "Note")
		}) {
			continue
		}
		if first.Messages == nil {
			first = r
		}
		last = r
	}
	return first, last
}

func (w *world) continued(session string, input any, change ...func(*runtime.Submit)) ledger.Run {
	w.t.Helper()
	in := runtime.Submit{Agent: "tester", Input: input, SessionID: session, Continue: true, ClientKey: fmt.Sprint("key-", w.n.Add(1))}
	for _, f := range change {
		f(&in)
	}
	r, _, err := w.client().Submit(w.t.Context(), in)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// told is the transcript that a run has begun with and added to, as its history has it.
func (w *world) told(id events.RunID) *loops.History {
	w.t.Helper()
	r, err := w.store.Run(context.Background(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	h := loops.NewHistory(id)
	if err := runtime.Inherit(context.Background(), w.store, r, h); err != nil {
		w.t.Fatal(err)
	}
	for _, e := range w.history(id) {
		if err := h.Apply(e); err != nil {
			w.t.Fatal(err)
		}
	}
	return h
}

func TestSessionGoesOnFromWhatTheModelHeard(t *testing.T) {
	m := new(companion)
	w := newWorld(t, m, looker())
	w.limits.MaxTurns = 2 // of each run
	w.start()
	a, b, c := w.continued("s", "one"), w.continued("s", "two"), w.continued("s", "three")
	if b.BehindAt.IsZero() || c.SessionPlace != 3 {
		t.Errorf("the second is not behind the first: %+v", b)
	}
	for i, r := range []ledger.Run{a, b, c} {
		end := w.wait(r.ID, false)
		if end.State != ledger.Finished || string(end.Result) != fmt.Sprintf("%q", "answer to "+[]string{"one", "two", "three"}[i]) {
			t.Fatalf("run %d: %s %s %s\n%s", i, end.State, end.Result, end.Error, w.story(r.ID))
		}
		if f := last[events.RunFinished](w, r.ID); f.Turns != 2 {
			t.Errorf("run %d took %d turns", i, f.Turns)
		}
	}
	_, before := m.heard("one")
	after, _ := m.heard("two")
	want := slices.Clone(before.Messages)
	want = append(want, model.Message{Role: model.Assistant, Text: "answer to one", By: after.Messages[3].By}, model.Message{Role: model.User, Text: "two"})
	if d := cmp.Diff(want, after.Messages); d != "" {
		t.Errorf("the second run began with (-what the first had, +what it was shown):\n%s", d)
	}
	if blocks := after.Messages[1].Blocks; len(blocks) != 2 || !strings.Contains(string(blocks[0].Data), "MOYdsone") {
		t.Errorf("reasoning: %+v", blocks)
	}
	if calls := after.Messages[1].Calls; calls[0].ID != "t1.c0" {
		t.Errorf("calls %+v", calls)
	}
	third, _ := m.heard("three")
	if calls := third.Messages[5].Calls; calls[0].ID != "t3.c0" || len(third.Messages) != 9 {
		t.Errorf("%d messages, calls %+v", len(third.Messages), calls)
	}
	q := last[events.RunQueued](w, c.ID)
	top := w.history(b.ID)[len(w.history(b.ID))-1]
	if q.Session == nil || *q.Session != (events.SessionPlace{Place: 3, Run: b.ID, Seq: top.Seq, Hash: top.Hash}) {
		t.Errorf("the third says it goes on from %+v, want %d %s", q.Session, top.Seq, top.Hash)
	}
	w.whole()
	for _, r := range []ledger.Run{a, b, c} {
		if h := w.told(r.ID); h.Turns() != 2 || h.ModelTurns() != 2 {
			t.Errorf("run %s: %d turns, %d asked", r.ID, h.Turns(), h.ModelTurns())
		}
	}
}

// langchain-ai/langgraph#7361: whichever event the worker of a run dies at, whoever goes
// on shows the model what it would have been shown.
func TestSessionOfAWorkerKilledAtEveryEvent(t *testing.T) {
	converse := func(t *testing.T, m *companion, second func(w *world, submit func() events.RunID) events.RunID) (*world, int) {
		w := newWorld(t, m, looker())
		w.compacted(events.Compaction{At: 50, Keep: 1, With: events.CompactedBySummary, Window: 1400})
		k := w.start()
		for _, text := range []string{"one", "two", "three"} {
			w.wait(w.continued("s", text+strings.Repeat(" and", 20)).ID, false)
		}
		k.stop(t)
		id := second(w, func() events.RunID { return w.continued("s", "four").ID })
		if r, _ := w.store.Run(t.Context(), id); r.State != ledger.Finished {
			t.Fatalf("%s %s\n%s", r.State, r.Error, w.story(id))
		}
		if w.told(id).Compactions() == 0 {
			t.Fatal("nothing was compacted")
		}
		w.whole()
		return w, len(w.history(id))
	}
	plain := new(companion)
	_, n := converse(t, plain, func(w *world, submit func() events.RunID) events.RunID { return w.heir(submit()) })
	want, wantLast := plain.heard("four")
	for at := 1; at <= n; at++ {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("event %d, after %t", at, after), func(t *testing.T) {
				m := new(companion)
				converse(t, m, func(w *world, submit func() events.RunID) events.RunID {
					return w.heir(w.dies(at, after, submit, nil))
				})
				first, last := m.heard("four")
				for _, r := range []*model.Request{&want, &wantLast, &first, &last} {
					r.AttemptID = ""
				}
				if d := cmp.Diff(want.Messages, first.Messages); d != "" {
					t.Errorf("first request:\n%s", d)
				}
				if d := cmp.Diff(wantLast.Messages, last.Messages); d != "" {
					t.Errorf("last request:\n%s", d)
				}
			})
		}
	}
}

// A run that begins behind a compaction has the transcript that one has which reads
// everything.
func TestSessionWithCompactionsInTheMiddle(t *testing.T) {
	m := new(companion)
	w := newWorld(t, m, lookout(tools.External))
	w.compacted(events.Compaction{At: 60, Keep: 2, With: events.CompactedBySummary, Window: 4000})
	w.start()
	var ids []events.RunID
	for i := range 14 {
		r := w.wait(w.continued("s", fmt.Sprint("message ", i)).ID, false)
		if r.State != ledger.Finished {
			t.Fatalf("%s %s\n%s", r.State, r.Error, w.story(r.ID))
		}
		ids = append(ids, r.ID)
	}
	snapshots := 0
	for _, id := range ids {
		for _, e := range w.history(id) {
			if c, ok := e.Data.(events.TranscriptCompacted); ok {
				if snapshots++; c.Snapshot.IsZero() || c.Trust != "external" {
					t.Errorf("compaction %+v", c)
				}
			}
		}
		short := w.told(id)
		run, err := w.store.Run(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		long := loops.NewHistory(id)
		if err := runtime.Inherit(t.Context(), forgetful{w.store}, run, long); err != nil {
			t.Fatal(err)
		}
		for _, e := range w.history(id) {
			if err := long.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(long.Messages(), short.Messages()); d != "" {
			t.Fatalf("run %s (-whole +from the snapshot):\n%s", id, d)
		}
		if long.Filled() != short.Filled() || long.Turn() != short.Turn() || long.Compactions() != short.Compactions() || !short.SawExternal() ||
			len(long.Completed("look")) != len(short.Completed("look")) {
			t.Errorf("run %s: filled %d, turn %d, %d compactions, external %t; from the snapshot %d, %d, %d, %t", id,
				long.Filled(), long.Turn(), long.Compactions(), long.SawExternal(), short.Filled(), short.Turn(), short.Compactions(), short.SawExternal())
		}
	}
	if snapshots < 3 {
		t.Errorf("%d snapshots", snapshots)
	}
	// The whole is still there, turn by turn.
	whole, err := runtime.Original(t.Context(), w.store, ids[len(ids)-1])
	if err != nil || !strings.Contains(whole.TurnText(1), "message 0") || !strings.Contains(whole.TurnText(28), "answer to message 13") {
		t.Errorf("original: %v", err)
	}
	w.whole()
}

// forgetful has no snapshots.
type forgetful struct{ runtime.HistorySource }

func (forgetful) LastSnapshot(context.Context, events.RunID, uint64) (events.Sealed, bool, error) {
	return events.Sealed{}, false, nil
}

func TestForkOfASessionsRun(t *testing.T) {
	m := new(companion)
	w := newWorld(t, m, looker())
	w.start()
	a := w.wait(w.continued("s", "one").ID, false)
	b := w.wait(w.continued("s", "two").ID, false)
	f := w.wait(w.fork(b.ID, w.history(b.ID)[len(w.history(b.ID))-1].Seq, "and in French").ID, false)
	c := w.wait(w.continued("s", "three").ID, false)
	if f.SessionPlace != 0 || c.Continues.Run != b.ID || b.Continues.Run != a.ID {
		t.Errorf("the fork took part: %+v", c.Continues)
	}
	heard, _ := m.heard("and in French")
	before, _ := m.heard("three")
	if d := cmp.Diff(before.Messages[:8], heard.Messages[:8]); d != "" || heard.Messages[8].Text != "and in French" {
		t.Errorf("the fork was shown %+v\n%s", heard.Messages, d)
	}
	g := w.wait(w.fork(f.ID, 4, nil).ID, false) // of the fork
	if g.State != ledger.Finished {
		t.Errorf("%s %s", g.State, g.Error)
	}
	w.whole()
}

func TestSessionsRunThatFailsAndIsTriedAgain(t *testing.T) {
	broken := true
	m := &companion{say: func(said string, step int) (model.Response, error) {
		if said == "two" && step == 1 && broken {
			broken = false
			return model.Response{}, &model.Error{Kind: "invalid_request", Err: errors.New("no")}
		}
		return model.Response{}, nil
	}}
	w := newWorld(t, m, looker())
	w.start()
	w.wait(w.continued("s", "one").ID, false)
	b := w.continued("s", "two", func(in *runtime.Submit) { in.MaxAttempts = 2 })
	c := w.continued("s", "three")
	if r := w.wait(b.ID, false); r.State != ledger.Failed {
		t.Fatalf("%s", r.State)
	}
	w.advance(time.Minute)
	c = w.wait(c.ID, false)
	again, err := w.store.Run(t.Context(), c.Continues.Run)
	if err != nil || again.RetryOf != b.ID || again.State != ledger.Finished {
		t.Fatalf("goes on from %+v, %v", again, err)
	}
	heard, _ := m.heard("three")
	two := 0
	for _, msg := range heard.Messages {
		if msg.Text == "two" {
			two++
		}
	}
	if two != 1 || len(heard.Messages) != 9 {
		t.Errorf("the third run was shown %d messages, %d times two", len(heard.Messages), two)
	}
	w.whole()
}

// What a run that was stopped has done, the next one knows.
func TestSessionGoesOnFromAStoppedRun(t *testing.T) {
	m := new(companion)
	looking, goOn := make(chan struct{}), make(chan struct{})
	w := newWorld(t, m, must(tools.New(tools.Definition{Name: "look", Description: "Looks.", Effect: tools.Readonly, Trust: tools.Own},
		func(ctx context.Context, _ *tools.Invocation, in text) (string, error) {
			if in.Text == "one" {
				close(looking)
				select {
				case <-goOn:
				case <-ctx.Done():
				}
			}
			return "seen", nil
		})))
	w.start()
	a := w.continued("s", "one")
	b := w.continued("s", "two")
	<-looking
	if _, err := w.client().Cancel(t.Context(), a.ID, "ann", "stop that"); err != nil {
		t.Fatal(err)
	}
	if r := w.wait(a.ID, false); r.State != ledger.Cancelled {
		t.Fatalf("%s", r.State)
	}
	close(goOn)
	w.wait(b.ID, false)
	heard, _ := m.heard("two")
	var texts []string
	for _, msg := range heard.Messages {
		texts = append(texts, string(msg.Role)+": "+msg.Text)
		for _, r := range msg.Results {
			texts = append(texts, r.Text)
		}
	}
	want := []string{
		"user: one", "assistant: ", "tool: ", "seen",
		"user: Note: the work on the message before was stopped (cancelled). Calls that were made stand; do not go on with it unless asked to.", "user: two",
	}
	if d := cmp.Diff(want, texts); d != "" {
		t.Error(d)
	}
	w.whole()
}

// Text from outside stays text from outside.
func TestTaintGoesOnInASession(t *testing.T) {
	m := &companion{say: func(said string, step int) (model.Response, error) {
		if said == "pay" && step == 0 {
			return asks(payX), nil
		}
		return model.Response{}, nil
	}}
	var p provider
	w := newWorld(t, m, lookout(tools.External), pay(tools.Definition{}, func(_ context.Context, inv *tools.Invocation, _ text) (string, error) {
		p.apply(inv.OpKey)
		return "paid", nil
	}))
	w.agent = func(a *agents.Agent) { a.Taint = ledger.TaintDeny }
	w.start()
	w.wait(w.continued("clean", "pay").ID, false)
	if len(p.keys) != 1 {
		t.Fatalf("an untainted run paid %d times", len(p.keys))
	}
	w.wait(w.continued("s", "look around").ID, false)
	r := w.wait(w.continued("s", "pay").ID, false)
	if b := last[events.ToolExecutionBlocked](w, r.ID); len(p.keys) != 1 || b.Detail != ledger.DetailTaint || !strings.Contains(b.Result.Error, "t1.c0 look") {
		t.Errorf("paid %d times, blocked as %+v", len(p.keys), b)
	}
	w.whole()
}

// A call that nobody knew about when its run ended, and that somebody settles later, is
// told to the run that goes on.
func TestSessionIsToldWhatBecameOfADoubt(t *testing.T) {
	for _, between := range []bool{false, true} {
		for state, want := range map[events.EffectState]string{
			events.EffectApplied:    "Note about the call t1.c0, reported as unknown before: it took effect, with this result: (earlier result, not run again; secrets are redacted) receipt 7",
			events.EffectNotApplied: "Note about the call t1.c0, reported as unknown before: it ended like this: failed, took no effect: found out after the run that made it had ended",
		} {
			t.Run(fmt.Sprintf("%s, between runs %t", state, between), func(t *testing.T) {
				m := &companion{say: func(said string, step int) (model.Response, error) {
					if said == "pay" && step == 0 {
						return asks(payX), nil
					}
					return model.Response{}, nil
				}}
				w := newWorld(t, m, looker(), pay(tools.Definition{InDoubtContinue: true, Trust: tools.Own}, func(context.Context, *tools.Invocation, text) (string, error) {
					return "", errors.New("no answer")
				}))
				w.start()
				a := w.wait(w.continued("s", "pay").ID, false)
				resolve := func() {
					w.advance(time.Hour)
					es, err := w.store.Effects(t.Context(), ledger.EffectFilter{Run: a.ID, Limit: 1})
					if err != nil || len(es) != 1 {
						t.Fatalf("%d effects, %v", len(es), err)
					}
					res := ledger.Resolution{OpKey: es[0].OpKey, State: state, By: "ann", Note: "looked it up"}
					if state == events.EffectApplied {
						res.Result = events.ToolResult{Status: "completed", Output: "receipt 7", Trust: "own"}
					}
					if _, err := w.store.Resolve(t.Context(), res); err != nil {
						t.Fatal(err)
					}
				}
				if between {
					resolve()
				} else {
					w.wait(w.continued("s", "and now").ID, false)
					resolve()
				}
				r := w.wait(w.continued("s", "so?").ID, false)
				heard, _ := m.heard("so?")
				found := 0
				for _, msg := range w.told(r.ID).Messages() {
					if strings.HasPrefix(msg.Text, want) {
						found++
					} else if strings.HasPrefix(msg.Text, "Note about the call t1.c0") && between {
						found++ // as the fact behind its run's end says it
					}
				}
				for _, id := range []events.RunID{r.ID, r.Continues.Run} {
					for _, e := range w.history(id) {
						if p, ok := e.Data.(events.ToolExecutionError); ok && id != a.ID && (!p.Repeated || p.Of == nil || p.Of.Run != a.ID) {
							t.Errorf("counted again: %+v", p)
						}
					}
				}
				if found != 1 || len(heard.Messages) == 0 {
					t.Errorf("told %d times in\n%+v", found, w.told(r.ID).Messages())
				}
				w.whole()
			})
		}
	}
}

// Whoever forges what a run goes on from stops the run, and is found.
func TestForgedOriginIsNotFollowed(t *testing.T) {
	m := new(companion)
	w := newWorld(t, m, looker())
	k := w.start()
	w.wait(w.continued("s", "one").ID, false)
	other := w.wait(w.continued("t", "secret of another").ID, false)
	k.stop(t)
	b := w.dies(3, true, func() events.RunID { return w.continued("s", "two").ID }, nil)
	w.exec(`UPDATE runs SET continues_run = ?, continues_seq = ?, continues_hash = ? WHERE id = ?`, other.ID[:], 5, make([]byte, 32), b[:])
	w.start()
	w.until("the run is marked as unreadable", func() bool {
		r, err := w.store.Run(t.Context(), b)
		return err == nil && strings.Contains(r.Unreadable, "inherited history")
	})
	if first, _ := m.heard("two"); slices.ContainsFunc(first.Messages, func(m model.Message) bool { return strings.Contains(m.Text, "secret of another") }) {
		t.Error("the model was shown another session")
	}
}

func (w *world) exec(q string, args ...any) {
	w.t.Helper()
	db, err := sql.Open("sqlite", "file:"+w.path+"?_pragma=busy_timeout(10000)")
	if err == nil {
		_, err = db.Exec(q, args...)
		_ = db.Close()
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
