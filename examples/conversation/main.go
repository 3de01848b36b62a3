// Command conversation is two runs of one session: the second goes on with what was
// said in the first, a worker later. It needs no network: the model stands in for one;
// --model NAME --model-config FILE takes a real one.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
)

//go:embed AGENT.md
var agentFile []byte

// said are the messages of the conversation; the second makes no sense without the first.
var said = []string{"Where is order 7?", "Which order did I ask about?"}

// support stands in for a language model: it knows nothing but its conversation.
type support struct{}

func (support) Call(_ context.Context, r model.Request) (model.Response, error) {
	out := model.Response{Model: r.Model, StopReason: "end_turn", Usage: events.Usage{Input: 10, Output: 1}}
	last, looked := r.Messages[len(r.Messages)-1], ""
	for _, m := range r.Messages {
		for _, c := range m.Calls {
			looked = string(c.Arguments)
		}
	}
	switch {
	case last.Role == model.Tool:
		out.Text = "It is " + last.Results[0].Text + "."
	case strings.HasPrefix(last.Text, "Where"):
		out.StopReason = "tool_use"
		out.Calls = []events.ToolCall{{Name: "order_status", Arguments: json.RawMessage(`{"order":7}`)}}
	case looked == "":
		out.Text = "You have not asked about any."
	default:
		out.Text = "About the one that I looked up: " + looked
	}
	return out, nil
}

func registry() (*tools.Registry, error) {
	type order struct {
		Order int `json:"order"`
	}
	status, err := tools.New(tools.Definition{Name: "order_status", Description: "Says where an order is.", Effect: tools.Readonly, Trust: tools.Own},
		func(context.Context, *tools.Invocation, order) (string, error) { return "on its way", nil })
	if err != nil {
		return nil, err
	}
	return tools.NewRegistry(status)
}

func run(ctx context.Context, dir string, flags modelflag.Flags, out io.Writer) error {
	chosen, err := flags.Open()
	if err != nil {
		return err
	}
	agent, err := agents.Loader{}.Parse("AGENT.md", agentFile)
	if err != nil {
		return err
	}
	cfg := runtime.Config{Agents: []*agents.Agent{agent}, Models: map[string]model.Model{agent.Model: support{}}}
	if cfg.Tools, err = registry(); err != nil {
		return err
	}
	chosen.Use(&cfg)
	for i, text := range said {
		answer, err := say(ctx, system.Options{Dir: dir, Secrets: chosen.Secrets}, cfg, text, chosen.Key(fmt.Sprint("conversation-", i)))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "customer: %s\nagent:    %s\n", text, answer)
	}
	return nil
}

// say is one run, with a worker of its own: what it goes on with is in the ledger.
func say(ctx context.Context, opts system.Options, cfg runtime.Config, text, key string) (string, error) {
	sys, err := system.Open(ctx, opts)
	if err != nil {
		return "", err
	}
	defer sys.Close()
	work, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		defer stop() // nobody waits for a worker that could not start
		done <- sys.Work(work, cfg, true)
	}()
	r, _, err := sys.Client().Submit(ctx, runtime.Submit{Agent: "support", Input: text, Owner: "ann", SessionID: "ticket-7", Continue: true, ClientKey: key})
	if err == nil {
		r, err = sys.Client().Wait(work, r.ID, false)
	}
	stop()
	if err = errors.Join(err, <-done); err != nil {
		return "", err
	}
	if r.State != ledger.Finished {
		return "", fmt.Errorf("run %s is %s: %s", r.ID, r.State, r.Error)
	}
	var answer string
	if json.Unmarshal(r.Result, &answer) != nil {
		answer = string(r.Result)
	}
	return answer, nil
}

func main() {
	var flags modelflag.Flags
	flags.Add(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, ".daybook", flags, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "conversation:", err)
		os.Exit(1)
	}
}
