package main

import (
	"context"
	"fmt"
	"net"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ui"
)

// uiAddress is where the page is unless a flag says otherwise.
const uiAddress = "127.0.0.1:8090"

func (a *app) uiCommand() *cobra.Command {
	listen := uiAddress
	c := &cobra.Command{
		Use:   "ui",
		Short: "Serves the ledger as a page for a browser",
		Long: `Serves the ledger as a page for a browser: runs and what they are doing, one run as a
waterfall, what waits for a person, costs, queues, and whether the record holds.

It listens on this machine alone.`,
		Example: `  ledgerctl ui --dir .daybook
  ledgerctl ui --listen 127.0.0.1:9000`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.ui(c.Context(), listen) },
	}
	c.Flags().StringVar(&listen, "listen", uiAddress, "address to serve on; port 0 takes a free one")
	return c
}

func (a *app) ui(ctx context.Context, listen string) error {
	if !ui.Loopback(listen) {
		return usagef("--listen %q: others could reach the page there; want an address of this machine such as %s", listen, uiAddress)
	}
	return a.withLedger(ctx, func(st ledger.Store) error {
		h, err := ui.New(ui.Options{Store: st, Now: a.now, Grace: a.opts.Grace})
		if err != nil {
			return err
		}
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
		if err != nil {
			return fmt.Errorf("--listen %q: %w; give another address", listen, err)
		}
		fmt.Fprintf(a.out, "http://%s\n", l.Addr())
		fmt.Fprintln(a.err, "ledgerctl: serving until interrupted")
		return ui.Serve(ctx, l, h)
	})
}
