// Package webpage serves the ledger's page for a command line: the flags that say
// how it is reached and who may come in, and the server behind them.
package webpage

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"github.com/spf13/pflag"

	"github.com/daybookhq/daybook/ledger/ui"
	"github.com/daybookhq/daybook/ledger/ui/access"
	"github.com/daybookhq/daybook/redact"
)

// Address is where the page is unless a flag says otherwise.
const Address = "127.0.0.1:8090"

// ErrFlags: what the flags say does not fit together, or cannot be read.
var ErrFlags = errors.New("wrong flags for the page")

// Flags say how the page is reached and who may come in. The zero value, with
// Listen, is a page for this machine, to read.
type Flags struct {
	Listen string
	// Tokens is the tokens file; empty = none.
	Tokens string
	// LocalRead lets this machine read without a token.
	LocalRead bool
	// Cert and Key are files of PEM; both or neither.
	Cert, Key string
	// Proxies are addresses or networks, Hosts names.
	Proxies, Hosts []string
}

// Add adds the flags; env reads a variable of the environment.
func (f *Flags) Add(fs *pflag.FlagSet, env func(name, otherwise string) string) {
	fs.StringVar(&f.Listen, "listen", env("DAYBOOK_UI_LISTEN", Address), "address to serve on; port 0 takes a free one (DAYBOOK_UI_LISTEN)")
	fs.StringVar(&f.Tokens, "tokens", env("DAYBOOK_TOKENS", ""), "file with the tokens that let people in; see ledgerctl tokens (DAYBOOK_TOKENS)")
	fs.BoolVar(&f.LocalRead, "local-read", false, "with --tokens on an address of this machine: whoever is at it may read without one")
	fs.StringVar(&f.Cert, "tls-cert", env("DAYBOOK_TLS_CERT", ""), "file with the certificate chain, in PEM (DAYBOOK_TLS_CERT)")
	fs.StringVar(&f.Key, "tls-key", env("DAYBOOK_TLS_KEY", ""), "file with its key, in PEM (DAYBOOK_TLS_KEY)")
	fs.StringSliceVar(&f.Proxies, "behind-proxy", nil, "address or network of a proxy that speaks TLS for the page, whose X-Forwarded-For is believed; repeatable")
	fs.StringSliceVar(&f.Hosts, "host", nil, "name under which browsers know the page, beside those of this machine; repeatable")
}

// options are the guard's.
func (f Flags) options(log *slog.Logger) (access.Options, error) {
	o := access.Options{Listen: f.Listen, Tokens: f.Tokens, LocalRead: f.LocalRead, TLS: f.Cert != "", Hosts: f.Hosts, Logger: log}
	if (f.Cert == "") != (f.Key == "") {
		return o, fmt.Errorf("%w: --tls-cert and --tls-key are given together", ErrFlags)
	}
	for _, s := range f.Proxies {
		p, err := netip.ParsePrefix(s)
		if a, aerr := netip.ParseAddr(s); aerr == nil {
			p, err = a.Prefix(a.BitLen())
		}
		if err != nil {
			return o, fmt.Errorf("%w: --behind-proxy %q: want an address or a network such as 10.0.0.0/8", ErrFlags, s)
		}
		o.Proxies = append(o.Proxies, p)
	}
	return o, nil
}

// Guard makes the guard that the flags ask for. Errors: [ErrFlags], and those of
// [access.New].
func (f Flags) Guard(log *slog.Logger) (*access.Guard, error) {
	o, err := f.options(log)
	if err != nil {
		return nil, err
	}
	return access.New(o)
}

// Listener listens, and speaks TLS if the flags say so. url is where that is.
func (f Flags) Listener(ctx context.Context) (l net.Listener, url string, err error) {
	var cfg *tls.Config
	scheme := "http"
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, "", fmt.Errorf("--tls-cert %s, --tls-key %s: %w", f.Cert, f.Key, err)
		}
		cfg, scheme = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, "https"
	}
	if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", f.Listen); err != nil {
		return nil, "", fmt.Errorf("listen on %q: %w; give another address", f.Listen, err)
	}
	url = scheme + "://" + l.Addr().String()
	if cfg != nil {
		l = tls.NewListener(l, cfg)
	}
	return l, url, nil
}

// Serve serves the page until ctx ends; said is told where, once it is. What is
// logged is redacted.
func (f Flags) Serve(ctx context.Context, o ui.Options, red *redact.Redactor, log *slog.Logger, said func(url string)) error {
	log = slog.New(red.Handler(log.Handler()))
	g, err := f.Guard(log)
	if err != nil {
		return err
	}
	o.Logger, o.Guard, o.Redactor = log, g, red
	h, err := ui.New(o)
	if err != nil {
		return err
	}
	l, url, err := f.Listener(ctx)
	if err != nil {
		return err
	}
	said(url)
	return ui.Serve(ctx, l, g.Server(h))
}
