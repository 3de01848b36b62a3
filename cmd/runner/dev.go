package main

import "github.com/spf13/cobra"

func (a *app) devCommand() *cobra.Command {
	var w workerFlags
	c := &cobra.Command{
		Use:   "dev",
		Short: "Everything in one process: embedded NATS, SQLite, one worker, one projector, the page",
		Example: `  runner dev --dir .daybook --agents ./examples/hello --policy hello=./examples/hello/policy.yaml
  runner submit --dir .daybook --agent hello --input '"world"' --key hello-1 --wait`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if a.opts.Dir == "" && a.opts.Postgres == "" {
				a.opts.Dir = ".daybook"
			}
			return a.work(c.Context(), &w, true)
		},
	}
	w.add(c)
	a.addHealth(c.Flags())
	a.page.add(c.Flags())
	w.prompts.add(c.Flags(), ".")
	return c
}
