package arch

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tests of each row into docs/complaints.md and docs/spec-coverage.md")

// openComplaints: thread → why no test names it yet. A row that has got a test
// goes from here.
var openComplaints = map[string]string{}

// thread is how docs/complaints.md and comments of tests name one.
var thread = regexp.MustCompile(`[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+(?: PR)?#[0-9]+`)

// TestComplaints: each thread of docs/complaints.md has a test whose comment
// names it, and the tests that the table names exist.
func TestComplaints(t *testing.T) {
	const file = "docs/complaints.md"
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	tests := threadsInTests(t)
	lines := strings.Split(string(b), "\n")
	rows := map[string]bool{}
	for i, line := range lines {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !thread.MatchString(cells[1]) {
			continue
		}
		id := strings.TrimSpace(cells[1])
		rows[id] = true
		have := tests[id]
		reason, open := openComplaints[id]
		switch {
		case len(have) == 0 && !open:
			t.Errorf("%s: no test names %s; name it in the comment of the test that would have found it", file, id)
		case len(have) > 0 && open:
			t.Logf("openComplaints: %s has %s now: take it out", id, have)
		}
		shown := strings.Join(have, ", ")
		if open && len(have) == 0 {
			shown = "open: " + reason
		}
		for _, name := range strings.Split(strings.TrimSpace(cells[3]), ", ") {
			if !*update && !open && name != "" && !slices.Contains(have, name) {
				t.Errorf("%s: %s names test %q, which does not name the thread; run go test ./internal/arch -run TestComplaints -update", file, id, name)
			}
		}
		lines[i] = fmt.Sprintf("|%s|%s| %s |", cells[1], cells[2], shown)
	}
	for id := range openComplaints {
		if !rows[id] {
			t.Errorf("openComplaints: %s is no row of %s", id, file)
		}
	}
	if len(rows) < 50 {
		t.Errorf("%s has %d rows; is it still a table of threads?", file, len(rows))
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, file), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// threadsInTests maps threads to the test functions whose comments name them:
// above the function or inside it.
func threadsInTests(t *testing.T) map[string][]string {
	found := map[string][]string{}
	for _, f := range tree(t) {
		if !f.test || f.pkg == "internal/arch" {
			continue
		}
		for _, group := range f.syntax.Comments {
			for _, id := range threadsIn(group.Text()) {
				if fn := testAt(f.syntax, group); fn != "" {
					name := path.Base(f.pkg) + "." + fn
					if !slices.Contains(found[id], name) {
						found[id] = append(found[id], name)
					}
				}
			}
		}
	}
	for _, names := range found {
		slices.Sort(names)
	}
	return found
}

// several are threads of one repository: owner/name#1, #2.
var several = regexp.MustCompile(`([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)(?: PR)?#[0-9]+((?:, #[0-9]+)+)`)

// threadsIn lists the threads that a text names.
func threadsIn(text string) []string {
	ids := thread.FindAllString(text, -1)
	for _, m := range several.FindAllStringSubmatch(text, -1) {
		for n := range strings.SplitSeq(strings.TrimPrefix(m[2], ", "), ", ") {
			ids = append(ids, m[1]+n)
		}
	}
	return ids
}

func TestThreadsIn(t *testing.T) {
	got := threadsIn("// a-b/c.d#12, #13: because; x/y PR#7 and z/z#1")
	if want := []string{"a-b/c.d#12", "x/y PR#7", "z/z#1", "a-b/c.d#13"}; !slices.Equal(got, want) {
		t.Errorf("threads %q, want %q", got, want)
	}
}

// testAt is the test that a comment belongs to, "" for none.
func testAt(f *ast.File, c *ast.CommentGroup) string {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || !isTest(fn.Name.Name) {
			continue
		}
		if fn.Doc == c || c.Pos() >= fn.Pos() && c.End() <= fn.End() {
			return fn.Name.Name
		}
	}
	return ""
}

// isTest reports whether a function is a test: also one of a conformance suite,
// testThing, and Fuzz, Example and Benchmark.
func isTest(name string) bool {
	for _, kind := range []string{"Test", "test", "Fuzz", "Example", "Benchmark"} {
		if strings.HasPrefix(name, kind) {
			return true
		}
	}
	return false
}
