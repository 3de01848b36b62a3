package skill_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents/pathtrust"
	"github.com/daybookhq/daybook/agents/skill"
	"github.com/daybookhq/daybook/internal/strictyaml"
	"github.com/daybookhq/daybook/tools"
)

const head = "---\nname: refunds\ndescription: How refunds are made.\n"

// PR-21: name, instructions, the names of tools, and context; entries are read by
// the parser of commands.
func TestParse(t *testing.T) {
	read := func(file string) ([]byte, error) {
		if file == filepath.Join("references", "rules.md") {
			return []byte("\ufeffNo refunds\r\non Sundays.\n"), nil
		}
		return nil, os.ErrNotExist
	}
	tests := []struct {
		name   string
		fields string
		tools  []string
		text   string
	}{
		{"nothing else", "", nil, "Ask first."},
		{"entries with spaces between, as the format has it", "allowed-tools: Bash(git status:*) Read Bash(jq:*)\n", []string{"Bash(git status:*)", "Read", "Bash(jq:*)"}, "Ask first."},
		{"entries with commas", "allowed-tools: Bash(git add:*, git rm), Read,Grep\n", []string{"Bash(git add:*, git rm)", "Read", "Grep"}, "Ask first."},
		{"a list", "allowed-tools:\n  - Bash(git:*)\n  - mcp__orders__find\n", []string{"Bash(git:*)", "mcp__orders__find"}, "Ask first."},
		{"escaped parentheses", `tools: [ 'command(echo \(a b\))' ]` + "\n", []string{`command(echo \(a b\))`}, "Ask first."},
		{"escaped parentheses in a text", `tools: command(echo \(a b\)) finish` + "\n", []string{`command(echo \(a b\))`, "finish"}, "Ask first."},
		{"known fields of others", "license: MIT\ncompatibility: needs a network\nmetadata:\n  author: ann\n  version: \"1.0\"\nversion: 1.0\nuser-invocable: true\nargument-hint: '[id]'\n", nil, "Ask first."},
		{"context", "context: [references/rules.md]\n", nil, "Ask first.\n\nNo refunds\non Sundays."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := skill.Parse("SKILL.md", []byte("\ufeff"+strings.ReplaceAll(head+tt.fields+"---\n\nAsk first.\n", "\n", "\r\n")), read)
			if err != nil {
				t.Fatal(err)
			}
			if s.Name != "refunds" || s.Description != "How refunds are made." || s.Text() != tt.text {
				t.Errorf("%+v, text %q", s, s.Text())
			}
			if d := cmp.Diff(tt.tools, s.Needs()); d != "" {
				t.Errorf("tools (-want +got):\n%s", d)
			}
		})
	}
	s, err := skill.Parse("SKILL.md", []byte(head+"disable-model-invocation: true\nallowed-tools: Bash(git:*) Read\n---\nx\n"), nil)
	if err != nil || !s.Chosen {
		t.Fatalf("%+v %v", s, err)
	}
	if got := s.Missing(func(tool string) bool { return tool == "Bash" }); !slices.Equal(got, []string{"Read"}) {
		t.Errorf("missing %q: only the name of a tool counts", got)
	}
}

