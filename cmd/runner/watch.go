package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/daybookhq/daybook/cmd/internal/terminal"
	"github.com/daybookhq/daybook/cmd/internal/watch"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
)

// watchTry is how often a worker is looked for that can be watched.
const watchTry = 100 * time.Millisecond

// watchRetries is [runtime.Client.WaitRetries] and shows each attempt meanwhile.
func (a *app) watchRetries(ctx context.Context, c *runtime.Client, r ledger.Run) (ledger.Run, error) {
	for {
		stop := a.watch(r)
		ended, err := c.Wait(ctx, r.ID, true)
		stop()
		note, again := watch.Next(ended.Successor, ended.Attempt)
		if err != nil || !again {
			return ended, err
		}
		r.ID = ended.Successor
		fmt.Fprintln(a.err, note)
	}
}

// watch shows on stderr what a run is writing until stop is called, which leaves
// the terminal as it was.
func (a *app) watch(r ledger.Run) (stop func()) {
	src := &watch.Source{Options: a.opts, Tenant: r.Tenant, Run: r.ID}
	screen := &watch.Screen{Out: a.err, Again: src.Again}
	if os.Getenv("TERM") != "dumb" {
		screen.Width = terminal.Width(a.err)
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer src.Close()
		defer screen.Done()
		tick := time.NewTicker(watchTry)
		defer tick.Stop()
		for told := false; ; {
			if err := src.Open(); err != nil && !told {
				told = true
				fmt.Fprintf(a.err, "runner: not live yet: %s\n", terminal.Clean(err.Error()))
				if !errors.Is(err, system.ErrNoLive) || !a.opts.Embedded() {
					return
				}
			}
			select {
			case <-quit:
				return
			case m := <-src.Messages():
				screen.Show(m)
			case <-tick.C:
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}
