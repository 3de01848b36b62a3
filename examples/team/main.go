// Command team has an agent plan a day out with three others: two researchers and an
// analyst side by side, each with a budget, and a booker whose booking a person
// approves. It needs no network: the models are scripted.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/examples/internal/modelflag"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
	"github.com/daybookhq/daybook/tools"
	"github.com/daybookhq/daybook/tools/builtin"
)

//go:embed agents models
var files embed.FS

// load reads the agents and what stands in for their models.
func load() (as []*agents.Agent, models map[string]model.Model, err error) {
	dirs, err := fs.Glob(files, "agents/*/"+agents.FileName)
	if err != nil {
		return nil, nil, err
	}
	models = map[string]model.Model{}
	for _, name := range dirs {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		a, err := agents.Parse(name, text)
		if err != nil {
			return nil, nil, err
		}
		file := path.Join("models", a.Name+".yaml")
		if text, err = files.ReadFile(file); err != nil {
			return nil, nil, err
		}
		if models[a.Model], err = scripted.Parse(file, text); err != nil {
			return nil, nil, err
		}
		as = append(as, a)
	}
	return as, models, agents.CheckTeam(as)
}

// booking is the tool with an effect: a line in a file, once for each key. A real one
// would send the key to the venue's service.
func booking(file string) (tools.Tool, error) {
	type booked struct {
		Venue string `json:"venue"`
		Price string `json:"price"`
	}
	return tools.New(tools.Definition{
		Name: "book", Description: "Books a venue.", Effect: tools.Destructive, Trust: tools.Own, Recovery: tools.Keyed(24 * time.Hour),
	}, func(_ context.Context, inv *tools.Invocation, in booked) (string, error) {
		old, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", tools.NoEffect(err)
		}
		line := fmt.Sprintf("%s %s %s\n", inv.OpKey, in.Venue, in.Price)
		if !strings.Contains(string(old), inv.OpKey) {
			if err := os.WriteFile(file, append(old, line...), 0o600); err != nil {
				return "", err
			}
		}
		return fmt.Sprintf("%s is booked for %s EUR.", in.Venue, in.Price), nil
	})
}

// options are what the command line says.
type options struct {
	dir   string
	ask   bool // leave approvals to whoever types ledgerctl approve
	model modelflag.Flags
}

func run(ctx context.Context, o options, out io.Writer) error {
	chosen, err := o.model.Open()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	cfg := runtime.Config{Tools: new(tools.Registry), LeaseTTL: 2 * time.Second}
	if cfg.Agents, cfg.Models, err = load(); err != nil {
		return err
	}
	book, err := booking(filepath.Join(o.dir, "bookings.txt"))
	if err != nil {
		return err
	}
	if err := cfg.Tools.Add(book, builtin.Think(), builtin.Finish()); err != nil {
		return err
	}
	chosen.Use(&cfg)
	sys, err := system.Open(ctx, system.Options{Dir: o.dir, Secrets: chosen.Secrets})
	if err != nil {
		return err
	}
	defer sys.Close()
	work, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- sys.Work(work, cfg, true) }()
	r, _, err := sys.Client().Submit(ctx, runtime.Submit{Agent: "lead", Input: "A day out for a team of 12.", ClientKey: chosen.Key("day-out")})
	if err == nil {
		r, err = wait(ctx, sys, r, o.ask, out)
	}
	stop()
	if err = errors.Join(err, <-done); err != nil {
		return err
	}
	return show(ctx, sys.Store, r, out)
}

// wait answers what the team asks, unless somebody else is to, until the lead has ended.
func wait(ctx context.Context, sys *system.System, r ledger.Run, ask bool, out io.Writer) (ledger.Run, error) {
	fmt.Fprintf(out, "run %s of lead\n", r.ID)
	told := map[events.ID]bool{}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		var err error
		if r, err = sys.Client().Run(ctx, r.ID); err != nil || r.State.Ended() {
			return r, err
		}
		as, err := sys.Store.Approvals(ctx, ledger.ApprovalFilter{Open: true})
		if err != nil {
			return r, err
		}
		for _, a := range as {
			if told[a.ID] {
				continue
			}
			told[a.ID] = true
			fmt.Fprintf(out, "run %s asks for an approval of %s %s\n", a.Run, a.Tool, a.Arguments)
			if ask {
				fmt.Fprintf(out, "  ledgerctl approve %s\n", a.ID)
				continue
			}
			if _, err := sys.Store.Decide(ctx, ledger.Decision{Approval: a.ID, Approve: true, By: "examples/team", Reason: "it is an example"}); err != nil {
				return r, err
			}
		}
		select {
		case <-ctx.Done():
			return r, context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// show prints how each child ended and what each agent cost, as the ledger has it.
func show(ctx context.Context, st ledger.Store, r ledger.Run, out io.Writer) error {
	fmt.Fprintf(out, "run %s %s: %s\n", r.ID, r.State, r.Result)
	below, err := st.Descendants(ctx, r.ID, 0)
	if err != nil {
		return err
	}
	for _, c := range below {
		fmt.Fprintf(out, "  %s %s: %s %s%s\n", c.Agent, c.State, c.StoppedBy, c.Result, c.Error)
	}
	costs, err := st.Costs(ctx, ledger.CostFilter{Run: r.ID, Lineage: true, By: "agent"})
	if err != nil {
		return err
	}
	slices.SortFunc(costs, func(a, b ledger.CostRow) int { return strings.Compare(a.Key, b.Key) })
	for _, row := range costs {
		fmt.Fprintf(out, "  %-10s %2d model calls  %s USD\n", row.Key, row.ModelCalls, events.FormatPico(row.ModelCost))
	}
	fmt.Fprintf(out, "\nmore:\n  ledgerctl runs show %s --tree\n  ledgerctl costs --run %s --lineage --by agent\n", r.ID, r.ID)
	return nil
}

func main() {
	o := options{dir: ".daybook"}
	o.model.Add(flag.CommandLine)
	flag.BoolVar(&o.ask, "ask", false, "leave the approval to you: ledgerctl approve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "team:", err)
		os.Exit(1)
	}
}
