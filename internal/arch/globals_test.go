package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestNoMutableGlobals finds package-level variables that functions of their
// package assign to, take the address of or lock. Two runtimes in one process,
// and two tests, must not meet in one.
func TestNoMutableGlobals(t *testing.T) {
	byPackage := map[string][]*file{}
	for _, f := range tree(t) {
		if !f.test {
			byPackage[f.pkg] = append(byPackage[f.pkg], f)
		}
	}
	used := map[string]bool{}
	for _, files := range byPackage {
		for name, position := range mutableGlobals(files) {
			used[name] = true
			if globals[name] == "" {
				t.Errorf("%s: package-level variable %s changes; keep it in a value that is passed on", position, name)
			}
		}
	}
	for name := range globals {
		if !used[name] {
			t.Errorf("exception for %s: it is gone, or does not change any more", name)
		}
	}
}

// mutableGlobals returns "package.name" → where it changes. It needs no types of
// other packages, so imports may stay unresolved.
func mutableGlobals(files []*file) map[string]string {
	if len(files) == 0 {
		return nil
	}
	syntax, names := []*ast.File{}, map[*ast.File]*file{}
	for _, f := range files {
		syntax, names[f.syntax] = append(syntax, f.syntax), f
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	cfg := types.Config{Error: func(error) {}, Importer: nowhere{}, FakeImportC: true}
	pkg, _ := cfg.Check(files[0].pkg, files[0].fset, syntax, info)
	found := map[string]string{}
	for _, s := range syntax {
		f := names[s]
		change := func(e ast.Expr, at ast.Node) {
			id := rootIdent(e)
			if id == nil {
				return
			}
			v, ok := info.Uses[id].(*types.Var)
			if ok && v.Parent() == pkg.Scope() {
				found[path.Base(f.pkg)+"."+id.Name] = f.position(at)
			}
		}
		ast.Inspect(s, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for _, e := range n.Lhs {
					change(e, n)
				}
			case *ast.IncDecStmt:
				change(n.X, n)
			case *ast.UnaryExpr:
				if n.Op == token.AND {
					change(n.X, n)
				}
			case *ast.CallExpr:
				changedByCall(n, change)
			}
			return true
		})
	}
	return found
}

// changing names methods that change what they are called on: of locks, maps
// and atomics. Without types, Add would also be that of a time.
var changing = strings.Fields("Lock RLock TryLock Do Store LoadOrStore LoadAndDelete Delete Swap CompareAndSwap")

func changedByCall(call *ast.CallExpr, change func(ast.Expr, ast.Node)) {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		if (fun.Name == "delete" || fun.Name == "clear") && len(call.Args) > 0 {
			change(call.Args[0], call)
		}
	case *ast.SelectorExpr:
		if slices.Contains(changing, fun.Sel.Name) {
			change(fun.X, call)
		}
	}
}

// rootIdent is the variable that an expression such as x.a[i].b is part of.
func rootIdent(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// nowhere imports empty packages.
type nowhere struct{}

func (nowhere) Import(p string) (*types.Package, error) {
	pkg := types.NewPackage(p, path.Base(p))
	pkg.MarkComplete()
	return pkg, nil
}

func TestMutableGlobalsCanBeFound(t *testing.T) {
	tests := []struct {
		name, src string
		want      int
	}{
		{"assigned", "var x int; func f() { x = 1 }", 1},
		{"counted", "var x int; func f() { x++ }", 1},
		{"map entry", "var x = map[string]int{}; func f() { x[``] = 1 }", 1},
		{"deleted from", "var x = map[string]int{}; func f() { delete(x, ``) }", 1},
		{"field", "var x struct{ n int }; func f() { x.n = 1 }", 1},
		{"address", "var x int; func f() *int { return &x }", 1},
		{"locked", "var x sync.Mutex; func f() { x.Lock() }", 1},
		{"local of the same name", "var x int; func f() { x := 1; x = 2; _ = x }", 0},
		{"read", "var x = errors.New(``); func f() error { return x }", 0},
		{"method named alike on a local", "var x int; func f(x *sync.Mutex) { x.Lock() }", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			src := fmt.Sprintf("package p; import (`sync`; `errors`)\n%s", tt.src)
			f, err := parse(token.NewFileSet(), "internal/arch/mutant/x.go", []byte(src))
			if err != nil {
				t.Fatal(err)
			}
			if got := mutableGlobals([]*file{f}); len(got) != tt.want {
				t.Errorf("found %v, want %d", got, tt.want)
			}
		})
	}
}
