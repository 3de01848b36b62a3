package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/daybookhq/daybook"

// A file is one parsed Go file of this module, whatever its build tags. The
// files are parsed in the test itself: the results of go list would not be among
// what the test cache watches, and a broken rule would pass as cached.
type file struct {
	name   string // from the root, with slashes
	pkg    string // its directory from the root; "." is the root
	test   bool   // named _test.go, or in a conformance package
	lines  int
	syntax *ast.File
	fset   *token.FileSet
}

func (f *file) position(n ast.Node) string {
	return f.name + ":" + strconv.Itoa(f.fset.Position(n.Pos()).Line)
}

func (f *file) imports() []string {
	var paths []string
	for _, spec := range f.syntax.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err == nil {
			paths = append(paths, p)
		}
	}
	return paths
}

func parse(fset *token.FileSet, name string, src []byte) (*file, error) {
	syntax, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	pkg := path.Dir(name)
	return &file{
		name: name, pkg: pkg, syntax: syntax, fset: fset,
		test:  strings.HasSuffix(name, "_test.go") || matches(conformance, pkg),
		lines: bytes.Count(src, []byte("\n")),
	}, nil
}

const root = "../.."

// tree parses every Go file of the module, but not of modules inside it.
func tree(t *testing.T) []*file {
	t.Helper()
	var files []*file
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if p != root && ignored(p, d.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(p) != ".go" {
			return nil
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		f, err := parse(fset, filepath.ToSlash(name), src)
		if err != nil {
			return err
		}
		files = append(files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func ignored(p, name string) bool {
	if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "node_modules" {
		return true
	}
	_, err := os.Stat(filepath.Join(p, "go.mod"))
	return err == nil
}

// matches says whether a path is in a list of patterns.
func matches(patterns, p string) bool {
	for pattern := range strings.FieldsSeq(patterns) {
		if covers(pattern, p) {
			return true
		}
	}
	return false
}

func covers(pattern, p string) bool {
	if pattern == "..." {
		return true
	}
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return p == below || strings.HasPrefix(p, below+"/")
	}
	return p == pattern
}

// report fails with all faults at once, so that one run shows them all.
func report(t *testing.T, faults []string) {
	t.Helper()
	for _, fault := range faults {
		t.Error(fault)
	}
}
