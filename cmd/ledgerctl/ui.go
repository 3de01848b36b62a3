package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/daybookhq/daybook/cmd/internal/webpage"
	"github.com/daybookhq/daybook/ledger/ui"
	"github.com/daybookhq/daybook/ledger/ui/access"
)

func (a *app) uiCommand() *cobra.Command {
	var f webpage.Flags
	c := &cobra.Command{
		Use:   "ui",
		Short: "Serves the ledger as a page for a browser",
		Long: `Serves the ledger as a page for a browser: runs and what they are doing, one run as a
waterfall, what waits for a person, costs, queues, and whether the record holds.

Without tokens it listens on this machine alone, and only shows. With --tokens people
sign in, see what their token is for, and act if it allows that; what they do is
recorded under its name. On other addresses it wants tokens, and TLS: its own, or that
of a proxy in front of it.`,
		Example: `  ledgerctl ui --dir .daybook
  ledgerctl ui --tokens tokens.yaml --listen 127.0.0.1:9000
  ledgerctl ui --tokens tokens.yaml --listen :8443 --tls-cert page.pem --tls-key page.key
  ledgerctl ui --tokens tokens.yaml --listen :8080 --behind-proxy 10.0.0.0/8 --host ledger.example.com`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.ui(c.Context(), f) },
	}
	c.Flags().SortFlags = false
	f.Add(c.Flags(), env)
	return c
}

func (a *app) ui(ctx context.Context, f webpage.Flags) error {
	log := slog.New(slog.NewTextHandler(a.err, nil))
	// Before the ledger is opened: what is wrong with a command line is said first.
	if _, err := f.Guard(log); errors.Is(err, webpage.ErrFlags) || errors.Is(err, access.ErrOptions) {
		return usageError{err}
	} else if err != nil {
		return asTokens(err)
	}
	st, red, err := a.open(ctx)
	if err != nil {
		return err
	}
	err = f.Serve(ctx, ui.Options{Store: st, Now: a.now, Grace: a.opts.Grace}, red, log, func(url string) {
		fmt.Fprintln(a.out, url)
		fmt.Fprintln(a.err, "ledgerctl: serving until interrupted")
	})
	return errors.Join(err, st.Close())
}
