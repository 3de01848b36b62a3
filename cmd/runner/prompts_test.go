package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/agents/prompt"
)

// promptsWorld makes a working directory with a workspace, a home and two ways to
// keep agents; ws/out is a link that leads out of the workspace.
func promptsWorld(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	const agent = "---\nname: a\nmodel: scripted/refunds\n---\nP\n"
	for name, text := range map[string]string{
		"AGENTS.md": "here", "ws/AGENTS.md": "A", "home/.daybook/agent/SYSTEM.md": "S", "other/x.md": "X",
		"plain/AGENT.md": agent, "cfg/agents/a/AGENT.md": agent, "cfg/agents/SYSTEM.md": "C", "loose/agents/AGENT.md": agent, "bad/AGENTS.md": "a\nb\xe9",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"ws/out.md": "../other/x.md", "leads/agents/a": "../../plain"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
}

// composed is the prompt of the one agent that the flags give a worker.
func composed(t *testing.T, workspace string, args ...string) (text, said string, err error) {
	t.Helper()
	var problems bytes.Buffer
	a := &app{err: &problems, logLevel: "info"}
	var w workerFlags
	c := &cobra.Command{}
	w.add(c)
	w.prompts.add(c.Flags(), workspace)
	if err := c.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	k, err := a.outfit(t.Context(), &w)
	if err != nil {
		return "", problems.String(), err
	}
	t.Cleanup(func() {
		if err := k.shelf.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	p, err := prompt.Compose(k.agents[0].Prompt, k.agents[0].Layers...)
	return strings.ReplaceAll(p.Text, "\n\n", "|"), problems.String(), err
}

func TestPromptFlags(t *testing.T) {
	promptsWorld(t)
	var a app
	dev, worker := a.devCommand().Flags().Lookup("workspace").DefValue, a.workerCommand().Flags().Lookup("workspace").DefValue
	plain := func(args ...string) []string { return append([]string{"--agents", "plain"}, args...) }
	tests := []struct {
		name      string
		workspace string
		args      []string
		want      string
		said      string
	}{
		{"PR-80 dev reads the workspace, if it is trusted", dev, plain("--trust", "."), "P|here", ""},
		{"PR-80 dev does not read what is not trusted, and says so", dev, plain(), "P", "not read: its directory is not trusted"},
		{"PR-80 a worker reads what it is told to", worker, plain("--trust", "."), "P", ""},
		{"PR-80 both files", dev, plain("--workspace", "ws", "--trust", "ws", "--global-root", "home"), "P|S|A", ""},
		{"PR-81 without AGENTS.md", dev, plain("--trust", ".", "--global-root", "home", "--no-agents-md"), "P|S", ""},
		{"PR-82 without SYSTEM.md", dev, plain("--trust", ".", "--global-root", "home", "--no-system-md"), "P|here", ""},
		{"PR-82 there is no home by default", worker, plain(), "P", ""},
		{"PR-83 AGENTS.md from elsewhere, trusted", dev, plain("--trust", "other", "--agents-md-file", "other/x.md"), "P|X", ""},
		{"PR-83 AGENTS.md from elsewhere, not trusted", dev, plain("--trust", "ws", "--agents-md-file", "other/x.md"), "P", "file=other/x.md"},
		{"PR-83 AGENTS.md over a link that leads out", dev, plain("--trust", "ws", "--agents-md-file", "ws/out.md"), "P", "file=ws/out.md"},
		{"PR-84 SYSTEM.md from elsewhere needs no trust", worker, plain("--system-md-file", "ws/out.md"), "P|X", ""},
		{"PR-85 base instructions, under everything else", dev, plain("--trust", ".", "--global-root", "home", "--system", "B"), "B|S|P|here", ""},
		{"PR-86 bundles", worker, []string{"--agents-config", "cfg"}, "C|P", ""},
		{"PR-86 bundles with all that there is", dev, []string{"--agents-config", "./cfg/", "--trust", ".", "--system", "B", "--global-root", "home"}, "B|S|C|P|here", ""},
		{"PR-87 the workspace is where the process is", dev, plain("--trust", "."), "P|here", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text, said, err := composed(t, tt.workspace, tt.args...)
			if err != nil || text != tt.want {
				t.Errorf("prompt %q %v, want %q", text, err, tt.want)
			}
			if !strings.Contains(said, tt.said) || tt.said == "" && said != "" {
				t.Errorf("said %q, want %q", said, tt.said)
			}
		})
	}
	var faults []string
	for _, args := range [][]string{
		plain("--no-agents-md", "--agents-md-file", "x"),
		plain("--no-system-md", "--system-md-file", "x"),
		plain("--trust", "nowhere"),
		plain("--agents-config", "cfg"),
		{"--agents-config", "nowhere"},
		{"--agents-config", "loose"},
		{"--agents-config", "leads"},
		plain("--workspace", "bad", "--trust", "bad"),
	} {
		_, _, err := composed(t, dev, args...)
		if err == nil {
			t.Errorf("%q: no error", args)
			continue
		}
		faults = append(faults, err.Error())
	}
	want := []string{
		"--no-agents-md and --agents-md-file exclude each other",
		"--no-system-md and --system-md-file exclude each other",
		`--trust: trust folder "nowhere": lstat nowhere: no such file or directory`,
		"--agents and --agents-config exclude each other",
		"--agents-config: stat nowhere/agents: no such file or directory",
		"loose/agents/AGENT.md: --agents-config: want it in a folder of its own, loose/agents/a/AGENT.md",
		"leads/agents/a/AGENT.md: --agents-config: leads/agents/a/AGENT.md leads out of leads: put the file itself there",
		`prompt file "bad/AGENTS.md": line 2: it is not UTF-8 text: save it as UTF-8`,
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range faults {
		faults[i] = strings.ReplaceAll(f, dir+"/", "")
	}
	if d := cmp.Diff(want, faults); d != "" {
		t.Errorf("faults (-want +got):\n%s", d)
	}
}
