package access_test

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/daybookhq/daybook/ledger/ui/access"
)

func isErr(err, want error) bool {
	if want == nil {
		return err == nil
	}
	return errors.Is(err, want)
}

// The threats of docs/access.md, each with what keeps it away.

func TestThreatTokenInURL(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("alice", access.Read)
	for _, target := range []string{
		"/runs?token=" + tok, "/runs?access_token=x", "/runs?q=" + strings.ToUpper(tok), "/" + tok, "/runs?q=%64bk_" + tok[4:],
		"/runs?q=" + tok[:30],
	} {
		w.want(400, w.do("GET", target, nil, bearer(tok)))
	}
	if strings.Contains(w.log.String(), tok[:20]) {
		t.Errorf("the log has the token: %s", w.log)
	}
}

func TestThreatStolenCookie(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("alice", access.Read)
	c := w.signIn(tok)
	w.want(200, w.do("GET", "/runs", nil, cookie(c)))
	w.want(303, w.do("POST", "/logout", url.Values{}, browser, cookie(c)))
	w.want(401, w.do("GET", "/runs", nil, cookie(c)))

	c = w.signIn(tok)
	if _, err := access.Revoke(w.path, "alice", time.Now()); err != nil {
		t.Fatal(err)
	}
	w.want(401, w.do("GET", "/runs", nil, cookie(c)))

	tok = w.token("bob", access.Read)
	c = w.signIn(tok)
	for range 3 { // used, it lasts; its hour counts from then on
		w.advance(50 * time.Minute)
		w.want(200, w.do("GET", "/runs", nil, cookie(c)))
	}
	w.advance(time.Hour)
	w.want(401, w.do("GET", "/runs", nil, cookie(c)))

	c = w.signIn(tok)
	for range 14 {
		w.advance(50 * time.Minute)
		w.want(200, w.do("GET", "/runs", nil, cookie(c)))
	}
	w.advance(50 * time.Minute)
	w.want(401, w.do("GET", "/runs", nil, cookie(c))) // 12 hours are over
}

func TestThreatCrossSite(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("alice", access.Read, access.Approve)
	c := cookie(w.signIn(tok))
	form := url.Values{"x": {"1"}}
	for name, e := range map[string]edit{
		"another site":            header("Sec-Fetch-Site", "cross-site"),
		"another host of it":      header("Sec-Fetch-Site", "same-site"),
		"another origin":          header("Origin", "https://evil.example"),
		"another port":            header("Origin", "http://127.0.0.1:9999"),
		"an origin without name":  header("Origin", "null"),
		"nothing says from where": func(*http.Request) {},
	} {
		for _, res := range []*http.Response{w.do("POST", "/acts", form, c, e), w.do("POST", "/login", url.Values{"token": {tok}}, e)} {
			if res.StatusCode != 403 {
				t.Errorf("%s: status %d", name, res.StatusCode)
			}
		}
	}
	w.want(200, w.do("POST", "/acts", form, c, header("Origin", "http://127.0.0.1:8080")))
	w.want(200, w.do("POST", "/acts", form, bearer(tok))) // a program: nobody else can send its header

	// What another site loads cannot be read there, but it could be told apart.
	w.want(403, w.do("GET", "/runs", nil, c, header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors"), header("Sec-Fetch-Dest", "image")))
	w.want(403, w.do("GET", "/runs", nil, c, header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "iframe")))
	link := []edit{header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "navigate"), header("Sec-Fetch-Dest", "document"), header("Accept", "text/html")}
	w.want(200, w.do("GET", "/runs", nil, append(link, c)...))
	// The browser keeps a strict cookie back where a link leads here; once it asks by itself it sends it.
	if text := w.want(200, w.do("GET", "/runs", nil, link...)); !strings.Contains(text, `http-equiv="refresh"`) {
		t.Errorf("no second try: %s", text)
	}
}

