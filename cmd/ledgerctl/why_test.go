package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/tools/builtin"
)

// standing is a ledger with a run in each state that why has sentences for.
type standing struct {
	*filler
	names map[string]string // of what is asked about
}

// alone submits a run into a queue of its own and takes it.
func (w standing) alone(name string, change ...func(*ledger.Submission)) *holder {
	s := ledger.Submission{Queue: name}
	for _, c := range change {
		c(&s)
	}
	h := w.take(w.submit(s), "w1", time.Minute)
	w.names[name] = h.run.ID.String()
	return h
}

func (h *holder) handOff(index int, change func(*ledger.Handoff)) ledger.Handoff {
	call := events.CallID{Turn: 1, Index: index}
	ho := ledger.Handoff{Token: events.CallToken(h.run.ID, call, "tool", nil), Call: call, CallAttempt: 1, Trust: "external"}
	change(&ho)
	h.note(events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: ho.Tool, Effect: "readonly", Arguments: json.RawMessage(`{}`), At: h.f.now})
	fs, err := h.f.st.HandOff(h.f.ctx, h.lease, h.prefix, ho)
	h.done(err)
	h.absorb(fs...)
	return ho
}

func (h *holder) fails(stopped events.StoppedBy, text string, r ledger.Retry) {
	h.finish(events.RunFailed{StoppedBy: stopped, Error: events.ErrorInfo{Kind: string(stopped), Message: text}, Turns: 1},
		ledger.Ending{State: ledger.Failed, StoppedBy: stopped, Error: text, Retry: r})
}

func (w standing) fill() {
	w.waits()
	w.children()
	w.money()
	w.attempts()
	w.held()
	w.queues()
	w.gates()
	w.doubts()
}

// declined is a run that declined for each reason that the tool knows, and one
// whose model refused.
func (w standing) declined() {
	for because, result := range map[string]string{
		"unknowable": `"unknowable"`, "not_covered": `{"because":"not_covered","detail":"only 120.50 was paid"}`, "out_of_scope": `"out_of_scope"`, "unsafe": `"unsafe"`,
		"refusal": `{"declined_because":"I will not help with that."}`,
	} {
		h := w.alone("declined " + because)
		e := events.RunFinished{StoppedBy: events.StoppedByDeclined, DeclinedBecause: because, Output: json.RawMessage(result), Turns: 1}
		h.finish(e, ledger.Ending{State: ledger.Finished, StoppedBy: e.StoppedBy, Result: e.Output})
	}
}

func (w standing) waits() {
	h := w.alone("handoff")
	h.handOff(0, func(o *ledger.Handoff) { o.Tool, o.For = "survey", 24*time.Hour })
	h.handOff(1, func(o *ledger.Handoff) { o.Tool = "print" })
	h.park(ledger.Parking{Reason: events.ParkAsyncTool, Detail: "2 calls are done outside"})
	w.names["handoff call"] = h.run.ID.String() + "/t1.c0"
	h = w.alone("signal", func(s *ledger.Submission) { s.Deadline = asked.Add(5 * time.Hour) })
	h.handOff(0, func(o *ledger.Handoff) {
		o.Tool, o.Reason, o.Signal, o.For = "wait_for_signal", events.ParkSignal, "approved", 12*time.Hour
	})
	h.park(ledger.Parking{Reason: events.ParkSignal})
	h = w.alone("timer")
	h.handOff(0, func(o *ledger.Handoff) {
		o.Tool, o.Reason, o.For, o.ExpiresAs = "wait", events.ParkTimer, 6*time.Hour, "waited"
	})
	h.park(ledger.Parking{Reason: events.ParkTimer, After: 6 * time.Hour})
	h = w.alone("pending")
	h.flush()
	w.check(w.st.Signal(w.ctx, h.run.ID, ledger.Signal{Name: "hurry", From: "ada"}))
}

func (w standing) children() {
	h := w.alone("children")
	var kids []ledger.Run
	for i := range 3 {
		call := events.CallID{Turn: 1, Index: i}
		h.note(events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: "delegate", Effect: "readonly", Arguments: json.RawMessage(`{}`), At: w.now})
		kid, fs, err := w.st.Spawn(w.ctx, h.lease, h.prefix, ledger.Submission{
			Agent: "clerk", Queue: fmt.Sprintf("child-%d", i), ClientKey: fmt.Sprintf("child-%d", i), Input: w.json("part"), InputMAC: []byte("mac"),
		}, ledger.Handoff{Token: events.CallToken(h.run.ID, call, "tool", nil), Call: call, CallAttempt: 1, Tool: "delegate", Trust: "external"})
		h.done(err)
		h.absorb(fs...)
		kids = append(kids, kid)
	}
	h.park(ledger.Parking{Reason: events.ParkChild})
	w.take(kids[0], "w2", time.Minute).fails(events.StoppedByError, "the file is not there", ledger.Retry{})
	kid := w.take(kids[1], "w3", time.Minute)
	kid.handOff(0, func(o *ledger.Handoff) { o.Tool, o.Reason, o.Signal = "wait_for_signal", events.ParkSignal, "go" })
	kid.park(ledger.Parking{Reason: events.ParkSignal})
	w.names["child"] = kids[1].ID.String()
}

