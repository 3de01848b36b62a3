// Package netguardtest is an internet for tests of what goes through netguard:
// names, public addresses and https servers, all inside the process. The guard
// judges it like the real one, so nothing is admitted for a test that would not
// be in production.
package netguardtest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/daybookhq/daybook/tools/netguard"
)

// Internet is a set of sites. Safe for concurrent use.
type Internet struct {
	tb   testing.TB
	pool *x509.CertPool
	ca   *x509.Certificate
	key  *ecdsa.PrivateKey

	mu      sync.Mutex
	names   map[string][][]netip.Addr // answers in turn; the last one stays
	sites   map[netip.Addr]*site
	dialled []netip.AddrPort
	asked   map[string]int
	next    byte
}

type site struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

// New returns an internet without sites. It ends with tb.
func New(tb testing.TB) *Internet {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	now := time.Now()
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "netguardtest"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(100 * 365 * 24 * time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		tb.Fatal(err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	in := &Internet{
		tb: tb, pool: x509.NewCertPool(), ca: ca, key: key,
		names: map[string][][]netip.Addr{}, sites: map[netip.Addr]*site{}, asked: map[string]int{},
	}
	in.pool.AddCert(ca)
	return in
}

// Net is what goes below the guard.
func (in *Internet) Net() netguard.Net {
	return netguard.Net{
		Lookup: in.lookup, Connect: in.connect, RootCAs: in.pool,
		Own: func() ([]netip.Addr, error) { return nil, nil },
	}
}

// Handle opens a site of that name on an address of its own, on all ports.
func (in *Internet) Handle(host string, h http.Handler) netip.Addr {
	in.tb.Helper()
	return in.HandleConns(host, func(l net.Listener) error {
		srv := &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
		in.tb.Cleanup(func() { _ = srv.Close() })
		return srv.Serve(l)
	})
}

// HandleFunc is Handle with a function.
func (in *Internet) HandleFunc(host string, h http.HandlerFunc) netip.Addr {
	in.tb.Helper()
	return in.Handle(host, h)
}

// HandleConns opens a site whose connections, with TLS on them, are served by
// a function of the test's.
func (in *Internet) HandleConns(host string, serve func(net.Listener) error) netip.Addr {
	in.tb.Helper()
	cert := in.certificate(host)
	s := &site{conns: make(chan net.Conn), done: make(chan struct{})}
	in.mu.Lock()
	in.next++
	addr := netip.AddrFrom4([4]byte{93, 184, 216, in.next})
	in.names[host] = [][]netip.Addr{{addr}}
	in.sites[addr] = s
	in.mu.Unlock()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = serve(tls.NewListener(s, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}))
	}()
	in.tb.Cleanup(func() {
		_ = s.Close()
		<-over
	})
	return addr
}

// Resolve sets what a name resolves to: one list for each time it is asked,
// and the last one from then on.
func (in *Internet) Resolve(host string, answers ...[]netip.Addr) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.names[host] = answers
}

// Dialled returns the addresses that a connection was attempted to, in order.
func (in *Internet) Dialled() []netip.AddrPort {
	in.mu.Lock()
	defer in.mu.Unlock()
	return append([]netip.AddrPort(nil), in.dialled...)
}

func (in *Internet) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	answers := in.names[host]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	n := min(in.asked[host], len(answers)-1)
	in.asked[host]++
	return answers[n], nil
}

func (in *Internet) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	in.mu.Lock()
	in.dialled = append(in.dialled, to)
	s := in.sites[to.Addr()]
	in.mu.Unlock()
	if s == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	here, there := net.Pipe()
	select {
	case s.conns <- there:
		return here, nil
	case <-s.done:
	case <-ctx.Done():
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
}

// Accept, Close and Addr make a site a listener.
func (s *site) Accept() (net.Conn, error) {
	select {
	case c := <-s.conns:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

func (s *site) Close() error {
	s.once.Do(func() { close(s.done) })
	return nil
}

func (s *site) Addr() net.Addr { return &net.TCPAddr{} }

func (in *Internet) certificate(host string) tls.Certificate {
	in.tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		in.tb.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: in.ca.NotBefore, NotAfter: in.ca.NotAfter,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, in.ca, &key.PublicKey, in.key)
	if err != nil {
		in.tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
