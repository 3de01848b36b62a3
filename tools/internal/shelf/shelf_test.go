//go:build unix

package shelf_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/toolstest"
)

// TestBadInput puts every tool through the kit, which gives it wrong types, missing,
// unknown and duplicate arguments, NaN and huge numbers, invalid UTF-8, megabytes,
// odd texts and a context that has ended; then through what only a shelf shows: that
// a model is told what to change, that no secret comes back, and what becomes of a
// call whose tool panics or returns what has no JSON form.
func TestBadInput(t *testing.T) {
	for i, e := range table(t) {
		t.Run(fmt.Sprintf("%s/%s/%d", e.pkg, e.tool.Definition().Name, i), func(t *testing.T) {
			e.c.ValidArguments = json.RawMessage(e.args)
			toolstest.TestTool(t, e.tool, e.c)
			told(t, e)
			keepsSecrets(t, e)
			misbehaves(t, e)
		})
	}
}

func probe(e entry, args string) toolstest.Probe {
	return toolstest.Probe{Tool: e.tool, Arguments: json.RawMessage(args), Spawner: e.c.Spawner, Past: e.c.Past, Recaller: e.c.Recaller, Skills: e.c.Skills}
}

func members(t *testing.T, args string) map[string]json.RawMessage {
	t.Helper()
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(args), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func with(t *testing.T, args, name string, value json.RawMessage) string {
	t.Helper()
	m := members(t, args)
	if m[name] = value; value == nil {
		delete(m, name)
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// told checks that a model which is refused is told the argument that is wrong.
func told(t *testing.T, e entry) {
	t.Helper()
	refused := func(args, name string) {
		t.Helper()
		d, _ := toolstest.DispatchAndCollect(t, probe(e, args))
		if d.Blocked != events.BlockedInvalidArguments || !strings.Contains(d.Result.Error, name) {
			t.Errorf("%.80s: blocked %q: %q, want it to name %s", args, d.Blocked, d.Result.Error, name)
		}
	}
	refused(with(t, e.args, "no_such_argument", json.RawMessage("1")), "no_such_argument")
	for _, a := range e.tool.Definition().Args {
		if a.Type != tools.Object {
			refused(with(t, e.args, a.Name, json.RawMessage(`{"a":[]}`)), a.Name)
		}
		if a.Required {
			refused(with(t, e.args, a.Name, nil), a.Name)
		}
	}
}

const canary = "sk-canary-7f3a9e21b4c8"

// keepsSecrets plants a registered secret in every text, as a model may that has
// seen it: what comes back, and what is recorded of it, has it not.
func keepsSecrets(t *testing.T, e entry) {
	t.Helper()
	r := redact.New(redact.Config{})
	if err := r.Register("canary", canary); err != nil {
		t.Fatal(err)
	}
	for _, a := range e.tool.Definition().Args {
		if a.Type != tools.String && a.Type != tools.Object {
			continue
		}
		for _, v := range []string{canary, "see " + canary + " and https://docs.example.com/" + canary} {
			value, _ := json.Marshal(v)
			p := probe(e, with(t, e.args, a.Name, value))
			p.Redactor = r
			d, es := toolstest.DispatchAndCollect(t, p)
			seen, _ := json.Marshal(d.Result)
			for _, p := range es {
				switch p := p.(type) {
				case events.ToolExecutionStarted: // its arguments are redacted before a dispatcher sees them
					p.Arguments = nil
				case events.ToolExecutionBlocked:
					p.Arguments = nil
					seen = append(seen, fmt.Sprintf("%+v", p)...)
				default:
					b, _ := json.Marshal(p)
					seen = append(seen, b...)
				}
			}
			if strings.Contains(string(seen), canary) {
				t.Errorf("%s = %s: the secret comes back: %.300s", a.Name, v, seen)
			}
		}
	}
}

// misbehaves declares a tool as it is and lets it panic, and return what cannot be
// encoded. A readonly call fails and says why; a destructive one never pretends to
// know, and one that came back is told as done.
func misbehaves(t *testing.T, e entry) {
	t.Helper()
	def := *e.tool.Definition()
	for what, fn := range map[string]func(context.Context, *tools.Invocation) (any, error){
		"panics":         func(context.Context, *tools.Invocation) (any, error) { panic("it broke at " + canary) },
		"returns a chan": func(context.Context, *tools.Invocation) (any, error) { return make(chan int), nil },
	} {
		broken := declaredAs(t, def, fn)
		r := redact.New(redact.Config{})
		if err := r.Register("canary", canary); err != nil {
			t.Fatal(err)
		}
		p := probe(e, e.args)
		p.Tool, p.Redactor = broken, r
		d, es := toolstest.DispatchAndCollect(t, p)
		seen, _ := json.Marshal(es)
		switch {
		case strings.Contains(string(seen), canary):
			t.Errorf("%s: the secret is recorded: %s", what, seen)
		case !def.IsDestructive():
			if d.State != tools.StateDone || d.Result.Status != tools.Failed || len(d.Result.Error) < 10 {
				t.Errorf("%s: %+v, want a failure that says why", what, d)
			}
		case what == "panics":
			if d.State != tools.StateInDoubt {
				t.Errorf("%s: state %d, want in doubt", what, d.State)
			}
		case d.State != tools.StateDone || d.Result.Status != tools.Completed || !strings.Contains(d.Result.Output, "it took effect"):
			t.Errorf("%s: %+v, want it told as done", what, d)
		}
	}
}

// declaredAs is a tool with another's declaration and a function of the test's.
func declaredAs(t *testing.T, def tools.Definition, fn func(context.Context, *tools.Invocation) (any, error)) tools.Tool {
	t.Helper()
	schema := def.Schema
	def.Schema = nil
	made, err := tools.Raw(def, schema, fn)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// elsewhere: package → why its tools are not in the table. Its own tests run the kit.
var elsewhere = map[string]string{
	"mcp": "its tools are those of servers, which its tests start",
}

// TestTableIsWhole fails for a package that makes tools and is not in the table,
// and for one that makes more of them than are there.
func TestTableIsWhole(t *testing.T) {
	names := map[string][]string{}
	for _, e := range table(t) {
		names[e.pkg] = append(names[e.pkg], e.tool.Definition().Name)
	}
	found := map[string]bool{}
	for pkg, m := range makers(t) {
		found[pkg] = true
		if why := elsewhere[pkg]; why != "" {
			if !m.kit {
				t.Errorf("tools/%s: %s, but no test of it calls toolstest.TestTool", pkg, why)
			}
			continue
		}
		if len(names[pkg]) < m.makes {
			t.Errorf("tools/%s makes %d tools, the table of this test has %q: add the others", pkg, m.makes, names[pkg])
		}
		for _, name := range m.names {
			if !slices.Contains(names[pkg], name) {
				t.Errorf("tools/%s makes %q, which is not in the table of this test", pkg, name)
			}
		}
		if !m.kit {
			t.Errorf("tools/%s makes tools, and no test of it calls toolstest.TestTool", pkg)
		}
	}
	for pkg := range names {
		if !found[pkg] {
			t.Errorf("tools/%s is in the table and makes no tools: the test does not see how", pkg)
		}
	}
	if len(found) < 8 {
		t.Errorf("found %v: the test does not see what makes tools", found)
	}
}

// maker is a package that makes tools.
type maker struct {
	makes int      // calls of tools.New and tools.Raw, and types that are tools themselves
	names []string // that are written out
	kit   bool     // its tests call the kit
}

// makers reads every package of the shelf.
func makers(t *testing.T) map[string]maker {
	t.Helper()
	all := map[string]maker{}
	root := filepath.Join("..", "..")
	kit := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		pkg, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil || pkg == "." || strings.HasPrefix(pkg, "internal") || pkg == "toolstest" || strings.HasSuffix(pkg, "test") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		test := strings.HasSuffix(path, "_test.go")
		m := all[pkg]
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				switch selector(n.Fun) {
				case "toolstest.TestTool":
					kit[pkg] = kit[pkg] || test
				case "tools.New", "tools.Raw":
					if !test {
						m.makes++
						m.names = append(m.names, nameIn(n)...)
					}
				}
			case *ast.FuncDecl:
				if !test && n.Recv != nil && n.Name.Name == "Definition" {
					m.makes++
				}
			}
			return true
		})
		if m.makes > 0 {
			all[pkg] = m
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg, m := range all {
		m.kit = kit[pkg]
		all[pkg] = m
	}
	return all
}

func selector(e ast.Expr) string {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := s.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + s.Sel.Name
}

// nameIn returns the name in a definition that is written out.
func nameIn(call *ast.CallExpr) (names []string) {
	lit, ok := call.Args[0].(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for _, el := range lit.Elts {
		kv, ok := el.(*ast.KeyValueExpr)
		if !ok || fmt.Sprint(kv.Key) != "Name" {
			continue
		}
		if s, ok := kv.Value.(*ast.BasicLit); ok {
			if name, err := strconv.Unquote(s.Value); err == nil {
				names = append(names, name)
			}
		}
	}
	return names
}