func (w standing) money() {
	h := w.alone("budget", func(s *ledger.Submission) { s.Owner = "ann" })
	one := events.PicoUSD(1_000_000_000_000)
	_, err := w.st.SetBudget(w.ctx, ledger.BudgetChange{BudgetKey: ledger.BudgetKey{Tenant: "acme", Kind: ledger.BudgetOwner, Name: "ann", Period: ledger.PerDay}, Limit: &one, By: "ada"})
	w.check(err)
	spent, lost := ledger.ModelAttempt(h.run.ID, 1, 1, 1), ledger.ModelAttempt(h.run.ID, 1, 1, 2)
	for _, id := range []events.ID{spent, lost} {
		_, err = w.st.Reserve(w.ctx, h.lease, ledger.Reservation{Attempt: id, Amount: one / 2, What: "model m"})
		w.check(err)
	}
	w.check(w.st.Settle(w.ctx, spent, new(one/2)))
	w.check(w.st.Settle(w.ctx, lost, nil))
	h.fails(events.StoppedByBudget, "model m, turn 1 attempt 3: the budget is spent", ledger.Retry{})
	w.names["short"] = w.submit(ledger.Submission{Queue: "short", Owner: "ann"}).ID.String()
}

func (w standing) attempts() {
	h := w.alone("retried")
	again := ledger.Retry{MaxAttempts: 2, Backoff: time.Second}
	h.fails(events.StoppedByError, "the provider is down", again)
	r, err := w.st.Run(w.ctx, h.run.ID)
	w.check(err)
	w.now = w.now.Add(time.Minute)
	next, err := w.st.Run(w.ctx, r.Successor)
	w.check(err)
	w.take(next, "w2", time.Minute).fails(events.StoppedByError, "the provider is still down", again)
	w.names["dead"] = next.ID.String()
	h = w.alone("forked")
	h.flush()
	f, _, err := w.st.Fork(w.ctx, ledger.ForkRequest{Run: h.run.ID, Seq: 2, Effects: ledger.ForkAsk, By: "ada"})
	w.check(err)
	w.names["fork"] = f.ID.String()
}

func (w standing) held() {
	h := w.alone("paused")
	h.handOff(0, func(o *ledger.Handoff) { o.Tool = "print" })
	h.park(ledger.Parking{Reason: events.ParkAsyncTool})
	_, _, err := w.st.Pause(w.ctx, h.run.ID, "ada", "is this the right customer?")
	w.check(err)
	r := w.submit(ledger.Submission{Queue: "crashes"})
	for i := range 3 {
		w.take(r, fmt.Sprintf("w%d", i+1), time.Second)
		w.now = w.now.Add(time.Minute)
	}
	_, err = w.st.Claim(w.ctx, ledger.ClaimRequest{Worker: "w9", Queues: []string{"crashes"}, TTL: time.Minute})
	w.check(err)
	w.names["crashes"] = r.ID.String()
	h = w.take(w.submit(ledger.Submission{Queue: "cancelling"}), "w1", 24*time.Hour)
	h.flush()
	w.names["cancelling"] = h.run.ID.String()
	_, err = w.st.Cancel(w.ctx, h.run.ID, `svc, on behalf of "ada"`, "wrong customer")
	w.check(err)
	h = w.alone("unreadable")
	w.check(w.st.MarkUnreadable(w.ctx, h.lease, "event 3: type future_event is not known to this build"))
}

func (w standing) queues() {
	limited := func(name string, l ledger.QueueLimit, runs int) {
		w.check(w.st.LimitQueue(w.ctx, name, l, "ada"))
		for range runs {
			r := w.submit(ledger.Submission{Queue: name, ConcurrencyKey: "customer-7"})
			w.take(r, "w1", 24*time.Hour)
		}
		r := w.submit(ledger.Submission{Queue: name, ConcurrencyKey: "customer-7"})
		w.names[name] = r.ID.String()
	}
	limited("places", ledger.QueueLimit{MaxRunning: 2}, 2)
	limited("keys", ledger.QueueLimit{MaxRunning: 5, MaxPerKey: 1}, 1)
	limited("rates", ledger.QueueLimit{Rate: 1, Per: 4 * time.Hour}, 1)
	_, _, err := w.st.PauseQueue(w.ctx, "stopped", "ada", "the provider is down")
	w.check(err)
	w.names["stopped"] = w.submit(ledger.Submission{Queue: "stopped"}).ID.String()
}

