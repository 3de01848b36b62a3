package agents_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
)

// folder writes agents into a folder, by their names.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, fields := range files {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("---\nname: %s\nmodel: m\n%s\n---\nDo it.\n", name, fields)
		if err := os.WriteFile(filepath.Join(dir, name, agents.FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTeam(t *testing.T) {
	dir := folder(t, map[string]string{
		"lead":        "agents:\n  fact-finder: { budget: \"0.20\" }\n  writer: {}\nlimits: { max_children: 2, max_depth: 1 }",
		"fact-finder": "description: Finds facts.",
		"writer":      "description: Writes.\ninput:\n  type: object\n  properties: { topic: { type: string }, words: { type: integer, maximum: 100 } }\n  required: [topic]",
	})
	as, err := agents.LoadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	budget := 200_000 * events.MicroUSD
	lead, writer := as[1], as[2]
	if d := cmp.Diff([]agents.Callee{{Agent: "fact-finder", Budget: &budget, Line: 5}, {Agent: "writer", Line: 6}}, lead.Agents); d != "" {
		t.Errorf("agents (-want +got):\n%s", d)
	}
	if lead.Agents[0].Tool() != "fact_finder" || lead.Limits.MaxChildren != 2 || lead.Limits.MaxDepth != 1 {
		t.Errorf("lead %+v", lead)
	}
	if got, want := string(writer.Input), `{"properties":{"topic":{"type":"string"},"words":{"maximum":100,"type":"integer"}},"required":["topic"],"type":"object"}`; got != want {
		t.Errorf("input %s, want %s", got, want)
	}
	// What is called and how is part of the hash, where it stands is not.
	base := lead.Hash()
	moved := *lead
	moved.Agents = []agents.Callee{{Agent: "fact-finder", Budget: &budget, Line: 9}, {Agent: "writer"}}
	dearer := *lead
	more := 2 * budget
	dearer.Agents = []agents.Callee{{Agent: "fact-finder", Budget: &more}, {Agent: "writer"}}
	if moved.Hash() != base || dearer.Hash() == base {
		t.Error("the hash does not say whom the agent may call")
	}
}

func TestTeamFaults(t *testing.T) {
	const described = "description: Works."
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{
			"nobody of that name",
			map[string]string{"lead": "agents: [writr]", "writer": described},
			[]string{`lead/AGENT.md:4: agents: there is no agent "writr"; did you mean "writer"?`},
		},
		{
			"no description",
			map[string]string{"lead": "agents:\n  writer: {}", "writer": ""},
			[]string{`lead/AGENT.md:5: agents: agent "writer" has no description, which is what the model of "lead" is told about it; write one in `},
		},
		{
			"itself",
			map[string]string{"lead": described + "\nagents: [lead]"},
			[]string{`lead/AGENT.md:5: agents: lead → lead: a call that leads back to its caller never ends`},
		},
		{"two circles", map[string]string{
			"a": described + "\nagents: [b]", "b": described + "\nagents:\n  c: {}\n  a: {}", "c": described + "\nagents:\n  d: {}\n  b: {}", "d": described,
		}, []string{`b/AGENT.md:7: agents: a → b → a: `, `c/AGENT.md:7: agents: b → c → b: `}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := agents.LoadDir(folder(t, tt.files))
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error\n%v\nwant %s", err, want)
				}
			}
			if n := strings.Count(err.Error(), "\n") + 1; n != len(tt.want) {
				t.Errorf("%d faults, want %d:\n%v", n, len(tt.want), err)
			}
		})
	}
	// Shared work is no circle.
	if _, err := agents.LoadDir(folder(t, map[string]string{"a": "agents: [b, c]", "b": described + "\nagents: [d]", "c": described + "\nagents: [d]", "d": described})); err != nil {
		t.Error(err)
	}
}
