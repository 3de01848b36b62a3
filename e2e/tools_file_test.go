//go:build daybook_faults

package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/internal/testenv"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/runtime/shareddb"
	"github.com/daybookhq/daybook/runtime/shelf"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/mcp/mcptest"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
	"github.com/daybookhq/daybook/tools/sharedmemory"
)

// toolsFile turns on what the test calls. Every tool that can gets the secret.
const toolsFile = `
http_request:
  allow: [docs.example.com]
  headers: [{host: docs.example.com, name: Authorization, prefix: "Bearer ", secret: api-token}]
http_post:
  allow: [docs.example.com]
  headers: [{host: docs.example.com, name: Authorization, prefix: "Bearer ", secret: api-token}]
publish:
  url: https://docs.example.com/publications
  allow: [docs.example.com]
  headers: [{host: docs.example.com, name: Authorization, prefix: "Bearer ", secret: api-token}]
extract:
  allow: [docs.example.com]
  headers: [{host: docs.example.com, name: Authorization, prefix: "Bearer ", secret: api-token}]
web_search:
  sonar: {url: "https://search.example.com", secret: api-token}
paper_search:
  openalex: {url: "https://search.example.com", secret: api-token}
code_exec: {sandbox: javascript, timeout: 20s}
memory: {root: owner}
shared_memory:
  ledger: true
  folders: [{id: team, description: how we work, folder: team}]
command:
  dir: checkout
  programs: [{name: printenv, forms: [{operands: 1}]}, {name: cat, forms: [{operands: 1}]}]
  env: [{name: TOKEN, secret: api-token}]
  effect: readonly
mcp:
  crm:
    url: https://mcp.example.com/mcp
    headers: {Authorization: "Bearer secret://api-token"}
    tools: {secret: {effect: readonly}}
`

// step is a call of the scripted model and a piece of what it is answered.
type step struct{ tool, arguments, want string }

func toolsFileSteps() []step {
	return []step{
		{"calculate", `{"expression":"0.1+0.2"}`, "0.3"},
		{"json_query", `{"document":"{\"a\":[{\"b\":41}]}","path":"$.a[0].b"}`, "41"},
		{"http_request", `{"url":"https://docs.example.com/page"}`, "you said [withheld]"},
		{"http_post", `{"url":"https://docs.example.com/orders","content_type":"text/plain","body":"key secret://api-token"}`, "you said"},
		{"publish", `{"name":"report.md","content":"# Report"}`, "https://docs.example.com/public/report.md"},
		{"extract", `{"url":"https://docs.example.com/page"}`, "Otters"},
		{"web_search", `{"query":"otters"}`, "otters hold hands"},
		{"paper_search", `{"query":"otters"}`, "On otters"},
		{"code_exec", `{"code":"console.log(6*7, 'secret://api-token'.length > 0 ? 'secret://api-token' : '')"}`, "42"},
		{"command", `{"command":"cat notes.txt"}`, "kept in the checkout"},
		{"command", `{"command":"printenv TOKEN"}`, ""},
		{"remember", `{"text":"the key is secret://api-token, and otters swim","context":"topic:otters"}`, ""},
		{"recall", `{"query":"otters swim"}`, "otters swim"},
		{"memory_list", `{}`, "team"},
		{"memory_read", `{"store":"team","path":"/guide.md"}`, "Guide for otters"},
		{"memory_read", `{"store":"kept","path":"/plan.md"}`, "Plan of the year"},
		{"crm__secret", `{}`, ""},
	}
}