// wires asks to wire money; change says what stands in the way.
func (h *holder) wires(change func(*ledger.Intent)) ledger.Verdict {
	in := ledger.Intent{
		Token: h.f.ids.Event(), Call: events.CallID{Turn: 1}, CallAttempt: 1, Tool: "wire", Effect: "destructive", Scope: ledger.ScopeRun,
		Identity: json.RawMessage(`{"to":"acme"}`), Arguments: json.RawMessage(`{"amount":"50.00","to":"acme"}`), Timeout: 10 * time.Second,
	}
	change(&in)
	return h.beginAs(in)
}

func (w standing) gates() {
	h := w.alone("approval")
	v := h.wires(func(in *ledger.Intent) { in.Ask, in.ApprovalTTL = true, 8*time.Hour })
	h.park(ledger.Parking{Reason: events.ParkApproval, Approval: v.Approval})
	w.names["approval call"] = h.run.ID.String() + "/t1.c0"
	h = w.alone("switch")
	_, err := w.st.SetSwitch(w.ctx, ledger.SwitchChange{Tenant: "acme", Tool: "wire", Mode: ledger.SwitchPaused, By: "ada", Reason: "the bank is down"})
	w.check(err)
	h.wires(func(*ledger.Intent) {})
	h.park(ledger.Parking{Reason: events.ParkPaused, Tool: "wire"})
}

func (w standing) doubts() {
	h := w.alone("probed")
	v := h.begun(ledger.Recovery{Kind: ledger.RecoveryProbe})
	h.end(ledger.Outcome{Token: v.Ref.Token, Kind: ledger.Unclear, Cause: "timeout", Error: events.ErrorInfo{Kind: "timeout", Message: "no answer in 10s"}})
	h.flush()
	w.now = w.now.Add(time.Hour)
	h = w.take(h.run, "w2", time.Minute)
	h.park(ledger.Parking{Reason: events.ParkInDoubt, OpKey: v.Ref.OpKey, After: 30 * time.Minute})

	h = w.alone("contradicted")
	v = h.begun(ledger.Recovery{})
	h.end(ledger.Outcome{Token: v.Ref.Token, Kind: ledger.Unclear, Cause: "timeout", Error: events.ErrorInfo{Kind: "timeout", Message: "no answer in 10s"}})
	set, err := w.st.Resolve(w.ctx, ledger.Resolution{OpKey: v.Ref.OpKey, State: events.EffectNotApplied, By: "ada", Note: "not in the list", Force: true})
	w.check(err)
	h.absorb(*set.Fact)
	h.end(ledger.Outcome{Token: v.Ref.Token, Kind: ledger.Applied, Result: events.ToolResult{Status: "completed", Output: "refund re_9 made", Trust: "external"}})
	h.flush()
}

func (h *holder) begun(r ledger.Recovery) ledger.Verdict {
	return h.beginAs(ledger.Intent{
		Token: h.f.ids.Event(), Call: events.CallID{Turn: 1}, CallAttempt: 1, Tool: "refund", Effect: "destructive", Scope: ledger.ScopeRun,
		Identity: json.RawMessage(`{"order":9}`), Arguments: json.RawMessage(`{"order":9}`), Timeout: 10 * time.Second, Recovery: r,
	})
}

