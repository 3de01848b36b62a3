// Command embed is a Go service with one tool of its own: it queues a run and
// waits for it. Kill it at any moment and start it again: the mail is sent once.
// The model is scripted; --model NAME --model-config FILE takes a real one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
)

type mail struct {
	To string `json:"to" jsonschema:"who gets the mail"`
}

func run(ctx context.Context, dir string, flags modelflag.Flags) (string, error) {
	chosen, err := flags.Open()
	if err != nil {
		return "", err
	}
	send := tools.Must(tools.New(tools.Definition{Name: "send_mail", Description: "Sends a mail.", Effect: tools.Destructive, Trust: tools.Own},
		func(_ context.Context, in *tools.Invocation, m mail) (string, error) {
			return fmt.Sprintf("mail to %s sent under key %.8s", m.To, in.OpKey), nil
		}))
	agent := &agents.Agent{Name: "mailer", Model: "script", Loop: "singleshot", Tools: []string{"send_mail"}, Prompt: "Send the mail that the user asks for, then say so."}
	script := scripted.Script(scripted.Answer{Calls: []scripted.Call{{Name: "send_mail", Arguments: `{"to":"ann"}`}}}, scripted.Answer{Text: "Sent."})
	cfg := runtime.Config{Agents: []*agents.Agent{agent}, Tools: tools.Must(tools.NewRegistry(send)), Models: map[string]model.Model{"script": script}}
	chosen.Use(&cfg)
	sys, err := system.Start(ctx, system.Options{Dir: dir, Secrets: chosen.Secrets}, cfg)
	if err != nil {
		return "", err
	}
	r, err := sys.Do(ctx, runtime.Submit{Agent: "mailer", Input: "write to ann", ClientKey: chosen.Key("mail-1")})
	return fmt.Sprintf("run %s: %s", r.State, r.Result), errors.Join(err, sys.Stop())
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var flags modelflag.Flags
	flags.Add(flag.CommandLine)
	flag.Parse()
	fmt.Println(run(ctx, ".daybook", flags))
}
