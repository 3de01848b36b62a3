package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/events"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/runtime"
	"github.com/daybookhq/daybook/runtime/system"
)

// demoChildCommand is one worker of the demo: the whole embedded system, which
// submits the backlog (again: the client keys make it the same runs) and works
// until nothing is left that it could do.
func (a *app) demoChildCommand() *cobra.Command {
	var w workerFlags
	var requests, tenant string
	c := &cobra.Command{
		Use:    "demo-child",
		Hidden: true,
		Args:   noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := a.logger()
			if err != nil {
				return err
			}
			k, err := a.outfit(c.Context(), &w)
			if err != nil {
				return err
			}
			defer k.close(log)
			ctx, stop := context.WithCancel(c.Context())
			defer stop()
			go func() { // ends with the process
				// A worker does not outlive its supervisor, which holds the other end.
				_, _ = io.Copy(io.Discard, a.in)
				stop()
			}()
			sys, err := a.openSystem(ctx, log, false)
			if err != nil {
				return err
			}
			defer sys.Close()
			cfg, err := k.open(ctx, sys)
			if err != nil {
				return err
			}
			var wg sync.WaitGroup
			var watch error
			wg.Add(1)
			go func() {
				defer wg.Done()
				defer stop()
				watch = workOff(ctx, sys, tenant, requests)
			}()
			err = sys.Work(ctx, cfg, true)
			stop()
			wg.Wait()
			return errors.Join(err, watch)
		},
	}
	w.add(c)
	c.Flags().StringVar(&requests, "requests", "", "backlog")
	c.Flags().StringVar(&tenant, "tenant", "demo", "tenant")
	return c
}

// workOff submits every row and returns when no run can go on by itself.
func workOff(ctx context.Context, sys *system.System, tenant, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	rows, _, err := readBacklog(file, data)
	if err != nil {
		return err
	}
	client := runtime.NewClient(sys.Store, sys.Redactor, sys.Waker)
	for _, r := range rows {
		_, _, err := client.Submit(ctx, runtime.Submit{
			Tenant: tenant, Queue: "refunds", Agent: "refunds", Input: r.Fields, ClientKey: r.Key, Owner: "support",
		})
		if err != nil {
			return fmt.Errorf("line %d: %w", r.Line, err)
		}
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		done, err := settled(ctx, sys.Store, tenant)
		if err != nil && !errors.Is(err, ledger.ErrUnavailable) && ctx.Err() == nil {
			return err
		}
		if done {
			slog.Debug("nothing left to do")
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// settled reports whether every run has ended or waits for a person.
func settled(ctx context.Context, st ledger.Store, tenant string) (bool, error) {
	open, err := st.Summaries(ctx, ledger.RunFilter{
		Tenant: tenant, States: []ledger.State{ledger.Queued, ledger.Running, ledger.Cancelling, ledger.Parked}, Limit: 1000,
	})
	if err != nil {
		return false, err
	}
	for _, r := range open {
		if r.State != ledger.Parked || r.ParkReason != events.ParkInDoubt && r.ParkReason != events.ParkEffectBusy {
			return false, nil
		}
	}
	if len(open) == 0 {
		return true, nil
	}
	effects, err := st.Effects(ctx, ledger.EffectFilter{
		Tenant: tenant, States: []events.EffectState{events.EffectStarted, events.EffectInDoubt}, Limit: 1000,
	})
	if err != nil {
		return false, err
	}
	for _, e := range effects {
		// Only an opaque effect in doubt waits for a person; everything else moves by itself.
		if e.State != events.EffectInDoubt || e.Recovery.Kind != ledger.RecoveryNone {
			return false, nil
		}
	}
	return true, nil
}
