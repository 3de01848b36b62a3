package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/internal/testenv/modelserver"
	"github.com/daybookhq/daybook/model/scripted"
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
	if n := bytes.Count(src, []byte("\n")); n > 70 {
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
