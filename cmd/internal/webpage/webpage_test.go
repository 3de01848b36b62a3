package webpage_test

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
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/cmd/internal/webpage"
	"github.com/daybookhq/daybook/ledger"
	"github.com/daybookhq/daybook/ledger/ledgertest"
	"github.com/daybookhq/daybook/ledger/sqlite"
	"github.com/daybookhq/daybook/ledger/sqlstore"
	"github.com/daybookhq/daybook/ledger/ui"
	"github.com/daybookhq/daybook/ledger/ui/access"
	"github.com/daybookhq/daybook/redact"
)

func openLedger(t *testing.T) ledger.Store {
	t.Helper()
	st, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Store: sqlstore.Config{Redactor: redact.New(redact.Config{})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// serve serves until the test ends and returns where.
func serve(t *testing.T, f webpage.Flags, st ledger.Store) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	at, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- f.Serve(ctx, ui.Options{Store: st}, redact.New(redact.Config{}), slog.New(slog.DiscardHandler), func(url string) { at <- url })
	}()
	select {
	case u := <-at:
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Errorf("serving ended with %v", err)
			}
		})
		return u
	case err := <-done:
		stop()
		t.Fatal(err)
		return ""
	}
}

func newToken(t *testing.T, path string, g access.Grant) string {
	t.Helper()
	text, tok, err := g.New(time.Now(), nil)
	if err == nil {
		err = access.Add(path, tok)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// certificate makes one that is good for 127.0.0.1, and who trusts it.
func certificate(t *testing.T) (cert, key string, trust *x509.CertPool) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "page"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tpl, tpl, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	kder, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	trust = x509.NewCertPool()
	pemCert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	trust.AppendCertsFromPEM(pemCert)
	for path, b := range map[string][]byte{cert: pemCert, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: kder})} {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key, trust
}

func ask(t *testing.T, c *http.Client, method, target string, form url.Values, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, target, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(b)
}

// TestOverTLS signs in on every address, over TLS, as a browser does, and sees what
// the token is for.
func TestOverTLS(t *testing.T) {
	st := openLedger(t)
	mine, other := ledgertest.FillSample(t, st, "acme", "ann"), ledgertest.FillSample(t, st, "acme", "bob")
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	tok := newToken(t, tokens, access.Grant{Name: "ann", Scopes: []access.Scope{access.Read}, Tenant: "acme", Owner: "ann"})
	cert, key, trust := certificate(t)
	at := serve(t, webpage.Flags{Listen: "0.0.0.0:0", Tokens: tokens, Cert: cert, Key: key}, st)
	u, err := url.Parse(at)
	if err != nil || u.Scheme != "https" {
		t.Fatalf("served at %s, %v", at, err)
	}
	at = "https://127.0.0.1:" + u.Port()
	c := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(c.CloseIdleConnections)
	res, _ := ask(t, c, "GET", at+"/runs", nil, "Accept", "text/html")
	if res.StatusCode != 303 || res.Header.Get("Location") != "/login?next=%2Fruns" {
		t.Errorf("without a session: %d to %q", res.StatusCode, res.Header.Get("Location"))
	}
	res, _ = ask(t, c, "POST", at+"/login", url.Values{"token": {tok}, "next": {"/runs"}}, "Origin", at)
	if res.StatusCode != 303 || len(res.Cookies()) != 1 || res.Cookies()[0].Name != "__Host-daybook" || !res.Cookies()[0].Secure {
		t.Fatalf("signed in: %d, %v", res.StatusCode, res.Cookies())
	}
	session := res.Cookies()[0].String()
	session, _, _ = strings.Cut(session, ";")
	res, text := ask(t, c, "GET", at+"/runs", nil, "Cookie", session)
	if res.StatusCode != 200 || !strings.Contains(text, mine.Run.ID.String()) || strings.Contains(text, other.Run.ID.String()) {
		t.Errorf("the list, %d, has its own run: %t, another's: %t", res.StatusCode, strings.Contains(text, mine.Run.ID.String()), strings.Contains(text, other.Run.ID.String()))
	}
	if res, _ := ask(t, c, "GET", at+"/runs/"+other.Run.ID.String(), nil, "Cookie", session); res.StatusCode != 404 {
		t.Errorf("another's run: %d", res.StatusCode)
	}
	if res, _ := ask(t, c, "GET", at+"/runs/"+mine.Run.ID.String(), nil, "Authorization", "Bearer "+tok); res.StatusCode != 200 {
		t.Errorf("its own run: %d", res.StatusCode)
	}
	if _, err := access.Revoke(tokens, "ann", time.Now()); err != nil {
		t.Fatal(err)
	}
	if res, _ := ask(t, c, "GET", at+"/runs", nil, "Cookie", session); res.StatusCode != 401 {
		t.Errorf("after the token was revoked: %d", res.StatusCode)
	}
}

func TestWithoutTokensItOnlyShows(t *testing.T) {
	st := openLedger(t)
	s := ledgertest.FillSample(t, st, "acme", "ann")
	at := serve(t, webpage.Flags{Listen: "127.0.0.1:0"}, st)
	c := &http.Client{}
	t.Cleanup(c.CloseIdleConnections)
	if res, text := ask(t, c, "GET", at+"/runs", nil); res.StatusCode != 200 || !strings.Contains(text, s.Run.ID.String()) {
		t.Errorf("the list: %d", res.StatusCode)
	}
	res, _ := ask(t, c, "POST", at+"/runs/"+s.Run.ID.String()+"/cancel", url.Values{"reason": {"x"}}, "Origin", at)
	if run, err := st.Run(t.Context(), s.Run.ID); res.StatusCode != 403 || err != nil || run.State == ledger.Cancelling {
		t.Errorf("cancelled: %d, %v, %v", res.StatusCode, run.State, err)
	}
}

func TestFlagsThatDoNotFit(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.yaml")
	newToken(t, tokens, access.Grant{Name: "ann", Scopes: []access.Scope{access.Read}})
	for name, tt := range map[string]struct {
		f    webpage.Flags
		want error
	}{
		"everywhere without tokens": {webpage.Flags{Listen: ":0"}, access.ErrExposed},
		"everywhere in the open":    {webpage.Flags{Listen: ":0", Tokens: tokens}, access.ErrPlain},
		"half a certificate":        {webpage.Flags{Listen: "127.0.0.1:0", Cert: "x"}, webpage.ErrFlags},
		"no proxy":                  {webpage.Flags{Listen: "127.0.0.1:0", Tokens: tokens, Proxies: []string{"x"}}, webpage.ErrFlags},
		"no host":                   {webpage.Flags{Listen: "127.0.0.1:0", Hosts: []string{"a/b"}}, access.ErrOptions},
		"behind one proxy":          {webpage.Flags{Listen: ":0", Tokens: tokens, Proxies: []string{"10.0.0.1", "fd00::/8"}}, nil},
	} {
		if _, err := tt.f.Guard(slog.New(slog.DiscardHandler)); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}