// Whatever is changed in what a skill says changes its digest.
func TestDigest(t *testing.T) {
	seen := map[string]string{}
	for _, text := range []string{
		head + "---\nx", head + "---\ny", head + "tools: [a]\n---\nx", head + "tools: ['a(b)']\n---\nx", head + "disable-model-invocation: true\n---\nx",
		strings.Replace(head, "How", "Why", 1) + "---\nx", strings.Replace(head, "refunds", "refund", 1) + "---\nx",
	} {
		s, err := skill.Parse("a", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, trust := range []tools.Trust{tools.Own, tools.External} {
			s.Trust = trust
			if was, twice := seen[s.Digest().String()]; twice {
				t.Errorf("%q has the digest of %q", text, was)
			}
			seen[s.Digest().String()] = text
		}
	}
	a, _ := skill.Parse("a", []byte(head+"license: MIT\n---\nx"), nil)
	b, _ := skill.Parse("b", []byte("---\r\ndescription:   How refunds are\r\n  made.\r\nname: refunds\r\n---\r\n\r\nx\r\n\r\n"), nil)
	if a.Digest() != b.Digest() {
		t.Error("where it is and how it is spelled changes the digest")
	}
}

// Each fault names file, line and field, and says what to write.
func TestFaults(t *testing.T) {
	big := strings.Repeat("x", skill.MaxBytes)
	tests := []struct{ name, text, want string }{
		{"no front matter", "Ask first.", `f:1: no front matter; write a line "---", then the fields, then "---", then the instructions`},
		{"no end", "---\nname: a\n", "f:1: the front matter does not end"},
		{"nothing", "---\n---\nx", "f:2: nothing here"},
		{"no name", "---\ndescription: d\n---\nx", "f:2: name: missing; write the name of its folder"},
		{"no description", "---\nname: a\n---\nx", "f:2: description: missing"},
		{"a name that is none", "---\nname: a b\ndescription: d\n---\nx", "f:2: name: want 1 to 64 letters"},
		{"no instructions", head + "---\n\n", "f:4: there are no instructions"},
		{"a field that is none", head + "allowed_tools: x\n---\nx", `f:4: allowed_tools: a skill has no such field; did you mean "allowed-tools"?`},
		{"a field that would change the run", head + "model: big\n---\nx", "f:4: model: a skill is text and cannot choose that"},
		{"an entry that is none", head + "allowed-tools: Bash(git\n---\nx", "f:4: allowed-tools: read entry \"Bash(git\": the closing parenthesis is missing; write Name"},
		{"every tool", head + "allowed-tools: '*'\n---\nx", `f:4: allowed-tools: read entry "*"`},
		{"tools twice", head + "tools: [a]\nallowed-tools: b\n---\nx", "f:4: tools: it says the same as allowed-tools; keep one"},
		{"too many tools", head + "tools: " + strings.Repeat("a ", skill.MaxTools+1) + "\n---\nx", "there are 65 tools, at most 64"},
		{"a context of another program", head + "context: fork\n---\nx", "f:4: context: want a list"},
		{"a context outside", head + "context: [../other/SKILL.md]\n---\nx", "is no file of the skill's folder"},
		{"an absolute context", head + "context: [/etc/passwd]\n---\nx", "is no file of the skill's folder"},
		{"a context that is not there", head + "context: [none.md]\n---\nx", `f:4: context: file "none.md": file does not exist`},
		{"an empty context", head + "context: [empty.md]\n---\nx", `file "empty.md" is empty`},
		{"a context that is no text", head + "context: [odd.md]\n---\nx", "line 2: it is not UTF-8"},
		{"too much together", head + "context: [big.md]\n---\nx", "bytes together, at most 65536"},
		{"too long a file", head + "---\n" + big, "f: it has over 65536 bytes"},
		{"too long a description", "---\nname: a\ndescription: " + strings.Repeat("ä", skill.MaxDescription+1) + "\n---\nx", "f:3: description: it has 1025 characters, at most 1024"},
		{"not UTF-8", "---\nname: a\n---\n\xff", "f: not UTF-8 text"},
		{"a NUL", head + "---\na\x00b", "NUL byte"},
	}
	read := func(file string) ([]byte, error) {
		b, ok := map[string]string{"empty.md": " \n", "odd.md": "a\n\xff", "big.md": big}[file]
		if !ok {
			return nil, os.ErrNotExist
		}
		return []byte(b), nil
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := skill.Parse("f", []byte(tt.text), read)
			var f *strictyaml.Fault
			if s != nil || !errors.As(err, &f) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// A skill is read only from where it may be, whatever links say.
func TestDir(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, path string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(root, to), path); err != nil {
			t.Fatal(err)
		}
	}
	text := func(name, more string) string {
		return "---\nname: " + name + "\ndescription: d\n" + more + "---\nDo " + name + ".\n"
	}
	write("in/good/SKILL.md", text("good", "context: [more.md]\n"))
	write("in/good/more.md", "More.")
	write("in/other/SKILL.md", text("good", ""))
	write("in/empty/readme", "")
	write("out/away/SKILL.md", text("away", ""))
	write("out/secret.txt", "canary")
	link("out/away", "in/away")                               // the folder leads out
	link("out/away/SKILL.md", "in/file/SKILL.md")             // the file does
	write("in/peek/SKILL.md", text("peek", "context: [x]\n")) // the context does
	link("out/secret.txt", "in/peek/x")
	link("in/good", "in/alias") // stays within
	write("in/huge/SKILL.md", text("huge", "")+strings.Repeat("x", skill.MaxBytes))
	write("in/pipe/SKILL.md/x", "") // a folder in its place

	policy, err := pathtrust.New(filepath.Join(root, "in"))
	if err != nil {
		t.Fatal(err)
	}
	d := skill.Dir{Path: filepath.Join(root, "in"), Allowed: policy, Trust: tools.External}
	s, err := d.Load("good")
	if err != nil || s.Text() != "Do good.\n\nMore." || s.Trust != tools.External || s.Path != filepath.Join(root, "in/good/SKILL.md") {
		t.Fatalf("%+v %v", s, err)
	}
	for name, want := range map[string]error{
		"nobody": skill.ErrNoSkill, "empty": skill.ErrNoSkill, "../out/away": skill.ErrNoSkill, "": skill.ErrNoSkill,
		"away": pathtrust.ErrUntrusted, "file": pathtrust.ErrUntrusted, "huge": pathtrust.ErrTooLarge, "pipe": pathtrust.ErrNoFile,
	} {
		if s, err := d.Load(name); s != nil || !errors.Is(err, want) {
			t.Errorf("%q: %v %v, want %v", name, s, err, want)
		}
	}
	for name, want := range map[string]string{
		"peek": `file "x": the path is not trusted`, "other": `name: want "other", the name of its folder, got "good"`, "alias": `want "alias"`,
	} {
		if s, err := d.Load(name); s != nil || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%q: %v %v, want %q", name, s, err, want)
		}
	}
	if got := d.Names(); !slices.Equal(got, []string{"alias", "good", "huge", "other", "peek", "pipe"}) {
		t.Errorf("names %q", got)
	}
	for what, d := range map[string]skill.Dir{"no trust": {Path: d.Path}, "nothing": {}} {
		if s, err := d.Load("good"); s != nil || err == nil || d.Names() != nil {
			t.Errorf("%s: %v %v %q", what, s, err, d.Names())
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(head + "allowed-tools: Bash(git:*), Read\ncontext: [a.md]\n---\nAsk first.\n")
	f.Add(head + "tools: ['a(\\(b\\))']\nmetadata: {a: b}\ndisable-model-invocation: true\n---\r\nx")
	f.Add("---\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		read := func(file string) ([]byte, error) {
			if !filepath.IsLocal(file) {
				t.Fatalf("asked to read %q", file)
			}
			return []byte(file), nil
		}
		s, err := skill.Parse("f", []byte(text), read)
		if err != nil {
			var fault *strictyaml.Fault
			if s != nil || !errors.As(err, &fault) {
				t.Fatalf("%v %T", s, err)
			}
			return
		}
		if s.Name == "" || s.Description == "" || strings.TrimSpace(s.Instructions) != s.Instructions || s.Instructions == "" || len(s.Text()) > skill.MaxBytes {
			t.Fatalf("%+v", s)
		}
		for _, e := range s.Tools {
			if e.Name == "" || !strings.HasPrefix(e.Raw, e.Name) {
				t.Fatalf("%+v", e)
			}
		}
		s.Digest() // does not panic
	})
}
