package standin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/daybookhq/daybook/tools/netguard"
)

// Web is how the pages are reached from another process.
type Web struct {
	Addr string `json:"addr"`
	CA   string `json:"ca"` // PEM
}

// somewhere is a public address: the guard refuses all others. Nothing is sent there.
var somewhere = netip.MustParseAddr("93.184.216.34")

// Net puts the pages below the network guard, whose rules stay what they are:
// https, public addresses, the hosts on the policy's list. In production the
// zero Net is the real network.
func (w Web) Net() (netguard.Net, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(w.CA)) {
		return netguard.Net{}, errors.New("the pages have no certificate")
	}
	known := hosts()
	return netguard.Net{
		RootCAs: pool,
		Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
			if !slices.Contains(known, host) {
				return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
			}
			return []netip.Addr{somewhere}, nil
		},
		Connect: func(ctx context.Context, _ netip.AddrPort) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", w.Addr)
		},
	}, nil
}

// hosts are those that have pages.
func hosts() []string {
	entries, err := fs.ReadDir(data, "data/web")
	if err != nil {
		panic(err) // it is built in
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// types are not left to the machine's own list.
var types = map[string]string{
	".html": "text/html; charset=utf-8", ".pdf": "application/pdf",
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
}

// page serves data/web/HOST/PATH.
func page(w http.ResponseWriter, r *http.Request) {
	name := path.Join("data/web", r.Host, path.Clean("/"+r.URL.Path))
	b, err := data.ReadFile(name)
	if err != nil || !strings.HasPrefix(name, "data/web/") {
		http.NotFound(w, r)
		return
	}
	kind := types[path.Ext(name)]
	if kind == "" {
		kind = mime.TypeByExtension(path.Ext(name))
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(b) // the caller may be gone
}

// certificates returns an authority, as PEM, and what it says of the hosts.
func certificates(hosts []string) ([]byte, tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	// One certificate that vouches for itself: it is trusted because the worker is told to.
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "research example"}, DNSNames: hosts,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	if err != nil {
		return nil, tls.Certificate{}, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
