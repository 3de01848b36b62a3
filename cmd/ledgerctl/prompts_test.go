package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/redact"
)

// A run's prompt layers are named, and which of them are out.
func TestPromptLayersAreShown(t *testing.T) {
	layers := []events.PromptLayer{
		{ID: "base", Source: "base", Mode: "append", Digest: events.Hash{1, 2}},
		{ID: "system-md", Source: "user", Mode: "append", Digest: events.Hash{3}, Off: "quiet"},
		{ID: "quiet", Source: "custom", Mode: "disable", Digest: events.Hash{4}},
		{ID: "agents-md", Source: "app", Mode: "append", Digest: events.Hash{5}},
	}
	skills := []events.Skill{
		{Name: "counting", Digest: events.Hash{6}, Active: "run", Trust: "own", Tools: []string{"Bash(git:*)"}},
		{Name: "mails", Digest: events.Hash{7}, Trust: "external"},
	}
	asked, err := redact.New(redact.Config{}).JSON(json.RawMessage(`{"text":"Be\nkind.","no_layers":true,"skills":["counting"]}`))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var id events.RunID
	err = fillWith(dir, sqlstore.Config{}, func(f *filler) {
		h := f.take(f.submit(ledger.Submission{Agent: "writer", Prompt: asked}), "w1", time.Minute)
		h.note(events.RunStarted{Worker: "w1", Agent: "writer", Model: "m", Loop: "singleshot", LoopVersion: 1, Tools: []events.ToolBinding{}, PromptLayers: layers, Skills: skills})
		h.finish(events.RunFinished{StoppedBy: events.StoppedBySilent}, ledger.Ending{State: ledger.Finished, StoppedBy: events.StoppedBySilent})
		id = h.run.ID
	})
	if err != nil {
		t.Fatal(err)
	}
	show := func(args ...string) string {
		var out, problems bytes.Buffer
		if code := run(t.Context(), append([]string{"--dir", dir, "runs", "show", id.String()}, args...), nil, &out, &problems); code != 0 {
			t.Fatalf("exit code %d: %s", code, problems.String())
		}
		return out.String()
	}
	text := show()
	for _, want := range []string{
		"prompt of base + quiet + agents-md", "0102000000000000", "taken out by",
		"no configured layers, skills counting, prompt be kind.", "counting  run", "can be loaded", "external", "bash(git:*)",
	} {
		if !strings.Contains(strings.ToLower(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var shown struct {
		Layers []events.PromptLayer `json:"prompt_layers"`
		Skills []events.Skill       `json:"skills"`
		Asked  json.RawMessage      `json:"asked_prompt"`
	}
	if err := json.Unmarshal([]byte(show("-o", "json")), &shown); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(skills, shown.Skills); d != "" || !strings.Contains(string(shown.Asked), `"no_layers": true`) {
		t.Errorf("%s, skills (-want +got):\n%s", shown.Asked, d)
	}
	if d := cmp.Diff(layers, shown.Layers); d != "" {
		t.Errorf("layers (-want +got):\n%s", d)
	}
}
