package access_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/daybookhq/daybook/ledger/ui/access"
)

// tokenNow is token on the real clock, as a guard without one of its own has it.
func (w *world) tokenNow(name string, scopes ...access.Scope) string {
	w.t.Helper()
	text, tok, err := access.Grant{Name: name, Scopes: scopes}.New(time.Now(), nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := access.Add(w.path, tok); err != nil {
		w.t.Fatal(err)
	}
	return text
}

func TestCookies(t *testing.T) {
	proxy := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
	for name, tt := range map[string]struct {
		change func(*access.Options)
		cookie string
		secure bool
		edits  []edit
	}{
		"loopback":              {func(*access.Options) {}, "daybook", false, nil},
		"loopback over TLS":     {func(o *access.Options) { o.TLS = true }, "__Host-daybook", true, nil},
		"loopback behind proxy": {func(o *access.Options) { o.Proxies = proxy }, "__Host-daybook", true, nil},
		"everywhere over TLS":   {func(o *access.Options) { o.Listen, o.TLS = ":8443", true }, "__Host-daybook", true, []edit{host("ledger.example"), from("192.0.2.1:1")}},
		"everywhere behind a proxy": {
			func(o *access.Options) { o.Listen, o.Proxies = ":8080", proxy },
			"__Host-daybook", true,
			[]edit{host("ledger.example"), from("10.1.2.3:1")},
		},
	} {
		w := newWorld(t, tt.change)
		c := w.signIn(w.token("ann", access.Read), tt.edits...)
		if c.Name != tt.cookie || c.Secure != tt.secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" ||
			c.MaxAge != int((12*time.Hour).Seconds()) {
			t.Errorf("%s: %+v", name, c)
		}
		w.want(200, w.do("GET", "/runs", nil, append(tt.edits, cookie(c))...))
	}
}

func TestASessionIsNoLongerThanItsToken(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("ann", access.Read) // a day
	w.advance(23 * time.Hour)
	c := w.signIn(tok)
	if c.MaxAge != 3600 {
		t.Errorf("cookie for %d s", c.MaxAge)
	}
	w.advance(59 * time.Minute)
	w.want(200, w.do("GET", "/runs", nil, cookie(c)))
	w.advance(2 * time.Minute)
	w.want(401, w.do("GET", "/runs", nil, cookie(c)))
}

func TestSessionsAreBounded(t *testing.T) {
	w := newWorld(t, func(o *access.Options) { o.MaxSessions = 20 })
	ann, bob := w.token("ann", access.Read), w.token("bob", access.Read)
	kept := cookie(w.signIn(bob))
	var mine []*http.Cookie
	for range 5 {
		w.advance(time.Second)
		mine = append(mine, w.signIn(ann))
	}
	// A token has a tenth, so two: its oldest are out, and nobody else's.
	for i, c := range mine {
		want := 401
		if i >= 3 {
			want = 200
		}
		w.want(want, w.do("GET", "/runs", nil, cookie(c)))
	}
	w.want(200, w.do("GET", "/runs", nil, kept))
	for i := range 20 { // of ten tokens more
		w.advance(time.Second)
		w.signIn(w.token(fmt.Sprintf("t%d", i/2), access.Read))
	}
	w.want(401, w.do("GET", "/runs", nil, kept)) // used longest ago
}

func TestSigningOutAsksFirst(t *testing.T) {
	w := newWorld(t, nil)
	c := w.signIn(w.token("ann", access.Read))
	if text := w.want(200, w.do("GET", "/logout", nil, browser, cookie(c))); !strings.Contains(text, `<form method="post" action="/logout">`) {
		t.Error(text)
	}
	w.want(200, w.do("GET", "/runs", nil, cookie(c)))
}

func TestMountedBelow(t *testing.T) {
	w := newWorld(t, func(o *access.Options) { o.Base = "/daybook" })
	w.h = http.StripPrefix("/daybook", w.h)
	res := w.do("GET", "/daybook/runs?state=parked", nil, browser)
	w.want(303, res)
	if l := res.Header.Get("Location"); l != "/daybook/login?next=%2Fruns%3Fstate%3Dparked" {
		t.Errorf("to %s", l)
	}
	if text := w.want(200, w.do("GET", "/daybook/login?next=/runs", nil)); !strings.Contains(text, `action="/daybook/login"`) || !strings.Contains(text, `value="/runs"`) {
		t.Error(text)
	}
	res = w.do("POST", "/daybook/login", url.Values{"token": {w.token("ann", access.Read)}, "next": {"/runs"}}, browser)
	w.want(303, res)
	if l := res.Header.Get("Location"); l != "/daybook/runs" {
		t.Errorf("to %s", l)
	}
	for _, base := range []string{"daybook", "//evil", "/a/", "/a?b", "/\"", "/login"} {
		if _, err := access.New(access.Options{Listen: "127.0.0.1:1", Base: base}); err == nil {
			t.Errorf("base %q", base)
		}
	}
}

func TestOwnPagesLoadNothing(t *testing.T) {
	w := newWorld(t, nil)
	res := w.do("GET", "/login?next=/%22%3E%3Cscript%3Ealert(1)%3C/script%3E", nil)
	text := w.want(200, res)
	if strings.Contains(text, "<script") || strings.Contains(text, "://") {
		t.Error(text)
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(text)
	if style == nil {
		t.Fatal("no style")
	}
	sum := sha256.Sum256([]byte(style[1]))
	if csp := res.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") || strings.Contains(csp, "unsafe") {
		t.Error(csp)
	}
	for _, res := range []*http.Response{res, w.do("GET", "/runs", nil), w.do("PUT", "/runs", nil), w.do("GET", "/runs", nil, bearer(w.token("a", access.Read)))} {
		for h, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		} {
			if got := res.Header.Get(h); got != want {
				t.Errorf("status %d: %s is %q", res.StatusCode, h, got)
			}
		}
		if csp := res.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") {
			t.Errorf("status %d: %s", res.StatusCode, csp)
		}
	}
}

