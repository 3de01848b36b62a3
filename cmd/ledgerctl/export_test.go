package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
)

// TestExportKilled kills an export at several moments, for real, and gives it again:
// it comes to the same bytes.
func TestExportKilled(t *testing.T) {
	dir := t.TempDir()
	err := fillWith(dir, sqlstore.Config{}, func(f *filler) {
		for range 30 {
			h := f.take(f.submit(ledger.Submission{Owner: "u-17"}), "w1", time.Hour)
			h.note(events.TurnStarted{Turn: 1})
			call := events.CallID{Turn: 1}
			h.note(events.ToolExecutionStarted{Call: call, Attempt: 1, Tool: "look", Effect: "readonly", At: f.now})
			for i := range 400 {
				h.note(events.ToolExecutionProgress{Call: call, Attempt: 1, Tool: "look", Progress: fmt.Sprint("page ", i), At: f.now})
			}
			h.note(events.ToolExecutionFinished{Call: call, Attempt: 1, Tool: "look", Result: events.ToolResult{Status: "completed"}, At: f.now})
			h.finish(events.RunFinished{StoppedBy: events.StoppedBySilent, Turns: 1}, ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedBySilent})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	bin, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	export := func(to string) *exec.Cmd {
		// As testscript runs the program: under its name.
		c := exec.Command(bin, "export", "--dir", dir, "--to", to)
		c.Args[0] = "ledgerctl"
		return c
	}
	link := filepath.Join(t.TempDir(), "ledgerctl")
	if err := os.Symlink(bin, link); err != nil {
		t.Fatal(err)
	}
	bin = link
	whole := filepath.Join(t.TempDir(), "out")
	if out, err := export(whole).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want, err := os.ReadFile(filepath.Join(whole, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for _, at := range []int{1, len(want) / 3, len(want) / 2, len(want) * 4 / 5} {
		to := filepath.Join(t.TempDir(), "out")
		c := export(to)
		var said bytes.Buffer
		c.Stderr = &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- c.Wait() }()
		for alive := true; alive; {
			select {
			case err := <-ended:
				if err != nil {
					t.Fatalf("%v: %s", err, said.String())
				}
				alive = false // it was quicker
			default:
				info, err := os.Stat(filepath.Join(to, "events.jsonl"))
				if err != nil || info.Size() < int64(at) {
					continue
				}
				_ = c.Process.Signal(syscall.SIGKILL)
				if <-ended != nil {
					killed++
				}
				alive = false
			}
		}
		if _, err := os.Stat(filepath.Join(to, "manifest.json")); os.IsNotExist(err) {
			if out, err := export(to).CombinedOutput(); err != nil || !bytes.Contains(out, []byte("went on with an export")) {
				t.Fatalf("at %d bytes: %v: %s", at, err, out)
			}
		}
		for _, name := range []string{"events.jsonl", "calls.jsonl", "runs.jsonl", "heads.jsonl"} {
			a, aerr := os.ReadFile(filepath.Join(whole, name))
			b, berr := os.ReadFile(filepath.Join(to, name))
			if aerr != nil || berr != nil || !bytes.Equal(a, b) {
				t.Errorf("at %d bytes: %s has %d bytes, want %d as they were: %v %v", at, name, len(b), len(a), aerr, berr)
			}
		}
	}
	if killed < 2 {
		t.Errorf("void: only %d exports were killed", killed)
	}
}
