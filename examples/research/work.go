package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/examples/research/standin"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/memorydb"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools/mcp"
)

// order is what a worker is told, on its standard input: a key in its arguments
// would be seen by everybody who may list processes.
type order struct {
	Dir         string      `json:"dir"`
	Question    question    `json:"question"`
	Services    string      `json:"services"`
	Web         standin.Web `json:"web"`
	OpenAlexKey string      `json:"openalex_key"`
	Files       []string    `json:"files"` // the command of the MCP server for the folder
	Folder      string      `json:"folder"`

	Model modelflag.Flags `json:"model,omitzero"` // that works instead of the script
}

// question is one run. The same key is the same run, however often it is asked.
type question struct {
	Key  string `json:"key"`
	Text string `json:"question"`
}

// work is one worker: the whole embedded system. It submits its question,
// answers it, and writes what became of the run to out, a line of JSON; one more
// before it if the run waits for somebody.
func work(ctx context.Context, in io.Reader, out, log io.Writer) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("read the order: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // ends with the process
		// A worker does not outlive who started it, and holds the other end.
		_, _ = io.Copy(io.Discard, lines)
		stop()
	}()
	logger := slog.New(slog.NewTextHandler(log, nil))
	chosen, err := o.Model.Open()
	if err != nil {
		return err
	}
	secrets := map[string]string{"openalex": o.OpenAlexKey} // whatever comes back with it in it: it is stored nowhere
	maps.Copy(secrets, chosen.Secrets)
	sys, err := system.Open(ctx, system.Options{Dir: o.Dir, Logger: logger, Secrets: secrets})
	if err != nil {
		return err
	}
	defer sys.Close()
	servers, err := openFiles(ctx, o, sys.Redactor, logger)
	if err != nil {
		return err
	}
	defer func() { _ = servers.Close() }() // all that it was asked is done
	cfg, err := config(o, sys, servers)
	if err != nil {
		return err
	}
	chosen.Use(&cfg)
	asked := make(chan error, 1)
	go func() { // ends with ctx
		defer stop()
		asked <- ask(ctx, sys.Client(), o.Question, json.NewEncoder(out))
	}()
	err = sys.Work(ctx, cfg, true)
	stop()
	return errors.Join(err, <-asked)
}

// config is what the worker works with.
func config(o order, sys *system.System, servers *mcp.Servers) (runtime.Config, error) {
	remembered, err := memorydb.New(sys.Store.DB(), memorydb.Config{Redactor: sys.Redactor})
	if err != nil {
		return runtime.Config{}, err
	}
	reg, err := toolbox(o, remembered, sys.Redactor, servers)
	if err != nil {
		return runtime.Config{}, err
	}
	policy, err := files.ReadFile("agent/policy.yaml")
	if err != nil {
		return runtime.Config{}, err
	}
	script, err := scripted.Parse("policy.yaml", policy)
	if err != nil {
		return runtime.Config{}, err
	}
	load := agents.Loader{Models: []string{"scripted/researcher"}, Loops: []string{"singleshot"}}
	for _, t := range reg.Tools() {
		load.Tools = append(load.Tools, t.Definition().Name)
	}
	b, err := files.ReadFile("agent/AGENT.md")
	if err != nil {
		return runtime.Config{}, err
	}
	a, err := load.Parse("agent/AGENT.md", b)
	if err != nil {
		return runtime.Config{}, err
	}
	return runtime.Config{
		Agents: []*agents.Agent{a}, Tools: reg, Models: map[string]model.Model{"scripted/researcher": script},
		Sweep: 100 * time.Millisecond,
	}, nil
}

// ask submits a question and waits for the end of its run.
func ask(ctx context.Context, client *runtime.Client, q question, out *json.Encoder) error {
	r, _, err := client.Submit(ctx, runtime.Submit{
		Agent: "researcher", Input: map[string]string{"question": q.Text}, ClientKey: q.Key, Owner: "ada",
	})
	if err != nil {
		return err
	}
	for _, parked := range []bool{true, false} { // a run that waits for a person says so, once
		if r, err = client.Wait(ctx, r.ID, parked); err == nil {
			err = out.Encode(answered(r))
		}
		if err != nil || r.State.Ended() {
			return err
		}
	}
	return nil
}

// ended is what became of a question.
type ended struct {
	Run    string `json:"run"`
	State  string `json:"state"`
	Answer string `json:"answer"`
}

func answered(r ledger.Run) ended {
	e := ended{Run: r.ID.String(), State: string(r.State)}
	if json.Unmarshal(r.Result, &e.Answer) != nil { // no text
		e.Answer = string(r.Result)
	}
	return e
}
