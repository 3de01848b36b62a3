// Command prompts puts a prompt together of files (whose, and which are trusted), with
// an active skill, models of one's own and of a provider that ships, a tool of the host
// and a loop, in one run. It needs no network; --model NAME --model-config FILE takes a
// real model.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/agents/pathtrust"
	"github.com/daybookhq/daybook/agents/promptfile"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
)

// read reads the agent with its skill, and puts upon its text what the prompt files
// say: SYSTEM.md always, an AGENTS.md only from the one folder that is trusted.
func read(files string, out io.Writer) (*agents.Agent, error) {
	agent, err := agents.Load(filepath.Join(files, "agent", agents.FileName))
	if err != nil {
		return nil, err
	}
	trust, err := pathtrust.New(filepath.Join(files, "project"))
	if err != nil {
		return nil, err
	}
	for _, f := range []promptfile.Files{
		{Global: filepath.Join(files, "home"), Workspace: filepath.Join(files, "project"), Trust: trust},
		{Workspace: filepath.Join(files, "download"), Trust: trust},
	} {
		loaded, err := f.Load()
		if err != nil {
			return nil, err
		}
		agent.Layers = append(agent.Layers, loaded.Layers...)
		for _, path := range loaded.Untrusted {
			fmt.Fprintf(out, "not trusted, not read: %s\n", path)
		}
	}
	return agent, nil
}

// stock is a tool of the host.
func stock() (tools.Tool, error) {
	type asked struct {
		Lamp string `json:"lamp"`
	}
	return tools.New(tools.Definition{Name: "stock", Description: "Says how many there are of a lamp.", Effect: tools.Readonly, Trust: tools.Own},
		func(_ context.Context, _ *tools.Invocation, in asked) (string, error) {
			return fmt.Sprintf("There are 3 lamps of %s, 45.00 each.", in.Lamp), nil
		})
}

func run(ctx context.Context, dir, files string, flags modelflag.Flags, out io.Writer) error {
	chosen, err := flags.Open()
	if err != nil {
		return err
	}
	agent, err := read(files, out)
	if err != nil {
		return err
	}
	lamps, err := stock()
	if err != nil {
		return err
	}
	cfg := runtime.Config{Agents: []*agents.Agent{agent}, Tools: new(tools.Registry)}
	if err := cfg.Tools.Add(lamps); err != nil {
		return err
	}
	shipped, stop, err := served()
	if err != nil {
		return err
	}
	defer stop()
	if cfg.Models, err = model.Merge(map[string]model.Model{"house": house{}}, map[string]model.Model{"served": shipped}); err != nil {
		return err
	}
	chosen.Use(&cfg)
	sys, err := system.Start(ctx, system.Options{Dir: dir, Secrets: chosen.Secrets}, cfg)
	if err != nil {
		return err
	}
	r, err := sys.Do(ctx, runtime.Submit{Agent: agent.Name, Input: "Do you have brass lamps?", ClientKey: chosen.Key("prompts-1")})
	if err == nil {
		err = show(ctx, sys.Store, r, out)
	}
	return errors.Join(err, sys.Stop())
}

// show prints what took part in the run, as the ledger has it.
func show(ctx context.Context, st ledger.Store, r ledger.Run, out io.Writer) error {
	return st.Events(ctx, r.ID, 1, func(s events.Sealed) error {
		e, err := s.Decode()
		switch p := e.Data.(type) {
		case events.RunStarted:
			for _, l := range p.PromptLayers {
				fmt.Fprintf(out, "layer %s of source %s\n", l.ID, l.Source)
			}
			var text []byte
			text, _, err = st.Blob(ctx, r.Tenant, p.PromptHash)
			fmt.Fprintf(out, "---\n%s\n---\nloop %s, version %d\n", text, p.Loop, p.LoopVersion)
		case events.ModelCallFinished:
			fmt.Fprintf(out, "model %s answered turn %d\n", p.Model, p.Turn)
		case events.ModelCallError:
			fmt.Fprintf(out, "model %s: %s\n", p.Model, p.Error.Message)
		case events.ToolExecutionFinished:
			fmt.Fprintf(out, "tool %s: %s\n", p.Tool, p.Result.Output)
		case events.RunFinished:
			fmt.Fprintf(out, "run %s finished: %s %s\n", r.ID, p.StoppedBy, p.Output)
		}
		return err
	})
}

func main() {
	var flags modelflag.Flags
	flags.Add(flag.CommandLine)
	dir := flag.String("dir", ".daybook", "where everything is kept")
	files := flag.String("files", "examples/prompts/files", "where the agent and the prompt files are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *dir, *files, flags, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "prompts:", err)
		os.Exit(1)
	}
}
