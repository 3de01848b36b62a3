package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/internal/testenv/modelserver"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
)

func TestServiceWithAToolOfItsOwn(t *testing.T) {
	out, err := run(t.Context(), t.TempDir(), modelflag.Flags{})
	if err != nil || out != `run finished: "Sent."` {
		t.Errorf("run = %q, %v", out, err)
	}
	src, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(src, []byte("\n")); n > 60 {
		t.Errorf("the example has %d lines; it is to show how little is needed", n)
	}
}

func TestOnAModelOverTheWire(t *testing.T) {
	for _, format := range []string{modelserver.Chat, modelserver.Messages} {
		srv := modelserver.Start(t, scripted.Script(
			scripted.Answer{Text: "I write to ann.", Calls: []scripted.Call{{Name: "send_mail", Arguments: `{"to":"ann"}`}}},
			scripted.Answer{Text: "Ann has mail."},
		))
		file, secret := srv.Config(t, format)
		out, err := run(t.Context(), t.TempDir(), modelflag.Flags{Model: modelserver.Name, Config: file, Secrets: []string{secret}})
		if err != nil || out != `run finished: "Ann has mail."` || srv.Answers() != 2 {
			t.Errorf("%s: run = %q, %v after %d answers", format, out, err, srv.Answers())
		}
	}
}

// What is wrong with a worker is told to whoever waits for it, not waited out.
func TestWorkerThatCannotStart(t *testing.T) {
	sys, err := system.Start(t.Context(), system.Options{Dir: t.TempDir()}, runtime.Config{Agents: []*agents.Agent{{Name: "mailer", Model: "nowhere", Loop: agents.DefaultLoop}}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `agent "mailer" wants model "nowhere", which is not configured`
	if _, err := sys.Do(t.Context(), runtime.Submit{Agent: "mailer", Input: 1, ClientKey: "one"}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Do: %v, want %s", err, want)
	}
	for range 2 {
		if err := sys.Stop(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Stop: %v, want %s", err, want)
		}
	}
}
