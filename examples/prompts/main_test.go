package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/internal/testenv/modelserver"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
)

// composed is the prompt that the files make: what is trusted, each once, in the order
// of sources.
const composed = `You answer customers of a lamp shop.

Write plain English.
End with: Prices are in EUR.

Look into the stock before you say a number.
End with: This is no binding offer.

This is the shop by the harbour.
End with: Yours, the lamp shop.`

// PR-20, PR-22: prompt files, an active skill, models of one's own and of a provider
// that ships, a tool of the host and a loop take part in one run, offline.
func TestPromptsSkillsModelsToolsAndALoop(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second time it is the same run
		var out bytes.Buffer
		if err := run(t.Context(), dir, "files", modelflag.Flags{}, &out); err != nil {
			t.Fatal(err)
		}
		_, told, ok := strings.Cut(out.String(), "not trusted, not read: "+filepath.Join("files", "download", "AGENTS.md")+"\n")
		if !ok {
			t.Errorf("nothing is said of the file that is not trusted: %s", out.String())
		}
		rest := told
		for _, want := range []string{ // in this order
			"layer base of source base\nlayer system-md of source user\nlayer skill/quotes of source skill\nlayer agents-md of source app\n",
			"---\n" + composed + "\n---\n",
			"loop singleshot, version 1\n",
			"model house answered turn 1\n",
			"tool stock: There are 3 lamps of brass, 45.00 each.\n",
			"model house: model call: unavailable",
			"model served answered turn 2\n",
			// What the model on the wire was told to end with, it ended with.
			`finished: finish "There are 3 lamps of brass, 45.00 each. Prices are in EUR. This is no binding offer. Yours, the lamp shop."`,
		} {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Fatalf("%s\nwant %s", told, want)
			}
			rest = after
		}
		if strings.Contains(out.String(), "cheaper elsewhere") {
			t.Errorf("what is not trusted came in: %s", out.String())
		}
	}
}

// An active skill grants nothing: without its tool the example does not start.
func TestSkillWithoutItsTool(t *testing.T) {
	files := t.TempDir()
	if err := os.CopyFS(files, os.DirFS("files")); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(files, "agent", "AGENT.md")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, bytes.Replace(b, []byte("tools: [stock]\n"), nil, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = run(t.Context(), t.TempDir(), files, modelflag.Flags{}, &out)
	if err == nil || !strings.Contains(err.Error(), "stock") {
		t.Errorf("run: %v, want an error about the tool stock\n%s", err, out.String())
	}
}

// prompted answers by a script and keeps what it was told.
type prompted struct {
	model.Model
	system []string
}

func (p *prompted) Call(ctx context.Context, r model.Request) (model.Response, error) {
	p.system = append(p.system, r.System)
	return p.Model.Call(ctx, r)
}

func TestOnAModelOverTheWire(t *testing.T) {
	for _, format := range []string{modelserver.Chat, modelserver.Messages} {
		m := &prompted{Model: scripted.Script(
			scripted.Answer{Text: "I look.", Calls: []scripted.Call{{Name: "stock", Arguments: `{"lamp":"oak"}`}}},
			scripted.Answer{Text: "We have three."},
		)}
		srv := modelserver.Start(t, m)
		file, secret := srv.Config(t, format)
		var out bytes.Buffer
		if err := run(t.Context(), t.TempDir(), "files", modelflag.Flags{Model: modelserver.Name, Config: file, Secrets: []string{secret}}, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), `finished: finish "We have three."`) || srv.Answers() != 2 || len(m.system) != 2 {
			t.Errorf("%s after %d answers: %s", format, srv.Answers(), out.String())
		}
		for _, s := range m.system {
			if s != composed {
				t.Errorf("%s: the model was told %q, want %q", format, s, composed)
			}
		}
	}
}
