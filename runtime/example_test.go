package runtime_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/daybookhq/daybook/agents"
	"github.com/daybookhq/daybook/events/memory"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/model"
	"github.com/daybookhq/daybook/model/scripted"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime"
)

// A worker wired by hand; package runtime/system does this for the parts as
// they ship.
func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "daybook")
	defer os.RemoveAll(dir)
	redactor := redact.New(redact.Config{})
	store, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "ledger.db"), Store: sqlstore.Config{Redactor: redactor}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	if _, err := store.Migrate(ctx); err != nil {
		fmt.Println(err)
		return
	}
	stream := memory.NewStream(memory.Config{})
	journal := stream.Journal("w1")
	defer journal.Close(ctx)
	worker, err := runtime.NewWorker(runtime.Config{
		Name: "w1", Ledger: store, Journal: journal, Redactor: redactor,
		CatchUp: func(ctx context.Context, worker string) error {
			_, err := ledger.ProjectTail(ctx, store, stream.Consumer(), worker)
			return err
		},
		Agents: []*agents.Agent{{Name: "greeter", Model: "script", Loop: "singleshot", Prompt: "Greet."}},
		Models: map[string]model.Model{"script": scripted.Script(scripted.Answer{Text: "Hello, Ann!"})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	work, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- worker.Run(work) }()

	client := runtime.NewClient(store, redactor, nil)
	run, _, err := client.Submit(ctx, runtime.Submit{Agent: "greeter", Input: "I am Ann", ClientKey: "greeting-1"})
	if err == nil {
		run, err = client.Wait(ctx, run.ID, false)
	}
	stop()
	fmt.Println(run.State, string(run.Result), err, <-done)
	// Output: finished "Hello, Ann!" <nil> <nil>
}