// TestNoLineHasSecrets: whatever goes wrong, the log has neither token nor session.
func TestNoLineHasSecrets(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("ann", access.Read)
	c := w.signIn(tok)
	for _, res := range []*http.Response{
		w.do("GET", "/runs?x="+tok, nil), w.do("GET", "/"+tok+"/x", nil), w.do("DELETE", "/runs/"+tok, nil, bearer(tok)),
		w.do("POST", "/acts", url.Values{"x": {tok}}, bearer(tok)), w.do("POST", "/acts", url.Values{"x": {tok}}, cookie(c), header("Origin", "https://"+tok+".example")),
		w.do("GET", "/runs", nil, header("Authorization", "Basic "+tok)), w.do("POST", "/login", url.Values{"token": {tok + "0"}}, browser),
		w.do("GET", "/runs", nil, host(tok), bearer(tok)), w.do("GET", "/runs", nil, header("X-HTTP-Method", tok)),
		w.do("POST", "/login", url.Values{"token": {tok}, "next": {"/" + tok}}, browser),
	} {
		if res.StatusCode < 300 {
			t.Errorf("status %d", res.StatusCode)
		}
	}
	log := w.log.String()
	if strings.Contains(log, tok[:30]) || strings.Contains(log, c.Value) {
		t.Errorf("a secret in the log: %s", log)
	}
	for _, want := range []string{`"reason":"token_in_url"`, `"reason":"read_only"`, `"reason":"cross_site"`, `"reason":"method"`, `"msg":"signed in"`, `"actor":"ann (token `, `"request":"01`} {
		if !strings.Contains(log, want) {
			t.Errorf("no %s in %s", want, log)
		}
	}
}

func TestTheLogIsBounded(t *testing.T) {
	w := newWorld(t, nil)
	for range 500 {
		w.do("PUT", "/runs", nil)
	}
	if n := strings.Count(w.log.String(), `"reason":"method"`); n != 20 {
		t.Errorf("%d lines of one reason", n)
	}
}

func TestOnlyProxiesAreBelieved(t *testing.T) {
	w := newWorld(t, func(o *access.Options) {
		o.Listen, o.Proxies = ":8080", []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	})
	w.want(403, w.do("GET", "/login", nil, from("192.0.2.1:1")))
	fail := func(edits ...edit) int {
		return w.do("POST", "/login", url.Values{"token": {"x"}}, append([]edit{browser}, edits...)...).StatusCode
	}
	exhaust := func(edits ...edit) {
		t.Helper()
		for range 10 {
			if got := fail(edits...); got != 401 {
				t.Fatalf("%d", got)
			}
		}
		if got := fail(edits...); got != 429 {
			t.Fatalf("%d", got)
		}
	}
	proxy := from("10.0.0.1:1")
	exhaust(proxy, header("X-Forwarded-For", "198.51.100.7"))
	for hops, want := range map[string]int{
		"198.51.100.7":             429,
		"1.2.3.4, 198.51.100.7":    429, // what it says of itself does not count
		"198.51.100.7, 10.9.9.9":   429, // a proxy before ours
		"198.51.100.8":             401,
		"198.51.100.7, 203.0.113.": 401, // not an address: then it is the proxy
	} {
		if got := fail(proxy, header("X-Forwarded-For", hops)); got != want {
			t.Errorf("forwarded for %q: %d, want %d", hops, got, want)
		}
	}
	exhaust(proxy, header("X-Forwarded-For", "2001:db8::1"))
	if got := fail(proxy, header("X-Forwarded-For", "2001:db8::2:3")); got != 429 {
		t.Errorf("another address of the same network: %d", got)
	}
	if got := fail(proxy, header("X-Forwarded-For", "2001:db8:0:1::1")); got != 401 {
		t.Errorf("another network: %d", got)
	}
}

// TestNextStaysHere: whatever next is, a browser that reads it as the standard
// says, and one that is generous, stays on this host.
func TestNextStaysHere(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("ann", access.Read)
	pieces := []string{"/", "//", "\\", "\t", "\n", "\r", " ", "@", ":", "https:", "evil.example", "..", ".", "%2f", "%5c", "%09", "?", "#", "a", "\u00a0", "\u2028", "[", "]", "%", "\x00"}
	rapid.Check(t, func(rt *rapid.T) {
		next := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 6).Draw(rt, "next"), "")
		res := w.do("POST", "/login", url.Values{"token": {tok}, "next": {next}}, browser)
		l := res.Header.Get("Location")
		if res.StatusCode != 303 || strings.ContainsAny(l, "\r\n\t\\") || !strings.HasPrefix(l, "/") || strings.HasPrefix(l, "//") {
			rt.Fatalf("next %q: %d to %q", next, res.StatusCode, l)
		}
		u, err := url.Parse("http://127.0.0.1:8080/login")
		if err != nil {
			rt.Fatal(err)
		}
		if to, err := u.Parse(l); err != nil || to.Host != "127.0.0.1:8080" || to.Scheme != "http" {
			rt.Fatalf("next %q leads to %v, %v", next, to, err)
		}
	})
}
