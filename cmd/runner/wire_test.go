package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/daybookhq/daybook/internal/testenv/modelserver"
	"github.com/daybookhq/daybook/model/scripted"
)

// TestOnAModelOverTheWire: what runs offline runs on a provider, by --model. The
// provider gives the answers of the scripts.
func TestOnAModelOverTheWire(t *testing.T) {
	hello, err := filepath.Abs("../../examples/hello")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"HELLO": hello}
	servers := map[string]*modelserver.Server{}
	for _, s := range []struct{ name, policy, format string }{
		{"HELLO", "hello/policy.yaml", modelserver.Messages},
		{"REFUNDS", "refunds/policy.yaml", modelserver.Chat},
	} {
		policy, err := scripted.Load(filepath.Join("../../examples", s.policy))
		if err != nil {
			t.Fatal(err)
		}
		servers[s.name] = modelserver.Start(t, policy)
		env[s.name+"_MODELS"], env[s.name+"_KEY"] = servers[s.name].Config(t, s.format)
	}
	t.Run("scripts", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: "testdata/wire", UpdateScripts: *update,
			Setup: func(e *testscript.Env) error {
				for name, value := range env {
					e.Setenv(name, value)
				}
				return nil
			},
		})
	})
	// 26 runs; each but those that are declined at once has three turns.
	if h, r := servers["HELLO"].Answers(), servers["REFUNDS"].Answers(); h < 1 || r < 40 {
		t.Errorf("%d and %d answers: the scripts were asked, not the servers", h, r)
	}
}
