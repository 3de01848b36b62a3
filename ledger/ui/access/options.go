package access

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"
)

// Options say how the page is reached and who may come in. Only Listen is required.
type Options struct {
	// Listen is the address the server is bound to, as net.Listen takes it.
	Listen string
	// Tokens is the path of the tokens file. Without one only a loopback address
	// is allowed, and whoever sits at the machine may read, and do nothing else.
	Tokens string
	// LocalRead lets whoever sits at the machine read without a token beside a
	// tokens file too. It has no effect on what is not bound to loopback.
	LocalRead bool
	// TLS says that the server speaks TLS itself.
	TLS bool
	// Proxies are the addresses of proxies that speak TLS for it: what they say in
	// X-Forwarded-For is believed, of nobody else. With Proxies and without TLS
	// only they, and this machine, may connect.
	Proxies []netip.Prefix
	// Base is the path below which the page is mounted, such as "/daybook"; empty is
	// the root. Whoever mounts it there strips the prefix ([http.StripPrefix]).
	Base string
	// Hosts are the names under which browsers know the server, without a port,
	// beside those of loopback if it is bound to it. Without any, a server that is
	// not bound to loopback answers to all names.
	Hosts []string
	// Logger gets a line for each refusal and each act; nil is none.
	Logger *slog.Logger
	// SessionLife is how long a browser stays signed in at most, SessionIdle how
	// long without a request; zero means 12 hours and 1 hour.
	SessionLife, SessionIdle time.Duration
	// MaxSessions bounds how many browsers are signed in; zero means 1000. A token
	// has a tenth of them at most; who comes after that puts out the oldest.
	MaxSessions int
	// MaxBody bounds a request's body in bytes; zero means 64 KiB.
	MaxBody int64
	// Now and Random are the clock and randomness; nil means the real ones.
	Now    func() time.Time
	Random io.Reader
}

// Errors of [New].
var (
	// ErrOptions: the options do not fit together; the text says how. The two below
	// come with it.
	ErrOptions = errors.New("wrong options for the page's guard")
	// ErrExposed: without tokens, everybody on the network could read.
	ErrExposed = errors.New("without tokens only this machine may be let in: make some with ledgerctl tokens new, or listen on 127.0.0.1")
	// ErrPlain: tokens would cross the network in the open.
	ErrPlain = errors.New("tokens would cross the network in the open: give a certificate, name the proxies that speak TLS for it, or listen on 127.0.0.1")
)

func (o Options) withDefaults() Options {
	o.SessionLife = cmp.Or(o.SessionLife, 12*time.Hour)
	o.SessionIdle = cmp.Or(o.SessionIdle, time.Hour)
	o.MaxSessions = cmp.Or(o.MaxSessions, 1000)
	o.MaxBody = cmp.Or(o.MaxBody, 64<<10)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	return o
}

// check refuses what would let in more than it says.
func (o Options) check() (loopback bool, err error) {
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return false, fmt.Errorf("%w: listen on %q: %w", ErrOptions, o.Listen, err)
	}
	loopback = isLoopbackHost(host)
	switch {
	case o.Tokens == "" && (!loopback || len(o.Proxies) > 0):
		return loopback, fmt.Errorf("%w: listen on %q: %w", ErrOptions, o.Listen, ErrExposed)
	case !loopback && !o.TLS && len(o.Proxies) == 0:
		return loopback, fmt.Errorf("%w: listen on %q: %w", ErrOptions, o.Listen, ErrPlain)
	}
	if o.Base != "" && (!SafeNext(o.Base) || strings.HasSuffix(o.Base, "/") || strings.ContainsAny(o.Base, "?#\"<>")) {
		return loopback, fmt.Errorf("%w: base %q: want a path such as /daybook", ErrOptions, o.Base)
	}
	for _, h := range o.Hosts {
		if _, ok := hostName(h); !ok || strings.ContainsAny(h, "/@ ") {
			return loopback, fmt.Errorf("%w: host %q: want a name without scheme, port and path", ErrOptions, h)
		}
	}
	return loopback, nil
}

func isLoopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// hostName is the name in a Host header, in lower case and without its port.
func hostName(h string) (string, bool) {
	if h == "" || len(h) > 300 {
		return "", false
	}
	if host, _, err := net.SplitHostPort(h); err == nil {
		h = host
	}
	h = strings.TrimSuffix(strings.Trim(h, "[]"), ".")
	return strings.ToLower(h), h != "" && !strings.ContainsAny(h, "/\\@?#% \t")
}
