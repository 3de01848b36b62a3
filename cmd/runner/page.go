package main

import (
	"context"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/daybookhq/daybook/cmd/internal/webpage"
	"github.com/daybookhq/daybook/ledger/ui"
	"github.com/daybookhq/daybook/runtime/system"
)

// pageFlags say where runner dev serves the ledger's page.
type pageFlags struct{ listen, tokens string }

func (f *pageFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.listen, "ui", webpage.Address, "serve the ledger's page on this address of this machine; empty = not (DAYBOOK_UI)")
	fs.StringVar(&f.tokens, "ui-tokens", "", "file of tokens that let people answer on the page; see ledgerctl tokens (DAYBOOK_UI_TOKENS)")
}

// servePage serves until stop is called, which waits for it. Without --ui, and for
// commands that have no such flag, it does nothing.
func (a *app) servePage(ctx context.Context, log *slog.Logger, sys *system.System) (stop func(), err error) {
	f, flag := a.page, a.flags.Lookup("ui")
	if flag == nil || f.listen == "" {
		return func() {}, nil
	}
	w := webpage.Flags{Listen: f.listen, Tokens: f.tokens, LocalRead: true}
	if _, err := w.Guard(log); err != nil {
		return nil, usagef("%s %q: %w", a.name("ui"), f.listen, err)
	}
	ctx, end := context.WithCancel(ctx)
	served, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- w.Serve(ctx, ui.Options{Store: sys.Store, Grace: a.opts.Grace}, sys.Redactor, log, func(url string) {
			log.Info("the ledger's page is served", "at", url)
			close(served)
		})
	}()
	select {
	case <-served:
	case err := <-done:
		end()
		if f.listen == webpage.Address && !flag.Changed {
			log.Info("the ledger's page is not served: another process has its address; --ui gives it another", "at", f.listen)
			return func() {}, nil
		}
		return nil, err
	}
	return func() {
		end()
		if err := <-done; err != nil {
			log.Error("the page was not served to the end", "error", err)
		}
	}, nil
}