func TestThreatRebinding(t *testing.T) {
	for _, tokens := range []bool{true, false} {
		w := newWorld(t, func(o *access.Options) {
			if !tokens {
				o.Tokens = ""
			}
			o.Hosts = []string{"ledger.internal"}
		})
		for h, want := range map[string]int{
			"evil.example:8080": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "169.254.169.254": 421,
			"localhost:8080": 200, "127.0.0.1": 200, "[::1]:8080": 200, "LOCALHOST": 200, "ledger.internal:8080": 200, "ledger.internal.": 200,
			"": 400, "a/b": 400, "a@localhost": 400,
		} {
			edits := []edit{host(h)}
			if tokens {
				edits = append(edits, bearer(w.token("alice", access.Read)))
			}
			if res := w.do("GET", "/runs", nil, edits...); res.StatusCode != want {
				t.Errorf("host %q, tokens %v: status %d, want %d", h, tokens, res.StatusCode, want)
			}
		}
	}
}

func TestThreatOpenRedirect(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("alice", access.Read)
	for next, want := range map[string]string{
		"/runs/7?x=1#y": "/runs/7?x=1#y", "/": "/", "": "/",
		"//evil.example": "/", "///evil.example": "/", `/\evil.example`: "/", `\\evil.example`: "/", "https://evil.example": "/",
		"javascript:alert(1)": "/", "/%2fevil.example": "/", "/\tevil": "/", "/\n/evil.example": "/", "/x\r\nSet-Cookie: a=b": "/",
		"/login": "/", "/logout": "/", "runs": "/", "/\u202egro.live": "/\u202egro.live", "/%5cevil.example": "/", "/" + strings.Repeat("a", 3000): "/",
	} {
		res := w.do("POST", "/login", url.Values{"token": {tok}, "next": {next}}, browser)
		w.want(303, res)
		got, err := url.PathUnescape(res.Header.Get("Location"))
		if err != nil || got != want {
			t.Errorf("next %q leads to %q, want %q", next, got, want)
		}
		if len(res.Cookies()) != 1 {
			t.Errorf("next %q: cookies %v", next, res.Cookies())
		}
	}
}

func TestThreatHeaderInjection(t *testing.T) {
	w := newWorld(t, nil)
	res := w.do("GET", "/runs?x=%0d%0aSet-Cookie:%20a=b", nil, browser)
	w.want(303, res)
	if l := res.Header.Get("Location"); strings.ContainsAny(l, "\r\n") || res.Header.Get("Set-Cookie") != "" {
		t.Errorf("location %q, cookie %q", l, res.Header.Get("Set-Cookie"))
	}
	for _, name := range []string{"a\r\nb", "a (token 1)", "", " a", strings.Repeat("a", 65), "a\"b", "a\u202eb"} {
		if access.ValidName(name) {
			t.Errorf("%q may be a name", name)
		}
	}
}

func TestThreatOversizedBody(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("alice", access.Read, access.Approve)
	big := url.Values{"x": {strings.Repeat("a", 65<<10)}}
	w.want(413, w.do("POST", "/acts", big, bearer(tok)))
	w.want(413, w.do("POST", "/acts", big, bearer(tok), func(r *http.Request) { r.ContentLength = -1 }))
	w.want(413, w.do("POST", "/login", big, browser))
	w.want(415, w.do("POST", "/acts", url.Values{"x": {"1"}}, bearer(tok), header("Content-Type", "application/json")))
	w.want(415, w.do("POST", "/acts", url.Values{"x": {"1"}}, bearer(tok), header("Content-Type", "text/plain")))
}

func TestThreatMethods(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("alice", access.Read, access.Approve)
	for _, m := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "QUERY"} {
		w.want(405, w.do(m, "/runs", nil, bearer(tok)))
	}
	w.want(400, w.do("GET", "/runs?_method=POST", nil, bearer(tok)))
	w.want(400, w.do("POST", "/runs", url.Values{"_method": {"DELETE"}}, bearer(tok)))
	for _, h := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		w.want(400, w.do("GET", "/runs", nil, bearer(tok), header(h, "POST")))
	}
}

