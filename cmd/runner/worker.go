package main

import "github.com/spf13/cobra"

func (a *app) workerCommand() *cobra.Command {
	var w workerFlags
	var project bool
	c := &cobra.Command{
		Use:   "worker",
		Short: "Takes runs from the queue and works on them",
		Example: `  runner worker --nats nats://127.0.0.1:4222 --postgres postgres://daybook@127.0.0.1/daybook \
    --nats-sync always --agents ./agents`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.work(c.Context(), &w, project) },
	}
	w.add(c)
	a.addHealth(c.Flags())
	w.prompts.add(c.Flags(), "")
	c.Flags().BoolVar(&w.noWait, "no-wait", false, noWaitUsage)
	c.Flags().BoolVar(&project, "project", false, "also run a projector in this process")
	return c
}
