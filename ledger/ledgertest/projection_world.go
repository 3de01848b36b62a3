package ledgertest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/canonical"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// TestProjection checks what the projector writes, what is asked of it and how
// it is verified.
func TestProjection(t *testing.T, open func(t *testing.T) Harness) {
	for _, g := range []struct {
		name  string
		tests []conformance
	}{
		{"projection", projectionTests}, {"projector", projectorTests}, {"archive", archiveTests}, {"queries", queryTests}, {"verify", verifyTests},
	} {
		t.Run(g.name, func(t *testing.T) {
			for _, c := range g.tests {
				t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
			}
		})
	}
}

// sent is the history of an actor that went to the journal and nowhere else.
func (a *actor) sent() []events.Sealed {
	es := a.prefix
	a.prefix = nil
	return es
}

// opening is how every history starts.
func (a *actor) opening() {
	a.note(events.RunQueued{
		Agent: a.run.Agent, Owner: a.run.Owner, Root: a.run.Root, Parent: a.run.Parent,
		Input: a.run.Input, ClientKey: a.run.ClientKey, Queue: a.run.Queue, QueuedAt: a.run.CreatedAt, Loop: a.run.Loop, Prompt: a.run.Prompt,
	})
	a.note(events.RunStarted{Worker: a.worker, Agent: a.run.Agent, Model: "m", Loop: "revise", LoopVersion: 1})
}

// turn is a turn with n readonly calls, of which the last one is blocked.
func (a *actor) turn(turn, n int) {
	a.note(events.TurnStarted{Turn: turn})
	a.note(events.ModelCallStarted{Turn: turn, Attempt: 1, Model: "m", Messages: turn})
	cost := events.PicoUSD(1_000_000 + turn)
	a.note(events.ModelCallFinished{
		Turn: turn, Attempt: 1, Model: "m", ServedModel: "m-1", StopReason: "tool_use",
		Usage: events.Usage{Input: 100, Output: 10}, Cost: &cost, Rates: &events.Rates{Table: "t", Input: 3, Output: 4},
	})
	for i := range n {
		id := events.CallID{Turn: turn, Index: i}
		if i > 0 && i == n-1 {
			a.note(events.ToolExecutionBlocked{
				Call: id, Tool: "shell", Arguments: json.RawMessage(`{"cmd":"ls"}`), Reason: events.BlockedToolDenied,
				Result: events.ToolResult{Status: "failed", Error: "denied"},
			})
			continue
		}
		a.note(events.ToolExecutionStarted{Call: id, Attempt: 1, Tool: "search", Effect: "readonly", Arguments: json.RawMessage(`{"q":"<a>"}`)})
		a.note(events.ToolExecutionProgress{Call: id, Attempt: 1, Tool: "search", Progress: "half", Metadata: json.RawMessage(`{"n":1}`)})
		result := events.ToolResult{Status: "completed", Output: "found & kept", Trust: "external"}
		if i%2 == 0 {
			result.Cost = &cost
		}
		a.note(events.ToolExecutionFinished{Call: id, Attempt: 1, Tool: "search", Result: result, LatencyMS: 7})
	}
}

func (a *actor) finished() { a.note(events.RunFinished{StoppedBy: events.StoppedByFinish, Turns: 1}) }

// message is one journal message with es.
func message(worker string, seq uint64, es ...events.Sealed) ledger.Incoming {
	m := events.Message{Worker: worker, Sequence: seq, Data: events.AppendMessage(nil, es)}
	in := ledger.Incoming{Message: m}
	in.Events, in.Rejected, in.Err = events.ParseMessage(m.Data)
	return in
}

// project projects es as one message.
func (h Harness) project(t tb, es ...events.Sealed) ledger.Projected {
	t.Helper()
	p, err := h.Store.Project(t.Context(), []ledger.Incoming{message("w", 1, es...)})
	if err != nil {
		t.Fatalf("project: %v", err)
	}
	return p
}

// foldOf is a run's row of run_folds.
func (h Harness) foldOf(t tb, run events.RunID) (folded, top uint64, incomplete string) {
	t.Helper()
	err := h.DB.Read(t.Context(), func(ctx context.Context, tx sqlstore.Tx) error {
		return tx.QueryRow(ctx, `SELECT folded_seq, top_seq, incomplete FROM run_folds WHERE run_id = $1`, run).Scan(&folded, &top, &incomplete)
	})
	if err != nil {
		t.Fatalf("read fold of run %s: %v", run, err)
	}
	return folded, top, incomplete
}