// TestToolsFile runs an agent with the tools of a file, on the system as it is
// embedded and with the runner's own children, and searches all stores for the
// key that every service hands back.
func TestToolsFile(t *testing.T) {
	secret := "tok/" + rand.Text() + "+é\"" + rand.Text()
	home, dir := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(home, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tools.yaml", toolsFile)
	write("team/guide.md", "# Guide for otters\n\nThe key is "+secret+".\n")
	write("checkout/notes.txt", "kept in the checkout, with "+secret+"\n")

	net := netguardtest.New(t)
	net.Handle("docs.example.com", docsSite())
	net.Handle("search.example.com", searchSite())
	net.Handle("mcp.example.com", &mcptest.Server{Dir: t.TempDir(), Secret: secret})

	var log strings.Builder
	opts := system.Options{Dir: dir, Secrets: map[string]string{"api-token": secret}, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	sys, err := system.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer sys.Close()
	notes, err := memorydb.New(sys.Store.DB(), memorydb.Config{Redactor: sys.Redactor})
	if err != nil {
		t.Fatal(err)
	}
	shared, err := shareddb.New(sys.Store.DB(), shareddb.Config{Redactor: sys.Redactor})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, shared, secret)

	s, err := shelf.Load(t.Context(), filepath.Join(home, "tools.yaml"), shelf.Options{
		Child: []string{testenv.Build(t, "cmd/runner"), "tool-child"}, Secrets: opts.Secrets, Net: net.Net(), Logger: opts.Logger,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Connect(t.Context(), sys.Redactor, sys.Vault); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	var reg tools.Registry
	if err := s.Register(&reg, shelf.Parts{Redactor: sys.Redactor, Memory: notes, Shared: shared}); err != nil {
		t.Fatal(err)
	}
	steps := toolsFileSteps()
	agent := &agents.Agent{Name: "clerk", Model: "script", Loop: agents.DefaultLoop, Prompt: "Work.", Tools: []string{"finish"}, Limits: events.Limits{MaxTurns: 40}}
	var answers []scripted.Answer
	seen := map[string]bool{}
	for _, x := range steps {
		if !seen[x.tool] {
			agent.Tools = append(agent.Tools, x.tool)
		}
		seen[x.tool] = true
		answers = append(answers, scripted.Answer{Calls: []scripted.Call{{Name: x.tool, Arguments: x.arguments}}})
	}
	answers = append(answers, scripted.Answer{Calls: []scripted.Call{{Name: "finish", Arguments: `{"answer":"done"}`}}})

	ctx, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() {
		worked <- sys.Work(ctx, runtime.Config{
			Agents: []*agents.Agent{agent}, Tools: &reg, Models: map[string]model.Model{"script": scripted.Script(answers...)},
		}, true)
	}()
	c := sys.Client()
	r, _, err := c.Submit(t.Context(), runtime.Submit{Agent: "clerk", Input: "work", ClientKey: "1", Owner: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	r, err = c.Wait(t.Context(), r.ID, false)
	stop()
	if werr := <-worked; err != nil || werr != nil {
		t.Fatal(err, werr)
	}
	if r.State != ledger.Finished {
		t.Errorf("the run is %s: %s", r.State, r.Error)
	}
	results := resultsOf(t, sys.Store, r.ID)
	if len(results) != len(steps)+1 {
		t.Errorf("%d results of %d calls: %v", len(results), len(steps)+1, results)
	}
	for i, x := range steps {
		if i < len(results) && (!strings.HasPrefix(results[i], x.tool+" ok: ") || !strings.Contains(results[i], x.want)) {
			t.Errorf("%s %s: %s, want %q", x.tool, x.arguments, results[i], x.want)
		}
		if i < len(results) && strings.Contains(results[i], secret) {
			t.Errorf("%s hands the key on: %s", x.tool, results[i])
		}
	}
	sys.Close()
	logs := t.TempDir()
	if err := os.WriteFile(filepath.Join(logs, "log"), []byte(log.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	found, files := leaks(t, map[string]string{"the key": secret}, dir, logs)
	if len(found) > 0 || files < 4 {
		t.Errorf("%d files, leaks: %s", files, strings.Join(found, "\n"))
	}
	if found, _ := leaks(t, map[string]string{"the key": secret}, home); len(found) == 0 {
		t.Error("void: the search finds nothing where the key is")
	}
}

// resultsOf are what the calls of a run came to, in order.
func resultsOf(t *testing.T, st ledger.Store, run events.RunID) []string {
	t.Helper()
	names := map[events.CallID]string{}
	var all []string
	err := st.Events(t.Context(), run, 1, func(e events.Sealed) error {
		d, err := e.Decode()
		if err != nil {
			return err
		}
		switch p := d.Data.(type) {
		case events.ToolExecutionStarted:
			names[p.Call] = p.Tool
		case events.ToolExecutionFinished:
			all = append(all, names[p.Call]+" ok: "+string(p.Result.Output))
		case events.ToolExecutionError:
			all = append(all, names[p.Call]+" failed: "+p.Result.Error)
		case events.ToolExecutionBlocked:
			all = append(all, p.Tool+" blocked: "+p.Result.Error)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// fill puts a store with a document into the ledger's database.
func fill(t *testing.T, p *shareddb.Provider, secret string) {
	t.Helper()
	if _, err := p.PutStore(t.Context(), "default", sharedmemory.Info{ID: "kept"}, "ada"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Put(t.Context(), "default", "kept", "/plan.md", "# Plan of the year\n\nwith "+secret+"\n", "ada"); err != nil {
		t.Fatal(err)
	}
}

// docsSite says back what it is told, as careless hosts do.
func docsSite() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<html><head><title>Otters</title></head><body><article><h1>Otters</h1><p>Otters swim in rivers, and you said %s.</p></article></body></html>", r.Header.Get("Authorization"))
	})
	mux.HandleFunc("/orders", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "you said %s and %s", r.Header.Get("Authorization"), body)
	})
	mux.HandleFunc("/publications", func(w http.ResponseWriter, r *http.Request) {
		if len(r.Header.Get("Idempotency-Key")) != 64 {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"url":"https://docs.example.com/public/report.md"}`)
	})
	return mux
}

// searchSite is a search engine and an index of papers that say back the key.
func searchSite() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"model":"sonar","choices":[{"message":{"content":"otters hold hands, says %s"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`, strings.ReplaceAll(r.Header.Get("Authorization"), `"`, `\"`))
	})
	mux.HandleFunc("/works", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"meta":{"count":1},"results":[{"id":"https://openalex.org/W1","display_name":"On otters, by %s","publication_year":2020}]}`, strings.ReplaceAll(r.Header.Get("Authorization"), `"`, `\"`))
	})
	return mux
}
