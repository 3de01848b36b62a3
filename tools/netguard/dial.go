package netguard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"code.dny.dev/ssrf"
)

// azure is where Azure's machines find their host, an address that looks public.
var azure = netip.MustParsePrefix("168.63.129.16/32")

const (
	maxAddresses   = 8 // of one name; more is no site, it is a trick
	connectTimeout = 5 * time.Second
)

// newGuardian knows IANA's registries of special addresses.
func newGuardian() *ssrf.Guardian {
	return ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(azure))
}

// prohibited says why an address may not be dialled.
func (c *Client) prohibited(a netip.Addr) error {
	if a.Zone() != "" || !a.IsValid() {
		return fmt.Errorf("%w: %v has a zone", ssrf.ErrProhibitedIP, a)
	}
	if err := c.guardian.SafeAddr(a); err != nil {
		return err
	}
	own, err := c.net.Own()
	if err != nil {
		return fmt.Errorf("list own addresses: %w", err)
	}
	if slices.Contains(own, a) {
		return fmt.Errorf("%w: %v is this machine", ssrf.ErrProhibitedIP, a)
	}
	return nil
}

// dial resolves and connects. All addresses of a name must be allowed: one
// private address among public ones is an attempt.
func (c *Client) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	p, err := net.LookupPort("tcp", port)
	if err != nil {
		return nil, err
	}
	addrs, err := c.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if c.origin == "" {
		for _, a := range addrs {
			if err := c.prohibited(a); err != nil {
				e := refuse(NotPublic, host, host+" resolves to an address that is not public")
				e.err = err
				return nil, e
			}
		}
	}
	var first error
	for _, a := range addrs {
		conn, err := c.connect(ctx, netip.AddrPortFrom(a, uint16(p)))
		if err == nil {
			return &idleConn{Conn: conn, idle: c.limits.Idle}, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, &dialError{first}
}

func (c *Client) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return c.net.Connect(ctx, to)
}

func (c *Client) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := c.net.Lookup(ctx, host)
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no addresses", Name: host, IsNotFound: true}
	}
	if err != nil {
		return nil, err
	}
	if len(addrs) > maxAddresses && c.origin == "" {
		for _, a := range addrs[maxAddresses:] { // judged although they are not tried
			if err := c.prohibited(a.Unmap()); err != nil {
				return nil, refuse(NotPublic, host, host+" resolves to an address that is not public")
			}
		}
		addrs = addrs[:maxAddresses]
	}
	out := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		out[i] = a.Unmap() // how resolvers write IPv4, and how it would be dialled
	}
	return out, nil
}

// dialError marks that no connection came about.
type dialError struct{ error }

func (e *dialError) Unwrap() error { return e.error }

// withDefaults makes the real network of what is not given. guardian looks
// again at what the socket is connected to.
func (n Net) withDefaults(guardian *ssrf.Guardian) Net {
	if n.Lookup == nil {
		r := &net.Resolver{PreferGo: true}
		n.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) { return r.LookupNetIP(ctx, "ip", host) }
	}
	if n.Connect == nil {
		d := &net.Dialer{}
		if guardian != nil {
			d.Control = guardian.Safe
		}
		n.Connect = func(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
			network := "tcp4"
			if to.Addr().Is6() {
				network = "tcp6"
			}
			return d.DialContext(ctx, network, to.String())
		}
	}
	if n.Own == nil {
		n.Own = ownAddresses
	}
	return n
}

func ownAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr().Unmap().WithZone(""))
		}
	}
	return own, nil
}

// idleConn ends reads and writes during which nothing happens.
type idleConn struct {
	net.Conn
	idle    time.Duration
	closing atomic.Bool
}

func (c *idleConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

func (c *idleConn) Write(b []byte) (int, error) {
	if c.closing.Load() {
		return 0, net.ErrClosed
	}
	// In pieces, so that a slow host that takes some of them is seen to be at work.
	const piece = 16 << 10
	for done := 0; ; {
		if err := c.move(); err != nil {
			return done, err
		}
		n, err := c.Conn.Write(b[done:min(done+piece, len(b))])
		if done += n; err != nil || done >= len(b) {
			// The transport has been reading since before the request went out: the
			// host's time to answer begins here.
			return done, errors.Join(err, c.SetReadDeadline(time.Now().Add(c.idle)))
		}
	}
}

// move moves both deadlines; SetWriteDeadline is another thing, below.
func (c *idleConn) move() error {
	t := time.Now().Add(c.idle)
	return errors.Join(c.SetReadDeadline(t), c.Conn.SetWriteDeadline(t))
}

// SetWriteDeadline is called by TLS alone, before the farewell with which it
// would wait five seconds for a host that does not listen. It is left out.
func (c *idleConn) SetWriteDeadline(t time.Time) error {
	c.closing.Store(true)
	return c.Conn.SetWriteDeadline(t)
}