// wantRows compares every projection of a run with what folding its history
// in memory gives.
func (h Harness) wantRows(t tb, history []events.Sealed) {
	t.Helper()
	run := history[0].Envelope().RunID
	f := ledger.NewFold(run)
	var want ledger.Rows
	for _, s := range history {
		e, err := s.Decode()
		if err == nil {
			err = f.Apply(e, &want)
		}
		if err != nil {
			t.Fatalf("fold: %v", err)
		}
	}
	calls, err := h.Store.Calls(t.Context(), ledger.CallFilter{Run: run, All: true, Limit: 10_000})
	if err != nil {
		t.Fatalf("calls: %v", err)
	}
	slices.Reverse(calls)
	models, err := h.Store.ModelCalls(t.Context(), run)
	if err != nil {
		t.Fatalf("model calls: %v", err)
	}
	if len(calls) != len(want.Calls) || len(models) != len(want.Models) {
		t.Fatalf("run %s: %d calls and %d model calls, want %d and %d", run, len(calls), len(models), len(want.Calls), len(want.Models))
	}
	for i, c := range calls {
		if d := ledger.Differences(c, want.Calls[i]); d != "" {
			t.Errorf("run %s seq %d: %s", run, c.Seq, d)
		}
	}
	for i, m := range models {
		if d := ledger.Differences(m, want.Models[i]); d != "" {
			t.Errorf("run %s seq %d: %s", run, m.Seq, d)
		}
	}
	h.wantTotals(t, f)
	if folded, top, incomplete := h.foldOf(t, run); folded != f.Seq || top != f.Seq || incomplete != "" {
		t.Errorf("run %s: folded %d of %d, incomplete %q; want %d", run, folded, top, incomplete, f.Seq)
	}
}

func (h Harness) wantTotals(t tb, f *ledger.Fold) {
	t.Helper()
	sums, err := h.Store.Summaries(t.Context(), ledger.RunFilter{Limit: 10_000})
	if err != nil {
		t.Fatalf("summaries: %v", err)
	}
	for _, s := range sums {
		if s.ID != f.Run {
			continue
		}
		got := ledger.Totals{
			Tenant: s.Tenant, Owner: s.Owner, Agent: s.Agent, Events: s.Events, Turns: s.Turns, ModelCalls: s.ModelCalls, ToolCalls: s.ToolCalls,
			Destructive: s.Destructive, Repeated: s.Repeated, Blocked: s.Blocked, Doubtful: s.Doubtful, Resumes: s.Resumes,
			InputTokens: s.InputTokens, OutputTokens: s.OutputTokens, Cost: s.Cost, Unpriced: s.Unpriced, Unmeasured: s.Unmeasured,
			FirstAt: s.FirstAt, LastAt: s.LastAt, State: f.Totals.State,
		}
		if d := ledger.Differences(got, f.Totals); d != "" {
			t.Errorf("summary of run %s: %s", f.Run, d)
		}
		return
	}
	t.Errorf("no summary of run %s", f.Run)
}

// wantWhole verifies a run and wants no fault.
func (h Harness) wantWhole(t tb, run events.RunID) {
	t.Helper()
	for _, f := range h.verify(t, run) {
		if f.Kind != ledger.Note {
			t.Errorf("verify: %s seq %d: %s", f.Kind, f.Seq, f.Text)
		}
	}
}

func (h Harness) verify(t tb, run events.RunID) (fs []ledger.Finding) {
	t.Helper()
	_, err := h.Store.Verify(t.Context(), run, func(f ledger.Finding) error {
		fs = append(fs, f)
		return nil
	})
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	return fs
}

// forge makes an event that Seal would refuse, with a hash that fits.
func forge(t tb, env events.Envelope, data string) events.Sealed {
	t.Helper()
	raw, err := canonical.Marshal(struct {
		events.Envelope
		Data json.RawMessage `json:"data"`
	}{env, json.RawMessage(data)})
	if err != nil {
		t.Fatalf("forge: %v", err)
	}
	s, err := events.Parse(raw, sha256.Sum256(raw))
	if err != nil {
		t.Fatalf("forge: %v", err)
	}
	return s
}

// forged records an event that Seal would refuse.
func (a *actor) forged(typ events.Type, version int, data string) events.Sealed {
	a.t.Helper()
	s := forge(a.t, events.Envelope{
		ID: testIDs.Event(), RunID: a.run.ID, Seq: a.seq + 1, Epoch: a.lease.Epoch, Type: typ, Version: version,
		Time: a.last, Tenant: a.run.Tenant, Prev: a.prev,
	}, data)
	a.seq, a.prev = a.seq+1, s.Hash()
	a.prefix = append(a.prefix, s)
	return s
}

// shuffled gives es in a random order, some of them twice, in messages and batches.
func shuffled(r *rand.Rand, es []events.Sealed) [][]ledger.Incoming {
	all := slices.Clone(es)
	for _, e := range es {
		if r.IntN(4) == 0 {
			all = append(all, e)
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	var batches [][]ledger.Incoming
	for seq := uint64(1); len(all) > 0; {
		var batch []ledger.Incoming
		for range 1 + r.IntN(4) {
			n := min(len(all), 1+r.IntN(9))
			batch = append(batch, message(fmt.Sprintf("w%d", r.IntN(3)), seq, all[:n]...))
			all = all[n:]
			seq++
		}
		batches = append(batches, batch)
	}
	return batches
}
