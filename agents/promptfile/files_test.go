package promptfile_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents/pathtrust"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/agents/promptfile"
)

// tree makes files below a new folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func trust(t *testing.T, roots ...string) pathtrust.Policy {
	t.Helper()
	p, err := pathtrust.New(roots...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func symlink(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

// shown is what was loaded, short.
func shown(l promptfile.Loaded) (out []string) {
	for _, p := range l.Layers {
		out = append(out, fmt.Sprintf("%s %s %s %s", p.ID, p.Source, p.Mode, p.Text))
	}
	for _, u := range l.Untrusted {
		out = append(out, "untrusted "+filepath.Base(u))
	}
	return out
}

var system, app = "system-md user append S", "agents-md app append A"

func TestLoad(t *testing.T) {
	dir := tree(t, map[string]string{
		"home/.daybook/agent/SYSTEM.md": "S", "ws/AGENTS.md": "A", "ws/SYSTEM.md": "S", "AGENTS.md": "above", "ws/empty/x": "", "other/AGENTS.md": "A",
	})
	home, ws, empty := filepath.Join(dir, "home"), filepath.Join(dir, "ws"), filepath.Join(dir, "ws/empty")
	trusted := trust(t, ws)
	tests := []struct {
		name string
		in   promptfile.Files
		want []string
	}{
		{"PR-71 both, SYSTEM.md first", promptfile.Files{Global: home, Workspace: ws, Trust: trusted}, []string{system, app}},
		{"PR-72 SYSTEM.md needs no trust", promptfile.Files{Global: home}, []string{system}},
		{"PR-73 AGENTS.md, trusted", promptfile.Files{Workspace: ws, Trust: trusted}, []string{app}},
		{"PR-73 AGENTS.md, not trusted", promptfile.Files{Global: home, Workspace: ws, Trust: trust(t, home)}, []string{system, "untrusted AGENTS.md"}},
		{"PR-73 nobody is trusted unless somebody says so", promptfile.Files{Workspace: ws}, []string{"untrusted AGENTS.md"}},
		{"PR-74 AGENTS.md elsewhere, trusted", promptfile.Files{AgentsPath: ws + "/SYSTEM.md", Trust: trusted}, []string{"agents-md app append S"}},
		{"PR-74 AGENTS.md elsewhere, not trusted", promptfile.Files{Workspace: ws, AgentsPath: dir + "/other/AGENTS.md", Trust: trusted}, []string{"untrusted AGENTS.md"}},
		{"PR-74 SYSTEM.md elsewhere", promptfile.Files{Global: home, SystemPath: ws + "/AGENTS.md"}, []string{"system-md user append A"}},
		{"PR-78 missing files", promptfile.Files{Global: ws, Workspace: empty, Trust: trusted}, nil},
		{"PR-78 missing files elsewhere", promptfile.Files{SystemPath: dir + "/x", AgentsPath: ws + "/x", Trust: trusted}, nil},
		{"PR-69 no search up the folders", promptfile.Files{Workspace: empty, Trust: trust(t, dir)}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := tt.in.Load()
			if d := cmp.Diff(tt.want, shown(l)); d != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
		})
	}
}

// PR-76: links that lead out of what is trusted are not read; others are.
func TestLinks(t *testing.T) {
	dir := tree(t, map[string]string{"ws/docs/a.md": "A", "secret.md": "secret", "evil/AGENTS.md": "secret"})
	ws := filepath.Join(dir, "ws")
	for to, want := range map[string][]string{
		"docs/a.md": {app}, filepath.Join(dir, "secret.md"): {"untrusted AGENTS.md"}, "../secret.md": {"untrusted AGENTS.md"}, "AGENTS.md": {"untrusted AGENTS.md"},
	} {
		name := filepath.Join(ws, "AGENTS.md")
		symlink(t, to, name)
		l, err := promptfile.Files{Workspace: ws, Trust: trust(t, ws)}.Load()
		if d := cmp.Diff(want, shown(l)); d != "" || err != nil {
			t.Errorf("link to %s: %v (-want +got):\n%s", to, err, d)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	symlink(t, "../evil", filepath.Join(ws, "sub"))
	l, err := promptfile.Files{Workspace: filepath.Join(ws, "sub"), Trust: trust(t, ws)}.Load()
	if d := cmp.Diff([]string{"untrusted AGENTS.md"}, shown(l)); d != "" || err != nil {
		t.Errorf("a folder that leads out: %v (-want +got):\n%s", err, d)
	}
}

// PR-75, PR-77, PR-79: without folders nothing is read; each read is permitted
// first; there are two at most, of exactly these names.
func TestReads(t *testing.T) {
	dir := tree(t, map[string]string{".daybook/agent/SYSTEM.md": "S", "AGENTS.md": "A", "AGENTS.local.md": "x", "SYSTEM.md": "x", "CLAUDE.md": "x", "agents/a/AGENT.md": "x"})
	var asked []string
	permit := func(path string) error {
		rel, err := filepath.Rel(dir, path)
		asked = append(asked, rel)
		return err
	}
	l, err := promptfile.Files{Trust: trust(t, dir), Permit: permit}.Load()
	if err != nil || len(asked)+len(l.Layers)+len(l.Untrusted) > 0 {
		t.Errorf("no folders: asked %q, %v %v", asked, l, err)
	}
	f := promptfile.Files{Global: dir, Workspace: dir, Trust: trust(t, dir), Permit: permit}
	if l, err = f.Load(); err != nil || len(l.Layers) != 2 {
		t.Errorf("%v %v", l, err)
	}
	if d := cmp.Diff([]string{promptfile.SystemMD, promptfile.AgentsMD}, asked); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
	for _, refusal := range []error{errors.New("not today"), fs.ErrNotExist, pathtrust.ErrUntrusted} {
		f.Permit = func(path string) error {
			if strings.HasSuffix(path, "AGENTS.md") {
				return refusal
			}
			return nil
		}
		l, err = f.Load()
		if err == nil || !strings.Contains(err.Error(), `AGENTS.md": it may not be read: `+refusal.Error()) || len(l.Layers) > 0 {
			t.Errorf("refused: %v %v", l, err)
		}
	}
}

// PR-79: nothing here lists a folder or runs what it reads.
func TestNothingIsListed(t *testing.T) {
	for _, dir := range []string{".", "../pathtrust", "../prompt"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range f.Imports {
				if p := i.Path.Value; p == `"os/exec"` || p == `"plugin"` || strings.HasPrefix(p, `"net`) {
					t.Errorf("%s imports %s", name, p)
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					switch s.Sel.Name {
					case "ReadDir", "Readdir", "Readdirnames", "WalkDir", "Walk", "Glob", "ReadFile", "FS":
						t.Errorf("%s uses %s", name, s.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

func TestTexts(t *testing.T) {
	tests := []struct{ name, text, want, fault string }{
		{"PR-71 a byte order mark and windows line ends", "\ufeffa\r\nb\r\n", "a\nb\n", ""},
		{"empty", "", "", ""},
		{"not UTF-8", "a\nb\xe9", "", "line 2: it is not UTF-8 text: save it as UTF-8"},
		{"UTF-16", "\xff\xfea\x00", "", "UTF-16"},
		{"a NUL", "a\x00", "", "line 1: there is a NUL byte"},
		{"as long as may be", strings.Repeat("x", prompt.MaxBytes), strings.Repeat("x", prompt.MaxBytes), ""},
		{"too long", strings.Repeat("x", prompt.MaxBytes+1), "", "the file is too large: over 262144 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := tree(t, map[string]string{"AGENTS.md": tt.text})
			for _, f := range []promptfile.Files{{Workspace: dir, Trust: trust(t, dir)}, {SystemPath: filepath.Join(dir, "AGENTS.md")}} {
				l, err := f.Load()
				if tt.fault == "" && (err != nil || len(l.Layers) != 1 || l.Layers[0].Text != tt.want) {
					t.Errorf("%.100v %v", l, err)
				}
				if tt.fault != "" && (err == nil || !strings.Contains(err.Error(), tt.fault) || !strings.Contains(err.Error(), "AGENTS.md") || len(l.Layers) > 0) {
					t.Errorf("%v, want %q", err, tt.fault)
				}
			}
		})
	}
	dir := tree(t, map[string]string{"AGENTS.md/x": ""})
	if _, err := (promptfile.Files{Workspace: dir, Trust: trust(t, dir)}).Load(); !errors.Is(err, pathtrust.ErrNoFile) {
		t.Errorf("a folder: %v", err)
	}
}
