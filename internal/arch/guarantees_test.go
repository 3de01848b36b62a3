package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// failureRows is how a test's comment names rows of the table of failures in
// docs/guarantees.md, which are those of RELIABILITY.
var failureRows = regexp.MustCompile(`RELIABILITY rows? ([0-9][0-9, ]*)`)

// failures is how many points of failure docs/guarantees.md lists.
const failures = 25

// TestFailureRows: each point of failure in docs/guarantees.md has a test whose
// comment names it, and the page names the tests.
func TestFailureRows(t *testing.T) {
	tests := map[int][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch dir := filepath.Base(filepath.Dir(path)); {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root:
			return filepath.SkipDir
		case d.IsDir(), !strings.HasSuffix(path, "_test.go") && !(strings.HasSuffix(path, ".go") && strings.HasSuffix(dir, "test")):
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			for _, m := range failureRows.FindAllStringSubmatch(fn.Doc.Text(), -1) {
				for _, n := range strings.FieldsFunc(m[1], func(r rune) bool { return r == ',' || r == ' ' }) {
					row, err := strconv.Atoi(n)
					if err != nil || row < 1 {
						return fmt.Errorf("%s: %s names row %q", path, fn.Name.Name, n)
					}
					tests[row] = append(tests[row], fmt.Sprintf("`%s` (%s)", fn.Name.Name, filepath.ToSlash(dir)))
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const file = "docs/guarantees.md"
	b, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		t.Fatal(err)
	}
	table := "| # | shown by |\n| --- | --- |\n"
	for row := 1; row <= failures; row++ {
		if !strings.Contains(string(b), fmt.Sprintf("\n| %d | ", row)) {
			t.Errorf("%s has no row %d", file, row)
		}
		slices.Sort(tests[row])
		if len(tests[row]) == 0 {
			t.Errorf("no test's comment says RELIABILITY row %d", row)
		}
		table += fmt.Sprintf("| %d | %s |\n", row, strings.Join(slices.Compact(tests[row]), ", "))
	}
	const begin, end = "<!-- made by go test ./internal/arch -update -->\n", "<!-- end -->\n"
	before, rest, ok := strings.Cut(string(b), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the tests of each row", file)
	}
	want := before + begin + table + end + after
	if want == string(b) {
		return
	}
	if !*update {
		t.Fatalf("the tests of each row changed: go test ./internal/arch -run TestFailureRows -update")
	}
	if err := os.WriteFile(filepath.Join(root, file), []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
