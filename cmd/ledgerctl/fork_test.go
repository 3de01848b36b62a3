package main

import (
	"bytes"
	"context"
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
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
)

// mailer is a model that asks for one mail to whoever it is told and then says
// that it is sent, and the tool that sends it.
type mailer struct {
	mu   sync.Mutex
	to   string // empty: the model fails
	sent []string
}

func (m *mailer) ask(to string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.to = to
}

func (m *mailer) mails() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.sent)
}

// Call implements [model.Model].
func (m *mailer) Call(_ context.Context, r model.Request) (model.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.to == "" {
		return model.Response{}, &model.Error{Kind: "invalid_request", Err: errors.New("not today")}
	}
	if slices.ContainsFunc(r.Messages, func(m model.Message) bool { return m.Role == model.Assistant }) {
		return model.Response{Model: r.Model, StopReason: "end_turn", Text: "Sent."}, nil
	}
	args := json.RawMessage(fmt.Sprintf(`{"to":%q}`, m.to))
	return model.Response{Model: r.Model, StopReason: "tool_use", Calls: []events.ToolCall{{Name: "send_mail", Arguments: args}}}, nil
}

func (m *mailer) tool(t *testing.T) tools.Tool {
	send, err := tools.New(tools.Definition{Name: "send_mail", Description: "Sends a mail.", Effect: tools.Destructive, Trust: tools.Own},
		func(_ context.Context, _ *tools.Invocation, in struct {
			To string `json:"to"`
		},
		) (string, error) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.sent = append(m.sent, in.To)
			return "mail to " + in.To, nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return send
}

// TestForkEffectsEndToEnd forks with ledgerctl beside a worker that works on the
// same directory: simulate does nothing, ask waits for a person, and a fork that
// is queued again asks as it did before.
func TestForkEffectsEndToEnd(t *testing.T) {
	dir, m := t.TempDir(), &mailer{to: "ann"}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	sys, err := system.Open(ctx, system.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := tools.NewRegistry(m.tool(t))
	if err != nil {
		t.Fatal(err)
	}
	agent := &agents.Agent{Name: "mailer", Model: "script", Loop: "singleshot", Tools: []string{"send_mail"}, Prompt: "Send the mail."}
	work, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() {
		worked <- sys.Work(work, runtime.Config{Agents: []*agents.Agent{agent}, Tools: reg, Models: map[string]model.Model{"script": m}}, true)
	}()
	defer func() {
		stop()
		if err := <-worked; err != nil {
			t.Error(err)
		}
		sys.Close()
	}()
	ctl := func(args ...string) []byte {
		t.Helper()
		var out, errs bytes.Buffer
		if code := newApp(nil, &out, &errs, time.Now).run(ctx, append(args, "--dir", dir)); code != 0 {
			t.Fatalf("ledgerctl %s: exit %d: %s", strings.Join(args, " "), code, errs.String())
		}
		return out.Bytes()
	}
	until := func(id events.RunID, parked bool, want ledger.State) ledger.Run {
		t.Helper()
		r, err := sys.Client().Wait(ctx, id, parked)
		if err != nil || r.State != want {
			t.Fatalf("run %s is %s (%s %s), %v; want %s", id, r.State, r.ParkReason, r.Error, err, want)
		}
		return r
	}
	mailed := func(want ...string) {
		t.Helper()
		if d := cmp.Diff(want, m.mails()); d != "" {
			t.Fatalf("mails (-want +got):\n%s", d)
		}
	}
	type shown struct {
		Run     events.RunID
		ForkOf  *forkView    `json:"fork_of"`
		RetryOf events.RunID `json:"retry_of"`
	}
	view := func(b []byte) (v shown) {
		t.Helper()
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		return v
	}
	approve := func(id events.RunID) {
		t.Helper()
		var as []approvalView
		if err := json.Unmarshal(ctl("approvals", "--run", id.String(), "-o", "json"), &as); err != nil || len(as) != 1 || as[0].Why != ledger.WhyFork {
			t.Fatalf("approvals %+v, %v", as, err)
		}
		ctl("approve", as[0].ID)
		until(id, false, ledger.Finished)
	}
	fork := func(of events.RunID, effects string) events.RunID {
		t.Helper()
		return view(ctl("fork", of.String(), "--from", "2", "--effects", effects, "-o", "json")).Run
	}

	r, _, err := sys.Client().Submit(ctx, runtime.Submit{Agent: "mailer", Input: "write", ClientKey: "one"})
	if err != nil {
		t.Fatal(err)
	}
	until(r.ID, true, ledger.Finished)
	mailed("ann")

	m.ask("bob")
	f := fork(r.ID, "simulate")
	until(f, true, ledger.Finished)
	mailed("ann")
	if got := string(ctl("calls", "show", f.String()+"/t1.c0", "-o", "json")); !strings.Contains(got, "imulat") {
		t.Errorf("nothing says that the call was simulated: %s", got)
	}

	f = fork(r.ID, "ask")
	if p := until(f, true, ledger.Parked); p.ParkReason != events.ParkApproval {
		t.Fatalf("fork waits for %s", p.ParkReason)
	}
	mailed("ann")
	approve(f)
	mailed("ann", "bob")

	// The model fails: the fork is dead, and is queued again as the fork it was.
	m.ask("")
	f = fork(r.ID, "ask")
	until(f, true, ledger.Failed)
	m.ask("eve")
	again := view(ctl("runs", "requeue", f.String(), "--reason", "the model is back", "-o", "json"))
	if again.ForkOf == nil || again.ForkOf.Run != r.ID || again.ForkOf.Seq != 2 || again.ForkOf.Effects != ledger.ForkAsk || again.RetryOf != f {
		t.Fatalf("requeued: %+v", again)
	}
	if p := until(again.Run, true, ledger.Parked); p.ParkReason != events.ParkApproval {
		t.Fatalf("requeued fork waits for %s", p.ParkReason)
	}
	mailed("ann", "bob")
	approve(again.Run)
	mailed("ann", "bob", "eve")
}