func TestThreatSessionFixation(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("alice", access.Read)
	planted := &http.Cookie{Name: "daybook", Value: "planted"}
	c := w.signIn(tok, cookie(planted))
	if c.Value == "planted" || len(c.Value) < 43 {
		t.Errorf("session %q", c.Value)
	}
	w.want(401, w.do("GET", "/runs", nil, cookie(planted)))
	// Signing in again ends the session before, whoever knows it.
	next := w.signIn(tok, cookie(c))
	w.want(401, w.do("GET", "/runs", nil, cookie(c)))
	w.want(200, w.do("GET", "/runs", nil, cookie(next)))
	// Of two cookies of the name one was not set by us.
	w.want(401, w.do("GET", "/runs", nil, cookie(planted), cookie(next)))
}

func TestThreatBruteForce(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("alice", access.Read)
	try := func(token string, edits ...edit) int {
		return w.do("POST", "/login", url.Values{"token": {token}}, append([]edit{browser}, edits...)...).StatusCode
	}
	for i := range 10 {
		if got := try("dbk_wrong"); got != 401 {
			t.Fatalf("attempt %d: %d", i, got)
		}
	}
	if a, b := try("dbk_wrong"), try(tok); a != 429 || b != 429 {
		t.Errorf("after too many: a wrong one %d, the right one %d; want 429 for both", a, b)
	}
	res := w.do("GET", "/runs", nil, bearer("dbk_wrong"))
	w.want(429, res)
	if res.Header.Get("Retry-After") == "" {
		t.Error("nothing says when to try again")
	}
	w.want(200, w.do("GET", "/runs", nil, bearer(tok))) // programs that have a good one work on
	if got := try(tok, from("127.0.0.2:1")); got != 303 {
		t.Errorf("from elsewhere: %d", got)
	}
	w.advance(61 * time.Second)
	if got := try(tok); got != 303 {
		t.Errorf("a minute later: %d", got)
	}
}

func TestThreatEnumeration(t *testing.T) {
	w := newWorld(t, nil)
	good := w.token("alice", access.Read)
	revoked := w.token("bob", access.Read)
	if _, err := access.Revoke(w.path, "bob", time.Now()); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, tok := range []string{"", "x", good[:len(good)-1], good[:len(good)-1] + "z", revoked, "dbk_" + strings.Repeat("0", 72)} {
		texts = append(texts, w.want(401, w.do("POST", "/login", url.Values{"token": {tok}}, browser)))
	}
	w.advance(25 * time.Hour) // also forgets the attempts
	texts = append(texts, w.want(401, w.do("POST", "/login", url.Values{"token": {good}}, browser)))
	for _, text := range texts {
		if text != texts[0] {
			t.Errorf("answers differ:\n%s\n%s", texts[0], text)
		}
	}
}

func TestAnUnreadableFileLetsNobodyIn(t *testing.T) {
	w := newWorld(t, nil)
	tok := w.token("alice", access.Read)
	c := w.signIn(tok)
	w.want(200, w.do("GET", "/runs", nil, bearer(tok)))
	if err := os.Chmod(w.path, 0o640); err != nil {
		t.Fatal(err)
	}
	w.want(503, w.do("GET", "/runs", nil, bearer(tok)))
	w.want(503, w.do("GET", "/runs", nil, cookie(c)))
	w.want(503, w.do("POST", "/login", url.Values{"token": {tok}}, browser))
	if !strings.Contains(w.log.String(), "chmod 600") {
		t.Errorf("the log does not say what to do: %s", w.log)
	}
	if err := os.Chmod(w.path, 0o600); err != nil {
		t.Fatal(err)
	}
	w.want(200, w.do("GET", "/runs", nil, bearer(tok)))
	if err := os.WriteFile(w.path, []byte("tokens: nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.want(503, w.do("GET", "/runs", nil, bearer(tok)))
}
