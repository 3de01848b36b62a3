package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/redact"
	"github.com/daybookhq/daybook/runtime/system"
)

// errStopped: a signal came before the servers did.
var errStopped = errors.New("stopped before the servers were there")

// openSystem opens ledger and bus, waiting for servers that are away unless
// noWait is set.
func (a *app) openSystem(ctx context.Context, log *slog.Logger, noWait bool) (*system.System, error) {
	if err := a.where(true); err != nil {
		return nil, err
	}
	a.opts.Logger, a.opts.NoWait = log, noWait
	a.opts.Telemetry = system.Telemetry{Environment: true, Prometheus: a.health != "", Service: "daybook"}
	sys, err := system.Open(ctx, a.opts)
	switch {
	case err == nil:
		return sys, nil
	case ctx.Err() != nil:
		return nil, errStopped
	default:
		return nil, a.explain(err)
	}
}

// explain says what is away, where it was looked for, and what to do.
func (a *app) explain(err error) error {
	if a.opts.Embedded() {
		return err
	}
	switch server := system.Away(err); server {
	case "":
		return err
	case "NATS":
		return fmt.Errorf("NATS at %s (%s) is away: start it, or correct the address: %w", system.Place(a.opts.NATS), a.name("nats"), err)
	default:
		return fmt.Errorf("%s at %s (%s) is away: start it, or correct the address: %w", server, system.Place(a.opts.Postgres), a.name("postgres"), err)
	}
}

// opened is the ledger alone.
type opened struct {
	store    ledger.Store
	redactor *redact.Redactor
}

// openLedger opens the ledger alone. With wait set it waits for a database that
// is away, and for an embedded ledger that no worker has made yet.
func (a *app) openLedger(ctx context.Context, log *slog.Logger, wait bool) (o opened, err error) {
	if err := a.where(false); err != nil {
		return o, err
	}
	a.opts.Logger = log
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for told := false; ; told = true {
		o.store, o.redactor, err = system.OpenLedger(ctx, a.opts)
		unmade := a.opts.Embedded() && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, ledger.ErrSchema))
		if err == nil || !wait || ctx.Err() != nil || !unmade && system.Away(err) == "" {
			return o, a.explain(err)
		}
		switch {
		case told:
		case unmade:
			log.Warn("waiting for a worker that makes the ledger: runner dev --dir " + quote(a.opts.Dir))
		default:
			log.Warn("waiting for the database", "error", a.explain(err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return o, errors.Join(a.explain(err), context.Cause(ctx))
		}
	}
}
