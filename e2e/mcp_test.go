//go:build daybook_faults

package e2e

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/mcp"
	"github.com/daybookhq/daybook/tools/mcp/mcptest"
)

const mcpKey = "canary-8h2Lw0QvRz5"

// mcpWorker is one life of a worker with an MCP server.
type mcpWorker struct {
	t       *testing.T
	sys     *system.System
	servers *mcp.Servers
	stop    func()
}

// startMCP opens the system in dir and works. Each agent calls one tool of the
// server and then says that it is done.
func startMCP(t *testing.T, dir string, server mcp.Server, calls map[string]scripted.Call) *mcpWorker {
	t.Helper()
	sys, err := system.Open(t.Context(), system.Options{Dir: dir, Grace: 100 * time.Millisecond, Secrets: map[string]string{"key": mcpKey}})
	if err != nil {
		t.Fatal(err)
	}
	servers, err := mcp.Open(t.Context(), mcp.Config{Servers: []mcp.Server{server}, Secrets: sys.Vault, Redactor: sys.Redactor})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := tools.NewRegistry(servers.Tools()...)
	if err != nil {
		t.Fatal(err)
	}
	cfg := runtime.Config{Tools: reg, ShutdownGrace: 200 * time.Millisecond, Models: map[string]model.Model{}}
	for name, call := range calls {
		cfg.Agents = append(cfg.Agents, &agents.Agent{Name: name, Model: name, Loop: "singleshot", Tools: []string{call.Name}, Prompt: "Do it."})
		script := []scripted.Answer{{Calls: []scripted.Call{call}}, {Text: "Done."}}
		if call.Arguments == "" { // the call was made in an earlier life
			script = script[1:]
		}
		cfg.Models[name] = scripted.Script(script...)
	}
	work, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sys.Work(work, cfg, true) }()
	w := &mcpWorker{t: t, sys: sys, servers: servers}
	w.stop = func() {
		cancel()
		if err := errors.Join(<-done, servers.Close()); err != nil {
			t.Error(err)
		}
		sys.Close()
		w.stop = func() {}
	}
	t.Cleanup(func() { w.stop() })
	return w
}

// run submits a run and waits until it has ended or is parked.
func (w *mcpWorker) run(agent string) ledger.Run {
	w.t.Helper()
	return w.wait(w.submit(agent).ID, true)
}

func (w *mcpWorker) submit(agent string) ledger.Run {
	w.t.Helper()
	r, _, err := w.sys.Client().Submit(w.t.Context(), runtime.Submit{Agent: agent, Input: "please", ClientKey: agent})
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *mcpWorker) wait(id events.RunID, parked bool) ledger.Run {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	r, err := w.sys.Client().Wait(ctx, id, parked)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// mcpServers are the misbehaving server over both transports; it notes in dir.
func mcpServers() map[string]func(t *testing.T, dir string) mcp.Server {
	return map[string]func(t *testing.T, dir string) mcp.Server{
		"stdio": func(t *testing.T, dir string) mcp.Server {
			return mcp.Server{
				Name: "wild", Command: []string{testenv.Build(t, "tools/mcp/mcptest/wild")},
				Env: map[string]string{"MCPTEST_DIR": dir, "API_KEY": "secret://key"},
			}
		},
		"http": func(t *testing.T, dir string) mcp.Server {
			s := httptest.NewServer(&mcptest.Server{Dir: dir, Secret: mcpKey})
			t.Cleanup(s.Close)
			return mcp.Server{Name: "wild", URL: s.URL, Headers: map[string]string{"Authorization": "secret://key"}}
		},
	}
}

// TestMCPLostAnswer: an MCP server does the work and drops the connection. The
// run waits for a person, over a restart of the worker too, and the work is done
// once, whoever asks again.
func TestMCPLostAnswer(t *testing.T) {
	for name, start := range mcpServers() {
		t.Run(name, func(t *testing.T) {
			noted, dir := t.TempDir(), t.TempDir()
			server := start(t, noted)
			refund := scripted.Call{Name: "wild__drop", Arguments: `{"id":"refund"}`}
			w := startMCP(t, dir, server, map[string]scripted.Call{"refunder": refund, "leaker": {Name: "wild__secret", Arguments: `{}`}})
			if r := w.run("leaker"); r.State != ledger.Finished {
				t.Fatalf("the server's own secret: run is %s", r.State)
			}
			r := w.run("refunder")
			if r.State != ledger.Parked || r.ParkReason != events.ParkInDoubt {
				t.Fatalf("run is %s, %s; want it parked in doubt", r.State, r.ParkReason)
			}
			w.stop()

			w = startMCP(t, dir, server, map[string]scripted.Call{"refunder": {Name: "wild__drop"}, "other": {Name: "wild__work", Arguments: `{"id":"other"}`}})
			if o := w.run("other"); o.State != ledger.Finished {
				t.Fatalf("another run after the restart is %s", o.State)
			}
			if again := w.run("refunder"); again.ID != r.ID || again.State != ledger.Parked { // the same key is the same run
				t.Fatalf("after the restart the run is %s", again.State)
			}
			if n := strings.Count(notes(t, noted), "refund\n"); n != 1 {
				t.Fatalf("the refund was made %d times before it was resolved", n)
			}
			resolve(t, w, r)
			if r = w.wait(r.ID, false); r.State != ledger.Finished {
				t.Errorf("resolved, the run is %s", r.State)
			}
			w.stop()
			if n := strings.Count(notes(t, noted), "refund\n"); n != 1 {
				t.Errorf("the refund was made %d times", n)
			}
			if file := holding(t, dir, mcpKey); file != "" {
				t.Errorf("%s holds the server's key", file)
			}
		})
	}
}

// TestMCPWorkerLeaves: the worker is shut down while an MCP server is at work.
func TestMCPWorkerLeaves(t *testing.T) {
	for name, start := range mcpServers() {
		t.Run(name, func(t *testing.T) {
			noted, dir := t.TempDir(), t.TempDir()
			server := start(t, noted)
			w := startMCP(t, dir, server, map[string]scripted.Call{"hanger": {Name: "wild__hang", Arguments: `{"id":"refund"}`}})
			r := w.submit("hanger")
			err := poll(patience, func() error {
				if mcptest.Noted(noted, mcptest.Executed) == 0 {
					return errors.New("it is not at work")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			w.stop()
			w = startMCP(t, dir, server, map[string]scripted.Call{"hanger": {Name: "wild__hang"}})
			if r = w.wait(r.ID, true); r.State != ledger.Parked || r.ParkReason != events.ParkInDoubt {
				t.Errorf("run is %s, %s; want it parked in doubt", r.State, r.ParkReason)
			}
			w.stop()
			if n := strings.Count(notes(t, noted), "refund\n"); n != 1 {
				t.Errorf("the refund was made %d times", n)
			}
		})
	}
}

// resolve is a person's word that the effect took place, once it is quiescent.
func resolve(t *testing.T, w *mcpWorker, r ledger.Run) {
	t.Helper()
	err := poll(patience, func() error {
		_, err := w.sys.Store.Resolve(t.Context(), ledger.Resolution{OpKey: r.ParkKey, State: events.EffectApplied, By: "ann", Note: "the bank has it"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func notes(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, mcptest.Executed))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// holding returns the first file below dir that holds text.
func holding(t *testing.T, dir, text string) (file string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && bytes.Contains(b, []byte(text)) {
			file = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return file
}
