//go:build unix

package shelf_test

import (
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools/builtin"
	"github.com/daybookhq/daybook/tools/extract"
	"github.com/daybookhq/daybook/tools/memory"
	"github.com/daybookhq/daybook/tools/netguard"
	"github.com/daybookhq/daybook/tools/papers"
	"github.com/daybookhq/daybook/tools/search"
)

// What a builtin needs besides this process.
const (
	local   = "local"           // nothing that costs or can be refused: no key
	network = "local (network)" // no key, and the hosts that the operator allows
	sandbox = "sandbox"         // code of strangers runs in it
	key     = "key"             // what the host holds a credential for: a store, a memory
	either  = "local or key"    // by the source that the host chooses
)

// dependsOn: tool → what it needs, and where it is made.
var dependsOn = map[string]struct{ class, file string }{
	"calculate": {local, "builtin/calculate.go"}, "think": {local, "builtin/think.go"}, "notes": {local, "builtin/notes.go"},
	"finish": {local, "builtin/finish.go"}, "current_time": {local, "builtin/current_time.go"}, "escalate": {local, "builtin/escalate.go"},
	"decline": {local, "builtin/decline.go"}, "date_math": {local, "builtin/date_math.go"}, "dates": {local, "builtin/dates.go"},
	"json_query":   {local, "builtin/json_query.go"},
	"http_request": {network, "builtin/http_request.go"}, "wikidata": {network, "builtin/wikidata.go"}, "extract": {network, "extract/extract.go"},
	"code_exec": {sandbox, "builtin/code_exec.go"},
	"publish":   {key, "builtin/publish.go"}, "recall": {key, "memory/recall.go"}, "deep_recall": {key, "memory/recall.go"},
	"remember": {key, "memory/remember.go"}, "explore_memory": {key, "memory/explore.go"},
	"web_search": {either, "search/tool.go"}, "paper_search": {either, "papers/tool.go"},
}

// outside are the imports that reach outside of the process.
var outside = []string{"net", "net/http", "os", "os/exec", "syscall", "tools/netguard", "tools/sandbox", "tools/extract", "tools/internal/process"}

// allowed: what a file may import of them, by what its tool needs. The words of HTTP,
// net/http, come with the guard: who has no client of its own connects nowhere.
var allowed = map[string][]string{
	local: nil, key: nil, sandbox: {"tools/sandbox"}, network: {"tools/netguard", "net/http"}, either: nil,
}

// SG-55: the twenty-one tools by what they depend on: counted, proved by what the
// files that make them import, and by what their constructors demand.
func TestWhatBuiltinsDependOn(t *testing.T) {
	counts := map[string]int{}
	for name, d := range dependsOn {
		counts[d.class]++
		for _, path := range importsOf(t, d.file) {
			if slices.Contains(outside, path) && !slices.Contains(allowed[d.class], path) {
				t.Errorf("SG-55 %s is %s, and %s imports %s", name, d.class, d.file, path)
			}
		}
	}
	if want := map[string]int{local: 10, network: 3, sandbox: 1, key: 5, either: 2}; !maps.Equal(counts, want) {
		t.Errorf("SG-55 %v, want %v", counts, want)
	}
	have := map[string]bool{}
	for _, e := range table(t) { // which makes each local one with nothing, or with hosts
		have[e.tool.Definition().Name] = true
	}
	for name := range dependsOn {
		if !have[name] {
			t.Errorf("SG-55 %s is not on the shelf", name)
		}
	}
	if have["write_document"] {
		t.Error("SG-80 a tool writes documents: that is an agent's, see decision 0025")
	}
	// Nothing on the shelf reaches outside but through the guard and the one place
	// that starts programs: also files that make no tool, which the rules of
	// internal/arch do not tell from one another.
	for _, pkg := range []string{"builtin", "memory", "search", "papers"} {
		files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(pkg, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, path := range importsOf(t, pkg+"/"+filepath.Base(file)) {
				if slices.Contains([]string{"net", "os", "os/exec", "syscall", "tools/internal/process"}, path) {
					t.Errorf("SG-55 %s imports %s", file, path)
				}
			}
		}
	}
}

func importsOf(t *testing.T, file string) (paths []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", filepath.FromSlash(file)), nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range f.Imports {
		path, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, strings.TrimPrefix(path, "github.com/daybookhq/daybook/"))
	}
	return paths
}

// SG-55: what needs something has no default for it.
func TestBuiltinsDemandWhatTheyDependOn(t *testing.T) {
	panics := func(f func()) (panicked bool) {
		defer func() { panicked = recover() != nil }()
		f()
		return false
	}
	fails := func(_ any, err error) bool { return err != nil }
	for name, refused := range map[string]bool{
		"code_exec without a sandbox":          panics(func() { builtin.CodeExec(nil, builtin.CodeExecConfig{}) }),
		"publish without a function":           panics(func() { builtin.Publish(builtin.PublishConfig{}) }),
		"http_request without hosts":           fails(builtin.HTTPRequest(netguard.Policy{})),
		"extract without hosts":                fails(extract.NewReader(extract.Options{Command: []string{"x"}})),
		"extract without a child":              fails(extract.NewReader(extract.Options{Policy: netguard.Policy{Allow: []string{"*"}}})),
		"memory without a client":              fails(memory.New(memory.Options{Root: memory.FixedRoot("a:b"), Redactor: redact.New(redact.Config{})})),
		"web_search without a searcher":        fails(search.Web(search.Options{})),
		"the searcher that is a key's":         fails(search.Sonar(search.SonarOptions{})),
		"the searcher without an instance":     fails(search.SearXNG(search.SearXNGOptions{})),
		"paper_search without a source":        fails(papers.Search(papers.Options{})),
		"the source of papers that is a key's": fails(papers.Consensus(papers.ConsensusOptions{})),
	} {
		if !refused {
			t.Errorf("SG-55 there is %s", name)
		}
	}
	if fails(papers.OpenAlex(papers.OpenAlexOptions{})) || fails(papers.SemanticScholar(papers.SemanticScholarOptions{})) || fails(builtin.Wikidata(builtin.WikidataOptions{})) {
		t.Error("SG-55 a source that needs no key asks for one")
	}
}
