package promptfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents/pathtrust"
	"github.com/daybookhq/daybook/agents/prompt"
	"github.com/daybookhq/daybook/agents/promptfile"
)

const pack = "agent-md package append P"

func TestBundle(t *testing.T) {
	const agent = "\ufeff---\r\nname: a\r\nmodel: m\r\n---\r\n\r\nP\r\n"
	dir := tree(t, map[string]string{
		"cfg/agents/SYSTEM.md": "S", "cfg/agents/a/AGENT.md": agent, "ws/AGENTS.md": "A", "secret/AGENT.md": "---\n---\nsecret",
		"bad/agents/a/AGENT.md": "no front matter",
	})
	cfg, ws := filepath.Join(dir, "cfg"), filepath.Join(dir, "ws")
	symlink(t, "../../secret", filepath.Join(cfg, "agents", "out"))
	inCfg, inWS := trust(t, cfg), trust(t, ws)
	type bundle = promptfile.Bundle
	tests := []struct {
		name string
		in   bundle
		want []string
	}{
		{"PR-88 three layers, in order", bundle{Name: "a", Config: cfg, Workspace: ws, ConfigTrust: inCfg, WorkspaceTrust: inWS}, []string{system, pack, app}},
		{"PR-88 an agent without a file of its own", bundle{Name: "b", Config: cfg, Workspace: ws, ConfigTrust: inCfg, WorkspaceTrust: inWS}, []string{system, app}},
		{"PR-88 no folders", bundle{Name: "a"}, nil},
		{"PR-89 without SYSTEM.md", bundle{Name: "a", Config: cfg, Workspace: ws, ConfigTrust: inCfg, WorkspaceTrust: inWS, Leave: []string{promptfile.SystemID}}, []string{pack, app}},
		{"PR-89 without AGENT.md", bundle{Name: "a", Config: cfg, Workspace: ws, ConfigTrust: inCfg, WorkspaceTrust: inWS, Leave: []string{promptfile.AgentID}}, []string{system, app}},
		{"PR-89 without AGENTS.md", bundle{Name: "a", Config: cfg, Workspace: ws, ConfigTrust: inCfg, WorkspaceTrust: inWS, Leave: []string{promptfile.AgentsID}}, []string{system, pack}},
		{"PR-89 without any", bundle{Name: "a", Config: cfg, Workspace: ws, Leave: []string{promptfile.SystemID, promptfile.AgentID, promptfile.AgentsID}}, nil},
		{"PR-90 only the configuration is trusted", bundle{Name: "a", Config: cfg, Workspace: ws, ConfigTrust: inCfg, WorkspaceTrust: inCfg}, []string{system, pack, "untrusted AGENTS.md"}},
		{"PR-90 only the workspace is trusted", bundle{Name: "a", Config: cfg, Workspace: ws, ConfigTrust: inWS, WorkspaceTrust: inWS}, []string{app, "untrusted SYSTEM.md", "untrusted AGENT.md"}},
		{"PR-90 missing folders", bundle{Name: "a", Config: dir + "/x", Workspace: dir + "/y"}, nil},
		{"PR-76 an agent whose folder leads out", bundle{Name: "out", Config: cfg, ConfigTrust: inCfg}, []string{system, "untrusted AGENT.md"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := tt.in.Load()
			if d := cmp.Diff(tt.want, shown(l)); d != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
		})
	}
	for name, b := range map[string]bundle{
		`want as name`:               {Name: "../secret", Config: cfg, ConfigTrust: trust(t, dir)},
		`leave "agent" out: want`:    {Name: "a", Leave: []string{"agent"}},
		`AGENT.md:1: no front matte`: {Name: "a", Config: filepath.Join(dir, "bad"), ConfigTrust: trust(t, dir)},
	} {
		if l, err := b.Load(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v %v, want %q", l, err, name)
		}
	}
}

// PR-91: the run's prompt comes after a bundle's layers.
func TestRunPromptComesLast(t *testing.T) {
	dir := tree(t, map[string]string{"agents/SYSTEM.md": "S", "agents/a/AGENT.md": "---\n---\nP", "AGENTS.md": "A"})
	l, err := promptfile.Bundle{Name: "a", Config: dir, Workspace: dir, ConfigTrust: trust(t, dir), WorkspaceTrust: trust(t, dir)}.Load()
	if err != nil {
		t.Fatal(err)
	}
	run := prompt.Layer{ID: "run", Source: prompt.Run, Text: "R"}
	p, err := prompt.Compose("", append([]prompt.Layer{run}, l.Layers...)...)
	if err != nil || p.Text != "S\n\nP\n\nA\n\nR" {
		t.Errorf("%q %v", p.Text, err)
	}
	run.Mode = prompt.Replace
	if p, err = prompt.Compose("", append([]prompt.Layer{run}, l.Layers...)...); err != nil || p.Text != "R" {
		t.Errorf("%q %v", p.Text, err)
	}
}

func ExampleFiles_Load() {
	dir, err := os.MkdirTemp("", "workspace")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(filepath.Join(dir, promptfile.AgentsMD), []byte("Amounts are in euros."), 0o600); err != nil {
		panic(err)
	}
	trusted, err := pathtrust.New(dir)
	if err != nil {
		panic(err)
	}
	loaded, err := promptfile.Files{Workspace: dir, Trust: trusted}.Load()
	if err != nil {
		panic(err)
	}
	p, err := prompt.Compose("You decide about refunds.", loaded.Layers...)
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(p.Text)
	// Output:
	// You decide about refunds.
	//
	// Amounts are in euros.
}
