//go:build unix

package shelf_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// SE-80: whoever starts a program for a tool has it killed and reaped by
// internal/process, which traces both: no other file of the shelf sends a signal or
// waits for a process.
func TestProgramsEndInOnePlace(t *testing.T) {
	started := 0
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if strings.HasSuffix(dir, "internal/process") || strings.HasSuffix(dir, "test") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		calls := map[string]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.SelectorExpr); ok && x.Sel.Name == "Process" && slices.Contains([]string{"Kill", "Signal", "Wait", "Release"}, s.Sel.Name) {
					calls["Process."+s.Sel.Name] = true
				}
				calls[selector(s)] = true
			}
			return true
		})
		for _, not := range []string{"syscall.Kill", "unix.Kill", "os.FindProcess", "os.StartProcess", "Process.Kill", "Process.Signal", "Process.Wait", "Process.Release"} {
			if calls[not] {
				t.Errorf("SE-80 %s has %s: processes are ended by internal/process", path, not)
			}
		}
		if !calls["exec.Command"] && !calls["exec.CommandContext"] {
			return nil
		}
		started++
		if !calls["process.Run"] && !(calls["process.Group"] && calls["process.Reap"]) {
			t.Errorf("SE-80 %s starts a program and does not end it with process.Run, or process.Group and process.Reap", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if started < 3 {
		t.Errorf("%d files start programs: the test does not see them", started)
	}
}
