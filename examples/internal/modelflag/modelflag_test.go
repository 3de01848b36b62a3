package modelflag

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
)

func TestChoice(t *testing.T) {
	dir := t.TempDir()
	file, key := filepath.Join(dir, "models.yaml"), filepath.Join(dir, "key")
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "models: [{name: local, api: openai/chat, base_url: 'http://127.0.0.1:1/v1', key: secret://bank}]\n")
	write(key, "long enough\n")
	tests := []struct {
		name string
		args []string
		want string // of the error, or the model that the agent gets
	}{
		{"nothing is the script", nil, "script"},
		{"a model", []string{"--model", "local", "--model-config", file, "--secret", "bank=" + key}, "local"},
		{"nobody serves it", []string{"--model", "local"}, "--model local: say with --model-config FILE who serves it"},
		{"none is chosen", []string{"--model-config", file, "--secret", "bank=" + key}, `--model "": want one that ` + file + " has: local"},
		{"another", []string{"--model", "gpt", "--model-config", file, "--secret", "bank=" + key}, `--model "gpt": want one that ` + file + " has: local"},
		{"no key", []string{"--model", "local", "--model-config", file}, "--model-config: models.yaml:1: models[0].key: the secret named here is not given; none is; start with --secret NAME=FILE"},
		{"no file", []string{"--model", "local", "--model-config", file + "x"}, "--model-config: open "},
		{"no secret", []string{"--model", "local", "--model-config", file, "--secret", "bank"}, `--secret "bank": want NAME=FILE`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var f Flags
			fs := flag.NewFlagSet("x", flag.ContinueOnError)
			fs.SetOutput(io.Discard)
			f.Add(fs)
			if err := fs.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			c, err := f.Open()
			if err != nil {
				if !strings.HasPrefix(err.Error(), tt.want) {
					t.Errorf("Open: %v\nwant %s", err, tt.want)
				}
				return
			}
			cfg := runtime.Config{Agents: []*agents.Agent{{Model: "script"}}, Models: map[string]model.Model{"script": scripted.Script()}}
			c.Use(&cfg)
			got := cfg.Agents[0].Model
			if got != tt.want || cfg.Models[got] == nil || cfg.Models["script"] == nil || (c.Key("k") == "k") != (got == "script") {
				t.Errorf("the agent has %q of %v, the key is %q", got, cfg.Models, c.Key("k"))
			}
		})
	}
}
