package arch

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// TestSeededBugsAreSown: each bug of internal/bug is in product code, once, in a
// call that the compiler can take away, and All names it.
func TestSeededBugsAreSown(t *testing.T) {
	declared, listed, sown := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, f := range tree(t) {
		if f.pkg == "internal/bug" && !f.test {
			bugNames(f.syntax, declared, listed)
			continue
		}
		if strings.HasPrefix(f.pkg, "internal/bug/") {
			continue // what runs the tests against them
		}
		calls := map[ast.Node]bool{} // selectors that are the argument of bug.On
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if c, ok := n.(*ast.CallExpr); ok && len(c.Args) == 1 && isBug(c.Fun) == "On" {
				calls[c.Args[0]], calls[c.Fun] = true, true
			}
			return true
		})
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			name := isBug(n)
			switch {
			case name == "" || name == "On" && calls[n]:
			case f.test:
				t.Errorf("%s: tests do not look at bug.%s: they must fail by themselves", f.position(n), name)
			case name == "Enabled" || name == "All" || name == "Bug":
			case !calls[n]:
				t.Errorf("%s: write bug.On(bug.%s), which is compiled away", f.position(n), name)
			default:
				sown[name] = f.position(n)
			}
			return true
		})
	}
	for name := range declared {
		if sown[name] == "" {
			t.Errorf("bug %s is nowhere in the product", name)
		}
		if !listed[name] {
			t.Errorf("bug %s is not in All", name)
		}
	}
	if len(declared) < 15 {
		t.Errorf("%d bugs are declared, want 15 at least", len(declared))
	}
}

// isBug returns X of an expression bug.X.
func isBug(n ast.Node) string {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if id, ok := s.X.(*ast.Ident); !ok || id.Name != "bug" || id.Obj != nil {
		return ""
	}
	return s.Sel.Name
}

// bugNames finds the constants of type Bug, and what All returns.
func bugNames(f *ast.File, declared, listed map[string]bool) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.CONST && v.Type != nil {
					declared[v.Names[0].Name] = true
				}
			}
		case *ast.FuncDecl:
			if d.Name.Name == "All" {
				ast.Inspect(d.Body, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok {
						listed[id.Name] = true
					}
					return true
				})
			}
		}
	}
}
