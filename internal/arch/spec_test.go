package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// decided: row of the specification → the decision record that says why there
// is no test: it is not done, or done otherwise.
var decided = map[string]string{
	"SG-80":  "0025",                                     // long work is a run: no tool writes documents
	"PR-12":  "0023",                                     // usage stands on the events of the model calls; a loop returns none
	"PR-98":  "0034",                                     // Go has one kind of program
	"PR-99":  "0034",                                     // make release-check
	"PR-101": "0034", "PR-102": "0034", "PR-103": "0034", // no scanners, injectors and registries of extensions
}

// specRow is how docs/spec-coverage.md, comments and subtests name a row.
var specRow = regexp.MustCompile(`\b(?:S[GE]|PR)-[0-9]{2,3}\b`)

const coverage = "docs/spec-coverage.md"

// TestSpecCoverage keeps the table of rows and tests true: a test that it names
// names the row, and a row that a test names is in it. With -update it writes
// the table.
func TestSpecCoverage(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, coverage))
	if err != nil {
		t.Fatal(err)
	}
	for row, record := range decided {
		if found, _ := filepath.Glob(filepath.Join(root, "docs/decisions", record+"-*.md")); len(found) != 1 {
			t.Errorf("decided: %s says decision record %s, which is not in docs/decisions", row, record)
		}
	}
	written, faults, news := spelled(string(b), rowsInTests(tree(t)), decided)
	if *update {
		if err := os.WriteFile(filepath.Join(root, coverage), []byte(written), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	report(t, faults)
	if len(news) > 0 {
		t.Logf("%s does not know yet: %s; run go test ./internal/arch -run TestSpecCoverage -update", coverage, strings.Join(news, ", "))
	}
}

// spelled writes the tests into the table, and lists what is wrong in it and
// which rows have tests that it doesn't name.
func spelled(table string, tests map[string][]string, decided map[string]string) (written string, faults, news []string) {
	lines := strings.Split(table, "\n")
	rows := map[string]bool{}
	for i, line := range lines {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !specRow.MatchString(cells[1]) {
			continue
		}
		id := strings.TrimSpace(cells[1])
		if rows[id] {
			faults = append(faults, fmt.Sprintf("%s: %s is there twice", coverage, id))
		}
		rows[id] = true
		have := tests[id]
		shown := strings.Join(have, ", ")
		if record := decided[id]; record != "" {
			shown = strings.TrimPrefix(shown+"; decision "+record, "; ")
		} else if len(have) == 0 {
			shown = "open"
		}
		claimed := strings.TrimSpace(cells[3])
		names, _, _ := strings.Cut(claimed, "; decision ")
		for name := range strings.SplitSeq(names, ", ") {
			if name != "" && name != "open" && !strings.HasPrefix(name, "decision ") && !slices.Contains(have, name) {
				faults = append(faults, fmt.Sprintf("%s: %s names test %q, which does not name the row; run go test ./internal/arch -run TestSpecCoverage -update", coverage, id, name))
			}
		}
		if shown != claimed {
			news = append(news, id)
		}
		lines[i] = fmt.Sprintf("|%s|%s| %s |", cells[1], cells[2], shown)
	}
	for id, names := range tests {
		if !rows[id] {
			faults = append(faults, fmt.Sprintf("%s: there is no row %s, which %s names", coverage, id, names))
		}
	}
	slices.Sort(faults)
	return strings.Join(lines, "\n"), faults, news
}

// rowsInTests maps rows to the test functions that name them: in a comment
// above or inside the function, or in a string that begins with the row.
func rowsInTests(files []*file) map[string][]string {
	found := map[string][]string{}
	note := func(f *file, fn, text string) {
		for _, id := range specRow.FindAllString(text, -1) {
			if name := path.Base(f.pkg) + "." + fn; fn != "" && !slices.Contains(found[id], name) {
				found[id] = append(found[id], name)
			}
		}
	}
	for _, f := range files {
		if !f.test || f.pkg == "internal/arch" {
			continue
		}
		for _, group := range f.syntax.Comments {
			note(f, testAt(f.syntax, group), group.Text())
		}
		for _, d := range f.syntax.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !isTest(fn.Name.Name) {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				if s, err := strconv.Unquote(lit.Value); err == nil && specRow.FindStringIndex(s) != nil && specRow.FindStringIndex(s)[0] == 0 {
					note(f, fn.Name.Name, s)
				}
				return true
			})
		}
	}
	for _, names := range found {
		slices.Sort(names)
	}
	return found
}

func TestRowsInTests(t *testing.T) {
	src := `package tools
// SG-01, SG-02: both.
func TestA(t *testing.T) {
	t.Run("SG-03 a case", nil)
	t.Log("a text about SG-04")
	// SE-05 here.
}
// SG-06 is for nobody.
func helper() {}
// SG-07.
func FuzzB(f *testing.F) {}`
	f, err := parse(token.NewFileSet(), "tools/x_test.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	tests := rowsInTests([]*file{f})
	for id, want := range map[string]string{
		"SG-01": "tools.TestA", "SG-02": "tools.TestA", "SG-03": "tools.TestA", "SG-04": "", "SE-05": "tools.TestA", "SG-06": "", "SG-07": "tools.FuzzB",
	} {
		if got := strings.Join(tests[id], " "); got != want {
			t.Errorf("%s is named by %q, want %q", id, got, want)
		}
	}
	table := "| SG-01 | a | tools.TestGone |\n| SG-08 | b | open |\n| SG-09 | c | open |"
	written, faults, news := spelled(table, map[string][]string{"SG-01": {"tools.TestA"}, "SG-77": {"tools.TestC"}}, map[string]string{"SG-09": "0001"})
	if want := "| SG-01 | a | tools.TestA |\n| SG-08 | b | open |\n| SG-09 | c | decision 0001 |"; written != want {
		t.Errorf("written\n%s\nwant\n%s", written, want)
	}
	if len(faults) != 2 || len(news) != 2 {
		t.Errorf("faults %q, news %q; want a test that is gone and an unknown row, SG-01 and SG-09", faults, news)
	}
}
