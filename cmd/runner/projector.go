package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

func (a *app) projectorCommand() *cobra.Command {
	var noWait bool
	c := &cobra.Command{
		Use:     "projector",
		Short:   "Writes the journal into the ledger and the feed; any number may run",
		Example: `  runner projector --nats nats://127.0.0.1:4222 --postgres postgres://daybook@127.0.0.1/daybook`,
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.project(c.Context(), noWait) },
	}
	c.Flags().BoolVar(&noWait, "no-wait", false, noWaitUsage)
	a.addHealth(c.Flags())
	return c
}

func (a *app) project(ctx context.Context, noWait bool) error {
	log, err := a.logger()
	if err != nil {
		return err
	}
	if a.opts.Embedded() {
		return usagef("projector needs --nats and --postgres: an embedded directory has its projector in runner dev")
	}
	sys, err := a.openSystem(ctx, log, noWait)
	switch {
	case errors.Is(err, errStopped):
		log.Info("stopped before the servers were there")
		return nil
	case err != nil:
		return err
	}
	defer sys.Close()
	stop, err := a.serveHealth(ctx, log, sys)
	if err != nil {
		return err
	}
	defer stop()
	p, err := sys.Projector()
	if err != nil {
		return err
	}
	log.Info("projector started", "promise", sys.Promise)
	return p.Run(ctx)
}
