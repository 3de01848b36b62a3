//go:build unix

package shelf_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/bogus"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/command"
	"github.com/daybookhq/daybook/tools/extract"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/memory/memorytest"
	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/netguard/netguardtest"
	"github.com/daybookhq/daybook/tools/papers"
	"github.com/daybookhq/daybook/tools/sandbox/javascript"
	"github.com/daybookhq/daybook/tools/sandbox/wasm"
	"github.com/daybookhq/daybook/tools/search"
	"github.com/daybookhq/daybook/tools/sharedmemory"
	"github.com/daybookhq/daybook/tools/sharedmemory/folder"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// TestMain makes this program its own children, too: the parser of extract, a
// sandbox, and what command runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "shelf-extract":
			os.Exit(extract.Child(os.Stdin, os.Stdout))
		case "shelf-javascript":
			serve(javascript.Serve)
		case "shelf-wasm":
			serve(wasm.Serve)
		case "shelf-say":
			fmt.Println(os.Args[2:])
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

func serve(f func(io.Reader, io.Writer) error) {
	if err := f(os.Stdin, os.Stdout); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// entry is a tool and what the kit must know of it.
type entry struct {
	pkg  string
	tool tools.Tool
	args string // valid ones
	c    toolstest.ToolCase
}

func must[T any](tb testing.TB) func(T, error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

type spawner struct{}

func (spawner) Spawn(context.Context, *tools.Invocation, tools.Spawn) (events.RunID, error) {
	return events.NewIDs(nil, nil).Run(), nil
}

type past struct{}

func (past) Completed(string) []tools.PastCall { return nil }

type skills struct{}

func (skills) Skill(context.Context, string) (tools.SkillText, error) {
	return tools.SkillText{Text: "Ask first.", Trust: tools.Own}, nil
}

type recaller struct{}

func (recaller) Recall(_ context.Context, ids []string) ([]tools.Recalled, error) {
	out := make([]tools.Recalled, len(ids))
	for i, id := range ids {
		out[i] = tools.Recalled{ID: id, Text: "agent: the ferry leaves at nine"}
	}
	return out, nil
}

// table is every tool on the shelf, with the outside world played by servers of
// the test's.
func table(t *testing.T) []entry {
	t.Helper()
	return append(append(withoutNetwork(t), withNetwork(t)...), running(t)...)
}

func withoutNetwork(t *testing.T) []entry {
	t.Helper()
	handsOff := toolstest.ToolCase{HandsOff: true, Spawner: spawner{}}
	publish := func(context.Context, builtin.Publication) (string, error) { return "https://example.org/x", nil }
	all := []entry{
		{"builtin", builtin.Finish(), `{"answer":"42"}`, toolstest.ToolCase{}},
		{"builtin", builtin.Decline(), `{"because":"unsafe"}`, toolstest.ToolCase{}},
		{"builtin", builtin.Think(), `{"thought":"first the ferry"}`, toolstest.ToolCase{}},
		{"builtin", builtin.Calculate(), `{"expression":"6*7"}`, toolstest.ToolCase{}},
		{"builtin", must[tools.Tool](t)(builtin.CurrentTime(builtin.CurrentTimeConfig{})), `{"time_zone":"Europe/Berlin"}`, toolstest.ToolCase{}},
		{"builtin", builtin.DateMath(), `{"operation":"add","date":"2026-01-31","unit":"month","amount":1}`, toolstest.ToolCase{}},
		{"builtin", builtin.Dates(), `{"question":"30 days after 2026-03-01"}`, toolstest.ToolCase{}},
		{"builtin", builtin.JSONQuery(), `{"document":"{\"a\":[1]}","path":"a[0]"}`, toolstest.ToolCase{}},
		{"builtin", builtin.Notes(), `{"post":"buy a ferry ticket"}`, toolstest.ToolCase{Past: past{}}},
		{"builtin", builtin.LoadSkill(), `{"name":"refunds"}`, toolstest.ToolCase{Skills: skills{}}},
		{"builtin", builtin.RecallTurns(), `{"ids":"t1 t2"}`, toolstest.ToolCase{Recaller: recaller{}}},
		{"builtin", builtin.Publish(builtin.PublishConfig{Publish: publish}), `{"name":"a.md","content":"# A","media_type":"text/markdown"}`, toolstest.ToolCase{Hostile: true}},
		{"builtin", builtin.Escalate(builtin.EscalateConfig{}), `{"question":"may I?","background":"it is late"}`, handsOff},
		{"builtin", builtin.Wait(0), `{"seconds":60}`, handsOff},
		{"builtin", builtin.WaitForSignal(0), `{"name":"go","timeout_seconds":60}`, handsOff},
		{"builtin", builtin.Delegate("clerk"), `{"agent":"clerk","input":"x"}`, handsOff},
	}
	fixtures := map[string]string{
		"my_notes": `{"topic":"wifi"}`, "my_calendar": `{"day":"2026-08-03"}`, "my_recipes": `{"dish":"plum cake"}`, "dictionary": `{"word":"pelican"}`,
		"football_score": `{"club":"gravel rovers"}`, "gold_price": `{"karat":"22"}`, "prayer_times": `{"town":"Lower Quill"}`,
		"calculator": `{"a":"0.1","operation":"add","b":"0.2"}`, "feed_cat": `{"portion":"small"}`, "order_pizza": `{"pizza":"quattro","size":"large"}`,
		"book_taxi": `{"from":"home","to":"ferry"}`, "ask_mum": `{"question":"where is the letter?"}`,
	}
	for _, tool := range bogus.Tools() {
		all = append(all, entry{"bogus", tool, fixtures[tool.Definition().Name], toolstest.ToolCase{Hostile: true}})
	}
	m := must[*memory.Memory](t)(memory.New(memory.Options{
		Client: memorytest.NewStore(), Root: memory.FixedRoot("user:ada"), Redactor: redact.New(redact.Config{}),
	}))
	remembered := map[string]string{
		"recall": `{"query":"tea","contexts":["person:ada"],"limit":5}`, "deep_recall": `{"question":"which tea?"}`,
		"remember": `{"context":"person:ada","text":"She drinks tea."}`, "explore_memory": `{"query":"ada"}`,
	}
	for _, tool := range m.Tools() {
		all = append(all, entry{"memory", tool, remembered[tool.Definition().Name], toolstest.ToolCase{}})
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tides.md"), []byte("High water is at nine."), 0o600); err != nil {
		t.Fatal(err)
	}
	shared := must[*folder.Provider](t)(folder.New(folder.Config{Stores: []folder.Store{{Info: sharedmemory.Info{ID: "team"}, Dir: dir}}}))
	for i, tool := range must[[]tools.Tool](t)(sharedmemory.Tools(shared)) {
		all = append(all, entry{"sharedmemory", tool, []string{`{"store":"team","path":"/","cursor":"/a"}`, `{"store":"team","path":"/tides.md"}`}[i], toolstest.ToolCase{}})
	}
	return all
}

// service is an HTTP service that answers the same to all.
func service(t *testing.T, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func withNetwork(t *testing.T) []entry {
	t.Helper()
	self := must[string](t)(os.Executable())
	in := netguardtest.New(t)
	in.HandleFunc("docs.example.com", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "High water is at nine.")
	})
	policy := netguard.Policy{Allow: []string{"docs.example.com"}, Net: in.Net()}
	reader := must[*extract.Reader](t)(extract.NewReader(extract.Options{Policy: policy, Command: []string{self, "shelf-extract"}}))
	engine := must[search.Searcher](t)(search.SearXNG(search.SearXNGOptions{
		BaseURL: service(t, `{"results":[{"url":"https://docs.example.com/","title":"Tides","content":"High water"}]}`),
	}))
	source := must[papers.Source](t)(papers.OpenAlex(papers.OpenAlexOptions{
		BaseURL: service(t, `{"meta":{"count":1},"results":[{"id":"https://openalex.org/W1","display_name":"Tea and tides","publication_year":2019}]}`),
	}))
	things := service(t, `{"search":[]}`)
	return []entry{
		{"builtin", must[tools.Tool](t)(builtin.HTTPRequest(policy)), `{"url":"https://docs.example.com/"}`, toolstest.ToolCase{}},
		{
			"builtin", must[tools.Tool](t)(builtin.HTTPPost(builtin.HTTPPostOptions{Policy: policy})),
			`{"url":"https://docs.example.com/","body":"{}"}`,
			toolstest.ToolCase{Hostile: true},
		},
		{"builtin", must[tools.Tool](t)(builtin.Wikidata(builtin.WikidataOptions{BaseURL: things})), `{"name":"Ada Quill"}`, toolstest.ToolCase{}},
		{"extract", must[tools.Tool](t)(extract.Tool(reader)), `{"url":"https://docs.example.com/"}`, toolstest.ToolCase{}},
		{"search", must[tools.Tool](t)(search.Web(search.Options{Searcher: engine, Read: reader})), `{"query":"tides"}`, toolstest.ToolCase{}},
		{"papers", must[tools.Tool](t)(papers.Search(papers.Options{Source: source})), `{"query":"tea"}`, toolstest.ToolCase{}},
	}
}

// emptyProgram is a module for WASI that starts and ends.
const emptyProgram = "\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" +
	"\x05\x03\x01\x00\x01" + "\x07\x13\x02\x06_start\x00\x00\x06memory\x02\x00" + "\x0a\x04\x01\x02\x00\x0b"

func running(t *testing.T) []entry {
	t.Helper()
	self := must[string](t)(os.Executable())
	js := must[*javascript.Sandbox](t)(javascript.New(javascript.Config{Command: []string{self, "shelf-javascript"}}))
	modules := must[*wasm.Sandbox](t)(wasm.New(t.Context(), wasm.Config{Command: []string{self, "shelf-wasm"}}))
	code, _ := json.Marshal(map[string]string{"code": base64.StdEncoding.EncodeToString([]byte(emptyProgram))})
	run := must[tools.Tool](t)(command.New(command.Config{
		Dir: t.TempDir(), Programs: []command.Program{{Name: "say", Path: self, Forms: []command.Form{{Words: []string{"shelf-say"}, Operands: -1}}}},
	}))
	return []entry{
		{"builtin", builtin.CodeExec(js, builtin.CodeExecConfig{Language: "javascript"}), `{"code":"print(1)"}`, toolstest.ToolCase{Hostile: true}},
		{"builtin", builtin.CodeExec(modules, builtin.CodeExecConfig{Language: "WebAssembly"}), string(code), toolstest.ToolCase{Hostile: true}},
		{"command", run, `{"command":"say shelf-say tides"}`, toolstest.ToolCase{Hostile: true}},
	}
}
