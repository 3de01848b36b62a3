//go:build unix

// Command release-notes has a model write release notes until they fit a JSON
// Schema and a program of one's own finds no change left out. It needs no
// network: the model is scripted, unless --model NAME --model-config FILE say which.
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
	"path/filepath"
	"strings"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/loops"
	"github.com/daybookhq/daybook/loops/revise"
	"github.com/daybookhq/daybook/loops/revise/exitcode"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools/command"
)

var (
	//go:embed AGENT.md
	agentFile []byte
	//go:embed notes.schema.json
	schema []byte
	//go:embed policy.yaml
	policy []byte
	//go:embed changes.txt
	changes string
)

// check is the program that judges: it reads notes and names the changes that
// they leave out. A team would have a script of its own here.
func check(notes io.Reader, list string, out io.Writer) (missing int, err error) {
	var n struct {
		Changes []struct{ ID string }
	}
	if err := json.NewDecoder(notes).Decode(&n); err != nil {
		return 0, err
	}
	told := map[string]bool{}
	for _, c := range n.Changes {
		told[c.ID] = true
	}
	for line := range strings.Lines(list) {
		if id, what, _ := strings.Cut(strings.TrimSpace(line), " "); id != "" && !told[id] {
			missing++
			fmt.Fprintf(out, "the change %s is left out: %s\n", id, what)
		}
	}
	return missing, nil
}

// callbacks are the validators that AGENT.md names.
func callbacks(self, list string) (revise.Callbacks, error) {
	fits, err := revise.Schema(schema)
	if err != nil {
		return revise.Callbacks{}, err
	}
	complete, err := command.NewCheck(command.Check{Program: self, Args: []string{"check", list}})
	if err != nil {
		return revise.Callbacks{}, err
	}
	return revise.Callbacks{Validators: map[string]revise.Validator{"schema": fits, "complete": exitcode.Validator(complete)}}, nil
}

func run(ctx context.Context, dir, self string, flags modelflag.Flags, out io.Writer) error {
	chosen, err := flags.Open()
	if err != nil {
		return err
	}
	list := filepath.Join(dir, "changes.txt")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(list, []byte(changes), 0o600)); err != nil {
		return err
	}
	if list, err = filepath.Abs(list); err != nil {
		return err
	}
	cfg := runtime.Config{Models: map[string]model.Model{}}
	if cfg.Artifacts, err = callbacks(self, list); err != nil {
		return err
	}
	agent, err := agents.Loader{Strategies: []loops.Loop{revise.New()}}.Parse("AGENT.md", agentFile)
	if err != nil {
		return err
	}
	cfg.Agents = []*agents.Agent{agent}
	if cfg.Models[agent.Model], err = scripted.Parse("policy.yaml", policy); err != nil {
		return err
	}
	chosen.Use(&cfg)
	sys, err := system.Open(ctx, system.Options{Dir: dir, Secrets: chosen.Secrets})
	if err != nil {
		return err
	}
	defer sys.Close()
	work, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- sys.Work(work, cfg, true) }()
	r, _, err := sys.Client().Submit(ctx, runtime.Submit{Agent: agent.Name, Input: "Version 1.4.0\n" + changes, ClientKey: chosen.Key("notes-1.4.0")})
	if err == nil {
		r, err = sys.Client().Wait(ctx, r.ID, false)
	}
	stop()
	if err = errors.Join(err, <-done); err != nil {
		return err
	}
	fmt.Fprintf(out, "run %s %s: %s %s\n", r.ID, r.State, r.StoppedBy, r.Result)
	return show(ctx, sys.Store, r, out)
}

// show prints every version, what was wrong with it, and the one that was accepted.
func show(ctx context.Context, st ledger.Store, r ledger.Run, out io.Writer) error {
	vs, err := st.Artifacts(ctx, ledger.ArtifactFilter{Run: r.ID})
	if err != nil {
		return err
	}
	for i := len(vs) - 1; i >= 0; i-- {
		v := vs[i]
		fmt.Fprintf(out, "revision %d %s %s %s\n", v.Revision, v.Verdict, v.Validator, v.Issues)
		if v.Verdict == ledger.VersionAccepted {
			content, _, err := st.Blob(ctx, v.Tenant, v.Content)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%s", content)
		}
	}
	return nil
}

func judge(list string) int {
	b, err := os.ReadFile(list)
	if err == nil {
		var missing int
		if missing, err = check(os.Stdin, string(b), os.Stdout); err == nil && missing == 0 {
			return 0
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release-notes:", err)
	}
	return 1
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "check" {
		os.Exit(judge(os.Args[2]))
	}
	var flags modelflag.Flags
	flags.Add(flag.CommandLine)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	self, err := os.Executable()
	if err == nil {
		err = run(ctx, ".daybook", self, flags, os.Stdout)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release-notes:", err)
		os.Exit(1)
	}
}
