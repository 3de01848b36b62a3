package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/runtime/system"
)

func (a *app) projectorCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "projector",
		Short:   "Writes the journal into the ledger and the feed; any number may run",
		Example: `  runner projector --nats nats://127.0.0.1:4222 --postgres postgres://daybook@127.0.0.1/daybook`,
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.project(c.Context()) },
	}
}

func (a *app) project(ctx context.Context) error {
	log, err := a.logger()
	if err != nil {
		return err
	}
	a.opts.Logger = log
	if a.opts.Embedded() {
		return usagef("projector needs --nats and --postgres: an embedded directory has its projector in runner dev")
	}
	sys, err := system.Open(ctx, a.opts)
	if err != nil {
		return asUsage(err)
	}
	defer sys.Close()
	p, err := sys.Projector()
	if err != nil {
		return err
	}
	log.Info("projector started", "promise", sys.Promise)
	return p.Run(ctx)
}
