// Command own-loop works by a loop of its own (loop.go) and shows what becomes of a
// secret: one that a tool returns, and one in the arguments of a call. It needs no
// network: the model is scripted; --model NAME --model-config FILE takes a real one.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
)

var (
	//go:embed AGENT.md
	agentFile []byte
	//go:embed policy.yaml
	policy []byte
)

// bankKey is what must be in no record. A service has it from its own store of secrets.
const bankKey = "plums-and-kelp-by-the-quay"

// registry has the tools that the agent may call. They know nothing of redaction.
func registry() (*tools.Registry, error) {
	type lookup struct {
		ID  string `json:"id"`
		Key string `json:"key" jsonschema:"the bank's key: secret://bank"`
	}
	type account struct {
		Balance   string `json:"balance"`
		Signature string `json:"signature"`
	}
	type text struct {
		Text string `json:"text"`
	}
	type mail struct {
		To   string `json:"to"`
		Text string `json:"text"`
	}
	read, err := tools.New(tools.Definition{Name: "read_account", Description: "Reads an account.", Effect: tools.Readonly, Trust: tools.Own},
		func(_ context.Context, _ *tools.Invocation, in lookup) (account, error) {
			if in.Key != bankKey { // the handle is substituted when the tool is called, and not before
				return account{}, errors.New("the bank does not know this key")
			}
			return account{Balance: "12.50", Signature: "of " + in.Key}, nil // a careless bank
		})
	note, err2 := tools.New(tools.Definition{Name: "note", Description: "Makes a note.", Effect: tools.Idempotent, Trust: tools.Own},
		func(_ context.Context, _ *tools.Invocation, in text) (string, error) { return "noted: " + in.Text, nil })
	send, err3 := tools.New(tools.Definition{Name: "send_mail", Description: "Sends a mail.", Effect: tools.Destructive, Trust: tools.Own},
		func(_ context.Context, _ *tools.Invocation, in mail) (string, error) { return "sent to " + in.To, nil })
	if err := errors.Join(err, err2, err3); err != nil {
		return nil, err
	}
	return tools.NewRegistry(read, note, send)
}

func run(ctx context.Context, dir string, flags modelflag.Flags, out io.Writer) error {
	chosen, err := flags.Open()
	if err != nil {
		return err
	}
	cfg := runtime.Config{Loops: []loops.Loop{strict{}}, Models: map[string]model.Model{}}
	agent, err := agents.Loader{Strategies: cfg.Loops}.Parse("AGENT.md", agentFile)
	if err != nil {
		return err
	}
	cfg.Agents = []*agents.Agent{agent}
	if cfg.Models[agent.Model], err = scripted.Parse("policy.yaml", policy); err != nil {
		return err
	}
	if cfg.Tools, err = registry(); err != nil {
		return err
	}
	chosen.Use(&cfg)
	secrets := map[string]string{"bank": bankKey} // registered: known to the redactor, and what secret://bank stands for
	maps.Copy(secrets, chosen.Secrets)
	sys, err := system.Open(ctx, system.Options{Dir: dir, Secrets: secrets})
	if err != nil {
		return err
	}
	defer sys.Close()
	work, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		defer stop() // nobody waits for a worker that could not start
		done <- sys.Work(work, cfg, true)
	}()
	r, _, err := sys.Client().Submit(ctx, runtime.Submit{Agent: agent.Name, Input: "account-7", ClientKey: chosen.Key("own-loop-1")})
	if err == nil {
		r, err = sys.Client().Wait(work, r.ID, false)
	}
	stop()
	if err = errors.Join(err, <-done); err != nil { // a worker that has ended leaves nothing to be folded
		return err
	}
	return show(ctx, sys.Store, r, out)
}

// show prints what the ledger has of the run: each call, and how the run ended.
func show(ctx context.Context, st ledger.Store, r ledger.Run, out io.Writer) error {
	calls, err := st.Calls(ctx, ledger.CallFilter{Run: r.ID})
	if err != nil {
		return err
	}
	for _, c := range slices.Backward(calls) {
		fmt.Fprintf(out, "%s %s\n  asked %s\n  got   %s\n", c.Tool, strings.TrimSpace(c.Status+" "+c.Reason+" "+c.Detail), c.Arguments, c.Result)
	}
	fmt.Fprintf(out, "run %s %s: %s %s\n", r.ID, r.State, r.StoppedBy, r.Result)
	return nil
}

func main() {
	var flags modelflag.Flags
	flags.Add(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, ".daybook", flags, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "own-loop:", err)
		os.Exit(1)
	}
}
