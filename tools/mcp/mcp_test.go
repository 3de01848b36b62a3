package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/mcp"
	"github.com/daybookhq/daybook/tools/mcp/mcptest"
	"github.com/daybookhq/daybook/tools/toolstest"
)

const (
	dirVariable = "MCPTEST_DIR"
	canary      = "canary-7f3Kq9Zx2Lm"
)

// The test program is also the server that it starts.
func TestMain(m *testing.M) {
	if dir := os.Getenv(dirVariable); dir != "" {
		s := &mcptest.Server{Dir: dir, Secret: os.Getenv("API_KEY"), Silent: os.Getenv("SILENT") != "", Spawn: os.Getenv("SPAWN") != ""}
		if word := os.Getenv("LAST_WORDS"); word != "" {
			fmt.Fprintln(os.Stderr, strings.Repeat("noise ", 5000), word, os.Getenv("API_KEY"))
			os.Exit(1)
		}
		s.Stdio(os.Stdin, os.Stdout)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// place is where a server runs, and what it did.
type place struct {
	t      *testing.T
	dir    string
	http   *mcptest.Server // nil over stdio
	web    *httptest.Server
	vault  *redact.Vault
	redact *redact.Redactor
	server mcp.Server
}

// overEach runs f over both transports.
func overEach(t *testing.T, f func(t *testing.T, p *place)) {
	for name, start := range map[string]func(*testing.T) *place{"stdio": overStdio, "http": overHTTP} {
		t.Run(name, func(t *testing.T) { f(t, start(t)) })
	}
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{t: t, dir: t.TempDir(), redact: redact.New(redact.Config{})}
	p.vault = redact.NewVault(p.redact)
	if err := p.vault.Set("key", canary); err != nil {
		t.Fatal(err)
	}
	return p
}

func overStdio(t *testing.T) *place {
	t.Helper()
	p := newPlace(t)
	p.server = mcp.Server{
		Name: "wild", Command: []string{os.Args[0]},
		Env: map[string]string{dirVariable: p.dir, "API_KEY": "secret://key", "GORACE": "atexit_sleep_ms=0"},
	}
	return p
}

func overHTTP(t *testing.T) *place {
	t.Helper()
	p := newPlace(t)
	p.http = &mcptest.Server{Dir: p.dir, Secret: canary}
	p.web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+canary {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		p.http.ServeHTTP(w, r)
	}))
	t.Cleanup(p.web.Close)
	p.server = mcp.Server{Name: "wild", URL: p.web.URL + "/mcp", Headers: map[string]string{"Authorization": "Bearer secret://key"}}
	return p
}

// open opens the server with tools declared as given.
func (p *place) open(declared map[string]mcp.Tool) *mcp.Servers {
	p.t.Helper()
	s, err := p.tryOpen(declared)
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func (p *place) tryOpen(declared map[string]mcp.Tool) (*mcp.Servers, error) {
	p.t.Helper()
	p.server.Tools = declared
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	s, err := mcp.Open(ctx, mcp.Config{Servers: []mcp.Server{p.server}, Secrets: p.vault, Redactor: p.redact})
	if err == nil {
		p.t.Cleanup(func() { _ = s.Close() })
	}
	return s, err
}

func (p *place) noted(event string) int { return mcptest.Noted(p.dir, event) }

// find returns the tool of a name.
func find(t *testing.T, s *mcp.Servers, name string) tools.Tool {
	t.Helper()
	for _, x := range s.Tools() {
		if x.Definition().Name == name {
			return x
		}
	}
	t.Fatalf("no tool %s", name)
	return nil
}

// try dispatches a call and returns what became of it.
func (p *place) try(s *mcp.Servers, name, args string) (tools.Disposition, []events.Payload) {
	p.t.Helper()
	return p.tryIn(toolstest.NewLedger().Run(), 1, s, name, args)
}

func (p *place) tryIn(run *toolstest.Run, turn int, s *mcp.Servers, name, args string) (tools.Disposition, []events.Payload) {
	p.t.Helper()
	return toolstest.DispatchAndCollect(p.t, toolstest.Probe{
		Tool: find(p.t, s, name), Arguments: json.RawMessage(args), Run: run, Call: events.CallID{Turn: turn}, Redactor: p.redact,
	})
}

// waitFor polls until ok, for at most ten seconds.
func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(10 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s: it did not come to that in 10 s", what)
		}
	}
}

func TestToolsConform(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		s := p.open(map[string]mcp.Tool{"meta": {Effect: tools.Readonly}})
		toolstest.TestTool(t, find(t, s, "wild__work"), toolstest.ToolCase{ValidArguments: json.RawMessage(`{"id":"a"}`)})
		toolstest.TestTool(t, find(t, s, "wild__meta"), toolstest.ToolCase{ValidArguments: json.RawMessage(`{}`)})
		if n := p.noted(mcptest.Executed); n != 1 {
			t.Errorf("executed %d times, want once: the kit asks twice", n)
		}
	})
}

// A call whose answer is lost after the work was done.
func TestLostAnswerIsInDoubt(t *testing.T) {
	for _, name := range []string{"drop", "malformed"} {
		overEach(t, func(t *testing.T, p *place) {
			s := p.open(nil)
			run := toolstest.NewLedger().Run()
			d, es := p.tryIn(run, 1, s, "wild__"+name, `{"id":"refund-1"}`)
			if d.State != tools.StateInDoubt || d.Cause != tools.CauseUnclearError {
				t.Fatalf("%s: %+v, want it in doubt; %v", name, d, toolstest.TypesOf(es))
			}
			// Asked again it is not run, and another call works.
			if d, _ := p.tryIn(run, 2, s, "wild__"+name, `{"id":"refund-1"}`); d.State != tools.StateInDoubt {
				t.Errorf("again: %+v", d)
			}
			if d, _ := p.tryIn(run, 3, s, "wild__work", `{"id":"other"}`); d.Result.Output != "done other" {
				t.Errorf("another call afterwards: %+v", d)
			}
			if n := p.noted(mcptest.Executed); n != 2 {
				t.Errorf("executed %d times, want each of two once", n)
			}
		})
	}
}

// A readonly call whose answer is lost has failed, and is not sent again here.
func TestLostAnswerOfReadonlyFails(t *testing.T) {
	overEach(t, func(t *testing.T, p *place) {
		s := p.open(map[string]mcp.Tool{"drop": {Effect: tools.Readonly}})
		d, _ := p.try(s, "wild__drop", `{"id":"x"}`)
		if d.State != tools.StateDone || d.Result.Status != tools.Failed || !strings.Contains(d.Result.Error, "there is no answer") {
			t.Errorf("%+v", d)
		}
		if n := p.noted(mcptest.Executed); n != 1 {
			t.Errorf("executed %d times, want once", n)
		}
	})
}
