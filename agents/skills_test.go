package agents_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/agents/pathtrust"
	"github.com/daybookhq/daybook/agents/skill"
	"github.com/daybookhq/daybook/tools"
)

// folderWith is a folder with files in it, a link where a text begins with "-> ".
func folderWith(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(text, "-> "); link {
			err = os.Symlink(filepath.Join(root, to), path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func skillFile(name, fields, text string) string {
	return "---\nname: " + name + "\ndescription: d\n" + fields + "---\n" + text
}

// Skills are found beside the agent's file, and where the process says; what is the
// agent's own comes first, and no link leads out.
func TestSkills(t *testing.T) {
	root := folderWith(t, map[string]string{
		"a/AGENT.md":                 "---\nname: a\nmodel: m\ntools: [finish]\nskills: {active: [own], available: [both, foreign]}\n---\nP",
		"a/skills/own/SKILL.md":      skillFile("own", "tools: [finish]\n", "Own."),
		"a/skills/both/SKILL.md":     skillFile("both", "", "Mine."),
		"shelf/both/SKILL.md":        skillFile("both", "", "Theirs."),
		"shelf/foreign/SKILL.md":     skillFile("foreign", "tools: [none_such]\n", "Foreign."),
		"b/AGENT.md":                 "---\nname: b\nmodel: m\nskills: [away]\n---\nP",
		"b/skills/away/SKILL.md":     "-> shelf/foreign/SKILL.md",
		"c/AGENT.md":                 "---\nname: c\nmodel: m\nskills: {active: [needy, broken], available: [forein]}\n---\nP",
		"c/skills/needy/SKILL.md":    skillFile("needy", "allowed-tools: Bash(git:*) Read\n", "x"),
		"c/skills/broken/SKILL.md":   "---\nname: broken\nsorts: x\n---\nx",
		"d/AGENT.md":                 "---\nname: d\nmodel: m\ntools: [finish]\nskills: {available: [chosen]}\n---\nP",
		"d/skills/chosen/SKILL.md":   skillFile("chosen", "disable-model-invocation: true\n", "x"),
		"untrusted/foreign/SKILL.md": skillFile("foreign", "", "x"),
	})
	policy, err := pathtrust.New(filepath.Join(root, "shelf"))
	if err != nil {
		t.Fatal(err)
	}
	shelf := skill.Dir{Path: filepath.Join(root, "shelf"), Allowed: policy, Trust: tools.External}
	l := agents.Loader{Tools: []string{"finish", "load_skill"}, Skills: agents.SkillsOf(shelf)}
	a, err := l.Load(filepath.Join(root, "a", "AGENT.md"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range a.Skills {
		active := ""
		if s.Active {
			active = " active"
		}
		got = append(got, s.Name+" "+s.Text()+" "+string(s.Trust)+active)
	}
	if !slices.Equal(got, []string{"own Own. own active", "both Mine. own", "foreign Foreign. external"}) || !slices.Equal(a.Tools, []string{"finish", "load_skill"}) {
		t.Errorf("skills %q, tools %q", got, a.Tools)
	}
	if d, err := l.Load(filepath.Join(root, "d", "AGENT.md")); err != nil || !slices.Equal(d.Tools, []string{"finish"}) {
		t.Errorf("an agent whose skills no model may load: %+v %v", d, err)
	}
	for _, tt := range []struct {
		name   string
		loader agents.Loader
		file   string
		want   []string
	}{
		{"a link out of the agent's folder", l, "b", []string{"b/AGENT.md:4: skills: skill \"away\"", "the path is not trusted"}},
		{"what is missing and what is broken", l, "c", []string{
			`c/AGENT.md:4: skills.active: skill "needy" needs tool "Bash", which is none of the agent's: a skill grants none; write it into tools`, `needs tool "Read"`,
			"c/skills/broken/SKILL.md:2: description: missing", "c/skills/broken/SKILL.md:3: sorts: a skill has no such field", `did you mean "foreign"?`,
		}},
		{"a process that cannot load skills", agents.Loader{Tools: []string{"finish"}, Skills: l.Skills}, "a", []string{"a/AGENT.md:5: skills: they are loaded with tool load_skill, which this process does not have"}},
		{"what nobody trusts", agents.Loader{Skills: agents.SkillsOf(skill.Dir{Path: filepath.Join(root, "untrusted")})}, "a", []string{`skills.available: skill "foreign"`, "the path is not trusted"}},
		{"what only others have", agents.Loader{}, "a", []string{`there is no such skill "foreign"; write one of both, own`}},
	} {
		_, err := tt.loader.Load(filepath.Join(root, tt.file, "AGENT.md"))
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", tt.name, err, want)
			}
		}
	}
}

// A run is bound to its agent by hash, so to what its skills say.
func TestSkillsAreInTheHash(t *testing.T) {
	hash := func(skills, text string) string {
		root := folderWith(t, map[string]string{
			"AGENT.md": "---\nname: a\nmodel: m\ntools: [load_skill]\n" + skills + "---\nP", "skills/one/SKILL.md": skillFile("one", "", text),
		})
		a, err := agents.Load(filepath.Join(root, "AGENT.md"))
		if err != nil {
			t.Fatal(err)
		}
		return a.Hash().String()
	}
	seen := map[string]bool{hash("", "x"): true, hash("skills: [one]\n", "x"): true, hash("skills: [one]\n", "y"): true, hash("skills: {active: [one]}\n", "x"): true}
	if len(seen) != 4 {
		t.Errorf("%d hashes of 4 agents", len(seen))
	}
	if hash("skills: [one]\n", "x") != hash("skills: {available: [one]}\n", "x") {
		t.Error("the same said in two ways has two hashes")
	}
}
