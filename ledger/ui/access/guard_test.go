package access_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/daybookhq/daybook/ledger/ui/access"
)

// world is a guard before a handler that says who came through, a tokens file,
// a clock to move, and all that was logged.
type world struct {
	t     *testing.T
	path  string
	guard *access.Guard
	h     http.Handler
	log   *lockedBuffer

	mu  sync.Mutex
	now time.Time
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newWorld(t *testing.T, change func(*access.Options)) *world {
	t.Helper()
	w := &world{t: t, path: filepath.Join(t.TempDir(), "tokens.yaml"), log: &lockedBuffer{}, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	o := access.Options{
		Listen: "127.0.0.1:8080", Tokens: w.path,
		Logger: slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
	}
	if change != nil {
		change(&o)
	}
	if o.Tokens != "" {
		w.token("nobody", access.Read)
	}
	var err error
	if w.guard, err = access.New(o); err != nil {
		t.Fatal(err)
	}
	w.h = w.guard.Wrap(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		p, ok := access.From(r.Context())
		if !ok || access.RequestID(r.Context()).IsZero() {
			t.Error("a request came through without a principal or an id")
		}
		rw.Header().Set("X-Who", p.Actor())
		_, _ = io.WriteString(rw, r.Method+" "+r.PostForm.Encode())
	}))
	return w
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// token makes a token that is good for a day.
func (w *world) token(name string, scopes ...access.Scope) string {
	w.t.Helper()
	w.mu.Lock()
	now := w.now
	w.mu.Unlock()
	text, tok, err := access.Grant{Name: name, Scopes: scopes, Life: 24 * time.Hour}.New(now, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := access.Add(w.path, tok); err != nil {
		w.t.Fatal(err)
	}
	return text
}

type edit func(*http.Request)

func header(k, v string) edit { return func(r *http.Request) { r.Header.Set(k, v) } }
func bearer(tok string) edit  { return header("Authorization", "Bearer "+tok) }
func from(addr string) edit   { return func(r *http.Request) { r.RemoteAddr = addr } }
func host(h string) edit      { return func(r *http.Request) { r.Host = h } }

func cookie(c *http.Cookie) edit { return func(r *http.Request) { r.AddCookie(c) } }

// browser is what a browser says of a request that the page itself made.
func browser(r *http.Request) {
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Accept", "text/html")
}

func (w *world) do(method, target string, form url.Values, edits ...edit) *http.Response {
	w.t.Helper()
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	r := httptest.NewRequest(method, target, body)
	r.Host, r.RemoteAddr = "127.0.0.1:8080", "127.0.0.1:40000"
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, e := range edits {
		e(r)
	}
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	return rec.Result()
}

func (w *world) want(status int, res *http.Response) string {
	w.t.Helper()
	b, _ := io.ReadAll(res.Body)
	if res.StatusCode != status {
		w.t.Errorf("status %d, want %d: %s", res.StatusCode, status, b)
	}
	return string(b)
}

// signIn signs a browser in and returns its cookie.
func (w *world) signIn(tok string, edits ...edit) *http.Cookie {
	w.t.Helper()
	res := w.do("POST", "/login", url.Values{"token": {tok}}, append([]edit{browser}, edits...)...)
	w.want(http.StatusSeeOther, res)
	for _, c := range res.Cookies() {
		if c.Value != "" {
			return c
		}
	}
	w.t.Fatal("signed in without a cookie")
	return nil
}

func TestBearer(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("alice", access.Read, access.Resolve)
	res := w.do("GET", "/runs", nil, bearer(tok))
	w.want(200, res)
	if who := res.Header.Get("X-Who"); !strings.HasPrefix(who, "alice (token ") {
		t.Errorf("came through as %q", who)
	}
	w.want(200, w.do("POST", "/acts", url.Values{"a": {"b"}}, bearer(tok)))
	w.want(401, w.do("GET", "/runs", nil))
	w.want(401, w.do("GET", "/runs", nil, bearer(tok[:len(tok)-1]+"0")))
	w.want(401, w.do("GET", "/runs", nil, header("Authorization", "Basic "+tok)))
	w.want(401, w.do("GET", "/runs", nil, bearer(tok), func(r *http.Request) { r.Header.Add("Authorization", "Bearer x") }))
	w.advance(24 * time.Hour)
	w.want(401, w.do("GET", "/runs", nil, bearer(tok)))
}

func TestReadOnlyTokensChangeNothing(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("alice", access.Read)
	w.want(403, w.do("POST", "/acts", url.Values{}, bearer(tok)))
	w.want(403, w.do("POST", "/acts", url.Values{}, browser, cookie(w.signIn(tok))))
}

func TestWithoutTokensTheMachineItselfMayRead(t *testing.T) {
	w := newWorld(t, func(o *access.Options) { o.Tokens = "" })
	res := w.do("GET", "/runs", nil)
	w.want(200, res)
	if who := res.Header.Get("X-Who"); who != access.Local {
		t.Errorf("came through as %q", who)
	}
	w.want(403, w.do("POST", "/acts", url.Values{}, browser))
	w.want(403, w.do("GET", "/runs", nil, from("192.0.2.1:1")))
	w.want(403, w.do("GET", "/runs", nil, header("X-Forwarded-For", "127.0.0.1")))
	w.want(401, w.do("GET", "/runs", nil, bearer("x")))
	if text := w.want(200, w.do("GET", "/login", nil)); strings.Contains(text, "<form") {
		t.Error("a form that nobody can fill in")
	}
}

func TestLocalReadBesideTokens(t *testing.T) {
	w := newWorld(t, func(o *access.Options) { o.LocalRead = true })
	w.want(200, w.do("GET", "/runs", nil))
	w.want(403, w.do("POST", "/acts", url.Values{}, browser))
	c := w.signIn(w.token("alice", access.Read, access.Approve))
	w.want(200, w.do("POST", "/acts", url.Values{}, browser, cookie(c)))
}

func TestWhereItMayListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	_, tok, err := access.Grant{Name: "a", Scopes: []access.Scope{access.Read}}.New(time.Now(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := access.Add(path, tok); err != nil {
		t.Fatal(err)
	}
	proxy := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for _, tt := range []struct {
		name string
		o    access.Options
		want error
	}{
		{"loopback", access.Options{Listen: "127.0.0.1:1"}, nil},
		{"loopback of IPv6", access.Options{Listen: "[::1]:1"}, nil},
		{"localhost", access.Options{Listen: "localhost:1"}, nil},
		{"everywhere", access.Options{Listen: ":1"}, access.ErrExposed},
		{"everywhere, in numbers", access.Options{Listen: "0.0.0.0:1", TLS: true}, access.ErrExposed},
		{"a name", access.Options{Listen: "localhost.example:1"}, access.ErrExposed},
		{"loopback behind a proxy without tokens", access.Options{Listen: "127.0.0.1:1", Proxies: proxy}, access.ErrExposed},
		{"tokens in the open", access.Options{Listen: ":1", Tokens: path}, access.ErrPlain},
		{"tokens over TLS", access.Options{Listen: ":1", Tokens: path, TLS: true}, nil},
		{"tokens behind a proxy", access.Options{Listen: ":1", Tokens: path, Proxies: proxy}, nil},
		{"no such file", access.Options{Listen: "127.0.0.1:1", Tokens: path + "x"}, os.ErrNotExist},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := access.New(tt.o); !isErr(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}