// TestRelatedRuns: runs show tells the whole chain of a run.
func TestRelatedRuns(t *testing.T) {
	dir := t.TempDir()
	w := standing{names: map[string]string{}}
	if err := fillWith(dir, sqlstore.Config{MaxCrashes: 2}, func(f *filler) { w.filler = f; w.fill() }); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"retried": {"attempt 2 failed"}, "dead": {"attempt 1 failed"}, "forked": {"fork 1 queued"}, "fork": {"fork_of 1 running"},
		"children": {"child 1 failed", "child 1 parked", "child 1 queued"}, "child": {"parent 1 parked"}, "handoff": nil,
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			a := newApp(nil, &out, &out, func() time.Time { return w.now })
			if code := a.run(t.Context(), []string{"runs", "show", w.names[name], "-o", "json", "--dir", dir}); code != 0 {
				t.Fatal(out.String())
			}
			var r struct{ Related []relativeView }
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range r.Related {
				got = append(got, fmt.Sprintf("%s %d %s", v.Relation, v.Attempt, v.State))
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

// SG-66: why says what a run declined for, in words and as a field, and a list
// tells the kinds apart.
func TestWhyDeclined(t *testing.T) {
	dir := t.TempDir()
	w := standing{names: map[string]string{}}
	if err := fillWith(dir, sqlstore.Config{}, func(f *filler) { w.filler = f; w.declined() }); err != nil {
		t.Fatal(err)
	}
	ask := func(args ...string) string {
		t.Helper()
		var out bytes.Buffer
		a := newApp(nil, &out, &out, func() time.Time { return w.now })
		if code := a.run(t.Context(), append(args, "--dir", dir)); code != 0 {
			t.Fatal(out.String())
		}
		return out.String()
	}
	reasons := map[string]string{"refusal": "I will not help with that."} // as it is recorded
	for _, because := range builtin.Decline().Definition().Args[0].Options {
		reasons[because] = because
	}
	list := ask("runs", "list")
	for name, because := range reasons {
		run := w.names["declined "+name]
		text := ask("why", run)
		said := "(" + because + ")."
		if name == "refusal" {
			said = "It gave as its reason: " + because
		}
		if !strings.Contains(text, "the model declined the task (declined)") || !strings.Contains(text, said) {
			t.Errorf("%s: %s", name, text)
		}
		var e struct {
			Details struct {
				StoppedBy string `json:"stopped_by"`
				Because   string `json:"declined_because"`
			}
		}
		if err := json.Unmarshal([]byte(ask("why", run, "-o", "json")), &e); err != nil || e.Details.StoppedBy != "declined" || e.Details.Because != because {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
		if !strings.Contains(ask("runs", "show", run), "declined: "+because) || !strings.Contains(list, "declined: "+because[:6]) {
			t.Errorf("%s: not shown for what:\n%s", name, list)
		}
	}
	if len(reasons) != 5 {
		t.Errorf("reasons %v, want four of the tool and a refusal", reasons)
	}
}

// TestWhy asks about a run in each state; testdata/why holds what a person reads
// on 80 columns. Nobody may have to know the design to act at night.
func TestWhy(t *testing.T) {
	dir := t.TempDir()
	w := standing{names: map[string]string{}}
	err := fillWith(dir, sqlstore.Config{MaxCrashes: 2}, func(f *filler) { w.filler = f; w.fill() })
	if err != nil {
		t.Fatal(err)
	}
	// The same clock for the ledger as for the ages that are shown.
	now := func() time.Time { return w.now.Add(time.Minute) }
	st, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "ledger.db"), Now: now, Store: sqlstore.Config{Redactor: w.seal}})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	ask := func(t *testing.T, name string) (text string, fields map[string]json.RawMessage) {
		t.Helper()
		var out bytes.Buffer
		a := newApp(nil, &out, &out, now)
		a.root()
		a.term.width = 80
		explain := a.whyRun
		if strings.Contains(name, "/") {
			explain = a.whyCall
		}
		e, err := explain(t.Context(), st, name)
		if err != nil {
			t.Fatal(err)
		}
		a.printExplanation(e)
		b, err := json.Marshal(e)
		if err == nil {
			err = json.Unmarshal(b, &fields)
		}
		if err != nil {
			t.Fatal(err)
		}
		return out.String(), fields
	}
	// In each, one field of the JSON that says the same.
	fields := map[string]string{
		"handoff": "handoffs", "handoff call": "handoffs", "signal": "handoffs", "timer": "handoffs", "pending": "pending", "children": "children",
		"child": "handoffs", "budget": "budgets", "short": "budgets", "retried": "details", "dead": "details", "fork": "details", "paused": "details", "crashes": "details",
		"cancelling": "details", "unreadable": "unreadable", "places": "holders", "keys": "holders", "rates": "queue", "stopped": "queue",
		"approval": "approvals", "approval call": "approvals", "switch": "switches", "probed": "effects", "contradicted": "effects",
	}
	for name, field := range fields {
		t.Run(name, func(t *testing.T) {
			got, fs := ask(t, w.names[name])
			file := filepath.Join("testdata", "why", strings.ReplaceAll(name, " ", "_")+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s has changed (-update writes it):\n%s", file, got)
			}
			for line := range strings.Lines(got) {
				if !strings.HasPrefix(line, "  ledgerctl") && len([]rune(strings.TrimSuffix(line, "\n"))) > 80 {
					t.Errorf("wider than 80: %q", line)
				}
			}
			if len(fs[field]) == 0 {
				t.Errorf("-o json has no %s", field)
			}
		})
	}
}
