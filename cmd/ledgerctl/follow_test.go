package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// TestFollow follows runs and calls in three formats while a run is cancelled and another
// does its work: each change is a line, an interrupt ends it with 0, and calls of one run
// end when the run has.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	if err := fill(dir); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	following, interrupt := context.WithCancel(ctx)
	defer interrupt()
	var wg sync.WaitGroup
	codes := make(chan int, 9)
	start := func(ctx context.Context, args ...string) *paper {
		p := new(paper)
		wg.Go(func() {
			a := newApp(strings.NewReader(""), p, p, func() time.Time { return asked })
			codes <- a.run(ctx, append(args, "--every", "10ms", "--dir", dir))
		})
		return p
	}
	see := func(p *paper, what string) {
		t.Helper()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for !strings.Contains(p.String(), what) {
			select {
			case <-ctx.Done():
				t.Fatalf("%q is not shown:\n%s", what, p)
			case <-tick.C:
			}
		}
	}
	lines := start(following, "runs", "list", "--follow", "-o", "jsonl", "--limit", "2")
	table := start(following, "runs", "list", "--follow", "--filter", `agent == "hello"`)
	names := start(following, "calls", "list", "--follow", "--jq", ".run+.call+.status", "--limit", "1")
	see(lines, queuedRun)
	see(table, queuedRun)
	see(names, "\n")
	if n := strings.Count(lines.String(), "\n"); n != 2 {
		t.Errorf("it begins with %d lines:\n%s", n, lines)
	}

	// Another process does something.
	var out paper
	if code := newApp(strings.NewReader(""), &out, &out, func() time.Time { return asked }).run(ctx, []string{"cancel", queuedRun, "--reason", "x", "--dir", dir}); code != 0 {
		t.Fatalf("cancel: %s", &out)
	}
	see(lines, `"state":"cancelling"`)
	see(table, "cancelling")

	f := &filler{ctx: ctx, seal: redact.New(redact.Config{}), now: asked, key: 100}
	f.ids = events.NewIDs(func() time.Time { return f.now }, rand.NewChaCha8([32]byte{8}))
	f.path = filepath.Join(dir, "ledger.db")
	var err error
	f.st, err = sqlite.Open(ctx, sqlite.Config{Path: f.path, Now: func() time.Time { return f.now }, Store: sqlstore.Config{Redactor: f.seal, IDs: f.ids}})
	if err != nil {
		t.Fatal(err)
	}
	fold := func() {
		t.Helper()
		f.now = f.now.Add(time.Minute)
		if _, err := f.st.FoldBehind(ctx, 0, 100); err != nil || f.err != nil {
			t.Fatal(err, f.err)
		}
	}
	cost := events.PicoUSD(1)
	h := f.take(f.submit(ledger.Submission{Queue: "followed"}), "w9", time.Hour)
	see(lines, h.run.ID.String())
	h.turn(1, &cost, "check_refund")
	h.note(events.ToolExecutionStarted{Call: events.CallID{Turn: 1}, Attempt: 1, Tool: "check_refund", Effect: "readonly", Arguments: json.RawMessage(`{"order":7}`), At: f.now})
	h.flush()
	fold()
	see(names, h.run.ID.String()+"t1.c0started\n")
	one := start(ctx, "calls", "list", "--follow", "--run", h.run.ID.String(), "-o", "csv", "--columns", "call,status")
	see(one, "t1.c0,started")
	h.note(events.ToolExecutionFinished{Call: events.CallID{Turn: 1}, Attempt: 1, Tool: "check_refund", Result: events.ToolResult{Status: "completed"}, At: f.now})
	h.finish(events.RunFinished{StoppedBy: events.StoppedBySilent, Output: json.RawMessage(`"done"`), Turns: 1}, ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedBySilent})
	fold()
	see(names, h.run.ID.String()+"t1.c0finished\n")
	see(one, "t1.c0,finished")
	if code := <-codes; code != 0 { // that of the run, which has ended
		t.Errorf("exit code %d: %s", code, one)
	}
	interrupt()
	wg.Wait()
	for range 3 {
		if code := <-codes; code != 0 {
			t.Errorf("exit code %d:\n%s%s%s", code, lines, table, names)
		}
	}
	if err := f.st.Close(); err != nil {
		t.Fatal(err)
	}
	last := map[string]string{}
	for line := range strings.Lines(lines.String()) {
		var v struct{ Run, State string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if last[v.Run] == v.State && v.State != "running" {
			t.Errorf("run %s is %s twice", v.Run, v.State)
		}
		last[v.Run] = v.State
	}
	if last[h.run.ID.String()] != "finished" || strings.Count(table.String(), "RUN ") != 1 || strings.Contains(table.String(), "refunds") {
		t.Errorf("in the end:\n%s\n%s", lines, table)
	}
	if n := strings.Count(names.String(), h.run.ID.String()); n != 2 {
		t.Errorf("%d lines of the call of %s:\n%s", n, h.run.ID, names)
	}
}
