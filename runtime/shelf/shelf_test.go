package shelf_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/shelf"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/memory/memorytest"
	"github.com/daybookhq/daybook/tools/sharedmemory"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// canary stands where a key was written into a file by mistake.
const canary = "canary-7f3a91"

func options() shelf.Options {
	return shelf.Options{
		Child:   []string{"no-such-program"},
		Secrets: map[string]string{"token": "the-value-of-a-token", "example-token": "e-value-1234", "perplexity-key": "p-value-1234", "openalex-key": "o-value-1234", "consensus-key": "c-value-1234"},
	}
}

// goodFile is the example of the documentation, with the folders it names.
func goodFile(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("testdata/tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, d := range []string{"team", "acme", "checkout"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "tools.yaml")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExample(t *testing.T) {
	s, err := shelf.Load(t.Context(), goodFile(t), options())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"finish", "decline", "notes", "escalate", "calculate", "current_time", "json_query", "http_request", "http_post", "publish", "extract",
		"wikidata", "web_search", "paper_search", "code_exec", "recall", "deep_recall", "remember", "explore_memory", "memory_list", "memory_read", "command",
	}
	if d := cmp.Diff(want, s.Names()); d != "" {
		t.Errorf("tools (-want +got):\n%s", d)
	}
	var reg tools.Registry
	if err := s.Register(&reg, shelf.Parts{Redactor: redact.New(redact.Config{}), Memory: memorytest.NewStore(), Shared: none{}}); err != nil {
		t.Fatal(err)
	}
	byName := map[string]*tools.Definition{}
	for _, tool := range reg.Tools() {
		byName[tool.Definition().Name] = tool.Definition()
	}
	// What was told before the system was open is what is registered.
	for _, item := range s.Items() {
		d := byName[item.Definition.Name]
		if d == nil || d.Description != item.Definition.Description || d.AfterCrash() != item.Definition.AfterCrash() || (item.Origin == shelf.Command) != (d.Name == "command") {
			t.Errorf("%s: item %+v, registered %+v", item.Definition.Name, item.Definition, d)
		}
	}
	if len(byName) != len(want) {
		t.Errorf("%d tools are registered, want %d", len(byName), len(want))
	}
	if d := byName["http_post"]; !d.Approval || d.Recovery.Kind != tools.RecoveryKeyed {
		t.Errorf("http_post: %+v", d)
	}
	if d := byName["web_search"]; d.Price != 20_000 {
		t.Errorf("web_search costs %d micro-USD at most, want 20,000", d.Price)
	}
	if d := byName["command"]; !d.IsDestructive() {
		t.Errorf("command is %q", d.Effect)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The example that the documentation shows is the one that is tested.
func TestDocumentation(t *testing.T) {
	example, err := os.ReadFile("testdata/tools.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```yaml\n"+string(example)+"```") {
		t.Error("docs/tools.md does not show runtime/shelf/testdata/tools.yaml")
	}
}

// Every file in testdata/bad has its faults beside it, in a .txt file. Each names
// file and line, and none repeats what may be a key.
func TestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatal("no files", err)
	}
	abs, err := filepath.Abs("testdata/bad")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".yaml")
		t.Run(name, func(t *testing.T) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			s, err := shelf.Parse(t.Context(), "tools.yaml", abs, b, options())
			if err == nil || s != nil {
				t.Fatal("no error")
			}
			got := strings.ReplaceAll(err.Error(), abs, "DIR") + "\n"
			golden := strings.TrimSuffix(f, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("faults (-want +got):\n%s", d)
			}
			if strings.Contains(got, canary) || strings.Contains(got, "the-value-of") {
				t.Errorf("a key is told: %s", got)
			}
			for line := range strings.Lines(got) {
				if !strings.HasPrefix(line, "tools.yaml:") {
					t.Errorf("no file and line: %s", line)
				}
			}
			if fault := (*strictyaml.Fault)(nil); !errors.As(err, &fault) || fault.Line == 0 {
				t.Errorf("%v is no fault with a line", err)
			}
		})
	}
}

// A process that hands over no command for children has no tools that need them.
func TestNoChildren(t *testing.T) {
	for _, text := range []string{
		"extract: {allow: [a.example.com]}", "code_exec: {sandbox: javascript}",
		"web_search:\n  pages: {allow: [a.example.com]}\n  searxng: {url: http://s}",
	} {
		_, err := shelf.Parse(t.Context(), "f", t.TempDir(), []byte(text), shelf.Options{})
		if err == nil || !strings.Contains(err.Error(), "starts no processes") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := shelf.Parse(t.Context(), "f", t.TempDir(), []byte("memory: {root: tenant}"), shelf.Options{}); err != nil {
		t.Error(err)
	}
}

func TestDefault(t *testing.T) {
	s := shelf.Default()
	for _, name := range []string{
		"finish", "decline", "think", "notes", "load_skill", "escalate", "wait", "wait_for_signal", "calculate", "current_time", "date_math", "dates", "json_query",
	} {
		if !slices.Contains(s.Names(), name) {
			t.Errorf("%s is not there", name)
		}
	}
	var reg tools.Registry
	if err := s.Register(&reg, shelf.Parts{}); err != nil || len(reg.Tools()) != len(s.Names()) {
		t.Errorf("%v, %d tools registered of %d", err, len(reg.Tools()), len(s.Names()))
	}
}

// none is a provider without stores.
type none struct{}

func (none) Snapshot(context.Context, sharedmemory.Context) (sharedmemory.Snapshot, error) {
	return sharedmemory.Snapshot{State: sharedmemory.Connected, Stores: slices.Values([]sharedmemory.Store{})}, nil
}

func TestMemoryNeedsASystem(t *testing.T) {
	s, err := shelf.Parse(t.Context(), "f", t.TempDir(), []byte("memory: {root: owner}"), shelf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var reg tools.Registry
	if err := s.Register(&reg, shelf.Parts{Redactor: redact.New(redact.Config{})}); err == nil {
		t.Error("a memory without a place is taken")
	}
}
